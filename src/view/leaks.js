/* SPDX-License-Identifier: MIT */
/*
 * leaks.js - shows the verdict of `deltaprof leaks`, which `deltaprof view` put into the page. It is of all profiles,
 * whatever range is chosen. A page that a process serves has no verdict: leaks are judged over many ticks, by the command.
 */
function leaksWords(found) {
    if (!found)
        return 'Not judged here: deltaprof leaks judges the profiles of a directory, and deltaprof view shows its verdict in the page.';
    const n = found.rows.filter(r => r.isLeak).length;
    const verdict = n ? `${n} leak${n > 1 ? 's' : ''}.` : found.verdict === 'no leak' ? 'No leak: no growth was seen that goes on.' : `Cannot tell: ${found.needs}.`;
    return `${verdict} Looked at ${found.ticks} tick${found.ticks === 1 ? '' : 's'} with ${found.samples} samples in ${formatValue(found.ns, 'nanoseconds')} of work, in the whole time and all processes${state.process === ALL ? '' : '; listed are the stacks of those that are chosen'}. ${
        'Stacks begin at the first function of the program\u2019s own code.'}`;
}

/* By node, whether it is a stack of these functions, the leaf first, once it ends at the program's own code; others may stand between them. */
function nodesOf(names) {
    const parent = model.parent.data, frames = model.frames.items, found = new Uint8Array(model.nNodes);
    for (let node = 1; node < model.nNodes; node++) {
        let at = ownNode(node), n = 0;
        if (frames[model.frame.data[at]].name !== names[0])
            continue;
        for (; at > 0 && n < names.length; at = parent[at])
            n += Number(frames[model.frame.data[at]].name === names[n]);
        found[node] = Number(n === names.length);
    }
    return found;
}

/* Since when the memory of a stack grows, in ms: 95 % of the growth comes after it, as in src/tool/leaks. isHere: the chosen processes have some of it. */
function growsSince(names) {
    const members = model.groups.members(state.process), kind = model.kinds.get('heap'), data = kind.values[kind.types.findIndex(t => t.type === HEAP_DEFAULT)].data, is = nodesOf(names), cut = kind.lastBeforeEnd();
    const n = cut ? Math.max(...Object.values(cut)) + 1 : kind.ticks.length, values = new Float64Array(n);
    for (let row = 0; row < kind.nRows; row++)
        if (is[kind.node.data[row]] && kind.tick.data[row] < n && (!members || members[kind.ticks[kind.tick.data[row]].process]))
            values[kind.tick.data[row]] += data[row];
    for (let i = 1; i < n; i++)
        values[i] += values[i - 1];
    const rise = values[n - 1] - values[0];
    const begun = Math.max(values.findIndex(v => v - values[0] >= rise / 20) - 1, 0);
    return {isHere: values.some(v => v > 0), begin: begun || values[0] > rise / 20 ? kind.ticks[begun].end : chartBegin(kind.ticks)};
}

function leakTimes() {
    const key = `${model.version} ${state.process}`;
    if (leakTimes.key !== key)
        [leakTimes.key, leakTimes.found] = [key, model.leaks.rows.map(row => growsSince(row.names))];
    return leakTimes.found;
}
leakTimes.key = '';
leakTimes.found = /** @type {any} */ (null);

/* The leaks, the worst first, then the stacks that may leak. */
function drawLeaks() {
    const search = searchNow(), bytes = n => formatValue(n, 'bytes');
    const rows = (model.leaks ? model.leaks.rows : []).map((row, i) => ({...row, i, name: row.names[0], ...leakTimes()[i]})).filter(r => r.isHere && (!search || r.names.some(search.says)));
    byId('leaksWords').textContent = leaksWords(model.leaks);
    const number = (name, value, text, title) => ({name, isNumber: true, value, text, title});
    leaks.empty = model.leaks?.rows.length ? search ? 'no leak matches: clear the search' : 'the chosen process has none of the stacks that may leak' : '';
    leaks.show([{name: 'verdict', value: r => r.i, text: r => (r.isLeak ? `leak, confidence ${Math.round(100 * r.confidence)} %` : r.confidence >= 0.005 ? `cannot tell: ${Math.round(100 * r.confidence)} % that it leaks` : 'cannot tell, no end is seen'), class: r => (r.isLeak ? 'verdict alarm' : 'verdict')},
                number('in use', r => r.bytes, r => bytes(r.bytes), 'at the last tick, of all processes'),
                number('an hour', r => r.hourly, r => (r.hourly ? bytes(r.hourly) : 'not known'), 'more in use after an hour of work'),
                number('grows since', r => r.begin, r => formatTime(r.begin), 'a click shows what was allocated from then on and is still there'),
                {name: 'stack', value: r => r.names.join(' ‹ '), text: r => r.names.slice(0, Math.min(r.names.indexOf('main') + 1 || 8, 8)).join(' ‹ ')}], rows, 'verdict', false);
}
