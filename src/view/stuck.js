/* SPDX-License-Identifier: MIT */
/*
 * stuck.js - waits that had not ended when the recording did. Profiles of waits have them up to the last tick that the process wrote itself, and events are
 * written when a wait ends; the summary's sentence says which threads wait and how long. What is missing until the
 * end is added when the page opens, so that charts, lanes and sums hold.
 */
const STUCK = /thread (\d+)(?: \(([^)]*)\))? waits ([\d.]+) s for .*? in (.+?)(?=; thread \d|[.;]?$)/g;

/* [{since: seconds of its hour, id, name, ms: how long it waited at the last tick, functions: the innermost first; begin, end: in ms, once it is found in a profile}] */
function stuckNow() {
    if (stuckNow.of !== model.sentences)
        [stuckNow.of, stuckNow.found] = [model.sentences, model.sentences.filter(({kind}) => kind === 'stuck').flatMap(({text}) => [...text.matchAll(STUCK)].map(([, id, name, seconds, stack]) => (
            {since: Number(/^Since.*?:(\d\d):/.exec(text)?.[1]) * 60 + Number(/^Since.*?:\d\d:(\d\d)/.exec(text)?.[1]), id, name, ms: 1000 * Number(seconds), functions: stack.split(' < ').map(one => one.replace(/\(.*/, '')), begin: NaN, end: NaN})))];
    return stuckNow.found;
}
stuckNow.of = /** @type {any} */ (null);
stuckNow.found = /** @type {any[]} */ ([]);

/* Whether a stack has these functions, the innermost first; others may stand between them. */
function hasFunctions(node, functions) {
    let n = 0;
    for (let at = node; at > 0 && n < functions.length; at = model.parent.data[at])
        n += Number(model.frames.items[model.frame.data[at]].name === functions[n]);
    return n === functions.length;
}

const ZONE_S = 900; /* the sentence's time may be of another zone: these differ by quarters of an hour */

/* To be called once, when the data has been read. */
function addStuck() {
    const block = model.kinds.get('block'), events = model.kinds.get(HEAT_KIND), n = block ? block.nRows : 0;
    for (const stuck of block ? stuckNow() : []) {
        let row = n - 1;
        while (row >= 0 && !hasFunctions(block.node.data[row], stuck.functions))
            row--;
        if (row < 0)
            continue;
        const add = (kind, node, labels, ns, tick) => kind.addRow(node, labels, kind.types.map(({type}) => (type === 'delay' ? Math.round(ns) : 0)), tick), {process, end: until} = block.ticks[block.tick.data[row]];
        stuck.begin = until - stuck.ms;
        const late = (Math.floor(stuck.begin / 1000) - stuck.since + 2 * ZONE_S) % ZONE_S; /* the profile with the wait may be later than the one that told how long */
        stuck.begin -= late < ZONE_S / 2 ? 1000 * late : 0;
        stuck.end = 0;
        for (const {ticks} of model.kinds.values())
            for (const tick of ticks)
                stuck.end = tick.process === process ? Math.max(stuck.end, tick.end) : stuck.end;
        block.ticks.forEach((tick, i) => {
            if (tick.process === process && tick.end > until)
                add(block, block.node.data[row], block.labels.data[row], 1e6 * (tick.end - Math.max(tick.start, until)), i);
        });
        block.isOrdered = false;
        if (!events || !events.types.some(({type}) => type === 'delay'))
            continue;
        events.addTick({start: stuck.end - 1, end: stuck.end, process, comments: [], period: 0, marks: 0, rss: null});
        add(events, block.node.data[row], model.labelNumber([...model.labelSets.items[block.labels.data[row]].filter(([key]) => key !== THREAD_LABEL), [THREAD_LABEL, stuck.id]]), 1e6 * (stuck.end - stuck.begin));
        events.isOrdered = false;
    }
    for (const kind of [block, events])
        kind?.putInOrder();
    model.version++;
}
