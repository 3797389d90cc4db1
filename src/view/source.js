/* SPDX-License-Identifier: MIT */
/*
 * source.js - the source of the function that is chosen in the flame graph or stands between its callers and callees, with the values of each
 * line. The page has source text only if `deltaprof view --source` wrote it.
 */

/* frame: of the function; null: none is chosen. The place beside the graph is kept, so that a click does not move the boxes. */
function drawSource(frame) {
    const lines = frame ? model.sources.get(frame.file) : null;
    byId('sourceBox').hidden = !model.sources.size;
    if (!model.sources.size)
        return;
    if (!lines) {
        byId('sourceTitle').textContent = frame ? `no source of ${frame.name} is in this page` : 'source: choose a function';
        return void byId('source').replaceChildren();
    }
    const tree = state.a ? treeNow(true) : folds.tree({...queryNow(), lines: true}), isIt = f => f.name === frame.name && f.file === frame.file;
    const rows = new Map(folds.table(tree, f => (isIt(f) ? f.line : 0)).map(row => [row.name, row]));
    const used = [...rows.keys()].filter(Boolean), first = Math.min(...used), last = Math.max(...used);
    const shown = lines.filter(({line}) => line >= first - SOURCE_AROUND && line <= last + SOURCE_AROUND), unit = unitNow();
    const cell = (row, value) => element('td', {class: 'number', title: row ? String(Math.round(value(row))) : undefined}, row && value(row) ? formatValue(value(row), unit) : '');
    const columns = state.a ? [['A', r => r.cum], ['B', r => r.cumB]] : [['itself', r => r.flat], ['with callees', r => r.cum]];
    const most = Math.max(...used.map(line => Math.max(rows.get(line).cum, rows.get(line).cumB)));
    byId('sourceTitle').textContent = `source: ${frame.name}, ${frame.file}`;
    refill(byId('source'), element('table', {}, element('thead', {}, element('tr', {}, ...columns.map(([name]) => element('th', {class: 'number'}, name)), element('th', {class: 'number'}, 'line'), element('th', {}, ''))),
        element('tbody', {}, ...shown.map(({line, text}, i) => {
            const row = rows.get(line), tr = element('tr', {'data-line': String(line), class: row ? 'used' : i && shown[i - 1].line < line - 1 ? 'gap' : ''},
                                                     ...columns.map(([, value]) => cell(row, value)), element('td', {class: 'number note'}, String(line)), element('td', {}, element('code', {}, text || ' ')));
            if (row && most > 0)
                tr.style.setProperty('--share', `${100 * Math.max(row.cum, row.cumB) / most}%`);
            return tr;
        }))));
}
const SOURCE_AROUND = 6;
