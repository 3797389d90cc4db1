/* SPDX-License-Identifier: MIT */
/*
 * series.js - values by tick, for the chart: in layers by branch of the tree, process or label, and the resident memory by part.
 */

/*
 * By layer and tick, the sum of a value over all rows up to there (levels) or of the tick. layerOf: {by: 'node', 'labels' or 'tick', of: by
 * number of it, the layer}; without it there is one layer.
 */
function perTick(kind, type, layerOf = null, nLayers = 1, choice = state.process) {
    const layers = Array.from({length: nLayers}, () => new Float64Array(kind.ticks.length));
    const data = kind.values[type].data, tick = kind.tick.data, labels = kind.labels.data;
    const index = layerOf ? kind[layerOf.by].data : null;
    const passes = passesNow(kind.name);
    const members = model.groups.members(choice), ofTick = kind.ticks.map(t => !members || members[t.process]);
    for (let i = 0; i < kind.nRows; i++)
        if ((!passes || passes[labels[i]]) && ofTick[tick[i]])
            layers[index ? layerOf.of[index[i]] : 0][tick[i]] += data[i];
    if (kind.isLevel[type])
        for (const values of layers)
            for (let i = 1; i < values.length; i++)
                values[i] += values[i - 1];
    return layers;
}

function peakTick(kind, choice = state.process) {
    const type = Math.max(kind.types.findIndex(t => t.type === HEAP_DEFAULT), 0);
    return mostOf(perTick(kind, type, null, 1, choice)[0], kind);
}

const FINE_MS = 100;

/*
 * The time of a flow in windows {from, to, rate}, each up to the end of a tick: the rate is a second's. Ticks of several processes that end together are of
 * one window, and a process's last tick, if it is shorter than half of the usual one, of that before; a tick counts in each window by its time there.
 */
function windowsOf(kind, values, factor = 1) {
    const {ticks} = kind, startOf = t => Math.min(t.start, t.end - 1), usual = ticks.map(t => t.end - startOf(t)).sort((a, b) => a - b)[ticks.length >> 1];
    const windows = /** @type {{from: number, to: number, rate: number}[]} */ ([]);
    if (usual < FINE_MS) { /* events: by the second */
        const begin = ticks.reduce((least, tick) => Math.min(least, startOf(tick)), Infinity);
        ticks.forEach((tick, i) => {
            const at = Math.floor(((startOf(tick) + tick.end) / 2 - begin) / 1000);
            while (windows.length <= at)
                windows.push({from: begin + 1000 * windows.length, to: begin + 1000 * (windows.length + 1), rate: 0});
            windows[at].rate += values[i] * factor;
        });
        return windows;
    }
    const last = new Map(ticks.map((t, i) => [t.process, i])), within = new Set();
    let begun = -Infinity, before = -Infinity;
    ticks.forEach((tick, i) => {
        const isEnd = last.get(tick.process) === i && tick.end - startOf(tick) < usual / 2;
        if (!windows.length || !(isEnd || (tick.end - begun < usual / 2 && !within.has(tick.process)))) {
            [begun, before] = [tick.end, windows.length ? windows[windows.length - 1].to : before];
            windows.push({from: Infinity, to: 0, rate: 0});
            within.clear();
        }
        within.add(tick.process);
        const window = windows[windows.length - 1], to = Math.ceil(tick.end); /* whole milliseconds, as in a link */
        Object.assign(window, {to, from: Math.max(before, Math.min(window.from, Math.floor(startOf(tick))))});
    });
    ticks.forEach((tick, i) => {
        const start = startOf(tick), share = values[i] * factor / (tick.end - start);
        for (let w = lowerBound(windows, window => window.to > start); w < windows.length && windows[w].from < tick.end; w++)
            windows[w].rate += share * Math.max(Math.min(windows[w].to, tick.end) - Math.max(windows[w].from, start), 0) * (1000 / (windows[w].to - windows[w].from));
    });
    return windows;
}

const busiest = windows => windows.reduce((most, one) => (one.rate > most.rate ? one : most));

/* Of a level's values by tick. Of processes that write their tick within some milliseconds the last one counts: before it, the values of the others are a tick old. */
function mostOf(values, kind) {
    const {ticks} = kind, slack = kind.slackNow();
    let best = -1;
    for (let i = 0; i < values.length; i++) {
        const next = ticks[i + 1], isOld = next && next.process !== ticks[i].process && next.end - ticks[i].end < slack;
        if (!isOld && (best < 0 || values[i] > values[best]))
            best = i;
    }
    return {index: best, value: values[best]};
}

const DIVIDED_MOST = 40, REST_SHARE = 0.01; /* branches of the chart that are divided; of a function that has a layer of its own */

/* By what the chart's layers can be told apart. */
function layerKeys(kind) {
    return ['branch', ...(model.processes.items.length > 1 ? ['process'] : []), ...folds.labelKeys(kind).map(k => `label ${k}`)];
}

function layersBy(kind) {
    const by = state.layers || (state.lens === 'age' && lensNow() ? 'label age' : hasStates(kind) ? `label ${STATE_LABEL}` : 'branch');
    return layerKeys(kind).includes(by) ? by : 'branch';
}

/* {names, values: by layer and tick}; the last layer is the rest. */
function layersNow(kind, type) {
    const by = layersBy(kind), isOfTwo = state.a && state.a.process !== state.process;
    const key = JSON.stringify([kind.name, type, model.version, state.process, withoutNow(kind.name), labelsNow(), by, state.opened, isOfTwo && state.a.process]);
    if (layersNow.key !== key) {
        layersNow.key = key;
        layersNow.found = isOfTwo ? twoSides(kind, type) : by === 'branch' ? branches(kind, type) : groups(kind, type, by);
    }
    return layersNow.found;
}
layersNow.key = '';
layersNow.found = /** @type {any} */ (null);

/* Of two choices of processes that are compared, each one's sum; there is no rest. */
function twoSides(kind, type) {
    const sides = [state.a.process, state.process];
    return {names: [...sides.map((choice, i) => `${'AB'[i]}: ${model.groups.name(choice)}`), 'rest'],
            values: [...sides.map(choice => perTick(kind, type, null, 1, choice)[0]), new Float64Array(kind.ticks.length)]};
}

/* Sums of the sizes of changes, by the number in a column of the kind. */
function sizes(kind, type, by, n) {
    const size = new Float64Array(n), data = kind.values[type].data, index = kind[by].data, tick = kind.tick.data, labels = kind.labels.data;
    const passes = passesNow(kind.name), members = model.groups.members(state.process);
    for (let i = 0; i < kind.nRows; i++)
        if ((!passes || passes[labels[i]]) && (!members || members[kind.ticks[tick[i]].process]))
            size[index[i]] += Math.abs(data[i]);
    return size;
}

/*
 * The largest branches of the tree. The stem that all stacks share is passed by first; so are frames of libraries at the begin of a branch.
 */
function branches(kind, type) {
    const parent = model.parent.data;
    const total = sizes(kind, type, 'node', model.nNodes), to = folds.folded();
    for (let i = model.nNodes - 1; i > 0; i--)
        if (to[i] !== i) {
            total[to[i]] += total[i];
            total[i] = 0;
        }
    const self = total.slice();
    for (let i = model.nNodes - 1; i > 0; i--)
        total[parent[i]] += total[i];
    const whole = total[0];
    const callees = of => {
        const found = [];
        for (let i = of + 1; i < model.nNodes; i++)
            if (parent[i] === of && total[i] > 0)
                found.push(i);
        return found.sort((x, y) => total[y] - total[x]);
    };
    let stem = -1;
    let found = [0];
    while (total[found[0]] >= whole * STEM_SHARE) {
        const next = callees(found[0]);
        if (!next.length)
            break;
        stem = found[0];
        found = next;
    }
    const parts = ownParts(found, total, callees), share = nodes => nodes.reduce((sum, at) => sum + total[at], 0);
    let n = LAYERS_SHOWN;
    while (n < LAYERS_MOST && parts.length > n && share(parts.slice(n)) > total[parts[0]]) /* the rest is not the largest layer */
        n++;
    const shown = parts.slice(0, n + state.opened), rest = shown.length;
    const of = new Int32Array(model.nNodes).fill(rest);
    for (let i = stem + 1; i < model.nNodes; i++) {
        const at = shown.indexOf(i);
        of[i] = at >= 0 ? at : of[parent[i]];
    }
    const parted = distinctNames(shown.map(frameOf), shown.map(b => callees(b).map(frameOf)[0]), shown.map(b => parent[b] > 0 && frameOf(parent[b])));
    const others = parts.length === rest ? restByFunction(of, rest, self, whole) : {names: [], nMore: parts.length - rest};
    parted.push(...others.names.slice(0, Math.max(n + state.opened - rest, 0)));
    const names = [...new Set(parted)]; /* what nothing tells apart is one layer */
    of.forEach((layer, i) => { of[i] = layer < parted.length ? names.indexOf(parted[layer]) : names.length; });
    const programs = programsOf(kind, of, names.length);
    return {names: [...names.map((name, i) => programs[i] + name), 'rest'], nMore: others.nMore + Math.max(rest + others.names.length - parted.length, 0),
            values: perTick(kind, type, {by: 'node', of}, names.length + 1)};
}

/* The frame of a node; of a hook of the profiler, that of the profiler. */
function frameOf(node) {
    const frame = model.frames.items[model.frame.data[node]];
    return frame.isProfiler ? {...frame, name: PROFILER, file: ''} : frame;
}

/* Divides the rest, where no branch is left, by the own function in which stacks end: the largest have layers from number `rest` on. */
function restByFunction(of, rest, self, whole) {
    const sums = new Map(), own = folds.ownFolded(), nameOf = i => frameOf(own[i]).name;
    for (let i = 1; i < of.length; i++)
        if (of[i] === rest && self[i] > 0)
            sums.set(nameOf(i), (sums.get(nameOf(i)) || 0) + self[i]);
    const names = [...sums].filter(([, size]) => size > whole * REST_SHARE).sort((x, y) => y[1] - x[1]).map(([name]) => name);
    if (names.length)
        for (let i = 1; i < of.length; i++)
            if (of[i] === rest)
                of[i] = rest + (names.includes(nameOf(i)) ? names.indexOf(nameOf(i)) : names.length);
    return {names, nMore: 0};
}

/*
 * In place of each branch, its first node that is the user's own code, in the language of a runtime if there is one, and has most of it. A large
 * branch that has such code only in parts, as that of a library's threads, is divided. The largest first.
 */
function ownParts(branches, total, callees) {
    const {frames, frame, parent} = model, hasRuntime = folds.brief().hasRuntime;
    const isOwnFrame = frames.items.map(f => !f.foreign && !STARTS.has(f.name) && !isPlace(f.name) && (!hasRuntime || isRuntimeFrame(f)));
    const isOwn = at => isOwnFrame[frame.data[at]], hasOwn = new Uint8Array(model.nNodes);
    for (let i = hasOwn.length - 1; i > 0; i--)
        if (hasOwn[i] || (total[i] > 0 && isOwn(i)))
            hasOwn[i] = hasOwn[parent.data[i]] = 1;
    const ownPartOf = branch => {
        for (let at = branch; at !== undefined && hasOwn[at] && total[at] >= total[branch] * STEM_SHARE; [at] = callees(at))
            if (isOwn(at))
                return at;
    };
    const parts = [], open = branches.slice();
    for (let nDivided = 0; open.length;) {
        const branch = open.shift(), own = ownPartOf(branch), mayDivide = own === undefined && hasOwn[branch] && nDivided < DIVIDED_MOST && total[branch] > total[0] / 20;
        const below = mayDivide ? callees(branch) : [];
        if (below.length)
            nDivided++;
        else
            parts.push(own ?? branch);
        open.push(...below);
    }
    const sort = nodes => nodes.sort((x, y) => total[y] - total[x]);
    for (sort(parts); total[parts[0]] > total[0] / 2; sort(parts)) { /* one that has most of all is shown by its parts */
        let forks = [parts[0]];
        while (forks.length === 1)
            forks = callees(forks[0]).filter(at => total[at] > total[0] / 10);
        if (forks.length < 2 || !forks.every(isOwn))
            break;
        parts.splice(0, 1, ...forks);
    }
    return parts;
}

/* By layer, the programs whose rows are in it, as the begin of its name; of one program only: ''. */
function programsOf(kind, layerOfNode, nLayers) {
    const of = Array.from({length: nLayers}, () => new Set()), programs = model.processes.items.map(p => p.program);
    if (new Set(programs).size < 2 || state.process >= 0)
        return of.map(() => '');
    for (let i = 0; i < kind.nRows; i++)
        of[layerOfNode[kind.node.data[i]]]?.add(programs[kind.ticks[kind.tick.data[i]].process]);
    return of.map(names => `${names.size > 2 ? `${names.size} programs` : [...names].sort().join(', ')}: `);
}

/* By process, or by the values of a label; ages in their order, others the largest first. */
function groups(kind, type, by) {
    const isProcess = by === 'process', key = by.slice(6);
    const column = isProcess ? 'tick' : 'labels';
    const groupOf = isProcess ? kind.ticks.map(t => t.process) : folds.labelValues(key);
    const size = new Map();
    sizes(kind, type, column, groupOf.length).forEach((n, i) => { if (n > 0) size.set(groupOf[i], (size.get(groupOf[i]) || 0) + n); });
    const isAge = key === 'age' && [...size.keys()].every(v => v === null || AGES.includes(v));
    const shown = isAge ? AGES : [...size.keys()].sort((x, y) => size.get(y) - size.get(x)).slice(0, LAYERS_SHOWN + state.opened);
    const of = groupOf.map(g => (shown.includes(g) ? shown.indexOf(g) : shown.length));
    const names = [...shown.map(g => (isProcess ? processName(model.processes.items[g]) : g ?? `(no ${key})`)), 'rest'];
    return {names, isScale: isAge, nMore: isAge ? 0 : size.size - shown.length, values: perTick(kind, type, {by: column, of}, names.length)};
}

/*
 * The frames' names; where one name occurs twice, that of the function that each calls most, or else with the file, the line or the caller, what tells
 * them apart. called, callers: by frame.
 */
function distinctNames(frames, called, callers) {
    const all = [...frames, ...called.filter(Boolean)].map(f => f.name), isOne = f => f && all.indexOf(f.name) === all.lastIndexOf(f.name);
    const ways = [f => f.name, f => f.file && `${f.name} (${baseName(f.file)})`, f => f.line && `${f.name}:${f.line}`, (f, i) => callers[i] && `${f.name} in ${callers[i].name}`];
    return frames.map((f, i) => {
        const tells = way => way(f, i) && frames.every((g, k) => k === i || way(g, k) !== way(f, i));
        return !tells(ways[0]) && isOne(called[i]) ? called[i].name : (ways.find(tells) || ways[0])(f, i);
    });
}

/* Hue, saturation, lightness in light and dark: told apart by lightness too, for eyes that do not tell these hues apart. */
const LAYER_COLOURS = [[41, 95, 61, 46], [202, 70, 62, 50], [164, 60, 40, 32], [327, 45, 72, 60], [56, 80, 66, 56], [212, 75, 42, 38], [22, 90, 48, 40], [280, 35, 60, 50],
                       [0, 0, 35, 80]];

/* Of the last of n layers, the rest: grey. */
function layerColour(i, n) {
    const [hue, saturation, light, dark] = i < n - 1 ? LAYER_COLOURS[i % LAYER_COLOURS.length] : [0, 0, 62, 45];
    const turn = i < n - 1 ? Math.floor(i / LAYER_COLOURS.length) : 0; /* the same hues again are paler */
    return `hsl(${hue},${Math.round(saturation / (1 + turn))}%,${Math.min((isDark() ? dark : light) + 12 * turn, 90)}%)`;
}

const FILES_PART = 'pages of files, shared memory', REST_PART = 'not explained';

/*
 * The resident memory by tick, summed over processes; of each the last that is known, from its first tick to its last. {rss, anon, error,
 * parts: Map of name to values}: the parts add up to rss. Null: no profile says it.
 */
function residentNow(kind) {
    if (!kind.ticks.some(t => t.rss))
        return null;
    const key = `${kind.name} ${model.version} ${state.process}`, members = model.groups.members(state.process);
    if (residentNow.key === key)
        return residentNow.found;
    const names = new Set(kind.ticks.flatMap(t => (t.rss ? t.rss.parts.map(([name]) => name) : [])));
    const n = kind.ticks.length, zeros = () => new Float64Array(n);
    const found = {rss: zeros(), anon: zeros(), error: zeros(), parts: new Map([...names, REST_PART, FILES_PART].map(name => [name, zeros()]))};
    const last = new Map(kind.ticks.map((t, i) => [t.process, i])), now = new Map();
    kind.ticks.forEach((tick, i) => {
        if (tick.rss && (!members || members[tick.process]))
            now.set(tick.process, tick.rss);
        for (const [process, {rss, anon, error, parts}] of now) {
            const told = parts.reduce((sum, [, bytes]) => sum + bytes, 0);
            found.rss[i] += rss;
            found.anon[i] += anon;
            found.error[i] += error;
            for (const [name, bytes] of parts)
                found.parts.get(name)[i] += bytes;
            found.parts.get(REST_PART)[i] += Math.max(anon - told, 0);
            found.parts.get(FILES_PART)[i] += rss - anon;
            if (i >= last.get(process) && i + 1 < n)
                now.delete(process);
        }
    });
    residentNow.key = key;
    return (residentNow.found = found);
}
residentNow.key = '';
residentNow.found = /** @type {any} */ (null);
