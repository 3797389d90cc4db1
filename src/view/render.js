/* SPDX-License-Identifier: MIT */
/*
 * render.js - draws the page from its state: controls, chart, and the one view that is open.
 */
const flame = new Flame(byId('flame'), {onPick: node => { set({zoom: flame.zoomText()}, false); crumbs(node); }, onHover: tip});
const callers = new Flame(byId('callers'), {onPick: node => crumbs(node, callers), onHover: (node, event) => tip(node, event, callers)});
const chart = new Chart(byId('chart'), {onRange: (from, to) => setRange(from, to), onHover: chartTip});
const heat = new Heat(byId('heat'), {onRange: (from, to) => setRange(from, to), onHover: heatTip});
const table = new Table(byId('table'), pickRow, order => set({sort: order}, false));
const waiters = new Table(byId('waiters'), row => set({kind: 'block', type: 'delay', view: 'flame', search: `^${escapeRegex(row.name)}$`}));
const holders = new Table(byId('holders'), row => set({kind: 'mutex', type: 'delay', view: 'flame', search: `^${escapeRegex(row.name)}$`}));
const partners = new Table(byId('pairs'), row => set({kind: PARTNERS[state.kind].kind, type: 'delay', search: `^${escapeRegex(row.leaf)}$`}));
const changed = new Table(byId('changes'), row => set({search: `^${escapeRegex(row.name)}$`}));
const leaks = new Table(byId('leaks'), row => set({...searchFor(row.name), view: 'flame', type: HEAP_DEFAULT, mode: 'retained', from: row.begin || -Infinity, to: leakRange().to, ...(row.process >= 0 ? {process: row.process} : {})}));
const ticks = new Table(byId('ticks'), row => setRange(Math.min(row.start, row.end - 1), row.end));

function escapeRegex(text) {
    return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

/* isSeen: something else than the link has to be drawn again. */
function set(changes, isSeen = true) {
    Object.assign(state, changes);
    if (isSeen)
        render();
    else
        stateToFragment();
}

/* Of the user's: it stays for other kinds. */
function setRange(from, to, changes = {}) {
    Object.assign(peaksShown, {b: null, isByHand: true});
    set({from, to, ...changes});
}

/* The range that the page chose itself, which is the heap's peak, is not kept for another kind; nor that of A, where two directories are compared. */
const peaksShown = {b: /** @type {number | null} */ (null), a: /** @type {number | null} */ (null), isByHand: false};
function fitRange(kind) {
    const toOf = ({from, to}, peak) => (peak !== null && from === -Infinity && (to === Infinity || to === peak) ? (kind === 'heap' ? peak : Infinity) : to);
    state.to = toOf(state, peaksShown.b);
    if (state.a)
        state.a = {...state.a, to: toOf(state.a, peaksShown.a)};
}

function setKind(kind, changes = {}) {
    fitRange(kind);
    set({kind, type: '', charted: '', layers: '', opened: 0, lens: '', zoom: '', ...(kind === state.kind ? {} : withoutWritten()), ...changes});
}

function setView(view) {
    const has = name => model.kinds.has(name);
    if (view === 'locks' && state.kind !== 'block' && state.kind !== 'mutex')
        setKind(has('block') ? 'block' : 'mutex', {view});
    else if ((view === 'leaks' || view === 'rss') && state.kind !== 'heap')
        setKind('heap', {view});
    else
        set({view, ...(view === state.view ? {} : withoutWritten())});
}

/* A row that is picked filters the flames. */
function pickRow(row) {
    if (state.by === 'process')
        set({process: row.value, view: 'flame'});
    else if (state.by.startsWith('label ')) {
        state.view = 'flame';
        setLabel(state.by.slice(6), row.value);
    } else {
        const of = state.by === 'file' || state.by === 'library' ? `${state.by}:` : '', name = state.by === 'line' ? row.name.replace(/ \S*:\d+$/, '') : row.name;
        set({search: `${of}^${name === `(no ${state.by})` ? '' : escapeRegex(name)}$`, view: 'flame'});
    }
}

function render() {
    const kind = kindNow();
    if (!kind)
        return;
    const offered = typesNow(kind);
    if (!offered.some(t => t.type === state.type))
        state.type = (offered.find(t => t.type === HEAP_DEFAULT) || (kind.name !== HEAT_KIND && offered.find(t => t.type === 'delay')) || (lensNow() && offered.find(t => t.type === 'alloc_space')) || offered[offered.length - 1]).type;
    stateToFragment();
    document.documentElement.classList.toggle('dark', isDark());
    drawSentences();
    drawGlance();
    controls(kind);
    const hasLanes = kind.name === HEAT_KIND && folds.labelKeys(kind).includes(THREAD_LABEL);
    byId('time').classList.toggle('aligned', hasLanes);
    if (hasLanes) /* a measured width costs a layout */
        byId('time').style.setProperty('--words', `${laneWordsPx(byId('time').clientWidth)}px`);
    drawChart(kind);
    drawHeat(kind);
    drawLanes(kind);
    byId('eventsNote').textContent = eventsWords(kind);
    for (const view of Object.keys(VIEWS))
        byId(`${view}View`).hidden = view !== state.view;
    document.documentElement.style.setProperty('--nav', `${document.querySelector('nav').offsetHeight}px`);
    ({flame: drawFlame, table: drawTable, locks: drawLocks, leaks: drawLeaks, rss: drawResident, workers: drawWorkers, info: drawInfo})[state.view]();
}

/* Kinds in the order of their table, then others. */
function kindPlace(name) {
    return KIND_NAMES.includes(name) ? KIND_NAMES.indexOf(name) : KIND_NAMES.length;
}

function controls(kind) {
    const heap = model.kinds.get('heap');
    const tabs = [...model.kinds.keys()].sort((a, b) => kindPlace(a) - kindPlace(b)).map(k => [k, k]);
    const lenses = heap ? Object.entries(LENSES).filter(([, lens]) => lens.isThere(heap)).map(([key, lens]) => [key, lens.name]) : [];
    tabs.splice(1 + tabs.findIndex(([k]) => k === 'heap'), 0, ...lenses);
    fillTabs('kinds', tabs, LENSES[state.lens] && lensNow() ? state.lens : state.kind, k => (LENSES[k] ? setKind('heap', {lens: k, a: null}) : setKind(k)));
    const views = Object.entries(VIEWS).filter(([v]) => (v !== 'locks' || KINDS.some(kind => kind.locks && model.kinds.has(kind.name))) &&
                                                        ((v !== 'leaks' && v !== 'rss') || heap) && (v !== 'workers' || model.processes.items.length > 1 || hasThreads()));
    for (const view of views)
        if (view[0] === 'workers' && model.processes.items.length < 2)
            view[1] = 'threads';
    if (!views.some(([v]) => v === state.view))
        state.view = 'flame';
    fillTabs('tabs', views, state.view, setView);
    fillSelect('type', typesNow(kind).map(t => [t.type, typeWords(t.type)]), state.type);
    const isLevel = kind.isLevel[typeIndex()];
    fillSelect('mode', isLevel ? [['level', 'the range\'s end'], ['retained', 'retained within'], ['kept', 'still there later']] :
        [['sum', 'the range']], modeNow());
    fillSelect('charted', [...typesNow(kind).map(t => [t.type, `${typeWords(t.type)}${kind.isLevel[kind.types.indexOf(t)] ? (t.unit === 'bytes' ? ' and RSS' : '') : ' per second'}`]),
                           ...(state.kind === 'heap' && residentNow(kind) ? [['rss', 'RSS by part']] : [])], state.charted || state.type);
    const layerNames = layerKeys(kind);
    byId('layersLabel').hidden = layerNames.length < 2 || state.charted === 'rss';
    fillSelect('layers', layerNames.map(l => [l, l]), layersBy(kind));
    fillSelect('process', [[ALL, 'all'], ...model.groups.all.map(group => [group.choice, group.name]), ...model.processes.items.map((p, i) => [i, processName(p)])], state.process);
    byId('processLabel').hidden = model.processes.items.length < 2;
    fillSelect('by', ['function', 'line', 'file', 'library', 'process', ...folds.labelKeys(kind).map(k => `label ${k}`)].map(b => [b, b]), state.by);
    fillSelect('save', [['', 'save…'], ...(state.view === 'flame' ? [['png', 'picture (PNG)'], ['svg', 'picture (SVG)']] : []),
                        ['pprof', 'this range as pprof'], ['folded', 'folded stacks']], '');
    for (const control of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[data-views]')))
        control.hidden = !control.dataset.views.split(' ').includes(state.view);
    const pressed = {only: state.only, fold: state.fold, invert: state.invert, order: state.heavy, lines: state.lines, sandwich: Boolean(state.focus), idle: state.idle, even: state.even, compare: Boolean(state.a)};
    for (const [id, on] of Object.entries(pressed))
        byId(id).setAttribute('aria-pressed', String(on));
    byId('up').textContent = state.up ? 'flame' : 'icicle';
    byId('up').hidden ||= Boolean(state.focus);
    byId('invert').hidden ||= Boolean(state.focus);
    byId('lines').hidden ||= !folds.hasLines;
    byId('even').hidden = !state.a || modeNow() === 'level';
    byId('idle').hidden = byId('idle').hidden || (!IDLE_OF[state.kind] && state.view !== 'locks');
    byId('peak').hidden = state.kind === HEAT_KIND || kind.ticks.length < 2;
    byId('peak').title = state.kind === 'heap' ? 'selects the range up to the tick with the most memory in use' : 'selects the time with the highest rate';
    const isOf = key => folds.labelKeys(kind).includes(key);
    byId('chips').replaceChildren(...labelsNow().map(([key, value]) => element('button', {
        'aria-pressed': String(isOf(key)), title: 'only rows with this label; click for all', 'data-key': key, onclick: () => setLabel(key, undefined)},
        `${value === null ? `no ${key}` : `${key} ${value}`}${isOf(key) ? '' : `: ${kind.name} profiles do not tell it, shown are all`} ✕`)), ...(state.search && state.only ? [element('button', {
        'aria-pressed': 'true', title: 'only stacks that match; click for all', 'data-key': 'only', onclick: () => set(NO_SEARCH)}, `only ${state.search} ✕`)] : []));
    if (byId('search').value !== state.search)
        byId('search').value = state.search;
    byId('search').setAttribute('aria-invalid', String(Boolean(state.search) && !searchNow()));
    byId('range').textContent = rangeWords(kind);
}

function rangeWords(kind) {
    const [first, last] = extent(kind);
    const from = Math.max(state.from, first), to = Math.min(state.to, last);
    const [begin, end] = kind.ticksWithin(state.from, state.to), within = kind.ticks.slice(begin, end), start = within.reduce((least, t) => Math.min(least, t.start), Infinity);
    const span = (a, b) => formatValue((b - a) * 1e6, 'nanoseconds'), until = within.length ? within[within.length - 1].end : 0; /* a tick that lies in a range in part counts whole, and this is said */
    const whole = modeNow() !== 'level' && within.length && Math.max(Math.abs(Math.max(start, first) - from), Math.abs(until - to)) > Math.max((to - from) / 50, 50) ?
        `; sums are of ${within.length === 1 ? 'one whole tick' : `${within.length} whole ticks`}, ${formatTime(start, true)} to ${formatTime(until, true)} (${span(start, until)})` : '';
    const words = `${formatTime(from, true)} to ${formatTime(to, new Date(from).toDateString() !== new Date(to).toDateString())} (${span(from, to)})${whole}`;
    if (!state.a)
        return words;
    const of = process => (state.a.process === state.process ? '' : ` of ${model.groups.name(process)}`);
    return `A: ${formatTime(Math.max(state.a.from, first))} to ${formatTime(Math.min(state.a.to, last))}${of(state.a.process)}; B: ${words}${of(state.process)}`;
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
        role: 'tab', 'aria-selected': String(value === chosen), 'data-value': value, title: LENSES[value]?.title || KIND_WORDS[value] || VIEW_WORDS[value], onclick: () => onChoose(value)}, name)));
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
    const isResident = state.charted === 'rss' && state.kind === 'heap' && residentNow(kind);
    const name = isResident ? HEAP_DEFAULT : state.charted || state.type;
    const type = Math.max(kind.types.findIndex(t => t.type === name), 0);
    const isLevel = kind.isLevel[type], unit = kind.types[type].unit;
    const layers = [], lines = [];
    const dark = isDark();
    const resident = isLevel && unit === 'bytes' ? residentNow(kind) : null;
    if (isResident)
        [...resident.parts].filter(([, values]) => values.some(v => v > 0)).forEach(([part, values], i, all) =>
            layers.push({name: part, values, colour: part === FILES_PART ? layerColour(0, 1) : layerColour(i, all.length + 1)}));
    else {
        const {names, values, isScale, nMore} = layersNow(kind, type), isOfStates = layersBy(kind) === `label ${STATE_LABEL}`;
        names.forEach((label, i) => {
            if (i + 1 < names.length || values[i].some(v => v > 0))
                layers.push({name: label, colour: isScale && i < AGES.length ? scaleColour(i) : isOfStates && STATE_COLOURS[label] ? stateColour(label) : layerColour(i, names.length), values: values[i],
                             ...(i + 1 === names.length && nMore > 0 ? {choose: () => set({opened: state.opened + LAYERS_SHOWN}), title: `shows more of it: ${nMore} parts`} : {})});
        });
    }
    if (resident) {
        lines.push({name: 'RSS', colour: dark ? '#fff' : '#000', values: resident.rss});
        lines.push({name: 'anonymous RSS', colour: dark ? '#aaa' : '#777', values: resident.anon});
    }
    const shade = alpha => (dark ? `rgba(111,195,255,${alpha})` : `rgba(0,103,165,${alpha})`);
    const isPart = range => Number.isFinite(range.from) || Number.isFinite(range.to);
    const ranges = [{from: state.from, to: state.to, colour: isPart(state) ? shade(0.2) : 'transparent'}];
    if (state.a && isPart(state.a))
        ranges.push({from: state.a.from, to: state.a.to, colour: 'rgba(230,159,0,0.3)'});
    const hidden = hiddenNow(layers, lines), isHidden = name => hidden.includes(name);
    const [from, to] = timeOfAll(), [stuck] = stuckNow().filter(one => one.begin).sort((a, b) => a.begin - b.begin), isOfWaits = unit === 'nanoseconds' && name !== 'cpu';
    chart.show({from, to, mark: stuck && isOfWaits ? {from: stuck.begin, to: stuck.end, text: `${stuckNow().length} stuck since ${formatTime(stuck.begin)}`} : null, ticks: kind.ticks, layers, lines: lines.filter(line => !isHidden(line.name)), unit, rate: isLevel ? '' : unit !== 'nanoseconds' ? '/s' : name === 'cpu' ? ' CPUs' : ' threads', ranges, dark, empty: emptyWords(state.kind, WHOLE, false)});
    const toggle = name => set({hidden: (isHidden(name) ? hidden.filter(n => n !== name) : [...hidden, name]).join() || '-'});
    fillLegend('legend', [...layers, ...lines.map(line => ({...line, isOff: isHidden(line.name), title: isHidden(line.name) ? 'off: a click shows it' : 'a click switches it off', choose: () => toggle(line.name)}))]);
}

/* The time that charts, heat map and lanes have across, of all kinds: [begin, end]. */
function timeOfAll() {
    if (timeOfAll.version !== model.version) {
        const all = [...model.kinds.values()].map(kind => kind.ticks).filter(ticks => ticks.length), to = Math.max(...all.map(ticks => ticks[ticks.length - 1].end));
        timeOfAll.version = model.version;
        timeOfAll.found = all.length ? [Math.min(to - 1000, ...all.map(chartBegin)), to] : [0, 1];
    }
    return timeOfAll.found;
}
timeOfAll.version = -1;
timeOfAll.found = [0, 1];

function drawHeat(kind) {
    byId('heatBox').hidden = kind.name !== HEAT_KIND;
    if (kind.name === HEAT_KIND)
        heat.show({ticks: kind.ticks, values: heatValues(kind), time: timeOfAll(), from: state.from, to: state.to, dark: isDark()});
}

function heatValues(kind) {
    const key = JSON.stringify([model.version, typeIndex(), state.process, labelsNow()]);
    if (heatValues.key !== key)
        [heatValues.key, heatValues.found] = [key, perTick(kind, typeIndex())[0]];
    return heatValues.found;
}
heatValues.key = '';
heatValues.found = /** @type {any} */ (null);

function heatTip(found, event) {
    const at = found && new Date(found.ms);
    showTip(found ? [`${formatTime(found.ms, true)}.${String(at.getMilliseconds()).padStart(3, '0')}`, `${formatValue(found.value, unitNow())} in ${found.cellMs} ms`] : [], event);
}

/*
 * Lines of the chart that are switched off: the RSS of many processes is so high that nothing else can be seen, and then it is off until the user
 * wants it. '-': nothing is.
 */
const LINES_TOWER = 8; /* times */
function hiddenNow(layers, lines) {
    const highest = series => Math.max(0, ...series.flatMap(({values}) => values.reduce((most, v) => Math.max(most, v), 0)));
    return state.hidden ? state.hidden.split(',') : highest(lines) > LINES_TOWER * layers.reduce((sum, layer) => sum + highest([layer]), 0) ? lines.map(line => line.name) : [];
}

/* items: [{name, colour, choose, isOff}] */
function fillLegend(id, items, words = '') {
    if (isFilled(id, [words, ...items.map(({name, colour, title, isOff, choose}) => [name, colour, title, isOff, choose && String(choose)])], ''))
        return;
    byId(id).replaceChildren(words, ...items.map(item => {
        const swatch = element('i');
        swatch.style.color = item.colour;
        return element(item.choose ? 'button' : 'span', item.choose ? {onclick: item.choose, title: item.title, class: item.isOff ? 'off' : ''} : {}, swatch, item.name);
    }));
}

function chartTip(found, event) {
    const lines = found ? [formatTime(found.ms, true), ...(found.values.length > 1 ? [`${formatRate(found.sum, found.unit, found.rate)} in all`] : []),
                           ...found.values.map(([name, value]) => `${formatRate(value, found.unit, found.rate)}  ${name}`)] : [];
    showTip(lines, event);
}
