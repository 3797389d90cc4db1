/* SPDX-License-Identifier: MIT */
/*
 * fold.js - makes trees and tables from the rows of a range.
 *
 * A tree has {n, parent, frame, self, total}, and where two ranges are compared {selfB, totalB} of the second one: arrays by node, a
 * parent before its children, node 0 the root.
 */

/* Functions that only wrap an allocator. The command folds the same ones in `top`. */
const PASS_ON = new RegExp('^(' + [
    'operator new(\\[\\])?(\\(.*)?', '(__)?libc_malloc', 'x?(m|c|re)alloc(array)?', 'x(strdup|memdup|zalloc|nmalloc)', 'strn?dup',
    'v?asprintf', 'g_(try_)?(malloc|malloc0|realloc|memdup2?|strdup|slice_alloc|slice_alloc0|new0?)(_n)?', 'my_(malloc|realloc|strdup)',
    'zt?(ry)?(m|c|re)alloc(_usable)?(_internal)?', 'ztry(m|c|re)alloc\\w*', 'z(m|c|re)alloc\\w*', 'av_mallocz?', 'std::allocator.*',
    'std::__new_allocator.*', '__gnu_cxx::new_allocator.*', 'std::allocator_traits.*', 'std::_Vector_base.*::_M_allocate',
    'std::vector<.*>::(_M_realloc_insert|_M_default_append|_M_fill_insert|reserve|resize).*',
    'std::(__cxx11::)?basic_string<.*>::(_M_mutate|_M_create|_M_append|_M_assign|_M_construct|reserve).*', 'std::__detail::_.*',
    'std::_(Rb_tree|Hashtable|Deque_base|List_base)<.*>::_M_(create|get|allocate).*', 'std::make_(shared|unique).*',
    'PyMem_(Raw)?(Malloc|Calloc|Realloc)', 'PyObject_(Malloc|Calloc|Realloc)', '_PyMem_Raw\\w+', '_PyObject_\\w*(Alloc|alloc)\\w*',
    'alloc::.*', '__rust_(re)?alloc(_zeroed)?', '__rdl_(re)?alloc(_zeroed)?', 'posix_memalign', 'aligned_alloc', 'memalign',
].join('|') + ')$');

/* The selection of a view (kind, value, range, processes, labels) and how trees are made of it. */
class Fold {
    constructor(model) {
        this.model = model;
        this.cache = {version: -1};
    }

    /* By frame number: whether it only wraps an allocator. */
    passOn() {
        const {model, cache} = this;
        if (!cache.pass || cache.pass.length !== model.frames.items.length)
            cache.pass = Uint8Array.from(model.frames.items, f => ((f.passes ?? PASS_ON.test(f.name)) ? 1 : 0));
        return cache.pass;
    }

    /* By node: the node at which its own value is shown when frames that wrap an allocator are folded into their callers. */
    folded() {
        const {model, cache} = this;
        if (cache.foldedN === model.nNodes)
            return cache.folded;
        const pass = this.passOn(), parent = model.parent.data, frame = model.frame.data;
        const to = new Int32Array(model.nNodes);
        for (let i = 1; i < to.length; i++)
            to[i] = pass[frame[i]] && parent[i] > 0 ? to[parent[i]] : i;
        cache.folded = to;
        cache.foldedN = model.nNodes;
        return to;
    }

    /* By node: whether it is native code that was called by frames of a runtime. Null if no runtime named frames. */
    interpreter() {
        const {model, cache} = this;
        if (cache.interpreterN === model.nNodes)
            return cache.interpreter;
        const isNative = Uint8Array.from(model.frames.items, f => (f.library && f.library[0] !== '[' ? 1 : 0));
        const isRuntime = Uint8Array.from(model.frames.items, f => (isRuntimeFrame(f) ? 1 : 0));
        const parent = model.parent.data, frame = model.frame.data;
        const above = new Uint8Array(model.nNodes), native = new Uint8Array(model.nNodes);
        let any = false;
        for (let i = 1; i < model.nNodes; i++) {
            above[i] = above[parent[i]] | isRuntime[frame[i]];
            native[i] = above[i] & isNative[frame[i]];
            any = any || native[i] === 1;
        }
        cache.interpreterN = model.nNodes;
        cache.interpreter = any ? native : null;
        return cache.interpreter;
    }

    /*
     * The values by node of a query {kind, type, mode, from, to, process, without, fold, brief}. mode: `sum` of the range, `level` at its
     * end, or `retained`, the growth of a level within it.
     */
    self(query) {
        const {model} = this;
        const kind = model.kinds.get(query.kind);
        const self = new Float64Array(model.nNodes);
        if (!kind)
            return self;
        const [first, last] = kind.ticksWithin(query.mode === 'level' ? -Infinity : query.from, query.to);
        const [begin, end] = kind.rowsOfTicks(first, last);
        const node = kind.node.data, values = kind.values[query.type].data;
        const labelPasses = query.without && query.without.length ? this.labelFilter(query.without) : null;
        const ofTick = query.process >= 0 ? kind.ticks.map(t => t.process === query.process) : null;
        const tick = kind.tick.data, labels = kind.labels.data;
        if (!labelPasses && !ofTick)
            for (let i = begin; i < end; i++)
                self[node[i]] += values[i];
        else
            for (let i = begin; i < end; i++)
                if ((!ofTick || ofTick[tick[i]]) && (!labelPasses || labelPasses[labels[i]]))
                    self[node[i]] += values[i];
        if (!query.fold)
            return self;
        const to = this.folded();
        for (let i = self.length - 1; i > 0; i--)
            if (to[i] !== i && self[i]) {
                self[to[i]] += self[i];
                self[i] = 0;
            }
        return self;
    }

    /* [{key, values}] -> by label set whether its rows count: rows with one of these values do not. */
    labelFilter(without) {
        return this.model.labelSets.items.map(set => !without.some(({key, values}) => set.some(l => l[0] === key && values.includes(l[1]))));
    }

    /* The tree of all stacks. queryB: a second range to compare with; query.scale: the first one's values are multiplied by it. */
    tree(query, queryB) {
        const {model} = this;
        const n = model.nNodes;
        const tree = {n, parent: model.parent.data, frame: model.frame.data, self: this.self(query)};
        if (queryB)
            tree.selfB = this.self(queryB);
        if (queryB && query.scale)
            for (let i = 0; i < n; i++)
                tree.self[i] *= query.scale;
        if (query.inUse !== true && query.mode === 'retained' && !queryB)
            tree.freed = clipNegative(tree.self);
        if (query.filter)
            keepMatching(tree, this.matches(query.filter));
        const native = query.brief ? this.interpreter() : null;
        return native ? withoutInterpreter(tree, native) : sumUp(tree);
    }

    /* By frame number: whether its name matches. */
    matches(regex) {
        return Uint8Array.from(this.model.frames.items, (f, i) => (i > 0 && (regex.test(f.name) || regex.test(f.file)) ? 1 : 0));
    }

    /* The tree with callees first: its roots are the leaves of the stacks. */
    inverted(tree) {
        const builder = new TreeBuilder(tree);
        for (let i = 1; i < tree.n; i++) {
            if (!tree.self[i] && !(tree.selfB && tree.selfB[i]))
                continue;
            let at = 0;
            for (let j = i; j > 0; j = tree.parent[j])
                at = builder.child(at, tree.frame[j]);
            builder.add(at, tree, i);
        }
        return builder.finish();
    }

    /* Callees and callers of a function, over all stacks with it: two trees whose root is the function. */
    around(tree, name) {
        const frames = this.model.frames.items;
        const callees = new TreeBuilder(tree), callers = new TreeBuilder(tree);
        const isIt = Uint8Array.from(frames, f => (f.name === name ? 1 : 0));
        const path = [];
        for (let i = 1; i < tree.n; i++) {
            if (!tree.self[i] && !(tree.selfB && tree.selfB[i]))
                continue;
            path.length = 0;
            for (let j = i; j > 0; j = tree.parent[j])
                path.push(tree.frame[j]);
            let outermost = path.length - 1;
            while (outermost >= 0 && !isIt[path[outermost]])
                outermost--;
            if (outermost < 0)
                continue;
            let at = 0;
            for (let k = outermost - 1; k >= 0; k--)
                at = callees.child(at, path[k]);
            callees.add(at, tree, i);
            at = 0;
            for (let k = outermost + 1; k < path.length; k++)
                at = callers.child(at, path[k]);
            callers.add(at, tree, i);
        }
        return [callees.finish(), callers.finish()];
    }

    /* [{name, flat, cum, flatB, cumB}] by function, line, file, library, largest first. */
    table(tree, by) {
        const frames = this.model.frames.items;
        const keyOf = {
            function: f => f.name,
            line: f => (f.file ? `${f.name} ${f.file}:${f.line}` : f.name),
            file: f => f.file || '(no file)',
            library: f => baseName(f.library) || '(no library)',
        }[by];
        const keys = frames.map(keyOf);
        const rows = new Map();
        const row = key => {
            let found = rows.get(key);
            if (!found) {
                found = {name: key, flat: 0, cum: 0, flatB: 0, cumB: 0, seen: -1};
                rows.set(key, found);
            }
            return found;
        };
        for (let i = 1; i < tree.n; i++) {
            const value = tree.self[i], valueB = tree.selfB ? tree.selfB[i] : 0;
            if (!value && !valueB)
                continue;
            const leaf = row(keys[tree.frame[i]]);
            leaf.flat += value;
            leaf.flatB += valueB;
            for (let j = i; j > 0; j = tree.parent[j]) {
                const at = row(keys[tree.frame[j]]);
                if (at.seen === i)
                    continue;
                at.seen = i;
                at.cum += value;
                at.cumB += valueB;
            }
        }
        return [...rows.values()];
    }

    /* [{name, flat}] by a label's value, or by process. */
    tableByLabel(query, key) {
        const {model} = this;
        const kind = model.kinds.get(query.kind);
        const sums = new Map();
        if (!kind)
            return [];
        const [first, last] = kind.ticksWithin(query.mode === 'level' ? -Infinity : query.from, query.to);
        const [begin, end] = kind.rowsOfTicks(first, last);
        const values = kind.values[query.type].data;
        const names = key === 'process' ? kind.ticks.map(t => processName(model.processes.items[t.process])) :
            model.labelSets.items.map(set => (set.find(l => l[0] === key) || ['', `(no ${key})`])[1]);
        const index = key === 'process' ? kind.tick.data : kind.labels.data;
        const passes = this.labelFilter(query.without || []);
        for (let i = begin; i < end; i++)
            if (passes[kind.labels.data[i]] && (query.process < 0 || kind.ticks[kind.tick.data[i]].process === query.process))
                sums.set(names[index[i]], (sums.get(names[index[i]]) || 0) + values[i]);
        return [...sums].map(([name, flat]) => ({name, flat, cum: flat, flatB: 0, cumB: 0}));
    }

    /* Keys of labels that rows of this kind have. */
    labelKeys(kind) {
        if (kind.labelKeys && kind.labelKeysOf === kind.nRows)
            return kind.labelKeys;
        const used = new Set();
        for (let i = 0; i < kind.nRows; i++)
            used.add(kind.labels.data[i]);
        const keys = new Set();
        for (const n of used)
            for (const [key] of this.model.labelSets.items[n])
                keys.add(key);
        kind.labelKeysOf = kind.nRows;
        return (kind.labelKeys = [...keys].sort());
    }
}

function processName(process) {
    return process.pid ? `${process.program} ${process.pid}` : process.program;
}

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

/*
 * The tree without native frames between two frames of a runtime: there its interpreter calls itself. Native frames below which no
 * frame of the runtime follows stay, so each node has one place for stacks that end there, and one for stacks that go on.
 */
function withoutInterpreter(tree, native) {
    const builder = new TreeBuilder(tree);
    const ends = new Int32Array(tree.n), goesOn = new Int32Array(tree.n);
    for (let i = 1; i < tree.n; i++) {
        const parent = tree.parent[i];
        ends[i] = builder.child(native[i] ? ends[parent] : goesOn[parent], tree.frame[i]);
        goesOn[i] = native[i] ? goesOn[parent] : ends[i];
    }
    for (let i = 0; i < tree.n; i++)
        builder.add(ends[i], tree, i);
    return {...builder.finish(), freed: tree.freed};
}

/* Leaves only stacks that have a frame of `matching`. */
function keepMatching(tree, matching) {
    const has = new Uint8Array(tree.n);
    for (let i = 1; i < tree.n; i++) {
        has[i] = has[tree.parent[i]] | matching[tree.frame[i]];
        if (!has[i]) {
            tree.self[i] = 0;
            if (tree.selfB)
                tree.selfB[i] = 0;
        }
    }
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
    return tree;
}

/* Grows a tree by stacks. */
class TreeBuilder {
    constructor(like) {
        this.parent = new Column(Int32Array);
        this.frame = new Column(Int32Array);
        this.self = new Column(Float64Array);
        this.selfB = like.selfB ? new Column(Float64Array) : null;
        this.children = new Map();
        this.grow(-1, 0);
    }

    grow(parent, frame) {
        this.parent.push(parent);
        this.frame.push(frame);
        this.self.push(0);
        if (this.selfB)
            this.selfB.push(0);
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

    add(node, tree, from) {
        this.self.data[node] += tree.self[from];
        if (this.selfB)
            this.selfB.data[node] += tree.selfB[from];
    }

    finish() {
        const n = this.parent.n;
        const tree = {n, parent: this.parent.data.subarray(0, n), frame: this.frame.data.subarray(0, n),
                      self: this.self.data.subarray(0, n)};
        if (this.selfB)
            tree.selfB = this.selfB.data.subarray(0, n);
        return sumUp(tree);
    }
}
