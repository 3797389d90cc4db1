/* SPDX-License-Identifier: MIT */
/*
 * locks.js - who waits for whom: threads that are stuck, a graph of waiters and holders that can be followed, both lock profiles beside each
 * other, and the waits under way.
 *
 * The graph is made of chains. It has one function in the middle; on the left stand the functions that waited for it, on the right those for
 * which it waited itself. A click on one of them puts it in the middle.
 */
const GRAPH_ROWS = 8, GRAPH_ROW_PX = 36, WAITS_TOLD = 6;

/* The function of a stack, the root's first, that is the program's own and nearest to the lock. */
function ownFunction(frames) {
    const hasRuntime = frames.some(isRuntimeFrame);
    return (frames.slice().reverse().find(f => !f.foreign && !f.passes && !f.isLibrary && (!hasRuntime || isRuntimeFrame(f))) || frames[frames.length - 1] || {name: '(no stack)'}).name;
}

/* [{waiter, holder, n, ns, locks}]: the pairs of functions of the chains in the range, the longest waits first. locks: what rows say of the lock. */
function waitEdges() {
    const kind = model.kinds.get('chain');
    if (!kind)
        return [];
    if (waitEdges.n !== model.nNodes)
        [waitEdges.n, waitEdges.ends] = [model.nNodes, new Map()];
    const [count, delay] = ['contentions', 'delay'].map(name => kind.types.findIndex(t => t.type === name)), [begin, end] = kind.rowsOfTicks(...kind.ticksWithin(state.from, state.to));
    const members = model.groups.members(state.process), passes = passesNow('chain'), edges = new Map();
    const about = model.labelSets.items.map(set => set.filter(([key]) => key.startsWith('lock')).map(([, value]) => value).join(': '));
    for (let i = begin; i < end; i++) {
        const node = kind.node.data[i], labels = kind.labels.data[i];
        if ((members && !members[kind.ticks[kind.tick.data[i]].process]) || (passes && !passes[labels]))
            continue;
        if (!waitEdges.ends.has(node)) {
            const ends = endsOfNode(node);
            waitEdges.ends.set(node, ends && {waiter: ownFunction(ends.waiter), holder: ownFunction(ends.holder)});
        }
        const ends = waitEdges.ends.get(node);
        if (!ends)
            continue;
        const key = `${ends.waiter}\0${ends.holder}`, edge = edges.get(key) || edges.set(key, {...ends, n: 0, ns: 0, locks: new Set()}).get(key);
        edge.n += kind.values[count].data[i];
        edge.ns += kind.values[delay].data[i];
        if (about[labels])
            edge.locks.add(about[labels]);
    }
    return [...edges.values()].sort((a, b) => b.ns - a.ns);
}
waitEdges.n = -1;
waitEdges.ends = new Map();

function wordsOfEdge({waiter, holder, n, ns, locks}) {
    const of = locks.size ? `, ${[...locks].slice(0, 3).join(', ')}` : '';
    return `${waiter} waited ${formatValue(ns, 'nanoseconds')} ${holder === '[hand-over]' ? 'until the lock was handed over' : `for ${holder}`} (${formatValue(n, 'count')} unlock${n === 1 ? '' : 's'}${of})`;
}

function drawWaitGraph() {
    const edges = waitEdges();
    byId('waitGraph').hidden = !edges.length;
    if (!edges.length)
        return;
    const held = new Map();
    for (const {holder, ns} of edges)
        if (holder !== '[hand-over]')
            held.set(holder, (held.get(holder) || 0) + ns);
    const isKnown = name => edges.some(e => e.waiter === name || e.holder === name);
    const middle = isKnown(state.lock) ? state.lock : [...held].reduce((most, one) => (one[1] > most[1] ? one : most), [edges[0].holder, 0])[0];
    const before = edges.filter(e => e.holder === middle), behind = edges.filter(e => e.waiter === middle), whole = edges.reduce((sum, e) => sum + e.ns, 0);
    const sum = list => list.reduce((total, e) => total + e.ns, 0), time = list => formatValue(sum(list), 'nanoseconds');
    const nRows = Math.max(1, Math.min(Math.max(before.length, behind.length), GRAPH_ROWS)), y = (i, n) => (nRows - n) * GRAPH_ROW_PX / 2 + (i + 0.5) * GRAPH_ROW_PX;
    const side = (list, of) => list.slice(0, GRAPH_ROWS).map(e => element('button', {title: wordsOfEdge(e), onclick: () => set({lock: e[of]})},
        element('span', {}, e[of]), element('b', {}, formatValue(e.ns, 'nanoseconds'))));
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    for (const [key, value] of Object.entries({viewBox: `0 0 100 ${nRows * GRAPH_ROW_PX}`, preserveAspectRatio: 'none', 'aria-hidden': 'true'}))
        svg.setAttribute(key, value);
    for (const [list, from, to] of /** @type {[any[], number, number][]} */ ([[before, 32, 35], [behind, 68, 65]]))
        list.slice(0, GRAPH_ROWS).forEach((e, i) => {
            const path = document.createElementNS(svg.namespaceURI, 'path'), top = y(i, Math.min(list.length, GRAPH_ROWS)), half = (from + to) / 2;
            path.setAttribute('d', `M${from} ${top}C${half} ${top} ${half} ${y(0, 1)} ${to} ${y(0, 1)}`);
            path.setAttribute('stroke-width', String(Math.max(1, 14 * e.ns / whole)));
            svg.append(path);
        });
    const more = list => (list.length > GRAPH_ROWS ? element('span', {class: 'note'}, `${list.length - GRAPH_ROWS} more`) : null);
    const box = byId('waitBoxes');
    refill(box, svg, element('div', {class: 'column', 'data-side': 'waiters'}, ...side(before, 'waiter'), more(before)), element('div', {class: 'column', 'data-side': 'middle'},
        element('button', {'aria-pressed': 'true', title: 'shows its stacks', onclick: () => set({kind: model.kinds.has('mutex') && before.length ? 'mutex' : 'block', type: 'delay', view: 'flame', search: `^${escapeRegex(middle)}$`})},
                element('span', {}, middle))), element('div', {class: 'column', 'data-side': 'holders'}, ...side(behind, 'holder'), more(behind)));
    box.style.setProperty('--rows', `${nRows * GRAPH_ROW_PX}px`);
    byId('waitWords').textContent = `${before.length ? `Others waited ${time(before)} for ${middle}.` : `Nobody waited for ${middle}.`} ${
        behind.length ? `It waited ${time(behind)} itself.` : 'It waited for nobody.'}`;
    refill(byId('waitList'), ...edges.slice(0, WAITS_TOLD).map(e => element('li', {}, element('button', {onclick: () => set({lock: e.holder === '[hand-over]' ? e.waiter : e.holder})}, wordsOfEdge(e)))));
}

/* Both lock profiles for the same range, and the waits under way; folded, stacks end at the program's own functions. */
function drawLocks() {
    if (waitsText)
        drawWaits(waitsText);
    const stuck = model.sentences.filter(sentence => sentence.kind === 'stuck');
    byId('stuck').hidden = !stuck.length;
    refill(byId('stuck'), ...stuck.map(({text}) => element('p', {class: 'alarm'}, text)));
    drawWaitGraph();
    const sides = [{kindName: 'block', of: waiters, words: 'who waited'}, {kindName: 'mutex', of: holders, words: 'who held'}];
    for (const {kindName, of, words} of sides) {
        const kind = model.kinds.get(kindName), title = of.parent.previousElementSibling;
        if (!kind) {
            title.textContent = `${words}: there is no ${kindName} profile`;
            of.show([{name: 'name', value: r => r.name, text: r => r.name}], [], 'name');
            continue;
        }
        const type = kind.types.findIndex(t => t.type === 'delay');
        const tree = folds.tree({kind: kindName, type, mode: 'sum', from: state.from, to: state.to, process: state.process, fold: state.fold,
                                 own: state.fold, brief: state.fold, passes: passesNow(kindName)});
        const columns = valueColumns('nanoseconds', false);
        title.textContent = `${words}: ${tree.total[0] ? formatValue(tree.total[0], 'nanoseconds') : emptyWords(kindName)}`;
        title.title = kindName === 'block' ? 'a click on a row shows who held meanwhile' : 'a click on a row shows who waited for it';
        of.show([columns[0], {name: '%', isNumber: true, value: r => r.flat, text: r => formatShare(r.flat, tree.total[0])}, columns[1],
                 {name: 'name', value: r => r.name, text: r => r.name}], folds.table(tree, 'function'), 'flat');
    }
}

const IDLE_WAIT = new RegExp(`^[^\n]* for (${IDLE.values.join('|')}) `);
let waitsText = '';

/*
 * The waits under way, from the text of `waits`: a line of how many, lines that name deadlocks, then for each wait an empty line, a line
 * with the thread and the lock, and its stack.
 */
function drawWaits(text) {
    const [first, ...all] = text.trim().split('\n\n');
    const [count, ...deadlocks] = first.split('\n');
    const waits = state.idle ? all.filter(wait => !IDLE_WAIT.test(wait) || / deadlock/.test(wait)) : all;
    waitsText = text;
    byId('waitsNow').hidden = false;
    byId('waitsCount').textContent = waits.length < all.length ? `${count}, ${all.length - waits.length} of them idle` : count;
    const open = new Set([...byId('waits').querySelectorAll('details[open]')].map(d => d.dataset.thread));
    byId('waits').replaceChildren(...deadlocks.map(line => element('p', {class: 'alarm'}, line)), ...waits.map(wait => {
        const [head, ...stack] = wait.split('\n');
        const thread = head.split(' ')[1];
        return element('details', {'data-thread': thread, open: open.has(thread), class: /a deadlock/.test(head) ? 'alarm' : undefined},
                       element('summary', {}, `${head}${stack.length ? `, in ${stack[0].trim()}` : ''}`),
                       element('pre', {}, stack.map(s => s.trim()).join('\n')));
    }));
}

/* What profiles say of themselves, tick by tick. */
