/* SPDX-License-Identifier: MIT */
/*
 * state.js - the state of the page: kind, value, range, filters. All of it is in the URL's fragment, so a view can be linked.
 *
 * Every control changes the state through set(), which draws the page again.
 */
const byId = id => document.getElementById(id);
const VIEWS = {flame: 'flame graph', table: 'table', locks: 'locks', leaks: 'growth', info: 'about'};
const IDLE = {key: 'lock', values: ['cond', 'sem', 'join', 'park']};
const INHERITED = {key: 'fork', values: ['inherited']}; /* counted with the parent */
const LAYERS_SHOWN = 6;
const STEM_SHARE = 0.8; /* of the total: a branch with more is part of the stem, and its branches are shown instead */
const HEAP_DEFAULT = 'inuse_space';

const model = new Model();
const folds = new Fold(model);
const state = {kind: '', type: '', mode: 'level', from: -Infinity, to: Infinity, view: 'flame', search: '', only: false, fold: true,
               invert: false, heavy: true, up: false, idle: true, process: -1, by: 'function', charted: '', focus: '', even: true, a: null};
let dark = matchMedia('(prefers-color-scheme: dark)').matches;
let live = null;

/* ---- state and its link ---- */

const SHORT = {kind: 'k', type: 't', mode: 'm', view: 'v', search: 'q', only: 'o', fold: 'f', invert: 'i', heavy: 'h', up: 'u', idle: 'x',
               process: 'p', by: 'b', charted: 'c', focus: 's', even: 'n'};

function stateToFragment() {
    const parts = new URLSearchParams();
    for (const [key, short] of Object.entries(SHORT))
        if (state[key] !== '' && state[key] !== initial[key])
            parts.set(short, String(typeof state[key] === 'boolean' ? Number(state[key]) : state[key]));
    if (Number.isFinite(state.from) || Number.isFinite(state.to))
        parts.set('r', `${Math.round(state.from)},${Math.round(state.to)}`);
    if (state.a)
        parts.set('a', `${Math.round(state.a.from)},${Math.round(state.a.to)}`);
    const fragment = `#${parts}`;
    if (fragment !== (location.hash || '#')) /* browsers allow two hundred changes in ten seconds */
        history.replaceState(null, '', fragment);
}
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
        const [from, to] = text.split(',').map(Number);
        return {from: Number.isNaN(from) ? -Infinity : from, to: Number.isNaN(to) ? Infinity : to};
    };
    if (parts.has('r'))
        Object.assign(state, range(parts.get('r')));
    if (parts.has('a'))
        state.a = range(parts.get('a'));
    return parts.has('r');
}

/* ---- queries of the model ---- */

const kindNow = () => model.kinds.get(state.kind);
const typeIndex = () => kindNow().types.findIndex(t => t.type === state.type);
const unitNow = () => kindNow().types[typeIndex()].unit;

function modeNow() {
    return kindNow().isLevel[typeIndex()] ? (state.mode === 'retained' ? 'retained' : 'level') : 'sum';
}

function queryNow(range = state) {
    return {kind: state.kind, type: typeIndex(), mode: modeNow(), from: range.from, to: range.to, process: state.process,
            fold: state.fold && state.kind === 'heap', brief: state.fold, without: withoutNow(),
            filter: state.only && searchRegex() ? searchRegex() : null};
}

/* Rows that are left out: idle waits, and, over all processes, what a child inherited and its parent counts already. */
function withoutNow() {
    return [...(state.kind === 'block' && state.idle ? [IDLE] : []), ...(state.process < 0 ? [INHERITED] : [])];
}

function searchRegex() {
    if (!state.search)
        return null;
    try {
        return new RegExp(state.search, 'i');
    } catch {
        return null;
    }
}

/* With two ranges, A is the one that was kept, B the one that is chosen now. */
function treeNow() {
    if (!state.a)
        return folds.tree(queryNow());
    const lasts = range => {
        const {ticks} = kindNow(), [first, last] = kindNow().ticksWithin(range.from, range.to);
        return first < last ? Math.max(ticks[last - 1].end - (first ? ticks[first - 1].end : extent(kindNow())[0]), 1) : 1;
    };
    /* The factor for A's sums when the ranges have different lengths: A as if it had lasted as long as B. */
    const scale = state.even && modeNow() !== 'level' ? lasts(state) / lasts(state.a) : 0;
    return folds.tree({...queryNow(state.a), scale}, queryNow());
}

/*
 * By layer and tick, the sum of a value over all rows up to there (levels) or of the tick. layerOf: by node; without it there is one
 * layer.
 */
function perTick(kind, type, layerOf = null, nLayers = 1) {
    const layers = Array.from({length: nLayers}, () => new Float64Array(kind.ticks.length));
    const data = kind.values[type].data, tick = kind.tick.data, node = kind.node.data, labels = kind.labels.data;
    const passes = folds.labelFilter(withoutNow());
    const ofTick = kind.ticks.map(t => state.process < 0 || t.process === state.process);
    for (let i = 0; i < kind.nRows; i++)
        if (passes[labels[i]] && ofTick[tick[i]])
            layers[layerOf ? layerOf[node[i]] : 0][tick[i]] += data[i];
    if (kind.isLevel[type])
        for (const values of layers)
            for (let i = 1; i < values.length; i++)
                values[i] += values[i - 1];
    return layers;
}

/* Time: [first start, last end] of a kind. */
function extent(kind) {
    const n = kind.ticks.length;
    return n ? [Math.min(kind.ticks[0].start, kind.ticks[0].end - 1), kind.ticks[n - 1].end] : [0, 1];
}

function peakTick(kind) {
    const type = Math.max(kind.types.findIndex(t => t.type === HEAP_DEFAULT), 0);
    const [values] = perTick(kind, type);
    let best = 0;
    for (let i = 1; i < values.length; i++)
        if (values[i] > values[best])
            best = i;
    return {index: best, value: values[best], last: values[values.length - 1]};
}
