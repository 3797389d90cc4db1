/* SPDX-License-Identifier: MIT */
/*
 * threads.js - the threads of events: their lanes, and the colours of what they did.
 */
const LANE_COLOURS = 8;
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
            known.set(mark, found.push({process, id, name: '', weight: 0}) - 1);
        const lane = found[ofRow[i] = known.get(mark)];
        lane.weight += kind.values[type].data[i];
        lane.name = lane.name || names[labels[i]] || '';
    }
    const isMain = lane => lane.id === model.processes.items[lane.process].pid.split('/')[0], several = new Set(found.map(lane => lane.process)).size > 1;
    const order = found.map((_, i) => i).sort((x, y) => found[x].process - found[y].process || Number(isMain(found[y])) - Number(isMain(found[x])) || found[y].weight - found[x].weight);
    const at = new Int32Array(found.length);
    order.forEach((from, to) => { at[from] = to; });
    lanesOf.key = key;
    return (lanesOf.found = {ofRow: ofRow.map(lane => (lane < 0 ? -1 : at[lane])), lanes: order.map(i => ({
        ...found[i], name: `${several ? `${processName(model.processes.items[found[i].process])} ` : ''}${isMain(found[i]) ? 'main' : found[i].name || 'thread'} ${found[i].id}`}))});
}
lanesOf.key = '';
lanesOf.found = /** @type {any} */ (null);

/* The number of the type that says how long something took: the last one in nanoseconds. */
function typeOfTime(kind) {
    return Math.max(kind.types.map(t => t.unit).lastIndexOf('nanoseconds'), 0);
}

/* By row of the kind from `begin` on: when it began and ended, in ms, and its state. */
function eventsOf(kind, begin, end, from) {
    const columns = STATE_OF_TYPE.map(([type, name]) => ({name, at: kind.types.findIndex(t => t.type === type), isWait: type === 'delay'})).filter(c => c.at >= 0);
    const states = folds.labelValues(STATE_LABEL), n = end - begin, starts = new Float64Array(n), ends = new Float64Array(n), state = new Array(n);
    const idle = folds.labelValues(IDLE.key).map(value => IDLE.values.includes(value)), count = kind.types.findIndex(t => t.type === 'contentions');
    for (let i = 0; i < n; i++) {
        const row = begin + i, tick = kind.ticks[kind.tick.data[row]], column = columns.find(c => kind.values[c.at].data[row] !== 0);
        ends[i] = tick.end;
        state[i] = states[kind.labels.data[row]] || (column ? (column.isWait && idle[kind.labels.data[row]] ? 'sleep' : column.name) : '');
        const waits = column && column.isWait ? kind.values[column.at].data[row] / 1e6 / Math.max(kind.values[count]?.data[row] || 1, 1) : 0;
        starts[i] = Math.max(waits > tick.end - tick.start ? tick.end - waits : tick.start, from);
    }
    return {starts, ends, state};
}

/* The node of a row, where its stack ends at the program's own code. */
function ownFrame(kind, row) {
    if (ownFrame.key !== model.nNodes)
        [ownFrame.key, ownFrame.own] = [model.nNodes, folds.ownFolded()];
    return model.frames.items[model.frame.data[ownFrame.own[kind.node.data[row]]]];
}
ownFrame.key = -1;
ownFrame.own = /** @type {any} */ (null);

const lanesNow = /** @type {any} */ ({});

function drawLanes(kind) {
    const isShown = kind.name === HEAT_KIND && folds.labelKeys(kind).includes(THREAD_LABEL);
    byId('lanesBox').hidden = !isShown;
    if (!isShown)
        return;
    const {lanes: all, ofRow} = lanesOf(kind), [first, last] = extent(kind), from = Math.max(state.from, first), to = Math.min(state.to, last);
    const nEnd = lowerBound(kind.ticks, t => t.start > to), [begin, end] = kind.rowsOfTicks(lowerBound(kind.ticks, t => t.end > from), nEnd), dark = isDark();
    const {starts, ends, state: states} = eventsOf(kind, begin, end, first), chosen = labelsNow().find(([key]) => key === THREAD_LABEL);
    const lane = ofRow.subarray(begin, end).map((at, i) => (states[i] ? at : -1)), byState = state.lanes === 'state';
    const largest = largestOf(kind, begin, states, starts, ends), rank = new Map(largest.map((frame, i) => [frame.name, i]));
    const palette = Array.from({length: largest.length + 1}, (_, i) => layerColour(i, largest.length + 1)), ofState = new Map([...new Set(states)].map(name => [name, stateColour(name)]));
    const colourOf = i => (byState || states[i] === 'sleep' ? ofState.get(states[i]) : palette[rank.get(ownFrame(kind, begin + i).name) ?? largest.length]);
    const legend = byState ? [...Object.keys(STATE_COLOURS), ...statesNow().filter(name => !STATE_COLOURS[name])].filter(name => states.includes(name)).map(name => ({name, colour: stateColour(name)})) :
        [...largest.map((frame, i) => ({name: frame.name, colour: palette[i]})), ...(states.includes('sleep') ? [{name: 'idle', colour: stateColour('sleep')}] : [])];
    Object.assign(lanesNow, {kind, begin, states, starts, ends});
    lanes.show({lanes: all.map(l => ({...l, isChosen: chosen && chosen[1] === l.id})), from, to: Math.max(to, from + 1), dark,
                events: {n: end - begin, lane, from: starts, to: ends, colour: colourOf, isThin: i => states[i] === 'lock' || states[i] === 'sleep'}});
    fillSelect('lanesBy', [['function', 'function'], ['state', 'state']], state.lanes);
    fillLegend('lanesLegend', legend);
    byId('lanesNote').textContent = `thin: it waits${lanes.nMore > 0 ? `; ${lanes.nMore} more threads` : ''}`;
}

/* One frame each of the functions with the most time in the lanes; idle time does not count. */
function largestOf(kind, begin, states, starts, ends) {
    const sums = new Map();
    states.forEach((name, i) => {
        if (!name || name === 'sleep')
            return;
        const frame = ownFrame(kind, begin + i), sum = sums.get(frame.name) || sums.set(frame.name, {frame, ms: 0}).get(frame.name);
        sum.ms += ends[i] - starts[i];
    });
    return [...sums.values()].sort((a, b) => b.ms - a.ms).slice(0, LANE_COLOURS).map(({frame}) => frame);
}

function pickLane(lane) {
    setLabel(THREAD_LABEL, labelsNow().some(([key, value]) => key === THREAD_LABEL && value === lane.id) ? undefined : lane.id);
}

function laneTip(found, event) {
    if (!found)
        return void showTip([], event);
    const {kind, begin, states, starts, ends} = lanesNow, {row} = found, at = new Date(found.ms);
    const lines = [found.lane.name, `${formatTime(found.ms, true)}.${String(at.getMilliseconds()).padStart(3, '0')}`];
    if (row >= 0)
        lines.push(`${states[row]}: ${ownFrame(kind, begin + row).name}`, ends[row] - starts[row] > 20 ? `for ${formatValue((ends[row] - starts[row]) * 1e6, 'nanoseconds')}` : 'within 20 ms',
                   ...model.labelSets.items[kind.labels.data[begin + row]].filter(([key]) => key !== THREAD_LABEL).map(([key, value]) => `${key} ${value}`));
    showTip(lines, event);
}
