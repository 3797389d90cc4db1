/* SPDX-License-Identifier: MIT */
/*
 * workers.js - a row for each process, with what each kind of profile says of it in the chosen range, one for each program or directory with
 * several processes, and one for each thread. A click shows the row's part alone.
 */
const workers = new Table(byId('workers'), row => set({process: row.choice, view: 'flame'}));
const threads = new Table(byId('threads'), row => pickThread(row));

/* By process, the sum of a flow over the ticks of the range; of a level the value at the end, or before the process's exit, and the highest one. */
function byProcess(kindName, type, passes = passesNow(kindName)) {
    const kind = model.kinds.get(kindName), index = kind ? kind.types.findIndex(t => t.type === type) : -1;
    if (index < 0)
        return null;
    const isLevel = kind.isLevel[index], [first, last] = kind.ticksWithin(state.from, state.to), [begin, end] = kind.rowsOfTicks(isLevel ? 0 : first, last);
    const n = model.processes.items.length, now = new Float64Array(n), most = new Float64Array(n), before = new Float64Array(n);
    const values = kind.values[index].data, tick = kind.tick.data, labels = kind.labels.data, firstTick = new Int32Array(n).fill(-1), lastTick = new Int32Array(n), mostAt = new Float64Array(n);
    const ends = isLevel && state.to === Infinity ? kind.lastTicks() : null;
    const close = process => {
        if (now[process] > most[process])
            [most[process], mostAt[process]] = [now[process], kind.ticks[lastTick[process]].end];
    };
    for (let i = begin, at = -1; i < end; i++) {
        const of = kind.ticks[tick[i]].process;
        if ((passes && !passes[labels[i]]) || (ends && ends.ended[of] & 3 && tick[i] > ends.last[of]))
            continue;
        if (tick[i] !== at && at >= first)
            close(kind.ticks[at].process);
        at = tick[i];
        if (firstTick[of] < 0 && at >= first)
            firstTick[of] = at;
        lastTick[of] = tick[i];
        now[of] += values[i];
        if (at < first || at === firstTick[of])
            before[of] = now[of];
    }
    for (let of = 0; of < n; of++)
        close(of);
    return {now, most, mostAt, before};
}

/* By choice of processes, the function with the largest value of a kind: of locks, the one that made others wait. */
function worstOf(kindName, choice) {
    const kind = model.kinds.get(kindName), type = kind.types.findIndex(t => t.type === 'delay');
    const tree = folds.tree({kind: kindName, type, mode: 'sum', from: state.from, to: state.to, process: choice, fold: true, own: true, brief: true, passes: passesNow(kindName)});
    return folds.table(tree, 'function').reduce((worst, row) => (row.flat > worst.flat ? row : worst), {flat: 0, name: ''}).name;
}

/* By process: its first and last time, and its resident memory at the end of the range, {rss, anon} or null. */
function livesOf() {
    const lives = model.processes.items.map(() => ({first: Infinity, last: -Infinity, rss: null}));
    for (const kind of model.kinds.values())
        for (const tick of kind.ticks) {
            const life = lives[tick.process];
            life.first = Math.min(life.first, tick.start);
            life.last = Math.max(life.last, tick.end);
            if (tick.rss && tick.end <= state.to)
                life.rss = tick.rss;
        }
    return lives;
}

/* Of several processes: pages of files and shared memory count once, with the most that one process has. */
function residentOf(members, lives) {
    const known = members.map(i => lives[i].rss).filter(Boolean);
    return known.reduce((sum, {anon}) => sum + anon, 0) + Math.max(0, ...known.map(({rss, anon}) => rss - anon));
}

function drawWorkers() {
    const lives = livesOf(), held = byProcess('mutex', 'delay'), several = model.processes.items.length > 1;
    const here = model.processes.items.map((_, i) => i).filter(i => lives[i].last > -Infinity);
    const families = several ? [...model.groups.all.map(g => ({...g, name: g.name})), ...(here.length > 1 ? [{name: `all: ${here.length} processes`, choice: ALL, members: here}] : [])] : [];
    const rows = [...families, ...here.map(i => ({name: processName(model.processes.items[i]), choice: i, members: [i]}))]
        .map(row => ({...row, first: Math.min(...row.members.map(i => lives[i].first)), last: Math.max(...row.members.map(i => lives[i].last)), resident: residentOf(row.members, lives),
                      worst: held ? worstOf('mutex', row.choice) : ''}));
    const number = (name, value, unit, title) => ({name, isNumber: true, value, text: row => formatValue(value(row), unit), title});
    const sum = values => row => row.members.reduce((total, i) => total + values[i], 0);
    const columns = [{name: 'process', value: r => r.name, text: r => r.name, class: r => (r.members.length > 1 || r.choice < 0 ? 'name family' : 'name')},
                     {name: 'since', isNumber: true, value: r => r.first, text: r => formatTime(r.first)},
                     number('age', r => (r.last - r.first) * 1e6, 'nanoseconds', 'from its first tick to its last')];
    const heap = byProcess('heap', HEAP_DEFAULT);
    const ended = model.kinds.get('heap')?.lastTicks().ended, isEnded = row => row.members.every(i => ended[i] & 3 && lives[i].last <= state.to);
    const now = row => formatValue(sum(heap.now)(row), 'bytes'), isGone = row => isEnded(row) && !sum(heap.now)(row);
    if (heap)
        columns.push({...number('in use', sum(heap.now), 'bytes', 'at the end of the range'), text: row => (isGone(row) ? `ended, ${formatValue(sum(heap.most)(row), 'bytes')} at its most` : isEnded(row) ? `ended, ${now(row)}` : now(row))}, {...number('most', sum(heap.most), 'bytes', 'in use at one tick of the range, and when; of several processes, each at its own'), text: row => `${formatValue(sum(heap.most)(row), 'bytes')}${row.members.length === 1 && heap.most[row.members[0]] > 0 ? `, ${formatTime(heap.mostAt[row.members[0]])}` : ''}`},
                     (growth => ({...growth, text: row => (isGone(row) ? '' : growth.text(row))}))(number('growth', sum(heap.now.map((v, i) => v - heap.before[i])), 'bytes', 'since its first tick in the range')));
    if (rows.some(r => r.resident))
        columns.push(number('resident', r => r.resident, 'bytes', 'RSS at the end of the range; of several processes, what they share counts once'));
    for (const [name, kindName, type, unit, title] of [['allocated', 'heap', 'alloc_space', 'bytes', 'in the range'], ['CPU', 'cpu', 'cpu', 'nanoseconds', 'CPU time in the range'],
                                                       ['waited for locks', 'block', 'delay', 'nanoseconds', 'in the range'], ['locks', 'mutex', 'delay', 'nanoseconds', 'time that its lock holders cost other threads']]) {
        const found = byProcess(kindName, type);
        if (found)
            columns.push(number(name, sum(found.now), unit, title));
    }
    if (held)
        columns.push({name: 'worst lock holder', value: r => r.worst, text: r => r.worst, class: () => 'name'});
    byId('workersBox').hidden = !several;
    workers.show(columns, rows, heap ? 'in use' : model.kinds.has('cpu') ? 'CPU' : 'process');
    drawThreads();
}

/* ---- threads ---- */

/* The columns of threads: of events, by number; else of the kinds whose rows have the label `thread`, by name. */
function threadSources() {
    const columns = [['CPU', 'cpu', 'cpu', 'nanoseconds'], ['waited for locks', 'block', 'delay', 'nanoseconds'], ['held others up', 'mutex', 'delay', 'nanoseconds'],
                     ['in use', 'heap', HEAP_DEFAULT, 'bytes'], ['allocated', 'heap', 'alloc_space', 'bytes']];
    const events = model.kinds.get(HEAT_KIND), isById = events && folds.labelKeys(events).includes(THREAD_LABEL);
    const place = ([name, kindName, type, unit]) => {
        const of = isById ? HEAT_KIND : kindName, kind = model.kinds.get(of), index = kind ? kind.types.findIndex(t => t.type === (isById && kindName === 'mutex' ? 'mutex_delay' : type)) : -1;
        return {name, of, from: kindName, kind, index, unit, label: isById ? THREAD_LABEL : 'thread'};
    };
    return columns.map(place).filter(c => c.index >= 0 && folds.labelKeys(c.kind).includes(c.label));
}

const hasThreads = () => threadSources().length > 0;

function drawThreads() {
    const sources = threadSources(), rows = new Map(), members = model.groups.members(state.process);
    sources.forEach(({kind, of, from, index, label}, column) => {
        const ids = folds.labelValues(label), names = folds.labelValues('thread'), [first, last] = kind.ticksWithin(kind.isLevel[index] ? -Infinity : state.from, state.to);
        const [begin, end] = kind.rowsOfTicks(first, last), passes = passesNow(from), ends = kind.isLevel[index] && state.to === Infinity ? kind.lastTicks() : null;
        for (let i = begin; i < end; i++) {
            const tick = kind.tick.data[i], {process} = kind.ticks[tick], labels = kind.labels.data[i], id = ids[labels];
            if (id === null || (members && !members[process]) || (passes && !passes[labels]) || (ends && ends.ended[process] & 3 && tick > ends.last[process]))
                continue;
            const key = `${process} ${id}`, row = rows.get(key) || rows.set(key, {process, id, label, of, name: '', values: sources.map(() => 0)}).get(key);
            row.values[column] += kind.values[index].data[i];
            row.name = row.name || names[labels] || '';
        }
    });
    byId('threadsBox').hidden = !sources.length;
    if (!sources.length)
        return;
    const several = model.processes.items.length > 1;
    const isById = sources[0].label === THREAD_LABEL, known = isById ? new Map(lanesOf(sources[0].kind).lanes.map(lane => [`${lane.process} ${lane.id}`, lane])) : new Map();
    for (const [key, row] of rows)
        row.name = known.get(key)?.called || row.name;
    byId('threadsTitle').textContent = `threads${[...known.values()].some(lane => lane.isNamed) || !isById ? '' : ', by the first function of each; thread=on records their names'}`;
    threads.empty = 'no thread did anything in this range';
    threads.show([{name: 'thread', value: r => r.name, text: r => r.name || '(no name)', class: () => 'name'},
                  ...(isById ? [{name: 'id', isNumber: true, value: r => Number(r.id), text: r => r.id}] : []),
                  ...sources.map((source, i) => ({name: source.name, isNumber: true, value: r => r.values[i], text: r => formatValue(r.values[i], source.unit)})),
                  ...(several ? [{name: 'process', value: r => processName(model.processes.items[r.process]), text: r => processName(model.processes.items[r.process]), class: () => 'name'}] : [])],
                 [...rows.values()], sources[0].name);
}

/* In the kind that is shown, if its rows name threads so. */
function pickThread({process, id, label, of}) {
    const isHere = folds.labelKeys(kindNow()).includes(label);
    if (!isHere)
        setKind(of);
    Object.assign(state, {view: 'flame', process: model.processes.items.length > 1 ? process : state.process});
    setLabel(label, id);
}
