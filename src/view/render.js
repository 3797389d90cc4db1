/* SPDX-License-Identifier: MIT */
/*
 * render.js - draws the page from its state: controls, chart, and the one view that is open.
 */
const flame = new Flame(byId('flame'), {onPick: crumbs, onHover: tip});
const callers = new Flame(byId('callers'), {onPick: () => {}, onHover: (node, event) => tip(node, event, callers)});
const chart = new Chart(byId('chart'), (from, to) => setRange(from, to));
const table = new Table(byId('table'), row => {
    if (['function', 'line'].includes(state.by) || state.by === 'file' || state.by === 'library')
        set({search: `^${escapeRegex(state.by === 'line' ? row.name.split(' ')[0] : row.name)}$`, view: 'flame'});
});
const waiters = new Table(byId('waiters'), row => set({kind: 'block', type: 'delay', view: 'flame', search: `^${escapeRegex(row.name)}$`}));
const holders = new Table(byId('holders'), row => set({kind: 'mutex', type: 'delay', view: 'flame', search: `^${escapeRegex(row.name)}$`}));
const partners = new Table(byId('pairs'), row => set({kind: PARTNERS[state.kind].kind, type: 'delay', search: `^${escapeRegex(row.leaf)}$`}));
const leaks = new Table(byId('leaks'), row => set({search: `^${escapeRegex(row.name)}$`, only: true, view: 'flame'}));

function escapeRegex(text) {
    return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

function set(changes) {
    Object.assign(state, changes);
    render();
}

function setRange(from, to) {
    set({from, to});
}

function render() {
    const kind = kindNow();
    if (!kind)
        return;
    if (typeIndex() < 0)
        state.type = (kind.types.find(t => t.type === HEAP_DEFAULT) || kind.types.find(t => t.type === 'delay') ||
                      kind.types[kind.types.length - 1]).type;
    stateToFragment();
    document.documentElement.classList.toggle('dark', dark);
    controls(kind);
    drawChart(kind);
    for (const view of Object.keys(VIEWS))
        byId(`${view}View`).hidden = view !== state.view;
    ({flame: drawFlame, table: drawTable, locks: drawLocks, leaks: drawLeaks, info: drawInfo})[state.view]();
}

function controls(kind) {
    fillTabs('kinds', [...model.kinds.keys()].sort((a, b) => KINDS.indexOf(a) - KINDS.indexOf(b)).map(k => [k, k]), state.kind, k => set({kind: k, type: '', charted: ''}));
    const views = Object.entries(VIEWS).filter(([v]) => (v !== 'locks' || model.kinds.has('block') || model.kinds.has('mutex')) &&
                                                        (v !== 'leaks' || state.kind === 'heap'));
    fillTabs('tabs', views, state.view, v => set({view: v}));
    fillSelect('type', kind.types.map(t => [t.type, t.type]), state.type);
    const isLevel = kind.isLevel[typeIndex()];
    fillSelect('mode', isLevel ? [['level', 'at the end of the range'], ['retained', 'retained within the range']] :
        [['sum', 'the range']], modeNow());
    fillSelect('charted', kind.types.map(t => [t.type, kind.isLevel[kind.types.indexOf(t)] ? `${t.type} (and RSS)` : `${t.type} per second`]),
               state.charted || state.type);
    fillSelect('process', [[-1, 'all'], ...model.processes.items.map((p, i) => [i, processName(p)])], state.process);
    byId('processLabel').hidden = model.processes.items.length < 2;
    fillSelect('by', ['function', 'line', 'file', 'library', 'process', ...folds.labelKeys(kind).map(k => `label ${k}`)].map(b => [b, b]), state.by);
    for (const [id, on] of [['only', state.only], ['fold', state.fold], ['invert', state.invert], ['order', state.heavy], ['up', state.up],
                            ['idle', state.idle], ['even', state.even], ['compare', Boolean(state.a)]])
        byId(id).setAttribute('aria-pressed', String(on));
    byId('even').hidden = !state.a || modeNow() === 'level';
    byId('idle').hidden = state.kind !== 'block';
    byId('fold').hidden = state.kind !== 'heap' && !folds.interpreter();
    byId('peak').hidden = state.kind !== 'heap';
    if (byId('search').value !== state.search)
        byId('search').value = state.search;
    byId('search').setAttribute('aria-invalid', String(Boolean(state.search) && !searchRegex()));
    const [first, last] = extent(kind);
    const from = Math.max(state.from, first), to = Math.min(state.to, last);
    const words = `${formatTime(from, true)} to ${formatTime(to, new Date(from).toDateString() !== new Date(to).toDateString())} (${formatValue((to - from) * 1e6, 'nanoseconds')})`;
    byId('range').textContent = state.a ? `A: ${formatTime(Math.max(state.a.from, first))} to ${formatTime(Math.min(state.a.to, last))}; B: ${words}` : words;
}

/* Elements are replaced only if their choices change, so that a list that is open on the screen does not close. */
function isFilled(id, items, chosen) {
    const box = byId(id), text = JSON.stringify([items, String(chosen)]);
    const same = box.dataset.items === text;
    box.dataset.items = text;
    return same;
}

function fillTabs(id, items, chosen, onChoose) {
    if (isFilled(id, items, chosen))
        return;
    const focused = byId(id).contains(document.activeElement);
    byId(id).replaceChildren(...items.map(([value, name]) => element('button', {
        role: 'tab', 'aria-selected': String(value === chosen), 'data-value': value, onclick: () => onChoose(value)}, name)));
    if (focused)
        byId(id).querySelector('[aria-selected=true]').focus();
}

function fillSelect(id, items, chosen) {
    if (isFilled(id, items, ''))
        return void (byId(id).value = String(chosen));
    byId(id).replaceChildren(...items.map(([value, name]) => element('option', {value: String(value), selected: String(value) === String(chosen)}, name)));
    byId(id).value = String(chosen);
}

function drawChart(kind) {
    const name = state.charted || state.type;
    const type = Math.max(kind.types.findIndex(t => t.type === name), 0);
    const isLevel = kind.isLevel[type];
    const unit = kind.types[type].unit;
    const layers = [], lines = [];
    const {names, values} = roots(kind, type);
    names.forEach((label, i) => layers.push({name: label, colour: layerColour(i), values: values[i]}));
    if (isLevel && unit === 'bytes' && kind.ticks.some(t => t.rss)) {
        lines.push({name: 'RSS', colour: dark ? '#fff' : '#000', values: carried(kind.ticks.map(t => (t.rss ? t.rss.rss : NaN)))});
        lines.push({name: 'anonymous RSS', colour: dark ? '#aaa' : '#777', values: carried(kind.ticks.map(t => (t.rss ? t.rss.anon : NaN)))});
    }
    const shade = alpha => (dark ? `rgba(111,195,255,${alpha})` : `rgba(0,103,165,${alpha})`);
    const ranges = Number.isFinite(state.from) || Number.isFinite(state.to) ? [{from: state.from, to: state.to, colour: shade(0.2)}] : [];
    if (state.a)
        ranges.push({from: state.a.from, to: state.a.to, colour: 'rgba(230,159,0,0.3)'});
    chart.show({ticks: kind.ticks, layers, lines, unit, rate: !isLevel, ranges, dark});
    byId('legend').replaceChildren(...[...layers, ...lines].map(item => {
        const swatch = element('i');
        swatch.style.background = item.colour;
        return element('span', {}, swatch, item.name);
    }));
}

function carried(values) {
    let last = 0;
    return values.map(v => (Number.isNaN(v) ? last : (last = v)));
}

/*
 * The largest branches of the tree, to be stacked in the chart, below the stem that all stacks share. {names, values: by layer
 * and tick}; the last layer is the rest.
 */
function roots(kind, type) {
    const without = withoutNow();
    const key = `${state.kind} ${type} ${model.version} ${state.process} ${JSON.stringify(without)}`;
    if (roots.key === key)
        return roots.found;
    const size = new Float64Array(model.nNodes);
    const data = kind.values[type].data, node = kind.node.data, tick = kind.tick.data, labels = kind.labels.data;
    const passes = folds.labelFilter(without);
    for (let i = 0; i < kind.nRows; i++)
        if (passes[labels[i]] && (state.process < 0 || kind.ticks[tick[i]].process === state.process))
            size[node[i]] += Math.abs(data[i]);
    const parent = model.parent.data;
    const total = Float64Array.from(size);
    for (let i = model.nNodes - 1; i > 0; i--)
        total[parent[i]] += total[i];
    const whole = total[0];
    const callees = of => {
        const found = [];
        for (let i = of + 1; i < model.nNodes; i++)
            if (parent[i] === of && total[i] > 0)
                found.push(i);
        return found.sort((x, y) => total[y] - total[x]);
    };
    let stem = -1;
    let branches = [0];
    while (total[branches[0]] >= whole * STEM_SHARE) {
        const next = callees(branches[0]);
        if (!next.length)
            break;
        stem = branches[0];
        branches = next;
    }
    const shown = branches.slice(0, LAYERS_SHOWN);
    const rest = shown.length;
    const layerOf = new Int32Array(model.nNodes).fill(rest);
    for (let i = stem + 1; i < model.nNodes; i++) {
        const at = shown.indexOf(i);
        layerOf[i] = at >= 0 ? at : layerOf[parent[i]];
    }
    roots.key = key;
    const names = [...distinctNames(shown.map(b => model.frames.items[model.frame.data[b]])), 'rest'];
    roots.found = {names, values: perTick(kind, type, layerOf, names.length)};
    return roots.found;
}

/* The frames' names; a name that occurs twice gets the line. */
function distinctNames(frames) {
    return frames.map(f => (f.line && frames.some(g => g !== f && g.name === f.name) ? `${f.name}:${f.line}` : f.name));
}

function layerColour(i) {
    const [hue, saturation] = i < (roots.found ? roots.found.names.length - 1 : 0) ? HUES[i] : [0, 0];
    return `hsl(${hue},${saturation}%,${dark ? 45 : 62}%)`;
}
