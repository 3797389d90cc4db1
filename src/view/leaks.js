/* SPDX-License-Identifier: MIT */
/*
 * leaks.js - shows the verdict of `deltaprof leaks`, which `deltaprof view` put into the page and which is of all profiles, and what grew in the
 * chosen range, stack by stack: since when, how fast, in which process. A page that a process serves has no verdict: leaks are judged over many ticks, by the command.
 */
function leaksWords(found) {
    const {from, to} = leakRange(), [first, last] = extent(model.kinds.get('heap')), of = `Sizes are of ${formatTime(Math.max(from, first))} to ${formatTime(Math.min(to, last))}${
        state.process === ALL ? ', all processes' : ''}, of the program\u2019s own stacks.`;
    if (!found)
        return `Not judged here: deltaprof leaks judges the profiles of a directory, and deltaprof view shows its verdict in the page. ${of}`;
    const n = found.rows.filter(r => r.isLeak).length;
    const verdict = n ? `${n} leak${n > 1 ? 's' : ''}.` : found.verdict === 'no leak' ? 'No leak: no growth was seen that goes on.' : `Cannot tell: ${found.needs}.`;
    return `${verdict} The verdict is of ${found.ticks} tick${found.ticks === 1 ? '' : 's'} with ${found.samples} samples in ${formatValue(found.ns, 'nanoseconds')} of work, in the whole time and all processes. ${of}`;
}

/* By node, whether it is a stack of these functions, the leaf first, once it ends at the program's own code; others may stand between them. */
function nodesOf(names) {
    const parent = model.parent.data, frames = model.frames.items, found = new Uint8Array(model.nNodes);
    for (let node = 1; node < model.nNodes; node++) {
        let at = ownNode(node), n = 0;
        if (frames[model.frame.data[at]].name !== names[0])
            continue;
        for (; at > 0 && n < names.length; at = parent[at])
            n += Number(frames[model.frame.data[at]].name === names[n]);
        found[node] = Number(n === names.length);
    }
    return found;
}

/* The chosen range; where the page chose the peak itself, all of the time. */
const leakRange = () => (state.from === -Infinity && state.to === peaksShown.b ? WHOLE : state);

/*
 * The stacks of the program's own code that are judged, and others that grew in the range: {i: place of the verdict or -1, names, place, inUse, grew, begin, seconds, up, down, process, thread}. A stack grows
 * since the tick after which 95 % of its growth comes, as in src/tool/leaks; grew: from then on. Of a process that has ended, what its exit handlers and destructors gave back counts as in use.
 */
function growths() {
    const {from, to} = leakRange(), key = [model.version, state.process, from, to].join();
    if (growths.key === key)
        return growths.found;
    const kind = model.kinds.get('heap'), data = kind.values[kind.types.findIndex(t => t.type === HEAP_DEFAULT)]?.data, members = model.groups.members(state.process), {ticks} = kind;
    const [first, until] = kind.ticksWithin(from, to), ends = kind.lastTicks(), judged = model.leaks ? model.leaks.rows : [], byNode = new Int32Array(model.nNodes).fill(-1);
    const found = judged.map((row, i) => ({...row, i, node: 0, most: 0, allocated: [], changes: new Map()})), numbers = new Map();
    judged.forEach(({names}, i) => nodesOf(names).forEach((is, node) => { if (is) byNode[node] = i; }));
    for (let row = 0; data && row < kind.nRows; row++) {
        const tick = kind.tick.data[row], {process} = ticks[tick], node = kind.node.data[row], value = data[row];
        if (!value || tick >= until || (members && !members[process]) || (to === Infinity && ends.ended[process] & 3 && tick > ends.last[process]))
            continue;
        if (byNode[node] < 0) {
            const names = ownStack(node), text = names.join();
            byNode[node] = numbers.get(text) ?? numbers.set(text, found.push({i: -1, names, node: 0, most: 0, allocated: [], changes: new Map()}) - 1).get(text);
        }
        const at = found[byNode[node]];
        at.changes.set(tick, (at.changes.get(tick) || 0) + value);
        if (value > at.most)
            Object.assign(at, {most: value, node});
    }
    const births = new Set(model.processes.items.map((_, process) => ticks.findIndex(t => t.process === process))), events = model.kinds.get(HEAT_KIND), allocations = events?.values[events.types.findIndex(t => t.type === 'alloc_space')]?.data;
    const ofThread = allocations && folds.labelKeys(events).includes(THREAD_LABEL) ? lanesOf(events) : null;
    for (let row = 0; allocations && row < events.nRows; row++) /* they know when a stack began to allocate, to 20 ms */
        if (allocations[row] > 0 && (!members || members[events.ticks[events.tick.data[row]].process]))
            found[byNode[events.node.data[row]]]?.allocated.push({ms: events.ticks[events.tick.data[row]].start, lane: ofThread ? ofThread.ofRow[row] : -1, bytes: allocations[row]});
    for (const at of found) {
        const changes = [...at.changes].sort((x, y) => x[0] - y[0]), sumOf = is => changes.reduce((sum, [tick, value]) => sum + (is(tick) ? value : 0), 0), isBase = tick => tick < first || births.has(tick);
        const end = sumOf(() => true), base = sumOf(isBase), rise = end - base;
        let sum = 0;
        const reached = changes.find(([tick, value]) => !isBase(tick) && (sum += value) >= Math.max(rise / 20, 1)), index = reached ? ticks.slice(0, reached[0]).findLastIndex(t => t.process === ticks[reached[0]].process) : -1, last = ticks[index];
        /* Of a process's first tick it is not known what is a leak's: all, if it grew as fast then as later. */
        const isFromStart = last && births.has(index) && base / (last.end - last.start) > rise / (ticks[until - 1].end - last.end) / 4, least = last ? last.end : 0;
        const begin = !reached || rise <= 0 ? NaN : Math.max(isFromStart ? last.start : least, at.allocated.find(({ms}) => ms > (isFromStart ? last.start : least))?.ms || 0);
        const [begun] = kind.ticksWithin(begin, Infinity);
        const since = changes.filter(([tick]) => tick >= begun), frame = model.frames.items[model.frame.data[ownNode(at.node)]], of = new Map();
        since.forEach(([tick, value]) => of.set(ticks[tick].process, (of.get(ticks[tick].process) || 0) + value));
        const byLane = at.allocated.reduce((sums, {ms, lane, bytes}) => (ms >= begin ? sums.set(lane, (sums.get(lane) || 0) + bytes) : sums), new Map()), lane = mainOf(byLane);
        const grew = begin ? end - sumOf(tick => tick < begun) : 0;
        Object.assign(at, {inUse: end, begin, grew, up: since.filter(([, value]) => value > 0).length, down: since.filter(([, value]) => value < 0).length, process: mainOf(of), thread: !byLane.size ? '' : lane < 0 ? `${byLane.size} threads` : ofThread.lanes[lane].name, nProcesses: of.size,
                           place: frame.file && frame.line ? `${baseName(frame.file)}:${frame.line}` : '', seconds: (ticks[Math.max(until - 1, 0)].end - begin) / 1000});
    }
    growths.key = key;
    return (growths.found = found.filter(at => at.inUse > 0));
}
growths.key = '';
growths.found = /** @type {any} */ (null);

/* The key that has more than 90 % of the sum of the values; -1: none has. */
function mainOf(values) {
    const sum = [...values.values()].reduce((a, b) => a + b, 0);
    return ([...values].find(([, value]) => value > 0.9 * sum) || [-1])[0];
}

/* The functions of the program's own code in a stack, the leaf first, down to where its thread begins. */
function ownStack(node) {
    const names = [], isOwn = frame => !frame.foreign && !frame.isLibrary && !frame.passes;
    for (let at = ownNode(node); at > 0; at = model.parent.data[at])
        if (isOwn(model.frames.items[model.frame.data[at]]))
            names.push(model.frames.items[model.frame.data[at]].name);
    return names;
}

const GROWTHS_SHOWN = 12;

/* The leaks, the worst first, then the stacks that may leak, then others that grew. */
function drawLeaks() {
    const search = searchNow(), bytes = n => formatValue(n, 'bytes'), several = model.processes.items.length > 1, all = growths(), {ticks} = model.kinds.get('heap');
    const others = all.filter(at => at.i < 0 && at.grew > 0).sort((x, y) => y.grew - x.grew).slice(0, GROWTHS_SHOWN);
    const rows = [...all.filter(at => at.i >= 0), ...others].map((row, place) => ({...row, rank: place, name: row.names[0]})).filter(r => !search || r.names.some(search.says));
    byId('leaksWords').textContent = leaksWords(model.leaks);
    const number = (name, value, text, title) => ({name, isNumber: true, value, text, title});
    leaks.empty = search ? 'no stack matches: clear the search' : 'no stack grew in this range';
    const verdict = r => (r.i < 0 ? (model.leaks && model.leaks.verdict !== 'cannot tell' ? 'grew, no leak' : 'grew, not judged') : r.isLeak ? `leak, confidence ${Math.round(100 * r.confidence)} %` : r.confidence >= 0.005 ? `cannot tell: ${Math.round(100 * r.confidence)} % that it leaks` : 'cannot tell, no end is seen');
    leaks.show([{name: 'verdict', value: r => r.rank, text: verdict, title: 'of deltaprof leaks, in the whole time', class: r => (r.isLeak ? 'verdict alarm' : 'verdict'),
                 exact: r => (r.i < 0 ? '' : `deltaprof leaks: ${bytes(r.bytes)} in use at the last tick, ${r.hourly ? bytes(r.hourly) : 'an unknown number'} more after an hour of work`)},
                number('in use', r => r.inUse, r => bytes(r.inUse), 'at the end of the range'),
                number('grew', r => r.grew, r => (r.grew ? bytes(r.grew) : ''), 'since then, up to the end of the range: what a click shows'),
                number('grows since', r => r.begin || 0, r => (r.begin ? formatTime(r.begin) : ''), '95 % of the growth came later; a click shows what was allocated from then on and is still there'),
                number('a second', r => r.grew / r.seconds || 0, r => (!r.grew ? '' : ticks.length < RATE_TICKS ? 'too few ticks' : bytes(r.grew / r.seconds)), 'the growth, by the seconds since then'),
                number('ticks', r => r.up, r => `${r.up} up, ${r.down} down`, 'in how many ticks since then it grew, and shrank'),
                ...(several ? [{name: 'process', value: r => r.process, text: r => (r.process >= 0 ? processName(model.processes.items[r.process]) : `${r.nProcesses} processes`), title: 'the one with more than 90 % of the growth', class: () => 'name'}] : []),
                ...(rows.some(r => r.thread) ? [{name: 'thread', value: r => r.thread, text: r => r.thread, title: 'the one with more than 90 % of the allocations since then, by events', class: () => 'name'}] : []),
                {name: 'line', value: r => r.place, text: r => r.place, class: () => 'name'},
                {name: 'stack', value: r => r.names.join(' ‹ '), text: r => r.names.slice(0, Math.min(r.names.indexOf('main') + 1 || 8, 8)).join(' ‹ ')}], rows, 'verdict', false);
}

const RATE_TICKS = 3; /* of fewer, no rate is told */
