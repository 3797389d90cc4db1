/* SPDX-License-Identifier: MIT */
/*
 * model.js - the data of the page: frames, stacks as a tree, and for each kind of profile the rows of each tick.
 *
 * A node of the tree is a stack: a frame and the node of its caller; node 0 is the root, and a parent's number is less than its
 * child's. A row says by how much the values of one node and label set changed at one tick. In-use values (levels)
 * are kept as differences to the tick before, so that every value of the model can be summed over a range: allocations in a range,
 * and growth within it, are the sum over its rows, and what is in use at its end is the sum over all rows up to there.
 */

/* A growing array of numbers. */
class Column {
    constructor(Type) {
        this.data = new Type(1024);
        this.n = 0;
    }

    push(value) {
        if (this.n === this.data.length) {
            const larger = new this.data.constructor(this.n * 2);
            larger.set(this.data);
            this.data = larger;
        }
        this.data[this.n++] = value;
    }
}

/* A set of texts, or of combinations of numbers, that gives each a number. */
class Interner {
    constructor() {
        this.numbers = new Map();
        this.items = /** @type {any[]} */ ([]);
    }

    number(key, make) {
        let n = this.numbers.get(key);
        if (n === undefined) {
            n = this.items.length;
            this.numbers.set(key, n);
            this.items.push(make ? make() : key);
        }
        return n;
    }
}

const LEVELS = new Set(KINDS.flatMap(kind => kind.levels));

const SLACK_MS = Number('@SLACK_MS@'); /* dp_kind_tick_slack_ms */

/* Ticks and rows of one kind: heap, mutex, block, or of another producer. */
class Kind {
    constructor(name, types) {
        this.name = name;
        this.types = types;
        this.isLevel = types.map(t => LEVELS.has(t.type));
        this.ticks = []; /* {start, end (ms), process, firstRow, comments, period, marks, rss, isTotal: since the start, isJoined: was several} by end */
        this.node = new Column(Int32Array);
        this.labels = new Column(Int32Array);
        this.tick = new Column(Int32Array);
        this.values = types.map(() => new Column(Float64Array));
        this.levels = new Map(); /* by process, of the tick that was added last: {end, rows: key of a row -> its values} */
        this.isOrdered = true;
        this.slack = this.slackN = 0;
        this.ends = {n: -1, last: /** @type {number[]} */ ([]), ended: /** @type {number[]} */ ([])};
    }

    get nRows() {
        return this.node.n;
    }

    addRow(node, labels, values, tick = this.ticks.length - 1) {
        this.node.push(node);
        this.labels.push(labels);
        this.tick.push(tick);
        for (let i = 0; i < values.length; i++)
            this.values[i].push(values[i]);
    }

    keepTypes(keeps) {
        const kept = this.types.map((t, i) => i).filter(i => keeps(this.types[i].type, this.values[i]));
        Object.assign(this, {types: kept.map(i => this.types[i]), values: kept.map(i => this.values[i]), isLevel: kept.map(i => this.isLevel[i])});
    }

    slackNow() {
        const n = this.ticks.length;
        if (this.slackN !== n) {
            const usual = this.ticks.map(t => t.end - t.start).sort((a, b) => a - b)[n >> 1];
            [this.slackN, this.slack] = [n, usual < 1000 ? 0 : Math.min(usual / 100, SLACK_MS)];
        }
        return this.slack;
    }

    /*
     * The ticks that end within (from, to], as [first, last + 1); of a range between two ends, those that it lies in. Kinds and processes write their
     * profiles of one tick some milliseconds one after the other, so an end that is late by less than the slack is still within.
     */
    ticksWithin(from, to) {
        const {ticks} = this, slack = this.slackNow(), first = lowerBound(ticks, t => t.end > from + slack);
        let last = lowerBound(ticks, t => t.end > to + slack);
        if (first === last && from > -Infinity)
            while (last < ticks.length && ticks[last].start < to)
                last++;
        return [first, last];
    }

    /*
     * Joins older ticks two by two, each with the next one of its process: of the older half those that say nothing of an end. The rows of a stack
     * in both become one row.
     */
    joinOldest() {
        this.putInOrder();
        const {ticks} = this, joined = new Kind(this.name, this.types), open = new Map(), partner = new Map(), goes = new Set();
        for (let i = 0; i < ticks.length >> 1; i++) {
            const {process, marks, isTotal} = ticks[i], before = marks || isTotal ? undefined : open.get(process);
            if (before === undefined)
                marks || isTotal ? open.delete(process) : open.set(process, i);
            else {
                partner.set(i, before);
                goes.add(before);
                open.delete(process);
            }
        }
        ticks.forEach((tick, i) => {
            if (goes.has(i))
                return;
            const before = partner.get(i), rows = new Map();
            joined.ticks.push({...tick, firstRow: joined.nRows, ...(before === undefined ? {} : {start: ticks[before].start, isJoined: true})});
            for (const of of before === undefined ? [i] : [before, i])
                for (let [row, end] = this.rowsOfTicks(of, of + 1); row < end; row++) {
                    const key = this.labels.data[row] * 4294967296 + this.node.data[row], sums = rows.get(key) || this.values.map(() => 0);
                    this.values.forEach((v, k) => { sums[k] += v.data[row]; });
                    rows.set(key, sums);
                }
            for (const [key, values] of rows)
                if (values.some(v => v !== 0))
                    joined.addRow(key % 4294967296, Math.floor(key / 4294967296), values);
        });
        this.takeRows(joined);
        this.ends.n = -1;
    }

    takeRows({ticks, node, labels, tick, values}) {
        Object.assign(this, {ticks, node, labels, tick, values});
    }

    /* Adds a tick, at any time, before or between those that are there; putInOrder moves it to its place. */
    addTick(tick) {
        const {ticks} = this;
        if (ticks.length && tick.end < ticks[ticks.length - 1].end)
            this.isOrdered = false;
        ticks.push({...tick, firstRow: this.nRows});
    }

    /* Sorts the ticks by their ends, and the rows by tick. Ticks that were added first stay first among equals. */
    putInOrder() {
        if (this.isOrdered)
            return;
        const rowsOf = this.ticks.map(() => []), ordered = new Kind(this.name, this.types);
        for (let row = 0; row < this.nRows; row++)
            rowsOf[this.tick.data[row]].push(row);
        for (const i of this.ticks.map((_, n) => n).sort((a, b) => this.ticks[a].end - this.ticks[b].end || a - b)) {
            ordered.addTick(this.ticks[i]);
            for (const row of rowsOf[i])
                ordered.addRow(this.node.data[row], this.labels.data[row], this.values.map(v => v.data[row]));
        }
        this.takeRows(ordered);
        this.isOrdered = true;
    }

    /* By key of a row, the values of a process at its last tick up to a time; of values that are no levels, the sums up to there. */
    levelsAt(process, end) {
        const known = this.levels.get(process);
        if (known && known.end <= end && !this.ticks.some(t => t.process === process && t.end > known.end && t.end <= end))
            return known.rows;
        const counts = this.ticks.map(t => t.process === process && t.end <= end), rows = new Map();
        for (let row = 0; row < this.nRows; row++)
            if (counts[this.tick.data[row]]) {
                const key = this.labels.data[row] * 4294967296 + this.node.data[row], sums = rows.get(key) || this.values.map(() => 0);
                this.values.forEach((v, i) => { sums[i] += v.data[row]; });
                rows.set(key, sums);
            }
        return rows;
    }

    /*
     * By process, its last tick whose memory in use means something: if all chosen processes have ended, each one's before its exit handlers and
     * destructors ran. Null: not all have. members: by process, whether it is chosen; null: all are.
     */
    lastBeforeEnd(members = null) {
        const {last, ended} = this.lastTicks();
        return last.every((_, process) => (members && !members[process]) || ended[process] & 3) ? last : null;
    }

    /* By process: its last tick before its exit handlers ran; and the marks of its ticks, by which it has ended (3) or not. */
    lastTicks() {
        if (this.ends.n === this.ticks.length)
            return this.ends;
        const last = [], ended = [];
        this.ticks.forEach((tick, i) => {
            if (!(tick.marks & 4) && !(ended[tick.process] & 1))
                last[tick.process] = i;
            ended[tick.process] |= tick.marks;
        });
        return (this.ends = {n: this.ticks.length, last, ended});
    }

    rowsOfTicks(first, last) {
        const row = i => (i < this.ticks.length ? this.ticks[i].firstRow : this.nRows);
        return [row(first), row(last)];
    }
}

/* The first index for which is(item) holds; it holds for all after it. */
function lowerBound(items, is) {
    let low = 0;
    let high = items.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (is(items[middle]))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

class Model {
    constructor() {
        this.kinds = new Map();
        this.sentences = []; /* of `deltaprof summary`: {kind, text, verb, name} */
        this.leaks = null; /* what `deltaprof leaks` says of the profiles; null: it was not asked */
        this.frames = new Interner();    /* {name, file, line, library, passes, foreign, isLibrary} */
        this.labelSets = new Interner(); /* [[key, value]] */
        this.labelSets.number('', () => []);
        this.processes = new Interner(); /* {program, pid, host} */
        this.groups = new Groups(this.processes);
        this.sources = new Map(); /* by file, the lines of its source that `view --source` put into the page: [{line, text}] */
        this.sides = null; /* the two directories or files that are compared: [old, new] */
        this.frames.number('', () => ({name: 'all', file: '', line: 0, library: '', passes: false, foreign: true, isLibrary: false}));
        this.parent = new Column(Int32Array);
        this.frame = new Column(Int32Array);
        this.children = new Map();
        this.below = new Map(); /* nodes by state and node */
        this.parent.push(-1);
        this.frame.push(0);
        this.version = 0; /* changes when something was added */
    }

    get nNodes() {
        return this.parent.n;
    }

    /* passes: it only passes an allocation on; foreign: it is no code of the user; isLibrary: of a language's own library; isProfiler: a hook of deltaprof. */
    frameNumber(name, file, line, library, passes, foreign, ofLibrary) {
        return this.frames.number(`${name}\0${file}\0${line}\0${library}`, () => {
            const isProfiler = baseName(library).startsWith('libdeltaprof');
            return {name, file, line, library, passes, foreign: foreign || isProfiler, isLibrary: ofLibrary, isProfiler};
        });
    }

    child(parent, frame) {
        const key = parent * 4194304 + frame;
        let node = this.children.get(key);
        if (node === undefined) {
            node = this.nNodes;
            this.parent.push(parent);
            this.frame.push(frame);
            this.children.set(key, node);
        }
        return node;
    }

    labelNumber(labels) {
        if (!labels.length)
            return 0;
        const sorted = labels.slice().sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
        return this.labelSets.number(JSON.stringify(sorted), () => sorted);
    }

    processNumber(program, pid, host) {
        return this.processes.number(`${program}\0${pid}\0${host}`, () => ({program, pid, host}));
    }

    kind(name, types) {
        let kind = this.kinds.get(name);
        if (!kind) {
            kind = new Kind(name, types);
            this.kinds.set(name, kind);
        } else if (kind.types.map(t => t.type).join() !== types.map(t => t.type).join())
            throw new Error(`its values (${types.map(t => t.type).join(', ')}) are not those of the other ${name} profiles`);
        return kind;
    }

    /* The node of the same stack below a root that is the row's state, if it has one: so flames show states side by side. */
    nodeInState(node, labels) {
        const state = this.labelSets.items[labels]?.find(l => l[0] === 'state');
        return state ? this.nodeBelow(`[${state[1]}]`, node) : node;
    }

    nodeBelow(name, node) {
        const key = `${name} ${node}`, known = this.below.get(key);
        if (known !== undefined)
            return known;
        const found = node ? this.child(this.nodeBelow(name, this.parent.data[node]), this.frame.data[node])
                           : this.child(0, this.frameNumber(name, '', 0, '', false, false, false));
        this.below.set(key, found);
        return found;
    }

    /*
     * The node of a stack of a decoded profile; locations are leaf first, lines innermost first. In a chain the stack of the holder stands
     * the other way round behind the waiter's.
     */
    nodeOfSample(profile, sample) {
        let node = 0, isHolder = false;
        for (let i = sample.locations.length - 1; i >= 0; i--) {
            const location = profile.locations.get(sample.locations[i]);
            if (!location.frameNumbers) {
                const library = baseName(location.library);
                const lines = location.lines.length ? location.lines : [{name: `${library || '[anon]'}+0x${location.place.toString(16)}`, file: '', line: 0}];
                location.frameNumbers = lines.map(l => {
                    const name = shortName(l.name || '[no name]');
                    return this.frameNumber(name, l.file, l.line, library, isPassing(name), isForeign(location.library, l.file), isLibrary(name, l.file));
                });
            }
            const numbers = location.frameNumbers;
            for (let j = 0; j < numbers.length; j++)
                node = this.child(node, numbers[isHolder ? j : numbers.length - 1 - j]);
            isHolder ||= numbers.length === 1 && this.frames.items[numbers[0]].name === '[held by]';
        }
        return node;
    }

    /*
     * Adds a profile as one tick at its end. Levels become differences to the process's tick before; a stack that is no longer
     * in the profile has nothing in use. If the process has a later tick already, the differences of that tick shrink by as much.
     */
    addProfile(profile, {kindName, pid = '', host = '', program = profile.program, isTotal = false}) {
        const kind = this.kind(kindName, profile.types);
        const end = (profile.timeNs + profile.durationNs) / 1e6;
        const process = this.processNumber(program, pid, host);
        const levels = kind.levelsAt(process, end);
        const now = new Map();
        const later = kind.ticks.reduce((best, t, i) => (t.process === process && t.end > end && !(kind.ticks[best]?.end <= t.end) ? i : best), -1);
        kind.addTick({start: profile.timeNs / 1e6, end, process, comments: profile.comments.filter(c => !c.startsWith('#')),
                         period: profile.period, isTotal, marks: (profile.comments.includes('#exit') ? 1 : 0) | (profile.comments.includes('#ended') ? 2 : 0),
                         rss: rssOfComments(profile.comments)});
        const add = (node, labels, values) => {
            kind.addRow(node, labels, values);
            if (later >= 0 && kind.isLevel.some((is, i) => is && values[i] !== 0))
                kind.addRow(node, labels, values.map((v, i) => (kind.isLevel[i] ? -v : 0)), later);
        };
        const rows = new Map();
        for (const sample of profile.samples) {
            const labels = this.labelNumber(sample.labels.filter(l => l[0] !== 'bytes'));
            const node = kindName === 'wall' ? this.nodeInState(this.nodeOfSample(profile, sample), labels) : this.nodeOfSample(profile, sample);
            const key = labels * 4294967296 + node;
            const row = rows.get(key);
            if (row)
                sample.values.forEach((v, i) => { row.values[i] += v; });
            else
                rows.set(key, {node, labels, values: sample.values.slice()});
        }
        for (const [key, row] of rows) {
            const before = levels.get(key);
            const kept = row.values.slice();
            kind.isLevel.forEach((is, i) => {
                if (is)
                    row.values[i] -= before ? before[i] : 0;
            });
            now.set(key, kept);
            levels.delete(key);
            if (row.values.some(v => v !== 0))
                add(row.node, row.labels, row.values);
        }
        for (const [key, before] of levels)
            if (kind.isLevel.some((is, i) => is && before[i] !== 0))
                add(key % 4294967296, Math.floor(key / 4294967296), kind.isLevel.map((is, i) => (is ? -before[i] : 0)));
        kind.levels.set(process, {end, rows: now});
        this.version++;
    }
}

/*
 * What a tick's comments say of the resident memory, in bytes, or null: {rss, anon, error, parts: [[name, bytes]]}. Parts are those of
 * `anon`; error is the standard deviation of their estimates.
 */
function rssOfComments(comments) {
    const found = {Total: 0, Anon: 0, Error: 0}, parts = [];
    for (const comment of comments) {
        const match = /^#Rss(Total|Anon|Error|Part (.+))=(\d+)$/.exec(comment);
        if (match && match[2])
            parts.push([match[2], Number(match[3])]);
        else if (match)
            found[match[1]] = Number(match[3]);
    }
    return found.Total ? {rss: found.Total, anon: found.Anon, error: found.Error, parts} : null;
}
