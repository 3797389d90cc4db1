/* SPDX-License-Identifier: MIT */
/*
 * resident.js - why a profile differs from the output of ps: of which parts the resident memory consisted at the end of the range.
 */
const residentTable = new Table(byId('resident'), () => {});
const mappedTable = new Table(byId('mapped'), row => set({search: `^${escapeRegex(row.name)}$`, view: 'flame'}));

function drawResident() {
    const kind = model.kinds.get('heap'), found = residentNow(kind);
    byId('mappedBox').hidden = true;
    if (!found) {
        byId('residentWords').textContent = 'No profile says how much memory was resident.';
        residentTable.show([{name: 'part', value: r => r.name, text: r => r.name}], [], 'part');
        return;
    }
    const [first, last] = kind.ticksWithin(state.from, state.to);
    const at = Math.max(last - 1, 0), before = first - 1;
    const type = kind.types.findIndex(t => t.type === HEAP_DEFAULT);
    const inUse = type >= 0 ? perTick(kind, type)[0][at] : 0;
    const bytes = n => formatValue(n, 'bytes');
    byId('residentWords').textContent = `At the end of the range ps shows ${bytes(found.rss[at])} (RSS); the profile has ${bytes(inUse)} in use. Of the RSS ${
        bytes(found.rss[at] - found.anon[at])} are pages of files and shared memory, ${bytes(found.anon[at])} are anonymous. What is in use by malloc is sampled${
        found.error[at] ? `: give or take ${bytes(found.error[at])}` : ''}.`;
    const rows = [...found.parts].map(([name, values], i) => ({name, order: i, bytes: values[at], change: values[at] - (before >= 0 ? values[before] : 0)}))
        .filter(r => r.bytes || r.change);
    const number = (name, value, text) => ({name, isNumber: true, value, text});
    residentTable.show([number('bytes', r => r.bytes, r => bytes(r.bytes)), number('%', r => r.bytes / found.rss[at], r => formatShare(r.bytes, found.rss[at])),
                        number('change in the range', r => r.change, r => bytes(r.change)), {name: 'part', value: r => r.name, text: r => r.name}], rows, 'bytes');
    if (type < 0 || !folds.labelKeys(kind).includes('heap'))
        return;
    const tree = folds.tree({...queryNow(), kind: 'heap', type, mode: 'level', filter: null, passes: folds.labelFilter([INHERITED], [['heap', 'mmap']])});
    const owners = folds.table(tree, 'function').filter(r => r.flat);
    byId('mappedBox').hidden = !owners.length;
    mappedTable.show([number('mapped', r => r.flat, r => bytes(r.flat)), {name: 'by', value: r => r.name, text: r => r.name}], owners, 'mapped');
}
