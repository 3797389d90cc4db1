/* SPDX-License-Identifier: MIT */
/*
 * leaks.js - shows the verdict of `deltaprof leaks`, which `deltaprof view` put into the page. It is of all profiles,
 * whatever range is chosen. A page that a process serves has no verdict: leaks are judged over many ticks, by the command.
 */
function leaksWords(found) {
    if (!found)
        return 'Not judged here: deltaprof leaks judges the profiles of a directory, and deltaprof view shows its verdict in the page.';
    const n = found.rows.filter(r => r.isLeak).length;
    const verdict = n ? `${n} leak${n > 1 ? 's' : ''}.` : found.verdict === 'no leak' ? 'No leak: no stack grows without end.' : `Cannot tell: ${found.needs}.`;
    return `${verdict} Looked at ${found.ticks} ticks with ${found.samples} samples in ${formatValue(found.ns, 'nanoseconds')} of work, in the whole time. ${
        'Stacks begin at the first function of the program\u2019s own code.'}`;
}

/* The leaks, the worst first, then the stacks that may leak. */
function drawLeaks() {
    const search = searchNow(), bytes = n => formatValue(n, 'bytes');
    const rows = (model.leaks ? model.leaks.rows : []).map((row, i) => ({...row, i, name: row.names[0]})).filter(r => !search || r.names.some(search.says));
    byId('leaksWords').textContent = leaksWords(model.leaks);
    const number = (name, value, text, title) => ({name, isNumber: true, value, text, title});
    leaks.empty = '';
    leaks.show([{name: 'verdict', value: r => r.i, text: r => `${r.isLeak ? 'leak' : 'cannot tell'}, confidence ${Math.round(100 * r.confidence)} %`, class: r => (r.isLeak ? 'verdict alarm' : 'verdict')},
                number('in use', r => r.bytes, r => bytes(r.bytes)),
                number('an hour', r => r.hourly, r => bytes(r.hourly), 'more in use after an hour of work'),
                {name: 'stack', value: r => r.names.join(' ‹ '), text: r => r.names.slice(0, Math.min(r.names.indexOf('main') + 1 || 8, 8)).join(' ‹ ')}], rows, 'verdict', false);
}
