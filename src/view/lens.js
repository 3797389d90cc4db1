/* SPDX-License-Identifier: MIT */
/*
 * lens.js - how long blocks lived, and how old those in use are: a heap with age=on, seen by its colours and more columns.
 *
 * A lens is chosen beside the kinds. It adds lists of values to the tree (`extra`), from which a node's colour and columns are made.
 * Colours are one scale from orange, short, to blue, long: told apart without red and green.
 */
const AGES = ['<1s', '<10s', '<1m', '<10m', '<1h', 'older'];
const LIFETIMES = [[1e6, 'less than 1 ms'], [1e8, '100 ms'], [1e9, '1 s'], [1e10, '10 s'], [6e11, '10 min'], [Infinity, 'longer']];

function scaleColour(i) {
    const hue = [28, 40, 52, 195, 205, 222][i], saturation = [90, 80, 60, 45, 65, 70][i], lightness = [62, 72, 82, 80, 70, 66][i];
    return isDark() ? `hsl(${hue},${Math.round(saturation * 0.6)}%,${lightness - 38}%)` : `hsl(${hue},${saturation}%,${lightness}%)`;
}

const noColour = () => (isDark() ? '#3c3c44' : '#ddd');

/* The mean lifetime in nanoseconds of `freed` blocks that lived so many microseconds; -1: none was freed. */
function meanLifetime(freed, microseconds) {
    return freed > 0 ? 1000 * microseconds / freed : -1;
}

const LENSES = {
    lifetime: {
        name: 'lifetimes', title: 'how long blocks lived that were freed in the range', types: ['alloc_space', 'alloc_objects', 'freed_objects', 'temporary_objects'],
        isThere: kind => kind.types.some(t => t.type === 'lifetime'),
        extra: () => ['freed_objects', 'temporary_objects', 'lifetime'].map(name => ({type: kindNow().types.findIndex(t => t.type === name), mode: 'sum'})),
        legend: () => LIFETIMES.map(([, name], i) => ({name: i && i < 5 ? `to ${name}` : name, colour: scaleColour(i)})),
        words: 'mean lifetime',
        colour(tree, node) {
            const mean = meanLifetime(tree.extraTotal[0][node], tree.extraTotal[2][node]);
            return mean < 0 ? noColour() : scaleColour(LIFETIMES.findIndex(([below]) => mean < below));
        },
        lines(tree, node) {
            const [freed, temporary, microseconds] = tree.extraTotal.map(values => values[node]);
            return freed > 0 ? [`lived ${formatValue(meanLifetime(freed, microseconds), 'nanoseconds')} in the mean of ${formatValue(freed, 'count')} that were freed`,
                                `temporary ${formatShare(temporary, freed)}`] : ['none was freed'];
        },
        columns: () => [
            {name: 'lifetime', title: 'mean of the blocks that were freed', isNumber: true, value: r => meanLifetime(r.extra[0], r.extra[2]),
             text: r => (r.extra[0] > 0 ? formatValue(meanLifetime(r.extra[0], r.extra[2]), 'nanoseconds') : '')},
            {name: 'temporary', title: 'of the freed blocks, the share that lived less than a millisecond', isNumber: true,
             value: r => (r.extra[0] > 0 ? r.extra[1] / r.extra[0] : -1), exact: r => (r.extra[0] > 0 ? `${(100 * r.extra[1] / r.extra[0]).toFixed(3)} %` : ''),
             text: r => formatShare(r.extra[1], r.extra[0])},
        ],
    },
    age: {
        name: 'ages', title: 'the age of the blocks in use', types: ['inuse_space', 'inuse_objects'],
        isThere: kind => folds.labelKeys(kind).includes('age'),
        extra: () => AGES.map(age => ({passes: folds.labelFilter(withoutNow(), [...labelsOf(), ['age', age]])})),
        legend: () => AGES.map((name, i) => ({name, colour: scaleColour(i), choose: () => setLabel('age', labelsNow().some(l => l[0] === 'age' && l[1] === name) ? undefined : name)})),
        words: 'half of it is younger than',
        /* The class in which half of the value is reached. */
        colour(tree, node) {
            const values = tree.extraTotal.map(v => Math.max(v[node], 0)), half = values.reduce((a, b) => a + b, 0) / 2;
            let sum = 0;
            return half > 0 ? scaleColour(values.findIndex(v => (sum += v) >= half)) : noColour();
        },
        lines: (tree, node) => AGES.map((age, i) => [age, tree.extraTotal[i][node]]).filter(([, v]) => v > 0)
            .map(([age, v]) => `${age}: ${formatValue(v, flame.unit)} ${formatShare(v, tree.total[node])}`),
        columns: () => AGES.map((name, i) => ({name, isNumber: true, value: r => r.extra[i], text: r => (r.extra[i] ? formatValue(r.extra[i], unitNow()) : '')})),
    },
};

/* States that rows of the label `state` have, in the order of their colours, then others. */
function statesNow() {
    const rank = name => (Object.keys(STATE_COLOURS).indexOf(name) + 100) % 100;
    return [...new Set(folds.labelValues(STATE_LABEL))].filter(value => value !== null).sort((x, y) => rank(x) - rank(y));
}

/* The state in which a stack was most of the time: of every kind whose rows name states. */
const STATE_LENS = {
    types: null, words: 'most of it',
    extra: () => statesNow().map(name => ({passes: folds.labelFilter(withoutNow(), [...labelsOf(), [STATE_LABEL, name]])})),
    legend: () => statesNow().map(name => ({name, colour: stateColour(name), title: 'only this state', choose: () => setLabel(STATE_LABEL, labelsNow().some(l => l[0] === STATE_LABEL && l[1] === name) ? undefined : name)})),
    colour(tree, node) {
        const values = tree.extraTotal.map(v => v[node]), most = Math.max(...values);
        return most > 0 ? stateColour(statesNow()[values.indexOf(most)]) : noColour();
    },
    lines: (tree, node) => statesNow().map((name, i) => [name, tree.extraTotal[i][node]]).filter(([, v]) => v > 0).sort((x, y) => y[1] - x[1])
        .map(([name, v]) => `${name}: ${formatValue(v, flame.unit)} ${formatShare(v, tree.total[node])}`),
    columns: () => statesNow().map((name, i) => ({name, isNumber: true, value: r => r.extra[i], text: r => (r.extra[i] ? formatValue(r.extra[i], unitNow()) : '')})),
};

/* Whether rows with the value that is shown name a state: of events, those of wall time do, and those of CPU time do not. */
function hasStates(kind) {
    if (!folds.labelKeys(kind).includes(STATE_LABEL))
        return false;
    const key = `${kind.name} ${model.version} ${state.type}`;
    if (hasStates.key !== key) {
        const states = folds.labelValues(STATE_LABEL), values = kind.values[Math.max(kind.types.findIndex(t => t.type === state.type), 0)].data;
        [hasStates.key, hasStates.found] = [key, kind.labels.data.subarray(0, kind.nRows).some((labels, i) => values[i] && states[labels] !== null)];
    }
    return hasStates.found;
}
hasStates.key = '';
hasStates.found = false;

/* The lens that is chosen, where there is data for it and no two ranges are compared. */
function lensNow() {
    if (state.a)
        return null;
    const lens = state.kind === 'heap' ? LENSES[state.lens] : hasStates(kindNow()) ? STATE_LENS : null;
    return lens && (lens === STATE_LENS || lens.isThere(kindNow())) ? lens : null;
}

/* Sums of lifetimes mean nothing by themselves. */
const LIVES = ['freed_objects', 'temporary_objects', 'lifetime', 'temporary_space', 'moved_objects', 'moved_space', 'outgrown_objects', 'outgrown_space'];

/* The types that can be chosen. */
function typesNow(kind) {
    const lens = lensNow();
    const of = lens && lens.types ? lens.types : kind.types.map(t => t.type).filter(t => !LIVES.includes(t));
    return kind.types.filter(t => of.includes(t.type));
}
