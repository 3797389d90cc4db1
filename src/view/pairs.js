/* SPDX-License-Identifier: MIT */
/*
 * pairs.js - which stacks held the lock while others waited, from the kind `chain`, whose stacks are a waiter's and a holder's.
 *
 * Below the flame graph of `block` stand the holders that the shown waiters waited for; below that of `mutex`, the waiters that the
 * shown holders made wait. Shown are the stacks under the frame that was clicked, else those that match the search, else all.
 */
const PARTNERS = {block: {own: 'waiter', other: 'holder', kind: 'mutex', title: 'held by'},
                  mutex: {own: 'holder', other: 'waiter', kind: 'block', title: 'who waited'}};

/* Both ends of a node of `chain`, as frames, the root's first; null: it is no chain. */
function endsOfNode(node) {
    const frames = [];
    for (let i = node; i > 0; i = model.parent.data[i])
        frames.push(model.frames.items[model.frame.data[i]]);
    frames.reverse();
    const at = frames.findIndex(f => f.name === '[held by]' || f.name === '[hand-over]');
    if (at < 0)
        return null;
    return {waiter: frames.slice(0, at), holder: frames[at].name === '[hand-over]' ? [frames[at]] : frames.slice(at + 1).reverse()};
}

/*
 * A stack leaf first, for a person: of a program with a runtime its frames only, and without those that start main and threads. Folded, it has no frames
 * of locks and of a language's own library, nor places of libraries without names.
 */
function briefStack(stack) {
    const frames = stack.slice().reverse(), isTold = f => !f.passes && !f.isLibrary && !(f.foreign && isPlace(f.name));
    const some = [isRuntimeFrame, isTold].map(which => (state.fold ? frames.filter(which) : [])).find(found => found.length), names = (some || frames).map(f => f.name);
    const start = names.findIndex(name => STARTS.has(name));
    return start > 0 ? names.slice(0, start + Number(['main', '<module>'].includes(names[start]))) : names;
}

/*
 * Whether a stack begins with the path; both have the names from the root, or, in an inverted graph, from the leaf. Where the graph
 * leaves out frames, the path has some of the stack's names, in their order.
 */
function isUnder(path, stack) {
    if (!state.focus && !(state.fold && (state.invert || (folds.brief().any || folds.brief().anyOpens))))
        return path.every((name, i) => stack[i] === name);
    let at = 0;
    for (const name of stack)
        if (at < path.length && path[at] === name)
            at++;
    return at === path.length;
}

/* The chains of the range, with their ends, whose stack of the shown kind is under the path; without a path, matches the search. */
function pairsNow(path) {
    const chain = model.kinds.get('chain'), {own} = PARTNERS[state.kind];
    if (!chain)
        return [];
    const sums = type => folds.self({...queryNow(), kind: 'chain', type: chain.types.findIndex(t => t.type === type), mode: 'sum', fold: false, passes: passesNow('chain')});
    const n = sums('contentions'), ns = sums('delay');
    const search = path.length ? null : searchNow(), pairs = [];
    for (let node = 1; node < ns.length; node++) {
        const ends = ns[node] ? endsOfNode(node) : null;
        if (!ends)
            continue;
        const names = ends[own].map(f => f.name);
        if (state.invert && !state.focus)
            names.reverse();
        if (path.length ? isUnder(path, names) : !search || ends[own].some(f => search.test(f)))
            pairs.push({...ends, n: n[node], ns: ns[node]});
    }
    return pairs;
}

/* path: the names from the root of the graph to the frame that was clicked. */
function drawPairs(path) {
    const box = byId('pairsBox'), of = PARTNERS[state.kind];
    const pairs = of ? pairsNow(path) : [];
    box.hidden = !of || (!pairs.length && !path.length);
    if (box.hidden)
        return;
    byId('pairs').hidden = !pairs.length;
    if (!pairs.length)
        return void (byId('pairsTitle').textContent = `${of.title}: not known; ${model.kinds.has('chain') ? 'no chain has this stack' : 'there are no profiles of the kind chain'}`);
    const sums = new Map();
    for (const pair of pairs) {
        const stack = briefStack(pair[of.other]);
        const text = stack.join(' ‹ '), row = sums.get(text) || {name: text, leaf: stack[0], ns: 0, n: 0};
        row.ns += pair.ns;
        row.n += pair.n;
        sums.set(text, row);
    }
    const rows = [...sums.values()], total = rows.reduce((sum, r) => sum + r.ns, 0);
    byId('pairsTitle').textContent = `${of.title}: ${formatValue(total, 'nanoseconds')}`;
    partners.show([{name: 'delay', isNumber: true, value: r => r.ns, text: r => formatValue(r.ns, 'nanoseconds')},
                   {name: '%', isNumber: true, value: r => r.ns, text: r => formatShare(r.ns, total)},
                   {name: of.own === 'holder' ? 'waits' : 'unlocks', isNumber: true, value: r => r.n, text: r => String(r.n), title: 'by the holder, while the waiter waited'},
                   {name: 'stack', value: r => r.name, text: r => r.name}], rows, 'delay');
}
