/* SPDX-License-Identifier: MIT */
/*
 * pairs.js - which stacks held the lock while others waited, from the pairs in the comments of lock profiles.
 *
 * Below the flame graph of `block` stand the holders that the shown waiters waited for; below that of `mutex`, the waiters that the
 * shown holders made wait. Shown are the stacks under the frame that was clicked, else those that match the search, else all.
 */
const PARTNERS = {block: {own: 'waiter', other: 'holder', kind: 'mutex', title: 'held by'},
                  mutex: {own: 'holder', other: 'waiter', kind: 'block', title: 'who waited'}};

/* Of a model's node: the names of its frames, the root's first. */
function namesOfNode(node) {
    const names = [];
    for (let i = node; i > 0; i = model.parent.data[i])
        names.push(model.frames.items[model.frame.data[i]].name);
    return names.reverse();
}

/* The same, leaf first, for a person: of a program with a runtime its frames only, and without those that start main and threads. */
function briefStack(node) {
    const frames = [];
    for (let i = node; i > 0; i = model.parent.data[i])
        frames.push(model.frames.items[model.frame.data[i]]);
    const some = state.fold ? frames.filter(isRuntimeFrame) : [], names = (some.length ? some : frames).map(f => f.name);
    const start = names.findIndex(name => STARTS.has(name));
    return start > 0 ? names.slice(0, start + Number(['main', '<module>'].includes(names[start]))) : names;
}

/*
 * Whether a stack begins with the path; both have the names from the root, or, in an inverted graph, from the leaf. Where the graph
 * leaves out frames, the path has some of the stack's names, in their order.
 */
function isUnder(path, stack) {
    if (!state.focus && !(state.fold && (state.invert || folds.brief().any)))
        return path.every((name, i) => stack[i] === name);
    let at = 0;
    for (const name of stack)
        if (at < path.length && path[at] === name)
            at++;
    return at === path.length;
}

/* The pairs of the range whose stack of the shown kind is under the path; without a path, matches the search. */
function pairsNow(path) {
    const kind = kindNow(), {own} = PARTNERS[state.kind];
    const [first, last] = kind.ticksWithin(state.from, state.to);
    const ticks = kind.ticks.slice(first, last).filter(t => state.process < 0 || t.process === state.process);
    const search = path.length ? null : searchNow(), found = search ? keptNodes(model, search) : null;
    return sumPairs(ticks.flatMap(t => t.pairs)).filter(pair => {
        const names = namesOfNode(pair[own]);
        if (state.invert && !state.focus)
            names.reverse();
        return path.length ? isUnder(path, names) : !found || found[pair[own]];
    });
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
        return void (byId('pairsTitle').textContent = kindNow().ticks.some(t => t.pairs.length) ?
            `${of.title}: not known; each profile has the 64 pairs of a waiter and a holder with the most time` :
            `${of.title}: not known; these profiles have no pairs of a waiter and a holder`);
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
                   {name: 'unlocks', isNumber: true, value: r => r.n, text: r => String(r.n), title: 'by the holder, while the waiter waited'},
                   {name: 'stack', value: r => r.name, text: r => r.name}], rows, 'delay');
}
