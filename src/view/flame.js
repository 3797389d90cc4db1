/* SPDX-License-Identifier: MIT */
/*
 * flame.js - draws a tree as a flame graph on a canvas.
 *
 * layout() makes the boxes of a tree once, by node in the order of drawing; draw() paints the visible ones at the present
 * zoom. A box is as wide as its total. Children are side by side, largest first (`heavy`) or by name. With two ranges a box
 * is as wide as the larger of the two values, and its colour shows which one that is.
 */
const ROW_PX = 18;

class Flame {
    /* onPick(node) is called when the zoom has moved to a node. onHover(node or -1, event or null). */
    constructor(canvas, {onPick, onHover}) {
        this.canvas = canvas;
        this.onPick = onPick;
        this.onHover = onHover;
        this.boxes = {n: 0};
        this.zoom = 0;
        this.selected = 0;
        this.matching = null;
        canvas.tabIndex = 0;
        canvas.addEventListener('click', event => this.pick(this.nodeAt(event)));
        canvas.addEventListener('mousemove', event => this.onHover(this.nodeAt(event), event));
        canvas.addEventListener('mouseleave', event => this.onHover(-1, event));
        canvas.addEventListener('keydown', event => this.key(event));
    }

    /* options: {order: heavy or name, up: the root is at the bottom, dark}. */
    show(tree, frames, options) {
        const path = this.zoom ? this.path() : [];
        this.tree = tree;
        this.frames = frames;
        this.options = options;
        this.layout();
        this.zoom = this.find(path);
        this.selected = Math.max(this.boxOf[this.zoom], 0);
        this.draw();
    }

    /* The frames from the root to the node that is zoomed to. */
    path() {
        const path = [];
        for (let i = this.zoom; i > 0; i = this.tree.parent[i])
            path.push(this.tree.frame[i]);
        return path.reverse();
    }

    /* The node at a path, if it is drawn; else the root. */
    find(path) {
        let at = 0, n = 0;
        for (let i = 1; i < this.tree.n && n < path.length; i++)
            if (this.tree.parent[i] === at && this.tree.frame[i] === path[n]) {
                at = i;
                n++;
            }
        return n === path.length && this.boxOf[at] >= 0 ? at : 0;
    }

    layout() {
        const {tree, frames, options} = this;
        const width = tree.totalB ? tree.total.map((v, i) => Math.max(v, tree.totalB[i])) : tree.total;
        if (tree.totalB) { /* a box is never narrower than its children together */
            const inner = new Float64Array(tree.n);
            for (let i = tree.n - 1; i >= 0; i--) {
                width[i] = Math.max(width[i], inner[i]);
                if (i > 0)
                    inner[tree.parent[i]] += width[i];
            }
        }
        /* Children of each node that have a width, by counting. */
        const first = new Int32Array(tree.n + 1);
        let n = 1;
        for (let i = 1; i < tree.n; i++)
            if (width[i] > 0) {
                first[tree.parent[i] + 1]++;
                n++;
            }
        for (let i = 0; i < tree.n; i++)
            first[i + 1] += first[i];
        const children = new Int32Array(n), next = first.slice();
        for (let i = 1; i < tree.n; i++)
            if (width[i] > 0)
                children[next[tree.parent[i]]++] = i;
        const boxes = {n: 0, node: new Int32Array(n), x: new Float64Array(n), w: new Float64Array(n), depth: new Int32Array(n),
                       end: new Int32Array(n)};
        const order = options.order === 'name' ?
            (a, b) => (frames[tree.frame[a]].name < frames[tree.frame[b]].name ? -1 : 1) : (a, b) => width[b] - width[a];
        const stack = [0, 0, 0]; /* node, x, depth */
        let deepest = 0;
        while (stack.length) {
            const depth = stack.pop(), x = stack.pop(), node = stack.pop();
            const i = boxes.n++;
            boxes.node[i] = node;
            boxes.x[i] = x;
            boxes.w[i] = width[node];
            boxes.depth[i] = depth;
            deepest = Math.max(deepest, depth);
            const callees = children.subarray(first[node], first[node + 1]);
            const sorted = callees.length > 1 ? [...callees].sort(order) : callees;
            let right = x;
            for (const callee of sorted)
                right += width[callee];
            for (let k = sorted.length - 1; k >= 0; k--) { /* the leftmost comes off the stack first */
                right -= width[sorted[k]];
                stack.push(sorted[k], right, depth + 1);
            }
        }
        /* Boxes are in the order of a depth-first walk, so the boxes within a box follow it, up to `end`. */
        const open = [];
        for (let i = 0; i < boxes.n; i++) {
            while (open.length && boxes.depth[open[open.length - 1]] >= boxes.depth[i])
                boxes.end[open.pop()] = i;
            open.push(i);
        }
        for (const i of open)
            boxes.end[i] = boxes.n;
        this.boxes = boxes;
        this.deepest = deepest;
        this.boxOf = new Int32Array(tree.n).fill(-1);
        for (let i = 0; i < boxes.n; i++)
            this.boxOf[boxes.node[i]] = i;
    }

    resize() {
        const ratio = window.devicePixelRatio || 1;
        const width = Math.max(this.canvas.parentElement.clientWidth, 200);
        const height = (this.deepest + 1) * ROW_PX;
        this.canvas.width = Math.round(width * ratio);
        this.canvas.height = Math.round(height * ratio);
        this.canvas.style.width = `${width}px`;
        this.canvas.style.height = `${height}px`;
        this.width = width;
        this.ratio = ratio;
    }

    y(depth) {
        return this.options.up ? (this.deepest - depth) * ROW_PX : depth * ROW_PX;
    }

    draw() {
        const {boxes, options, tree, frames} = this;
        this.resize();
        const context = this.canvas.getContext('2d');
        context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
        context.clearRect(0, 0, this.width, this.canvas.height);
        context.font = '12px system-ui, sans-serif';
        context.textBaseline = 'middle';
        if (!boxes.n || !(boxes.w[0] > 0)) {
            context.fillStyle = options.dark ? '#ccc' : '#333';
            context.fillText('nothing in this range', 8, ROW_PX / 2);
            return;
        }
        const {from, scale} = this.view();
        const text = options.dark ? '#eee' : '#111';
        for (let i = 0; i < boxes.n;) {
            const x = (boxes.x[i] - from) * scale, w = boxes.w[i] * scale;
            if (w < 0.4 || x >= this.width || x + w <= 0) {
                i = boxes.end[i]; /* nor can anything within it be seen */
                continue;
            }
            const left = Math.max(x, 0), right = Math.min(x + w, this.width);
            const node = boxes.node[i], y = this.y(boxes.depth[i]);
            const frame = frames[tree.frame[node]];
            let fill = node === 0 ? (options.dark ? '#3a3a42' : '#ccc') :
                tree.totalB ? changeColour(tree.total[node], tree.totalB[node], options.dark) : frameColour(frame, options.dark);
            if (this.matching && node && !this.matching[tree.frame[node]])
                fill = options.dark ? '#33333a' : '#e8e8e8';
            context.fillStyle = fill;
            context.fillRect(left, y, Math.max(right - left - 0.5, 0.5), ROW_PX - 1);
            if (i === this.selected && document.activeElement === this.canvas) {
                context.strokeStyle = text;
                context.lineWidth = 2;
                context.strokeRect(left + 1, y + 1, right - left - 2.5, ROW_PX - 3);
            }
            if (right - left > 24) {
                context.fillStyle = text;
                context.fillText(fitted(context, this.label(node), right - left - 8), left + 4, y + ROW_PX / 2);
            }
            i++;
        }
    }

    label(node) {
        return this.frames[this.tree.frame[node]].name;
    }

    view() {
        const {boxes} = this;
        const box = this.boxOf[this.zoom] >= 0 ? this.boxOf[this.zoom] : 0;
        return {from: boxes.x[box], scale: this.width / boxes.w[box]};
    }

    nodeAt(event) {
        const {boxes} = this;
        if (!boxes.n || !(boxes.w[0] > 0))
            return -1;
        const place = this.canvas.getBoundingClientRect();
        const {from, scale} = this.view();
        const x = (event.clientX - place.left) / scale + from;
        const row = Math.floor((event.clientY - place.top) / ROW_PX);
        const depth = this.options.up ? this.deepest - row : row;
        for (let i = 0; i < boxes.n;) {
            if (x < boxes.x[i] || x >= boxes.x[i] + boxes.w[i])
                i = boxes.end[i];
            else if (boxes.depth[i] === depth)
                return boxes.node[i];
            else
                i++;
        }
        return -1;
    }

    /* Makes a node as wide as the canvas; if it is that already, its caller. */
    pick(node) {
        if (node < 0)
            return;
        this.zoom = node === this.zoom && node > 0 ? this.tree.parent[node] : node;
        this.selected = Math.max(this.boxOf[this.zoom], 0);
        this.draw();
        this.onPick(this.zoom);
    }

    reset() {
        this.zoom = 0;
        this.selected = 0;
        this.draw();
    }

    search(matching) {
        this.matching = matching;
        this.draw();
    }

    key(event) {
        const {boxes} = this;
        const at = this.selected, depth = boxes.depth[at];
        const inward = this.options.up ? 'ArrowUp' : 'ArrowDown', outward = this.options.up ? 'ArrowDown' : 'ArrowUp';
        let to = at;
        if (event.key === inward && at + 1 < boxes.end[at])
            to = at + 1;
        else if (event.key === outward && depth > 0)
            to = this.boxOf[this.tree.parent[boxes.node[at]]];
        else if (event.key === 'ArrowRight' && boxes.end[at] < boxes.n && boxes.depth[boxes.end[at]] === depth)
            to = boxes.end[at];
        else if (event.key === 'ArrowLeft' && depth > 0) {
            const parent = this.boxOf[this.tree.parent[boxes.node[at]]];
            for (let i = parent + 1; i < at; i = boxes.end[i])
                to = i;
        } else if (event.key === 'Enter')
            this.pick(boxes.node[at]);
        else if (event.key === 'Escape') {
            this.reset();
            this.onPick(0);
        } else
            return;
        event.preventDefault();
        this.selected = to;
        this.draw();
        this.onHover(boxes.node[to], null);
    }
}

/* The part of a text that fits, by the mean width of a character, since measuring each text would be slow. */
function fitted(context, text, width) {
    let whole = fitted.widths.get(text);
    if (whole === undefined) {
        if (fitted.widths.size > 50000)
            fitted.widths.clear();
        whole = context.measureText(text).width;
        fitted.widths.set(text, whole);
    }
    if (whole <= width)
        return text;
    const n = Math.floor((width - 12) / whole * text.length);
    return n > 1 ? `${text.slice(0, n)}…` : '';
}
fitted.widths = new Map();
