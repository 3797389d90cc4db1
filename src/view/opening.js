/* SPDX-License-Identifier: MIT */
/*
 * opening.js - the top of the page: the sentences of `deltaprof summary`, and a small chart of each measure. A click shows more of either.
 */

/* By kind of sentence, the state of the page that shows what it says. name: the function that it names. */
const SENTENCE_VIEWS = {
    stuck: () => ({kind: 'block', view: 'locks', ...WHOLE}),
    leak: name => ({kind: 'heap', type: HEAP_DEFAULT, mode: 'retained', view: 'flame', ...searchFor(name), ...WHOLE}),
    'leak-unknown': () => ({kind: 'heap', view: 'leaks', ...WHOLE}),
    held: () => ({kind: 'heap', view: 'rss', charted: 'rss', ...WHOLE}),
    lost: () => ({view: 'info'}),
    lock: name => ({kind: 'mutex', type: 'delay', view: 'flame', ...searchFor(name), ...WHOLE}),
};
const WHOLE = {from: -Infinity, to: Infinity, a: null, process: ALL};
const NO_STYLE = ['looked', 'nothing'];

/* Null: there is no view of this. A kind of profile is named as its sentences are. */
function viewOfSentence({kind, name}) {
    const make = SENTENCE_VIEWS[kind] || (model.kinds.has(kind) ? () => ({kind, view: 'flame', ...searchFor(name), ...WHOLE}) : null);
    const view = make && make(name);
    return view && (!view.kind || model.kinds.has(view.kind)) ? view : null;
}

function drawSentences() {
    const box = byId('sentences');
    box.hidden = !model.sentences.length;
    refill(box, ...model.sentences.map(sentence => {
        const view = viewOfSentence(sentence), words = sentence.text.replace(/\.$/, '');
        const link = view ? [' ', element('button', {title: 'shows it below', onclick: () => show(view)}, 'show')] : [];
        return element('li', {class: NO_STYLE.includes(sentence.kind) ? 'note' : '', 'data-kind': sentence.kind, title: sentence.verb ? `deltaprof ${sentence.verb}` : undefined}, `${words}.`, ...link);
    }));
}

function show({kind = state.kind, ...changes}) {
    fitRange(kind);
    set({...NO_SEARCH, focus: '', lens: '', only_labels: '', charted: '', layers: '', zoom: '', kind, type: '', ...changes});
    byId('tabs').scrollIntoView({block: 'nearest'});
}

/* ---- small charts ---- */

const GLANCE_STEPS = 80, GLANCE_HEIGHT = 28;

/* {name, unit, isLevel, kind, values: by tick, view, parts: [{colour, values}]} of each measure that the profiles have. Parts, if there are any, add up to the values. */
function measures() {
    const found = /** @type {any[]} */ ([]);
    const add = (kindName, type, name, unit, factor) => {
        const kind = model.kinds.get(kindName), index = kind ? kind.types.findIndex(t => t.type === type) : -1;
        return index >= 0 && (kindName !== HEAT_KIND || kind.values[index].data.some(v => v > 0)) && found.push({name, unit, factor, kind, isLevel: kind.isLevel[index], values: perTick(kind, index)[0], view: {kind: kindName, type, charted: type, view: 'flame'}});
    };
    const heap = model.kinds.get('heap'), resident = heap && residentNow(heap);
    add('heap', HEAP_DEFAULT, 'in use', 'bytes', 1);
    if (resident) {
        const partsOf = begin => [...resident.parts].filter(([part]) => part.startsWith(begin)).reduce((sums, [, values]) => sums.map((sum, i) => sum + values[i]), resident.anon.map(() => 0));
        for (const [name, values] of [['held by malloc', partsOf('malloc,')], ['mmap', partsOf('mmap')], ['RSS, not shared', resident.anon]])
            found.push({name, unit: 'bytes', factor: 1, kind: heap, isLevel: true, values, view: {kind: 'heap', type: HEAP_DEFAULT, charted: 'rss', view: 'rss'}});
    }
    add('heap', 'alloc_space', 'allocated a second', 'bytes', 1);
    if (!add(HEAT_KIND, 'cpu', 'CPUs busy', '', 1e-9)) /* events know the second, profiles the tick */
        add('cpu', 'cpu', 'CPUs busy', '', 1e-9);
    if (add('wall', 'wall', 'threads by state', '', 1e-9) && folds.labelKeys(model.kinds.get('wall')).includes(STATE_LABEL)) {
        const threads = found[found.length - 1], {names, values} = groups(threads.kind, threads.kind.types.findIndex(t => t.type === 'wall'), `label ${STATE_LABEL}`);
        threads.parts = names.map((name, i) => ({name, colour: stateColour(name), values: values[i]})).filter(part => part.values.some(v => v > 0));
    }
    add('mutex', 'delay', 'threads held up by locks', '', 1e-9);
    if (!model.kinds.has('mutex'))
        add('block', 'delay', 'threads waiting', '', 1e-9);
    const stuck = model.sentences.find(sentence => sentence.kind === 'stuck'), locks = found.find(measure => measure.view.type === 'delay');
    if (stuck && locks) /* a wait that does not end is in no profile of what others waited for */
        locks.stuck = stuck;
    return found.filter(measure => measure.stuck || measure.values.some(v => v > 0));
}

/* The begin of a sentence in a few words: '2 stuck since 04:19:56'. */
function stuckWords(text) {
    return `${/(\d+) threads/.exec(text)?.[1] || 1} stuck${(/^Since.*?\d\d:\d\d:\d\d/.exec(text)?.[0] || '').replace('S', ' s')}`;
}

/* Values in equal steps of time: of a level the highest, of a flow the highest rate of its windows. */
function stepsOf({kind, isLevel, values, factor}, first, last) {
    const steps = new Float64Array(GLANCE_STEPS), width = (last - first) / GLANCE_STEPS;
    const stepAt = ms => Math.min(Math.max(Math.floor((ms - first) / width), 0), GLANCE_STEPS - 1);
    if (isLevel) {
        for (let i = 0, at = 0; i < GLANCE_STEPS; i++) {
            const begin = at;
            while (at < kind.ticks.length && kind.ticks[at].end <= first + (i + 1) * width + 1)
                at++;
            steps[i] = begin < at ? values.subarray(begin, at).reduce((most, v) => Math.max(most, v)) : at ? values[at - 1] : 0;
        }
        return steps;
    }
    for (const {from, to, rate} of windowsOf(kind, values, factor))
        for (let step = stepAt(from); step <= stepAt(to); step++)
            if (Math.min(to, first + (step + 1) * width) > Math.max(from, first + step * width))
                steps[step] = Math.max(steps[step], rate);
    return steps;
}

/* layers: [{steps, colour}], one above the other; no colour: the style's. */
function sparkline(layers, most) {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg'), under = new Float64Array(GLANCE_STEPS);
    for (const [key, value] of Object.entries({viewBox: `0 0 ${GLANCE_STEPS} ${GLANCE_HEIGHT}`, preserveAspectRatio: 'none', 'aria-hidden': 'true'}))
        svg.setAttribute(key, value);
    const y = value => (GLANCE_HEIGHT * (1 - value / (most || 1))).toFixed(1);
    for (const {steps, colour} of layers) {
        const path = document.createElementNS(svg.namespaceURI, 'path'), bottom = [...under].map((v, i) => `L${i + 1} ${y(v)}H${i}`).reverse().join('');
        const top = [...steps].map((v, i) => `L${i} ${y(under[i] += v)}H${i + 1}`).join('');
        path.setAttribute('d', `M0 ${y(0)}${top}${bottom}Z`);
        if (colour)
            path.setAttribute('fill', colour);
        svg.append(path);
    }
    return svg;
}

/* The highest value of a measure, and the view of its time: up to there of a level; of a flow, the window with the highest rate. */
function mostOfMeasure({kind, isLevel, values, factor, view}) {
    if (isLevel) {
        const {index, value} = mostOf(values, kind);
        return {value, view: {...view, mode: 'level', from: -Infinity, to: kind.ticks[index].end}};
    }
    const {from, to, rate} = busiest(windowsOf(kind, values, factor));
    return {value: rate, view: {...view, from, to}};
}

function drawGlance() {
    const key = JSON.stringify([model.version, state.process, state.idle, labelsNow(), isDark()]);
    if (drawGlance.key === key)
        return;
    drawGlance.key = key;
    const shown = measures();
    byId('glance').hidden = !shown.length || [...model.kinds.values()].every(kind => kind.ticks.length < 2);
    const [first, last] = timeOfAll();
    refill(byId('glance'), ...shown.map(measure => {
        const steps = stepsOf(measure, first, last), most = mostOfMeasure(measure), parts = measure.parts || [measure];
        const layers = parts.map(part => ({steps: part === measure ? steps : stepsOf({...measure, values: part.values}, first, last), colour: part.colour}));
        return element('div', {}, element('button', {title: `${measure.name} over time${measure.parts ? `: ${parts.map(part => part.name).join(', ')}` : ''}; a click shows it below`, onclick: () => show(measure.view)},
                                          measure.name, sparkline(layers, Math.max(...steps))),
                       element('button', {title: 'shows the time with the most: what it was', onclick: () => show({...most.view, a: null})}, `most ${formatValue(most.value, measure.unit)}, ${formatTime(most.view.to)}`),
                       measure.stuck && element('button', {class: 'alarm', title: `${measure.stuck.text} A click shows it`, onclick: () => show(viewOfSentence(measure.stuck) || measure.view)}, stuckWords(measure.stuck.text)));
    }));
}
drawGlance.key = '';
