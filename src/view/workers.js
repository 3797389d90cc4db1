/* SPDX-License-Identifier: MIT */
/*
 * workers.js - a row for each process, with what each kind of profile says of it in the chosen range. A click shows that process alone.
 */
const workers = new Table(byId('workers'), row => set({process: row.process, view: 'flame'}));

/* By process, the sum of a flow over the ticks of the range; of a level the value at the end, and the highest one. */
function byProcess(kindName, type, passes = passesNow(kindName)) {
    const kind = model.kinds.get(kindName), index = kind ? kind.types.findIndex(t => t.type === type) : -1;
    if (index < 0)
        return null;
    const isLevel = kind.isLevel[index], [first, last] = kind.ticksWithin(state.from, state.to), [begin, end] = kind.rowsOfTicks(isLevel ? 0 : first, last);
    const n = model.processes.items.length, now = new Float64Array(n), most = new Float64Array(n), before = new Float64Array(n);
    const values = kind.values[index].data, tick = kind.tick.data, labels = kind.labels.data, firstTick = new Int32Array(n).fill(-1);
    const close = process => { most[process] = Math.max(most[process], now[process]); };
    for (let i = begin, at = -1; i < end; i++) {
        const of = kind.ticks[tick[i]].process;
        if (passes && !passes[labels[i]])
            continue;
        if (tick[i] !== at && at >= first)
            close(kind.ticks[at].process);
        at = tick[i];
        if (firstTick[of] < 0 && at >= first)
            firstTick[of] = at;
        now[of] += values[i];
        if (at < first || at === firstTick[of])
            before[of] = now[of];
    }
    for (let of = 0; of < n; of++)
        close(of);
    return {now, most, before};
}

/* By process, the function with the largest value of a kind: of locks, the one that made others wait. */
function worstByProcess(kindName) {
    const kind = model.kinds.get(kindName), found = [];
    if (!kind)
        return found;
    const type = kind.types.findIndex(t => t.type === 'delay');
    for (let process = 0; process < model.processes.items.length; process++) {
        const tree = folds.tree({kind: kindName, type, mode: 'sum', from: state.from, to: state.to, process, fold: true, own: true, brief: true, passes: passesNow(kindName)});
        found.push(folds.table(tree, 'function').reduce((worst, row) => (row.flat > worst.flat ? row : worst), {flat: 0, name: ''}).name);
    }
    return found;
}

function lifeOf(process) {
    let first = Infinity, last = -Infinity;
    for (const kind of model.kinds.values())
        for (const tick of kind.ticks)
            if (tick.process === process) {
                first = Math.min(first, tick.start);
                last = Math.max(last, tick.end);
            }
    return {first, last};
}

function drawWorkers() {
    const heap = byProcess('heap', HEAP_DEFAULT), allocated = byProcess('heap', 'alloc_space'), cpu = byProcess('cpu', 'cpu');
    const held = byProcess('mutex', 'delay'), worst = held ? worstByProcess('mutex') : [];
    const rows = model.processes.items.map((of, process) => ({...of, ...lifeOf(process), process, name: processName(of)})).filter(row => row.last > -Infinity);
    const number = (name, value, unit, title) => ({name, isNumber: true, value, text: row => formatValue(value(row), unit), title});
    const columns = [{name: 'process', value: r => r.name, text: r => r.name, class: () => 'name'},
                     {name: 'since', isNumber: true, value: r => r.first, text: r => formatTime(r.first)},
                     number('age', r => (r.last - r.first) * 1e6, 'nanoseconds', 'from its first tick to its last')];
    if (heap)
        columns.push(number('in use', r => heap.now[r.process], 'bytes', 'at the end of the range'), number('most', r => heap.most[r.process], 'bytes', 'in use at one tick of the range'),
                     number('growth', r => heap.now[r.process] - heap.before[r.process], 'bytes', 'since its first tick in the range'));
    if (allocated)
        columns.push(number('allocated', r => allocated.now[r.process], 'bytes', 'in the range'));
    if (cpu)
        columns.push(number('CPU', r => cpu.now[r.process], 'nanoseconds', 'CPU time in the range'));
    if (held)
        columns.push(number('locks', r => held.now[r.process], 'nanoseconds', 'time that its lock holders cost other threads'),
                     {name: 'worst lock holder', value: r => worst[r.process], text: r => worst[r.process], class: () => 'name'});
    workers.show(columns, rows, heap ? 'in use' : cpu ? 'CPU' : 'process');
}
