/* SPDX-License-Identifier: MIT */
/*
 * tree.js - trees of stacks, which fold.js describes: sums, other shapes, and trees that grow stack by stack.
 */

/* Sets negative values to 0 and gives their sum: in a flame graph nothing has a negative width. */
function clipNegative(self) {
    let sum = 0;
    for (let i = 0; i < self.length; i++)
        if (self[i] < 0) {
            sum -= self[i];
            self[i] = 0;
        }
    return sum;
}

/* The values of the model's tree in a tree of another shape (Fold.shape). */
function reshaped(tree, {n, parent, frame, to}) {
    const moved = values => {
        const sums = new Float64Array(n);
        for (let i = 0; i < tree.n; i++)
            if (values[i])
                sums[to[i]] += values[i];
        return sums;
    };
    const shaped = {n, parent, frame, self: moved(tree.self), freed: tree.freed};
    if (tree.selfB)
        shaped.selfB = moved(tree.selfB);
    if (tree.extra)
        shaped.extra = tree.extra.map(moved);
    return shaped;
}

/* Leaves only stacks that have a frame of `matching`. */
function keepMatching(tree, matching) {
    const has = new Uint8Array(tree.n);
    for (let i = 1; i < tree.n; i++) {
        has[i] = has[tree.parent[i]] | matching[tree.frame[i]];
        if (!has[i])
            for (const values of listsOf(tree))
                values[i] = 0;
    }
}

/* All lists of a tree's own values. */
function listsOf(tree) {
    return [tree.self, ...(tree.selfB ? [tree.selfB] : []), ...(tree.extra || [])];
}

function hasValue(tree, node) {
    return tree.self[node] !== 0 || Boolean(tree.selfB && tree.selfB[node]) || Boolean(tree.extra && tree.extra.some(values => values[node]));
}

function sumUp(tree) {
    const sum = self => {
        const total = Float64Array.from(self);
        for (let i = tree.n - 1; i > 0; i--)
            total[tree.parent[i]] += total[i];
        return total;
    };
    tree.total = sum(tree.self);
    if (tree.selfB)
        tree.totalB = sum(tree.selfB);
    if (tree.extra)
        tree.extraTotal = tree.extra.map(sum);
    return tree;
}

/* Grows a tree by stacks; it has the lists of values of the tree `like`. */
class TreeBuilder {
    constructor(like) {
        this.like = like;
        this.parent = new Column(Int32Array);
        this.frame = new Column(Int32Array);
        this.from = listsOf(like);
        this.values = this.from.map(() => new Column(Float64Array));
        this.children = new Map();
        this.grow(-1, 0);
    }

    grow(parent, frame) {
        this.parent.push(parent);
        this.frame.push(frame);
        for (const column of this.values)
            column.push(0);
        return this.parent.n - 1;
    }

    child(parent, frame) {
        const key = parent * 4194304 + frame;
        let node = this.children.get(key);
        if (node === undefined) {
            node = this.grow(parent, frame);
            this.children.set(key, node);
        }
        return node;
    }

    /* Adds the values of a node of the tree `like`. */
    add(node, from) {
        for (let k = 0; k < this.values.length; k++)
            this.values[k].data[node] += this.from[k][from];
    }

    finish() {
        const n = this.parent.n, lists = this.values.map(column => column.data.subarray(0, n));
        const tree = {n, parent: this.parent.data.subarray(0, n), frame: this.frame.data.subarray(0, n), self: lists.shift(), freed: this.like.freed};
        if (this.like.selfB)
            tree.selfB = lists.shift();
        if (this.like.extra)
            tree.extra = lists;
        return sumUp(tree);
    }
}
