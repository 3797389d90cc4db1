/* SPDX-License-Identifier: MIT */
/*
 * fold.js - makes trees and tables from the rows of a range.
 *
 * A tree has {n, parent, frame, self, total}, where two ranges are compared {selfB, totalB} of the second one, and {extra, extraTotal},
 * lists of more values: arrays by node, a parent before its children, node 0 the root.
 */

const SUMS_KEPT = 8;
const PROFILER = '[deltaprof]'; /* the frame of the profiler's own time, into which its hooks at a leaf are folded, as in src/tool/query/stack.c */
const OPENINGS = /^(_start|start_thread|thread_start|(__)?clone3?|__libc_start.*)$/;

/* What a view shows: which kind, value, range, processes, labels; and how trees are made of it. */
class Fold {
    constructor(model) {
        this.model = model;
        this.cache = {sums: new Map()};
    }

    /*
     * By node: where its own value is shown when frames that pass an allocation on are folded into their callers, with the places
     * without a name that they call; and what an interpreter does is folded into the function of its language. The first frame of a
     * stack stays in any case.
     */
    folded() {
        const {model, cache} = this;
        if (cache.foldedN === model.nNodes)
            return cache.folded;
        const marksOf = test => Uint8Array.from(model.frames.items.map(f => Number(test(f))));
        const pass = marksOf(f => f.passes || f.isLibrary), runtime = marksOf(isRuntimeFrame), place = marksOf(f => !f.isProfiler && (isPlace(f.name) || isInterpreter(f)));
        const parent = model.parent.data, frame = model.frame.data;
        const to = new Int32Array(model.nNodes);
        for (let i = 1; i < to.length; i++) {
            to[i] = i;
            for (let j = i; parent[j] > 0 && (pass[frame[j]] || (!runtime[frame[j]] && place[frame[j]])); j = parent[j])
                if (pass[frame[j]] || runtime[frame[parent[j]]])
                    to[i] = parent[j];
        }
        cache.folded = to;
        cache.foldedN = model.nNodes;
        return to;
    }

    /*
     * By node: where its value is shown if stacks end at the program's own code, in the language of a runtime if there is one: what libraries below it
     * do is the caller's.
     */
    ownFolded() {
        const {model} = this, {items} = model.frames, parent = model.parent.data, frame = model.frame.data, folded = this.folded();
        const [isOwn, isRuntime] = [f => !f.foreign, isRuntimeFrame].map(is => Uint8Array.from(items, (f, i) => (i && is(f) ? 1 : 0)));
        const own = new Int32Array(model.nNodes), runtime = new Int32Array(model.nNodes), ownRuntime = new Int32Array(model.nNodes);
        for (let i = 1; i < own.length; i++) {
            own[i] = isOwn[frame[i]] ? i : own[parent[i]];
            runtime[i] = isRuntime[frame[i]] ? i : runtime[parent[i]];
            ownRuntime[i] = isOwn[frame[i]] && isRuntime[frame[i]] ? i : ownRuntime[parent[i]];
        }
        return own.map((at, i) => folded[ownRuntime[i] || runtime[i] || at || i]);
    }

    /*
     * By node, 1 for what a short stack leaves out: profiler, its hooks, of which the leaf stays as one frame, own; skipped, native code between frames of a runtime, and functions of a language's own library;
     * begins, the outermost frame of a runtime whose callers only start its interpreter; opens, what starts the program or a thread, as in `waits`, and places without a
     * name there. hasRuntime: a runtime named frames. any, anyOpens: there is such a node.
     */
    brief() {
        const {model, cache} = this;
        if (cache.briefN === model.nNodes)
            return cache.brief;
        const own = model.frameNumber(PROFILER, '', 0, '', false, true, false), flags = is => Uint8Array.from(model.frames.items, f => (is(f) ? 1 : 0)), profiler = flags(f => f.isProfiler);
        const isNative = flags(f => f.library && f.library[0] !== '['), isRuntime = flags(isRuntimeFrame), isLibrary = flags(f => f.isLibrary);
        const isStart = flags(f => f.library && (f.foreign || f.isLibrary || isInterpreter(f)));
        const isOpening = flags(f => OPENINGS.test(f.name) || (f.foreign && isPlace(f.name))), isState = flags(f => !f.library && f.name.slice(1, -1) in STATE_COLOURS);
        const parent = model.parent.data, frame = model.frame.data, first = new Uint8Array(model.nNodes), opens = new Uint8Array(model.nNodes);
        const above = new Uint8Array(model.nNodes), starts = new Uint8Array(model.nNodes), skipped = new Uint8Array(model.nNodes), begins = new Uint8Array(model.nNodes);
        let any = false, anyOpens = false;
        starts[0] = first[0] = 1;
        for (let i = 1; i < model.nNodes; i++) {
            const up = parent[i];
            above[i] = above[up] | isRuntime[frame[i]];
            starts[i] = starts[up] & isStart[frame[i]];
            skipped[i] = (above[i] & isNative[frame[i]]) | (up > 0 ? isLibrary[frame[i]] : 0);
            begins[i] = isRuntime[frame[i]] & starts[up] & (above[up] ^ 1);
            opens[i] = first[up] & isOpening[frame[i]];
            first[i] = opens[i] | (up ? 0 : isState[frame[i]]);
            any = any || skipped[i] + begins[i] + profiler[frame[i]] > 0;
            anyOpens = anyOpens || opens[i] > 0;
        }
        cache.briefN = model.nNodes;
        cache.brief = {own, profiler, skipped, begins, opens, any, anyOpens, hasRuntime: above.some(is => is)};
        return cache.brief;
    }

    /*
     * The values by node of a query {kind, type, mode, from, to, process, passes, fold, own, brief, opens, lines, filter, extra}. mode: `sum` of the range, `level`
     * at its end, `retained`, the growth of a level within it, or `kept`, what of that was never given back later. passes: by label set, whether its rows count; null: all do.
     */
    self(query) {
        const {model} = this;
        const kind = model.kinds.get(query.kind);
        const self = new Float64Array(model.nNodes);
        if (!kind)
            return self;
        const [first, last] = kind.ticksWithin(query.mode === 'level' ? -Infinity : query.from, query.to);
        self.set(query.mode === 'kept' ? this.kept(query, kind, first, last) : this.sumOfRows(query, kind, ...kind.rowsOfTicks(first, last)));
        if (!query.fold)
            return self;
        const to = query.own ? this.ownFolded() : this.folded();
        for (let i = self.length - 1; i > 0; i--)
            if (to[i] !== i && self[i]) {
                self[to[i]] += self[i];
                self[i] = 0;
            }
        return self;
    }

    /*
     * The sums by node of rows that a query counts. A range that moves by a tick differs from the last one in few rows: these are added and
     * subtracted. Beyond 2^53 a sum is not exact, and is made anew.
     */
    sumOfRows(query, kind, begin, end) {
        const {model, cache} = this, {passes} = query, ofTick = this.ticksOf(query), cut = ofTick && query.to === Infinity;
        const key = [model.version, kind.name, query.type, query.process, cut, passes].join();
        const old = cache.sums.get(key), isNear = old && Math.abs(begin - old.begin) + Math.abs(end - old.end) < end - begin;
        const sums = isNear ? old : {values: new Float64Array(model.nNodes), begin, end: begin};
        const node = kind.node.data, values = kind.values[query.type].data, tick = kind.tick.data, labels = kind.labels.data, to = sums.values;
        let most = 0;
        const add = (from, until, sign) => {
            for (let i = from; i < until; i++)
                if ((!ofTick || ofTick[tick[i]]) && (!passes || passes[labels[i]]))
                    most = Math.max(most, Math.abs(to[node[i]] += sign * values[i]));
        };
        add(begin, sums.begin, 1);
        add(sums.begin, begin, -1);
        add(sums.end, end, 1);
        add(end, sums.end, -1);
        if (cache.sums.size >= SUMS_KEPT)
            cache.sums.clear();
        cache.sums.delete(key);
        if (most <= Number.MAX_SAFE_INTEGER)
            cache.sums.set(key, Object.assign(sums, {begin, end}));
        return to;
    }

    /* By node, by how much a level grew within ticks [first, last), and no later than that shrank again up to the end, or the process's. */
    kept(query, kind, first, last) {
        const {model} = this, {passes} = query, members = model.groups.members(query.process), cut = kind.lastBeforeEnd(members);
        const level = new Float64Array(model.nNodes), node = kind.node.data, values = kind.values[query.type].data, tick = kind.tick.data, labels = kind.labels.data;
        const add = (from, to, then) => {
            const [begin, end] = kind.rowsOfTicks(from, to);
            for (let i = begin; i < end; i++) {
                const of = kind.ticks[tick[i]].process;
                if ((!members || members[of]) && !(cut && tick[i] > cut[of]) && (!passes || passes[labels[i]])) {
                    level[node[i]] += values[i];
                    if (then)
                        then.push(node[i]);
                }
            }
        };
        add(0, first);
        const before = level.slice();
        add(first, last);
        const least = level.slice();
        for (let i = last; i < kind.ticks.length; i++) {
            const touched = [];
            add(i, i + 1, touched);
            for (const at of touched)
                least[at] = Math.min(least[at], level[at]);
        }
        return least.map((value, i) => Math.max(value - before[i], 0));
    }

    /* By tick, whether its rows count; null: all do. The whole time up to an end is that up to before the exit, as in `top`. */
    ticksOf(query) {
        const kind = this.model.kinds.get(query.kind), members = this.model.groups.members(query.process);
        const cut = query.mode === 'level' && query.to === Infinity ? kind.lastBeforeEnd(members) : null;
        return members || cut ? kind.ticks.map((t, i) => (!members || members[t.process]) && !(cut && i > cut[t.process])) : null;
    }

    /*
     * By label set, whether its rows count: not those with one of the values of `without`, a list of {key, values}; and just those that
     * have all of `only`, a list of [key, value], where null stands for no such label. Null: all count.
     */
    labelFilter(without, only = []) {
        if (!without.length && !only.length)
            return null;
        const valueOf = (set, key) => (set.find(l => l[0] === key) || [key, null])[1];
        return this.model.labelSets.items.map(set => !without.some(({key, values}) => values.includes(valueOf(set, key))) &&
                                              only.every(([key, value]) => valueOf(set, key) === value));
    }

    /*
     * The tree of all stacks. queryB: a second range to compare with; query.scale: the first one's values are multiplied by it;
     * query.extra: changes to the query, one for each list of more values.
     */
    tree(query, queryB) {
        const {model} = this;
        const n = model.nNodes;
        const tree = {n, parent: model.parent.data, frame: model.frame.data, self: this.self(query)};
        if (queryB)
            tree.selfB = this.self(queryB);
        if (queryB && query.scale)
            for (let i = 0; i < n; i++)
                tree.self[i] *= query.scale;
        if (query.extra)
            tree.extra = query.extra.map(changes => this.self({...query, ...changes}));
        if (query.mode === 'retained' && !queryB)
            tree.freed = clipNegative(tree.self);
        if (query.filter)
            keepMatching(tree, this.matches(query.filter));
        const shape = this.shape(query);
        return sumUp(shape ? reshaped(tree, shape) : tree);
    }

    /* By frame number, the first frame of the same function: without query.lines, calls from other lines of a function are the same box. */
    functions() {
        const {items} = this.model.frames, {cache} = this;
        if (cache.functions?.length !== items.length) {
            const first = new Map(), keyOf = f => `${f.name}\0${f.file}\0${f.library}`;
            for (let i = items.length - 1; i >= 0; i--)
                first.set(keyOf(items[i]), i);
            cache.functions = Int32Array.from(items.map(f => first.get(keyOf(f))));
            cache.hasLines = first.size < items.length;
            cache.lines = new Map(); /* by such a frame, the lines of its function */
            cache.names = new Map(); /* by name, how many functions have it */
            items.forEach((f, i) => {
                const at = cache.functions[i];
                if (at === i)
                    cache.names.set(f.name, (cache.names.get(f.name) || 0) + 1);
                cache.lines.set(at, (cache.lines.get(at) || new Set()).add(f.line));
            });
        }
        return cache.functions;
    }

    /* How many functions have this name. */
    nNamed(name) {
        this.functions();
        return this.cache.names.get(name) || 0;
    }

    /* The lines of a function that stacks have, in order. frame: a number. */
    linesOf(frame) {
        const first = this.functions()[frame];
        return [...this.cache.lines.get(first)].filter(line => line).sort((a, b) => a - b);
    }

    get hasLines() {
        this.functions();
        return this.cache.hasLines;
    }

    /*
     * The tree of short stacks (brief; opens: without what starts programs and threads) of functions, or with query.lines of lines: {n, parent, frame, to: by node of the model, its node there}. Native
     * frames below which no frame of the runtime follows stay, so each node has one place for stacks that end there, and one for stacks that go
     * on. It depends on the stacks only, so a range that moves costs no more than sums. Null: that is the model's tree.
     */
    shape(query) {
        const {model, cache} = this, of = this.brief(), opens = query.opens && of.anyOpens, brief = query.brief && (of.any || opens) ? of : null, byFunction = !query.lines && this.hasLines;
        if (!brief && !byFunction)
            return null;
        const key = `${brief ? 'brief' : ''} ${opens} ${byFunction}`;
        if (cache.shapesN !== model.nNodes)
            [cache.shapesN, cache.shapes] = [model.nNodes, new Map()];
        if (!cache.shapes.has(key))
            cache.shapes.set(key, this.makeShape(brief, byFunction ? this.functions() : null, opens));
        return cache.shapes.get(key);
    }

    makeShape(brief, functions, opens) {
        const {model} = this, n = model.nNodes, parents = model.parent.data, frames = model.frame.data;
        const parent = new Column(Int32Array), frame = new Column(Int32Array), nodes = new Map(), to = new Int32Array(n), goesOn = brief ? new Int32Array(n) : to;
        const isSkipped = i => brief.skipped[i] || (opens && brief.opens[i]);
        parent.push(-1);
        frame.push(0);
        for (let i = 1; i < n; i++) {
            const up = parents[i], isHook = brief && brief.profiler[frames[i]], at = isHook ? brief.own : frames[i], f = functions ? functions[at] : at;
            const below = !brief ? to[up] : isHook ? goesOn[up] : isSkipped(i) ? to[up] : brief.begins[i] ? 0 : goesOn[up], key = below * 4194304 + f;
            let node = nodes.get(key);
            if (node === undefined) {
                nodes.set(key, node = parent.n);
                parent.push(below);
                frame.push(f);
            }
            to[i] = node;
            if (brief)
                goesOn[i] = isHook || isSkipped(i) ? goesOn[up] : node;
        }
        return {n: parent.n, parent: parent.data.subarray(0, parent.n), frame: frame.data.subarray(0, parent.n), to};
    }

    /* By frame number: whether it matches. search: an object with test(frame). */
    matches(search) {
        const is = f => search.test(f) || (f.isProfiler && search.says(PROFILER));
        return Uint8Array.from(this.model.frames.items, (f, i) => (i > 0 && is(f) ? 1 : 0));
    }

    /* The tree with callees first: its roots are the leaves of the stacks. */
    inverted(tree) {
        const builder = new TreeBuilder(tree);
        for (let i = 1; i < tree.n; i++) {
            if (!hasValue(tree, i))
                continue;
            let at = 0;
            for (let j = i; j > 0; j = tree.parent[j])
                at = builder.child(at, tree.frame[j]);
            builder.add(at, i);
        }
        return builder.finish();
    }

    /* Callees and callers of a function, over all stacks with it: two trees whose root is the function. */
    around(tree, name) {
        const frames = this.model.frames.items;
        const callees = new TreeBuilder(tree), callers = new TreeBuilder(tree);
        const isIt = Uint8Array.from(frames.map(f => Number(f.name === name)));
        const path = [];
        for (let i = 1; i < tree.n; i++) {
            if (!hasValue(tree, i))
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
            callees.add(at, i);
            at = 0;
            for (let k = outermost + 1; k < path.length; k++)
                at = callers.child(at, path[k]);
            callers.add(at, i);
        }
        return [callees.finish(), callers.finish()];
    }

    /* [{name, flat, cum, flatB, cumB, extra}] by function, line, file, library, or what a function says of a frame; extra: flat, of each list. */
    table(tree, by) {
        const frames = this.model.frames.items;
        const keyOf = typeof by === 'function' ? by : {
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
                found = {name: key, flat: 0, cum: 0, flatB: 0, cumB: 0, extra: (tree.extra || []).map(() => 0), seen: -1};
                rows.set(key, found);
            }
            return found;
        };
        for (let i = 1; i < tree.n; i++) {
            const value = tree.self[i], valueB = tree.selfB ? tree.selfB[i] : 0;
            if (!hasValue(tree, i))
                continue;
            const leaf = row(keys[tree.frame[i]]);
            leaf.flat += value;
            leaf.flatB += valueB;
            leaf.extra.forEach((_, k) => { leaf.extra[k] += tree.extra[k][i]; });
            for (let j = i; j > 0; j = tree.parent[j]) {
                const at = row(keys[tree.frame[j]]);
                if (at.seen === i)
                    continue;
                at.seen = i;
                at.cum += value;
                at.cumB += valueB;
            }
        }
        return [...rows.values()].filter(r => r.flat || r.cum || r.flatB || r.cumB);
    }

    /* [{name, value, flat, cum}] by a label's value (null: none), or by process (its number). */
    tableByLabel(query, key) {
        const {model} = this;
        const kind = model.kinds.get(query.kind);
        const sums = new Map();
        if (!kind)
            return [];
        const [first, last] = kind.ticksWithin(query.mode === 'level' ? -Infinity : query.from, query.to);
        const [begin, end] = kind.rowsOfTicks(first, last);
        const values = kind.values[query.type].data;
        const of = key === 'process' ? kind.ticks.map(t => t.process) : this.labelValues(key);
        const index = key === 'process' ? kind.tick.data : kind.labels.data;
        const ofTick = this.ticksOf(query);
        for (let i = begin; i < end; i++)
            if ((!query.passes || query.passes[kind.labels.data[i]]) && (!ofTick || ofTick[kind.tick.data[i]]))
                sums.set(of[index[i]], (sums.get(of[index[i]]) || 0) + values[i]);
        return [...sums].map(([value, flat]) => ({value, name: key === 'process' ? processName(model.processes.items[value]) : value ?? `(no ${key})`,
                                                  flat, cum: flat, flatB: 0, cumB: 0, extra: []}));
    }

    /* By label set, the value of a label, or null. */
    labelValues(key) {
        return this.model.labelSets.items.map(set => (set.find(l => l[0] === key) || ['', null])[1]);
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
