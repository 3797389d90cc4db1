/* SPDX-License-Identifier: MIT */
/*
 * threads.js - the threads of events: their lanes, and the colours of what they did.
 */
const LANE_COLOURS = 14;
const lanes = new Lanes(byId('lanes'), {onRange: (from, to) => setRange(from, to), onPick: pickLane, onHover: laneTip});

/* By number of a label set, the number of its lane, for each process: {names, lane(process, labels)}. */
function lanesOf(kind) {
    const key = `${model.version} ${state.process}`;
    if (lanesOf.key === key)
        return lanesOf.found;
    const ids = folds.labelValues(THREAD_LABEL), names = folds.labelValues('thread'), members = model.groups.members(state.process), known = new Map();
    const tick = kind.tick.data, labels = kind.labels.data, found = [], ofRow = new Int32Array(kind.nRows).fill(-1), type = typeOfTime(kind);
    for (let i = 0; i < kind.nRows; i++) {
        const {process} = kind.ticks[tick[i]], id = ids[labels[i]], mark = `${process} ${id}`;
        if (id === null || (members && !members[process]))
            continue;
        if (!known.has(mark))
            known.set(mark, found.push({process, id, name: '', entry: '', isNamed: false, nLooks: 0, weight: 0}) - 1);
        const lane = found[ofRow[i] = known.get(mark)];
        lane.weight += kind.values[type].data[i];
        lane.name = lane.name || names[labels[i]] || '';
        if (!lane.entry && lane.nLooks++ < 100)
            lane.entry = entryOf(kind.node.data[i]);
    }
    for (const lane of found)
        [lane.isNamed, lane.name] = [lane.name !== '', lane.name || stuckNow().find(one => one.id === lane.id)?.name || lane.entry];
    const isMain = lane => lane.id === model.processes.items[lane.process].pid.split('/')[0], several = new Set(found.map(lane => lane.process)).size > 1;
    const order = found.map((_, i) => i).sort((x, y) => found[x].process - found[y].process || Number(isMain(found[y])) - Number(isMain(found[x])) || found[y].weight - found[x].weight);
    const at = new Int32Array(found.length);
    order.forEach((from, to) => { at[from] = to; });
    lanesOf.key = key;
    return (lanesOf.found = {ofRow: ofRow.map(lane => (lane < 0 ? -1 : at[lane])), lanes: order.map(i => ({
        ...found[i], called: isMain(found[i]) ? 'main' : found[i].name || 'thread'})).map(lane => ({...lane, name: several ? `${model.processes.items[lane.process].pid}:${lane.id} ${lane.called}` : `${lane.called} ${lane.id}`}))});
}
lanesOf.key = '';
lanesOf.found = /** @type {any} */ (null);

/* The first function of the program's own code in a stack: with it a thread without a name is told from others. */
function entryOf(node) {
    const {frames, frame, parent} = model;
    let name = '';
    for (let at = node; at > 0; at = parent.data[at]) {
        const one = frames.items[frame.data[at]];
        name = one.foreign || one.isLibrary || STARTS.has(one.name) || isPlace(one.name) || one.name[0] === '[' ? name : one.name;
    }
    return name;
}

/* The number of the type that says how long something took: CPU time of events; else the last one in nanoseconds. */
function typeOfTime(kind) {
    const cpu = kind.types.findIndex(t => t.type === 'cpu');
    return cpu >= 0 ? cpu : Math.max(kind.types.map(t => t.unit).lastIndexOf('nanoseconds'), 0);
}

/* By row of the kind: its lane, -1 for none; when it began and ended, in ms; its state. From the column of a type or from a label. */
function eventsOf(kind) {
    const key = `${model.version} ${state.process}`;
    if (eventsOf.key === key)
        return eventsOf.found;
    const columns = STATE_OF_TYPE.map(([type, name]) => ({name, values: kind.values[kind.types.findIndex(t => t.type === type)]?.data, isWait: type === 'delay', lasts: type === 'delay' || type === 'wall'})).filter(c => c.values);
    const states = folds.labelValues(STATE_LABEL), n = kind.nRows, starts = new Float64Array(n), ends = new Float64Array(n), whats = new Array(n), {ofRow} = lanesOf(kind);
    const idle = folds.labelValues(IDLE.key).map(value => IDLE.values.includes(value)), count = kind.values[kind.types.findIndex(t => t.type === 'contentions')]?.data, [first] = extent(kind);
    for (let row = 0; row < n; row++) {
        const tick = kind.ticks[kind.tick.data[row]], labels = kind.labels.data[row], column = columns.find(c => c.values[row] !== 0);
        ends[row] = tick.end;
        whats[row] = states[labels] || (column ? (column.isWait && idle[labels] ? 'sleep' : column.name) : '');
        const waits = column && column.lasts ? column.values[row] / 1e6 / Math.max((column.isWait && count && count[row]) || 1, 1) : 0;
        starts[row] = Math.max(waits > tick.end - tick.start ? tick.end - waits : tick.start, first);
    }
    eventsOf.key = key;
    return (eventsOf.found = {starts, ends, states: whats, lane: ofRow.map((at, row) => (whats[row] ? at : -1))});
}
eventsOf.key = '';
eventsOf.found = /** @type {any} */ (null);

/* Of a node, the one where its stack ends at the program's own code. */
function ownNode(node) {
    if (ownNode.key !== model.nNodes)
        [ownNode.key, ownNode.own] = [model.nNodes, folds.ownFolded()];
    return ownNode.own[node];
}
ownNode.key = -1;
ownNode.own = /** @type {any} */ (null);

const ownFrame = (kind, row) => model.frames.items[model.frame.data[ownNode(kind.node.data[row])]];

const lanesNow = /** @type {any} */ ({});

function drawLanes(kind) {
    const isShown = kind.name === HEAT_KIND && folds.labelKeys(kind).includes(THREAD_LABEL);
    byId('lanesBox').hidden = !isShown;
    if (!isShown)
        return;
    const {lanes: all} = lanesOf(kind), [first, last] = timeOfAll(), from = Math.max(state.from, first), to = Math.min(state.to, last);
    const [begin, end] = kind.rowsOfTicks(lowerBound(kind.ticks, t => t.end > from), lowerBound(kind.ticks, t => t.start > to)), dark = isDark();
    const {starts, ends, states, lane} = eventsOf(kind), chosen = labelsNow().find(([key]) => key === THREAD_LABEL), seen = new Set(states.slice(begin, end)), byState = state.lanes === 'state';
    const largest = largestOf(kind, begin, end), rank = new Map(largest.map((frame, i) => [frame.name, i])), palette = largest.map((_, i) => layerColour(i, largest.length + 1));
    const ofState = new Map([...seen].map(name => [name, pixelOf(stateColour(name))])), ofRank = [...palette, layerColour(largest.length, largest.length + 1)].map(pixelOf);
    const pixels = new Uint32Array(end - begin), pixelAt = i => {
        const name = states[begin + i];
        return byState || name === 'sleep' ? ofState.get(name) : ofRank[rank.get(ownFrame(kind, begin + i).name) ?? largest.length];
    };
    const legend = byState ? [...Object.keys(STATE_COLOURS), ...statesNow().filter(name => !STATE_COLOURS[name])].filter(name => seen.has(name)).map(name => ({name, colour: stateColour(name)})) :
        [...largest.map((frame, i) => ({name: frame.name, colour: palette[i]})), ...(seen.has('sleep') ? [{name: 'idle', colour: stateColour('sleep')}] : [])];
    Object.assign(lanesNow, {kind, begin});
    lanes.show({lanes: all.map(l => ({...l, isChosen: chosen && chosen[1] === l.id})), from, to: Math.max(to, from + 1), dark,
                events: {n: end - begin, lane: lane.subarray(begin, end), from: starts.subarray(begin, end), to: ends.subarray(begin, end), pixel: i => pixels[i] || (pixels[i] = pixelAt(i)),
                         isThin: i => states[begin + i] === 'lock' || states[begin + i] === 'sleep'}});
    fillSelect('lanesBy', [['function', 'function'], ['state', 'state']], state.lanes);
    fillLegend('lanesLegend', legend);
    byId('lanesNote').textContent = `a lane for each thread; thin: it waits; drag for a range, click for one thread${lanes.nMore > 0 ? `; ${lanes.nMore} more threads` : ''}`;
}

/* One frame each of the functions with the most time in the lanes, of rows from `begin` to `end`; idle time does not count. */
function largestOf(kind, begin, end) {
    const {states, starts, ends} = eventsOf(kind), byNode = new Float64Array(model.nNodes), sums = new Map();
    for (let row = begin; row < end; row++)
        if (states[row] && states[row] !== 'sleep')
            byNode[ownNode(kind.node.data[row])] += states[row] === 'allocates' ? 1e-3 : ends[row] - starts[row]; /* it is in its 20 ms, and does not last them */
    byNode.forEach((ms, node) => {
        const frame = model.frames.items[model.frame.data[node]], sum = ms && (sums.get(frame.name) || sums.set(frame.name, {frame, ms: 0}).get(frame.name));
        if (sum)
            sum.ms += ms;
    });
    return [...sums.values()].sort((a, b) => b.ms - a.ms).slice(0, LANE_COLOURS).map(({frame}) => frame);
}

/* How much the events have of what the profiles count, where that is not all. */
function eventsWords(kind) {
    if (kind.name !== HEAT_KIND || !EVENTS_OF[state.type])
        return '';
    const of = model.kinds.get(EVENTS_OF[state.type]), type = of ? of.types.findIndex(t => t.type === state.type) : -1;
    if (type < 0)
        return '';
    const [here, there] = [[kind, typeIndex()], [of, type]].map(([k, i]) => k.values[i].data.subarray(0, k.nRows).reduce((a, b) => a + b, 0)), unit = unitNow();
    return Math.abs(there - here) > there / 100 ? `Events have ${formatValue(here, unit)} of the ${formatValue(there, unit)} in ${of.name} profiles, which are complete: events leave out time between samples, and of a killed process its last tick.` : '';
}
const EVENTS_OF = {cpu: 'cpu', wall: 'wall', delay: 'block', alloc_space: 'heap'};

function pickLane(lane) {
    setLabel(THREAD_LABEL, labelsNow().some(([key, value]) => key === THREAD_LABEL && value === lane.id) ? undefined : lane.id);
}

function laneTip(found, event) {
    if (!found)
        return void showTip([], event);
    const {kind, begin} = lanesNow, {states, starts, ends} = eventsOf(kind), row = found.row < 0 ? -1 : begin + found.row, at = new Date(found.ms);
    const lines = [found.lane.name, `${formatTime(found.ms, true)}.${String(at.getMilliseconds()).padStart(3, '0')}`];
    if (row >= 0)
        lines.push(`${states[row]}: ${ownFrame(kind, row).name}`, ends[row] - starts[row] > 20 ? `for ${formatValue((ends[row] - starts[row]) * 1e6, 'nanoseconds')}` : 'within 20 ms',
                   ...model.labelSets.items[kind.labels.data[row]].filter(([key]) => key !== THREAD_LABEL).map(([key, value]) => `${key} ${value}`));
    showTip(lines, event);
}
