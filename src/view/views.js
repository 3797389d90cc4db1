/* SPDX-License-Identifier: MIT */
/*
 * views.js - what stands below the chart: flame graph, tables, locks, and what the profiles say of themselves.
 */
function drawFlame() {
    const frames = model.frames.items;
    let tree = treeNow();
    byId('sourceBox').hidden = !model.sources.size; /* before the graph measures its place */
    const lens = lensNow();
    const room = (window.innerHeight - document.querySelector('nav').offsetHeight - 60) / (state.focus ? 2 : 1);
    const options = {order: state.heavy ? 'heavy' : 'name', up: state.up, lines: state.lines, room, dark: isDark(), lens, empty: emptyWords()};
    const box = byId('callersBox');
    box.hidden = !state.focus;
    flame.unit = unitNow();
    flame.whole = tree.total[0];
    flame.wholeB = tree.totalB ? tree.totalB[0] : 0;
    flame.freed = tree.freed || 0;
    if (state.focus) {
        const [callees, above] = folds.around(tree, state.focus);
        callers.unit = flame.unit;
        callers.whole = flame.whole;
        callers.show(above, named(frames, state.focus), {...options, up: true});
        tree = callees;
        flame.show(tree, named(frames, state.focus), {...options, up: false}, state.zoom);
    } else {
        if (state.invert)
            tree = folds.inverted(tree);
        flame.show(tree, frames, options, state.zoom);
    }
    if (tree.totalB)
        fillLegend('lensLegend', [[0, 1, 'only in B, or more'], [1, 0, 'only in A, or less'], [1, 1, 'the same']].map(([a, b, name]) => ({name, colour: changeColour(a, b, options.dark)})));
    else
        fillLegend('lensLegend', lens ? lens.legend() : [], lens ? `${lens.words}:` : '');
    byId('flameWords').textContent = wordsOfFlame();
    drawChanges(tree);
    const search = searchNow(), matching = search ? folds.matches(search) : null;
    if (matching || flame.matching)
        flame.search(matching);
    byId('matched').textContent = matching ? `${formatShare(matchedValue(tree, matching), tree.total[0])} match` : '';
    crumbs(flame.zoom);
}

/* What the boxes are. */
function wordsOfFlame() {
    const {to} = state, [, last] = extent(kindNow()), end = formatTime(Math.min(to, last)), type = TYPE_WORDS[state.type] || state.type;
    const of = {level: `${type} at ${end}`, retained: `${type} at ${end} that the range added`, kept: `${type} that the range added and that was still in use later`, sum: `${type} in the range`}[modeNow()];
    const by = state.focus ? `callers of ${state.focus} above, callees below` : state.invert ? 'callers below callees' : state.up ? 'callees above callers' : 'callees below callers';
    return `${state.kind === 'mutex' && state.type === 'delay' ? 'time that others waited for locks held here, in the range' : of}; a box is as wide as its value, ${by}`;
}

const NO_MATCH = 'nothing in this range matches: clear the search';

/**
 * Why there is nothing to show, and what to do.
 * @param {string} kindName
 * @param {{from: number, to: number}} range
 * @param {any} search truthy: it hides rows
 */
function emptyWords(kindName = state.kind, range = state, search = state.view === 'flame' && filterNow()) {
    const kind = model.kinds.get(kindName), [first, last] = kind.ticksWithin(range.from, range.to);
    if (first === last)
        return `no ${kindName} profile ends in this range: choose a longer one, or "whole"`;
    if (IDLE_OF[kindName] && state.idle && passesIdle(kind, IDLE_OF[kindName], first, last))
        return 'only idle waits: "hide idle" leaves them out; a click on it shows them';
    const isWhole = range.from === -Infinity && range.to === Infinity;
    return search || labelsOf(kindName).length ? `${NO_MATCH}, "only" and labels` :
        isWhole ? 'nothing was recorded: choose another kind or value' : 'nothing in this range: choose another one, or "whole"';
}

/* Whether there are idle waits within these ticks. */
function passesIdle(kind, {key, values}, first, last) {
    const idle = folds.labelValues(key).map(value => values.includes(value)), [begin, end] = kind.rowsOfTicks(first, last);
    return kind.labels.data.subarray(begin, end).some(labels => idle[labels]);
}

/* The frames with another name for the root. */
function named(frames, name) {
    const copy = frames.slice();
    copy[0] = {...copy[0], name};
    return copy;
}

function matchedValue(tree, matching) {
    const has = new Uint8Array(tree.n);
    let sum = 0;
    for (let i = 1; i < tree.n; i++) {
        has[i] = has[tree.parent[i]] | matching[tree.frame[i]];
        if (has[i])
            sum += tree.self[i];
    }
    return sum;
}

/* The function between callers and callees: of the chosen box, the one that is searched for by its whole name, or the one with the most. */
function filling() {
    const {tree, frames} = flame, search = searchNow(), names = search ? new Set(frames.filter(search.test).map(f => f.name)) : new Set();
    if (flame.zoom)
        return frames[tree.frame[flame.zoom]].name;
    return names.size === 1 ? [...names][0] : folds.table(treeNow(), 'function').reduce((most, row) => (row.flat + row.flatB > most.flat + most.flatB ? row : most), {name: '', flat: 0, flatB: 0}).name;
}

/* A node, what can be done with it, and its callers; of the graph of callers, its callees down to the chosen function. */
function crumbs(node, of = flame) {
    const {tree, frames, unit} = of;
    const path = [];
    for (let i = node; i > 0; i = tree.parent[i])
        path.push(frames[tree.frame[i]].name);
    const words = tree.totalB ? `A ${formatValue(tree.total[node], unit)}${state.even && modeNow() !== 'level' ? ' (as if as long as B)' : ''}, B ${formatValue(tree.totalB[node], unit)}` :
        `${formatValue(tree.total[node], unit)} ${formatShare(tree.total[node], flame.whole)}`;
    const exact = [tree.total[node], ...(tree.totalB ? [tree.totalB[node]] : [])].map(Math.round).join(' ');
    const children = [...(state.focus && !node ? [`${state.focus}: `] : []), element('b', {id: 'shown', title: exact}, words)];
    if (node === 0 && flame.freed && !filterNow())
        children.push(`  (and ${formatValue(flame.freed, unit)} less than at the begin)`);
    if (state.focus)
        children.push('  ', element('button', {id: 'unfocus', onclick: () => set({focus: '', zoom: ''})}, 'all stacks'));
    if (node)
        children.push('  ', element('button', {id: 'focus', onclick: () => set({focus: path[0], zoom: ''}), title: 'its callers above, its callees below'}, 'sandwich'),
                      '  ', element('button', {id: 'unzoom', onclick: () => { of.reset(); of.onPick(0); }, title: 'Escape'}, 'whole width'), `  ${path.join(of === flame ? ' ‹ ' : ' › ')}`);
    refill(byId('crumbs'), ...children);
    byId('crumbs').title = path.join('\n');
    const chosen = node ? frames[tree.frame[node]] : state.focus ? model.frames.items.find(f => f.name === state.focus && model.sources.has(f.file)) : null;
    drawSource(chosen);
    if (of === flame)
        drawPairs(path.slice().reverse());
}

function tip(node, event, of = flame) {
    if (node < 0)
        return void showTip([], event);
    const {tree, frames} = of;
    const frame = frames[tree.frame[node]];
    const lines = [frame.name], at = state.lines ? [frame.line].filter(line => line) : folds.linesOf(tree.frame[node]);
    if (frame.file)
        lines.push(`${frame.file}${at.length === 1 ? `:${at[0]}` : at.length ? `, lines ${at.slice(0, 6).join(', ')}${at.length > 6 ? ', …' : ''}` : ''}`);
    if (frame.library)
        lines.push(frame.library);
    if (tree.totalB)
        lines.push(`A ${formatValue(tree.total[node], of.unit)}   B ${formatValue(tree.totalB[node], of.unit)}   ${
            tree.totalB[node] >= tree.total[node] ? '+' : ''}${formatValue(tree.totalB[node] - tree.total[node], of.unit)}`);
    else
        lines.push(`${formatValue(tree.total[node], of.unit)} ${formatShare(tree.total[node], of.whole)}`,
                   `itself ${formatValue(tree.self[node], of.unit)}`);
    if (of.options.lens && tree.extraTotal)
        lines.push(...of.options.lens.lines(tree, node));
    showTip(lines, event);
    if (event.byKey)
        byId('spoken').textContent = lines.join(', ');
}

function showTip(lines, event) {
    const box = byId('tip');
    box.hidden = !lines.length;
    if (box.hidden)
        return;
    box.textContent = lines.join('\n');
    const width = Math.min(480, window.innerWidth / 2);
    box.style.maxWidth = `${width}px`;
    box.style.left = `${Math.min(event.clientX + 12, window.innerWidth - width - 8)}px`;
    box.style.top = `${Math.max(Math.min(event.clientY + 14, window.innerHeight - box.offsetHeight - 4), 0)}px`;
}

function valueColumns(unit, compared) {
    const number = (name, value, title) => ({name, isNumber: true, value, text: r => formatValue(value(r), unit), title});
    if (compared)
        return [number('change', r => r.flatB - r.flat, 'B minus A, of the function itself'), number('A', r => r.flat), number('B', r => r.flatB),
                number('change with callees', r => r.cumB - r.cum)];
    return [number('flat', r => r.flat, 'of the function itself'), number('cum', r => r.cum, 'with all that it called')];
}

const CHANGES_SHOWN = 12;

/* Of two ranges, the functions whose own values differ most, in either direction. */
function drawChanges(tree) {
    byId('changesBox').hidden = !tree.totalB;
    if (!tree.totalB)
        return;
    const change = r => r.flatB - r.flat, unit = unitNow();
    const rows = folds.table(tree, 'function').filter(change).sort((r, s) => Math.abs(change(s)) - Math.abs(change(r)));
    const number = (name, value) => ({name, isNumber: true, value, text: r => formatValue(value(r), unit)});
    const columns = [{name: 'change', isNumber: true, value: r => Math.abs(change(r)), exact: r => String(Math.round(change(r))), text: r => `${change(r) > 0 ? '+' : ''}${formatValue(change(r), unit)}`,
                      class: r => `number ${change(r) > 0 ? 'more' : 'less'}`},
                     number('A', r => r.flat), number('B', r => r.flatB),
                     {name: 'times', isNumber: true, value: r => (r.flat > 0 ? r.flatB / r.flat : Infinity), text: r => (r.flat > 0 ? (r.flatB > 0 ? (r.flatB > r.flat * 1000 ? 'x > 1000' : `x ${trimmed(r.flatB / r.flat)}`) : 'gone') : 'new')},
                     {name: 'name', value: r => r.name, text: r => r.name}];
    byId('changesTitle').textContent = rows.length ? `what changed most: ${Math.min(rows.length, CHANGES_SHOWN)} of ${rows.length} functions` : 'nothing changed';
    if (['from', 'to', 'process'].every(key => state.a[key] === state[key]))
        byId('changesTitle').replaceChildren('A and B are the same: choose B, drag on the chart; or ', element('button', {title: 'A: the first half of this range, B: the second one', onclick: compareHalves}, 'first half against second half'));
    changed.show(columns, rows.slice(0, CHANGES_SHOWN), 'change');
}

function compareHalves() {
    const [first, last] = extent(kindNow()), from = Math.max(state.from, first), to = Math.min(state.to, last), middle = Math.round((from + to) / 2);
    setRange(middle, state.to, {a: {...state.a, to: middle}});
}

function drawTable() {
    const tree = treeNow();
    const rows = state.by.startsWith('label ') || state.by === 'process' ?
        folds.tableByLabel(queryNow(), state.by === 'process' ? 'process' : state.by.slice(6)) : folds.table(tree, state.by);
    const search = searchNow();
    const shown = search && (!search.of || search.of === state.by) ? rows.filter(r => search.says(r.name)) : rows;
    const columns = valueColumns(unitNow(), Boolean(state.a)), lens = lensNow(), isTree = rows.every(r => r.extra.length);
    const share = state.a ? [] : [{name: '%', isNumber: true, value: r => r.flat, text: r => formatShare(r.flat, tree.total[0])}];
    table.order = state.sort;
    table.empty = emptyWords(state.kind, state, search);
    table.show([columns[0], ...share, ...columns.slice(1), ...(lens && isTree ? lens.columns() : []), {name: 'name', value: r => r.name, text: r => r.name}], shown,
               columns[0].name);
}

function drawInfo() {
    const kind = kindNow();
    const [from, to] = extent(kind);
    byId('info').replaceChildren(element('pre', {}, [
        `${kind.ticks.length} ${kind.name} ${kind.ticks.length === 1 ? 'profile' : 'profiles'}, ${formatTime(from, true)} to ${formatTime(to, true)}`,
        `${kind.nRows} rows, ${model.nNodes - 1} stacks, ${model.frames.items.length - 1} frames`,
        `processes: ${model.processes.items.map(processName).join(', ') || 'unknown'}`,
    ].join('\n')));
    const [first, last] = kind.ticksWithin(state.from, state.to);
    const values = perTick(kind, typeIndex())[0], members = model.groups.members(state.process);
    const rows = kind.ticks.map((tick, i) => ({...tick, value: values[i]})).slice(first, last).filter(t => !(t.marks & 4) && (!members || members[t.process]));
    const bytes = (name, value) => ({name, isNumber: true, value: r => (r.rss ? value(r) : -1), text: r => (r.rss ? formatValue(value(r), 'bytes') : '')});
    const number = (name, value, text) => ({name, isNumber: true, value, text});
    ticks.show([number('end', r => r.end, r => formatTime(r.end, true)), number('length', r => r.end - r.start, r => formatValue((r.end - r.start) * 1e6, 'nanoseconds')),
                number(state.type, r => r.value, r => formatValue(r.value, unitNow())),
                ...(rows.some(r => r.rss) ? [bytes('RSS', r => r.rss.rss), bytes('anonymous', r => r.rss.anon)] : []),
                ...(model.processes.items.length > 1 ? [{name: 'process', value: r => processName(model.processes.items[r.process]), text: r => processName(model.processes.items[r.process])}] : []),
                {name: 'comments', value: r => r.comments.join('; '), text: r => r.comments.join('; ')}], rows, 'end');
}
