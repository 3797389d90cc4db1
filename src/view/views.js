/* SPDX-License-Identifier: MIT */
/*
 * views.js - the views below the chart: flame graph, tables, locks, growth, and the profiles' comments.
 */
function drawFlame() {
    const frames = model.frames.items;
    let tree = treeNow();
    const options = {order: state.heavy ? 'heavy' : 'name', up: state.up, dark};
    const box = byId('callersBox');
    box.hidden = !state.focus;
    flame.unit = unitNow();
    flame.whole = tree.total[0];
    flame.wholeB = tree.totalB ? tree.totalB[0] : 0;
    flame.freed = tree.freed || 0;
    if (state.focus) {
        const [callees, above] = folds.around(tree, state.focus);
        callers.unit = flame.unit;
        callers.whole = flame.whole;
        callers.show(above, named(frames, state.focus), {...options, up: true});
        tree = callees;
        flame.show(tree, named(frames, state.focus), {...options, up: false});
    } else {
        if (state.invert)
            tree = folds.inverted(tree);
        flame.show(tree, frames, options);
    }
    const regex = searchRegex(), matching = regex ? folds.matches(regex) : null;
    if (matching || flame.matching)
        flame.search(matching);
    byId('matched').textContent = matching ? `${formatShare(matchedValue(tree, matching), tree.total[0])} match` : '';
    crumbs(flame.zoom);
}

/* The frames with another name for the root. */
function named(frames, name) {
    const copy = frames.slice();
    copy[0] = {...copy[0], name};
    return copy;
}

function matchedValue(tree, matching) {
    const has = new Uint8Array(tree.n);
    let sum = 0;
    for (let i = 1; i < tree.n; i++) {
        has[i] = has[tree.parent[i]] | matching[tree.frame[i]];
        if (has[i])
            sum += tree.self[i];
    }
    return sum;
}

/* The callers of a node, and the buttons for it. */
function crumbs(node) {
    const {tree, frames} = flame;
    const unit = flame.unit;
    const path = [];
    for (let i = node; i > 0; i = tree.parent[i])
        path.unshift(i);
    const words = tree.totalB ? `A ${formatValue(tree.total[node], unit)}, B ${formatValue(tree.totalB[node], unit)}` :
        `${formatValue(tree.total[node], unit)} ${formatShare(tree.total[node], flame.whole)}`;
    const exact = [tree.total[node], ...(tree.totalB ? [tree.totalB[node]] : [])].map(Math.round).join(' ');
    const children = [element('b', {id: 'shown', title: exact}, words)];
    if (node === 0 && flame.freed)
        children.push(`  (and ${formatValue(flame.freed, unit)} less than at the begin)`);
    if (node) {
        children.push('  ', ...path.flatMap(i => [' › ', frames[tree.frame[i]].name]));
        const name = frames[tree.frame[node]].name;
        children.push('  ', element('button', {id: 'focus', onclick: () => set({focus: name}), title: 'its callers above, its callees below'}, 'focus'));
    }
    if (state.focus)
        children.push('  ', element('button', {id: 'unfocus', onclick: () => set({focus: ''})}, 'all stacks'));
    byId('crumbs').replaceChildren(...children);
    drawPairs(path.map(i => frames[tree.frame[i]].name));
}

function tip(node, event, of = flame) {
    const box = byId('tip');
    box.hidden = node < 0 || !event;
    if (box.hidden)
        return;
    const {tree, frames} = of;
    const frame = frames[tree.frame[node]];
    const lines = [frame.name];
    if (frame.file)
        lines.push(`${frame.file}${frame.line ? `:${frame.line}` : ''}`);
    if (frame.library)
        lines.push(frame.library);
    if (tree.totalB)
        lines.push(`A ${formatValue(tree.total[node], of.unit)}   B ${formatValue(tree.totalB[node], of.unit)}   ${
            tree.totalB[node] >= tree.total[node] ? '+' : ''}${formatValue(tree.totalB[node] - tree.total[node], of.unit)}`);
    else
        lines.push(`${formatValue(tree.total[node], of.unit)} ${formatShare(tree.total[node], of.whole)}`,
                   `itself ${formatValue(tree.self[node], of.unit)}`);
    box.textContent = lines.join('\n');
    const width = Math.min(480, window.innerWidth / 2);
    box.style.maxWidth = `${width}px`;
    box.style.left = `${Math.min(event.clientX + 12, window.innerWidth - width - 8)}px`;
    box.style.top = `${Math.min(event.clientY + 14, window.innerHeight - 100)}px`;
}

function valueColumns(unit, compared) {
    const number = (name, value, title) => ({name, isNumber: true, value, text: r => formatValue(value(r), unit), title});
    if (compared)
        return [number('change', r => r.flatB - r.flat, 'B less A, of the function itself'), number('A', r => r.flat), number('B', r => r.flatB),
                number('change with callees', r => r.cumB - r.cum)];
    return [number('flat', r => r.flat, 'of the function itself'), number('cum', r => r.cum, 'with all that it called')];
}

function drawTable() {
    const tree = treeNow();
    const rows = state.by.startsWith('label ') || state.by === 'process' ?
        folds.tableByLabel(queryNow(), state.by === 'process' ? 'process' : state.by.slice(6)) : folds.table(tree, state.by);
    const regex = searchRegex();
    const shown = regex ? rows.filter(r => regex.test(r.name)) : rows;
    const columns = valueColumns(unitNow(), Boolean(state.a));
    const share = state.a ? [] : [{name: '%', isNumber: true, value: r => r.flat, text: r => formatShare(r.flat, tree.total[0])}];
    table.show([columns[0], ...share, ...columns.slice(1), {name: 'name', value: r => r.name, text: r => r.name}], shown, columns[0].name);
}

/* Both lock profiles for the same range. */
function drawLocks() {
    for (const [kindName, of] of [['block', waiters], ['mutex', holders]]) {
        const kind = model.kinds.get(kindName);
        if (!kind) {
            of.show([{name: 'name', value: r => r.name, text: r => r.name}], [], 'name');
            continue;
        }
        const type = kind.types.findIndex(t => t.type === 'delay');
        const tree = folds.tree({kind: kindName, type, mode: 'sum', from: state.from, to: state.to, process: state.process, fold: false,
                                 without: kindName === 'block' && state.idle ? [IDLE] : []});
        const columns = valueColumns('nanoseconds', false);
        of.show([columns[0], {name: '%', isNumber: true, value: r => r.flat, text: r => formatShare(r.flat, tree.total[0])}, columns[1],
                 {name: 'name', value: r => r.name, text: r => r.name}], folds.table(tree, 'function'), 'flat');
    }
}

/*
 * The waits under way, from the text of `waits`: a line of how many, lines that name deadlocks, then for each wait an empty line, a line
 * with the thread and the lock, and its stack.
 */
function drawWaits(text) {
    const [first, ...waits] = text.trim().split('\n\n');
    const [count, ...deadlocks] = first.split('\n');
    byId('waitsNow').hidden = false;
    byId('waitsCount').textContent = count;
    const open = new Set([...byId('waits').querySelectorAll('details[open]')].map(d => d.dataset.thread));
    byId('waits').replaceChildren(...deadlocks.map(line => element('p', {class: 'alarm'}, line)), ...waits.map(wait => {
        const [head, ...stack] = wait.split('\n');
        const thread = head.split(' ')[1];
        return element('details', {'data-thread': thread, open: open.has(thread), class: /a deadlock/.test(head) ? 'alarm' : undefined},
                       element('summary', {}, `${head}${stack.length ? `, in ${stack[0].trim()}` : ''}`),
                       element('pre', {}, stack.map(s => s.trim()).join('\n')));
    }));
}

/* Growth by stack over the range, in eight parts: a leak grows in all of them, a cache that filled up in the first ones. */
function drawLeaks() {
    const PARTS = 8;
    const kind = kindNow();
    const type = kind.types.findIndex(t => t.type === HEAP_DEFAULT);
    if (type < 0)
        return;
    const [first, last] = extent(kind);
    const from = Math.max(state.from, first), to = Math.min(state.to, last);
    const sums = new Float64Array(model.nNodes), late = new Float64Array(model.nNodes), ups = new Uint8Array(model.nNodes);
    for (let part = 0; part < PARTS; part++) {
        const self = folds.self({...queryNow({from: from + (to - from) * part / PARTS, to: from + (to - from) * (part + 1) / PARTS}), type, mode: 'retained'});
        for (let i = 1; i < self.length; i++) {
            sums[i] += self[i];
            late[i] += part >= PARTS / 2 ? self[i] : 0;
            ups[i] += self[i] > 0;
        }
    }
    const rows = [];
    const hours = Math.max((to - from) / 3600e3, 1e-9);
    for (let i = 1; i < sums.length; i++)
        if (sums[i] > 0) {
            const names = [];
            for (let j = i; j > 0 && names.length < 6; j = model.parent.data[j])
                names.push(model.frames.items[model.frame.data[j]].name);
            rows.push({name: names[0], stack: names.join(' ‹ '), growth: sums[i], steady: ups[i] / PARTS, hourly: sums[i] / hours,
                       verdict: growthVerdict(ups[i] / PARTS, late[i] / sums[i]), score: sums[i] * (ups[i] / PARTS) ** 3});
        }
    const number = (name, value, text) => ({name, isNumber: true, value, text});
    leaks.show([number('evidence', r => r.score, r => formatValue(r.score, 'bytes')), number('growth', r => r.growth, r => formatValue(r.growth, 'bytes')),
                number('an hour', r => r.hourly, r => formatValue(r.hourly, 'bytes')), number('steady', r => r.steady, r => formatShare(r.steady, 1)),
                {name: 'verdict', value: r => r.verdict, text: r => r.verdict}, {name: 'stack', value: r => r.stack, text: r => r.stack}], rows, 'evidence');
}

/* steady: the share of the parts that grew; late: the share of the growth that came in the second half. */
function growthVerdict(steady, late) {
    if (late < 0.1)
        return 'filled up, then stopped';
    return steady >= 0.75 ? 'grows on: a leak?' : 'grew now and then';
}

function drawInfo() {
    const kind = kindNow();
    const [from, to] = extent(kind);
    const comments = new Set();
    for (const tick of kind.ticks.slice(-50))
        for (const comment of tick.comments)
            if (!comment.startsWith('#'))
                comments.add(comment);
    byId('info').replaceChildren(element('pre', {}, [
        `${kind.ticks.length} ${kind.name} profiles, ${formatTime(from, true)} to ${formatTime(to, true)}`,
        `${kind.nRows} rows, ${model.nNodes - 1} stacks, ${model.frames.items.length - 1} frames`,
        `processes: ${model.processes.items.map(processName).join(', ') || 'unknown'}`, '', ...comments,
    ].join('\n')));
}
