/* SPDX-License-Identifier: MIT */
/*
 * state.js - the state of the page: kind, value, range, filters. All of it is in the URL's fragment, so a view can be linked.
 *
 * Every control changes the state through set(), which draws the page again.
 */
/** @type {(id: string) => any} */
const byId = id => document.getElementById(id);
const VIEWS = {flame: 'flames', table: 'table', locks: 'locks', leaks: 'leaks', rss: 'RSS', workers: 'processes', info: 'ticks'};
/* What kinds of profile and views show, for tooltips and the list of keys. */
const KIND_WORDS = {heap: 'memory: in use at a time, and allocated in a range', mutex: 'locks: what held them while others waited, by the holder\u2019s stack', block: 'locks: what waited for them, by the waiter\u2019s stack',
                    cpu: 'CPU time, by the stack that used it', chain: 'locks: stacks of a waiter and of the holder that it waited for', wall: 'all time of all threads: running, waiting, asleep',
                    events: 'each sample at its time: a heat map, and a lane for each thread'};
const VIEW_WORDS = {flame: 'stacks as boxes', table: 'a row for each function, line, file, library, process or label', locks: 'who waits for whom', leaks: 'memory that grows without end, and since when',
                    rss: 'of what resident memory, the number of ps, consists', workers: 'a row for each process and thread: memory, growth, CPU time, worst lock', info: 'a row for each profile, with what it says of itself'};
const TYPE_WORDS = {inuse_space: 'memory in use', inuse_objects: 'blocks in use', alloc_space: 'memory allocated', alloc_objects: 'blocks allocated', cpu: 'CPU time', wall: 'time of threads', delay: 'time waited',
                    contentions: 'waits', mutex_delay: 'time others waited', mutex_contentions: 'unlocks', samples: 'samples'};
const typeWords = type => (TYPE_WORDS[type] ? `${TYPE_WORDS[type]} (${type})` : type);
const IDLE = {key: 'lock', values: ['cond', 'sem', 'join', 'park']}; /* of rows of locks */
const IDLE_OF = {block: IDLE, events: IDLE, wall: {key: 'idle', values: ['yes']}};
const INHERITED = {key: 'fork', values: ['inherited']}; /* counted with the parent */
/* Functions that have whole programs below them. */
const STARTS = new Set(['main', '<module>', 'start_thread', '__clone3', '__libc_start_call_main', '_start']);
const LAYERS_SHOWN = 6, LAYERS_MOST = 24;
const STEM_SHARE = 0.8; /* of the total: a branch with more is part of the stem, and its branches are shown instead */
const HEAP_DEFAULT = 'inuse_space';

const model = new Model();
const folds = new Fold(model);
const state = {kind: '', type: '', mode: 'level', from: -Infinity, to: Infinity, view: 'flame', search: '', only: false, fold: true,
               invert: false, heavy: true, up: false, lines: false, opened: 0, lanes: 'function', lock: '', idle: true, process: ALL, by: 'function', charted: '', focus: '', even: false, a: null,
               lens: '', only_labels: '', layers: '', zoom: '', sort: '', theme: '', hidden: '', written: false};
const prefersDark = matchMedia('(prefers-color-scheme: dark)');
const isDark = () => !isPrinting && (state.theme ? state.theme === 'dark' : prefersDark.matches);
let isPrinting = false; /* on paper the page is light */
let live = null;

/* ---- state and its link ---- */

const SHORT = {kind: 'k', type: 't', mode: 'm', view: 'v', search: 'q', only: 'o', fold: 'f', invert: 'i', heavy: 'h', up: 'u', idle: 'x',
               process: 'p', by: 'b', charted: 'c', focus: 's', even: 'n', lens: 'l', only_labels: 'w', layers: 'g', zoom: 'z', sort: 'j', theme: 'd', hidden: 'y', lines: 'e', opened: 'rest', lanes: 'th', lock: 'lk', written: 'by'};

function stateToFragment() {
    const parts = new URLSearchParams();
    for (const [key, short] of Object.entries(SHORT))
        if (state[key] !== '' && state[key] !== initial[key])
            parts.set(short, String(typeof state[key] === 'boolean' ? Number(state[key]) : state[key]));
    if (Number.isFinite(state.from) || Number.isFinite(state.to) || peaksShown.isByHand)
        parts.set('r', `${Math.round(state.from)},${Math.round(state.to)}`);
    if (state.a)
        parts.set('a', `${Math.round(state.a.from)},${Math.round(state.a.to)},${state.a.process}`);
    const fragment = `#${parts}`, now = performance.now();
    nQuick = now - changedAt < QUICK_MS ? nQuick + 1 : 0;
    changedAt = now;
    clearTimeout(linking);
    const write = () => { if (fragment !== (location.hash || '#')) history.replaceState(null, '', fragment); };
    if (nQuick < QUICK_MOST)
        write();
    else
        linking = setTimeout(write, QUICK_MS);
}
/* A key that is held down changes the state at each frame, which is several ms of the browser's time, and browsers allow two hundred changes of the link in ten seconds: it follows. */
const QUICK_MS = 150, QUICK_MOST = 10;
let nQuick = 0, changedAt = -Infinity, linking = 0;
const initial = {...state};

function stateFromFragment() {
    const parts = new URLSearchParams(location.hash.slice(1));
    for (const [key, short] of Object.entries(SHORT)) {
        const text = parts.get(short);
        if (text === null)
            continue;
        state[key] = typeof initial[key] === 'boolean' ? text === '1' : typeof initial[key] === 'number' ? Number(text) : text;
    }
    const range = text => {
        const [from, to = Infinity, process = ALL] = text.split(',').map(Number);
        return from >= to ? {from: -Infinity, to: Infinity, process} : {from: Number.isNaN(from) ? -Infinity : from, to: Number.isNaN(to) ? Infinity : to, process};
    };
    if (parts.has('r')) {
        const {from, to} = range(parts.get('r'));
        Object.assign(state, {from, to});
    }
    if (parts.has('a'))
        state.a = range(parts.get('a'));
    return parts.has('r');
}

/* A link may be from other data. A range without any of this data becomes the whole, and a process that is not here, all. */
function fitToData() {
    const extents = [...model.kinds.values()].map(extent), isHere = choice => model.groups.isHere(choice);
    const hasData = ({from, to}) => extents.some(([first, last]) => to > first && from <= last);
    if (!hasData(state))
        Object.assign(state, {from: -Infinity, to: Infinity});
    if (!isHere(state.process))
        state.process = ALL;
    if (state.a && !(hasData(state.a) && isHere(state.a.process)))
        state.a = null;
}

/* ---- queries of the model ---- */

const kindNow = () => model.kinds.get(state.kind);
const typeIndex = () => kindNow().types.findIndex(t => t.type === state.type);
const unitNow = () => kindNow().types[typeIndex()].unit;

function modeNow() {
    return kindNow().isLevel[typeIndex()] ? (['retained', 'kept'].includes(state.mode) ? state.mode : 'level') : 'sum';
}

/* range: {from, to, process}. */
function queryNow(range = state) {
    return {kind: state.kind, type: typeIndex(), mode: modeNow(), from: range.from, to: range.to, process: range.process,
            fold: state.fold, brief: state.fold, opens: state.view === 'flame', lines: state.view === 'table' ? state.by === 'line' : state.lines, passes: passesNow(), filter: filterNow()};
}

/* written: the page wrote this search, for a finding or a row. It is for the kind and view that are shown with it: another one that is chosen by hand ends it. */
const NO_SEARCH = {search: '', only: false, written: false};
const searchFor = name => (name ? {search: `^${escapeRegex(name)}$`, only: true, written: true} : {});
const withoutWritten = () => (state.written ? NO_SEARCH : {});

/* Of a table, what its own rows cannot be searched for. */
function filterNow() {
    const search = searchNow();
    return search && (state.only || (state.view === 'table' && search.of && search.of !== state.by)) ? search : null;
}

/* The labels that rows must have, as [[key, value]]; from the link, so any text may stand there. */
function labelsNow() {
    try {
        const found = JSON.parse(state.only_labels || '[]');
        return Array.isArray(found) ? found.filter(l => Array.isArray(l) && typeof l[0] === 'string') : [];
    } catch {
        return [];
    }
}

/* Those that rows of a kind have; another one stays for the kinds that know it. */
function labelsOf(kindName = state.kind) {
    const kind = model.kinds.get(kindName), keys = kind ? folds.labelKeys(kind) : [];
    return labelsNow().filter(([key]) => keys.includes(key));
}

function setLabel(key, value) {
    const labels = [...labelsNow().filter(l => l[0] !== key), ...(value === undefined ? [] : [[key, value]])];
    set({only_labels: labels.length ? JSON.stringify(labels) : ''});
}

/* By label set, whether its rows count. */
function passesNow(kind = state.kind) {
    return folds.labelFilter(withoutNow(kind), labelsOf(kind));
}

/* Rows that are left out: idle waits, and, over all processes, what a child inherited and its parent counts already. */
function withoutNow(kind = state.kind) {
    return [...(IDLE_OF[kind] && state.idle ? [IDLE_OF[kind]] : []), ...(state.process < 0 ? [INHERITED] : [])];
}

/*
 * What is searched for, or null: {of, says(text), test(frame)}. An expression is searched for in names and files of functions; behind `file:` or
 * `library:`, which is then `of`, only there.
 */
function searchNow() {
    const [, of = '', text] = /^(?:(file|library):)?(.*)$/s.exec(state.search), regex = state.search ? regexOf(text) : null;
    const says = name => regex.test(name);
    return regex && {of, says, test: {library: f => says(baseName(f.library)), file: f => says(f.file), '': f => says(f.name) || says(f.file)}[of]};
}

function regexOf(text) {
    try {
        return new RegExp(text, 'i');
    } catch {
        return null;
    }
}

/* With two ranges, A is the one that was kept, B the one that is chosen now. */
function treeNow(byLine = false) {
    if (!state.a)
        return folds.tree({...queryNow(), extra: lensNow()?.extra()});
    const lasts = range => { /* of chosen processes, the time that they have ticks of */
        const {ticks} = kindNow(), [first, last] = kindNow().ticksWithin(range.from, range.to), members = model.groups.members(range.process);
        if (!members)
            return first < last ? Math.max(ticks[last - 1].end - (first ? ticks[first - 1].end : extent(kindNow())[0]), 1) : 1;
        const within = ticks.slice(first, last).filter(t => members[t.process] && !(t.marks & 4));
        return within.length ? Math.max(within[within.length - 1].end - within.reduce((least, t) => Math.min(least, t.start), Infinity), 1) : 1;
    };
    /* The factor for A's sums when the ranges have different lengths: A as if it had lasted as long as B. */
    const scale = state.even && modeNow() !== 'level' ? lasts(state) / lasts(state.a) : 0;
    return folds.tree({...queryNow(state.a), scale, ...(byLine ? {lines: true} : {})}, queryNow());
}

/* Time: [first start, last end] of a kind. */
function extent(kind) {
    const n = kind.ticks.length;
    return n ? [Math.min(kind.ticks[0].start, kind.ticks[0].end - 1), kind.ticks[n - 1].end] : [0, 1];
}
