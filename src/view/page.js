/* SPDX-License-Identifier: MIT */
/*
 * page.js - connects the controls to the state, reads the data, and starts.
 */
const PAPER_WIDTH = '1000px';

function listen() {
    const on = (id, event, act) => byId(id).addEventListener(event, act);
    const toggle = (id, key) => on(id, 'click', () => set({[key]: !state[key]}));
    for (const [id, key] of [['only', 'only'], ['fold', 'fold'], ['invert', 'invert'], ['order', 'heavy'], ['up', 'up'], ['lines', 'lines'], ['idle', 'idle'], ['even', 'even']])
        toggle(id, key);
    for (const id of ['type', 'mode', 'by', 'charted', 'layers'])
        on(id, 'change', event => set({[id]: event.target.value}));
    on('process', 'change', event => set({process: Number(event.target.value)}));
    on('search', 'input', event => set({search: event.target.value, written: false}));
    on('search', 'keydown', event => { if (event.key === 'Escape') set(NO_SEARCH); });
    on('theme', 'click', () => set({theme: isDark() ? 'light' : 'dark'}));
    const help = () => {
        refill(byId('words'), ...[...[...model.kinds.keys()].filter(k => KIND_WORDS[k]).map(k => [k, KIND_WORDS[k]]), ...Object.entries(VIEWS).map(([v, name]) => [name, VIEW_WORDS[v]])]
            .flatMap(([name, words]) => [element('dt', {}, name), element('dd', {}, words)]));
        byId('keys').setAttribute('aria-expanded', String(!(byId('help').hidden = !byId('help').hidden)));
    };
    on('keys', 'click', help);
    on('sandwich', 'click', () => set({focus: state.focus ? '' : filling(), zoom: ''}));
    on('whole', 'click', () => setRange(-Infinity, Infinity));
    on('peak', 'click', () => {
        const kind = kindNow();
        if (kind.name === 'heap')
            set({type: HEAP_DEFAULT, mode: 'level', from: -Infinity, to: kind.ticks[peakTick(kind).index].end});
        else
            set((({from, to}) => ({from, to}))(busiest(windowsOf(kind, perTick(kind, typeIndex())[0]))));
    });
    on('last', 'click', () => {
        const ticks = kindNow().ticks;
        const tick = ticks[ticks.length - 1];
        setRange(Math.min(tick.start, ticks.length > 1 ? ticks[ticks.length - 2].end : tick.start), tick.end);
    });
    on('since', 'click', () => setRange(Number.isFinite(state.to) ? state.to : extent(kindNow())[1], Infinity));
    on('compare', 'click', () => set({a: state.a ? null : {from: state.from, to: state.to, process: state.process}}));
    on('lanesBy', 'change', event => set({lanes: event.target.value}));
    on('save', 'change', event => { save(event.target.value); event.target.value = ''; });
    for (const event of ['beforeprint', 'afterprint'])
        window.addEventListener(event, () => {
            isPrinting = event === 'beforeprint';
            document.body.style.width = isPrinting ? PAPER_WIDTH : ''; /* the browser makes pictures as wide as the paper */
            render();
            document.body.style.width = '';
        });
    window.addEventListener('resize', () => render());
    window.addEventListener('hashchange', () => { Object.assign(state, initial); peaksShown.isByHand = stateFromFragment(); begin(); });
    document.addEventListener('keydown', event => {
        if (!(event.target instanceof Element) || event.target.closest('input, select'))
            return;
        if (event.key === '?')
            help();
        if (event.key === 'Escape' && !event.target.closest('canvas') && state.search)
            set(NO_SEARCH);
        if (event.key === '/') {
            event.preventDefault();
            byId('search').focus();
        }
    });
    window.addEventListener('dragover', event => { event.preventDefault(); byId('drop').hidden = false; });
    window.addEventListener('dragleave', event => { if (!event.relatedTarget) byId('drop').hidden = true; });
    window.addEventListener('drop', event => {
        event.preventDefault();
        byId('drop').hidden = true;
        addFiles([...event.dataTransfer.files]);
    });
}

async function save(how) {
    const name = `${state.kind}-${state.type}`;
    const shown = state.focus ? [callers, flame] : [flame];
    if (how === 'png')
        flamePng(shown).toBlob(blob => download(`${name}.png`, blob));
    else if (how === 'svg')
        download(`${name}.svg`, new Blob([flameSvg(shown)], {type: 'image/svg+xml'}));
    else if (how === 'folded')
        download(`${name}.folded`, new Blob([foldedStacks(treeNow(), model.frames.items)], {type: 'text/plain'}));
    else if (how === 'pprof') {
        download(`${name}.pb.gz`, new Blob([await deflate(encodeRange(model, queryNow()))], {type: 'application/octet-stream'}));
    }
}

/* ---- sources of data ---- */

/* The kind of a file, by its name PROGRAM.PID.SEQ.KIND.pb.gz, or else by its sample types. */
function kindOfFile(name, profile) {
    const match = /^(.*)\.(\d+)\.(\d+)\.(\w+)\.pb\.gz$/.exec(name);
    if (match && KIND_NAMES.includes(match[4]))
        return {program: match[1], pid: match[2], kindName: match[4]};
    const types = profile.types.map(t => t.type);
    const kind = KINDS.filter(k => k.types.some(type => types.includes(type))).sort((a, b) => a.rank - b.rank)[0];
    return {kindName: kind ? kind.name : types[types.length - 1]};
}

async function addFiles(files) {
    const failed = [];
    const profiles = [];
    const others = [...files].filter(file => !/\.events\.pb\.gz$/.test(file.name)); /* events are the same once more, one by one */
    for (const file of others)
        try {
            const profile = decodeProfile(await inflate(new Uint8Array(await file.arrayBuffer())));
            profiles.push({profile, ...kindOfFile(file.name, profile), name: file.name});
        } catch (error) {
            failed.push(`${file.name}: ${error.message}`);
        }
    profiles.sort((a, b) => a.profile.timeNs + a.profile.durationNs - b.profile.timeNs - b.profile.durationNs);
    for (const {profile, name, ...meta} of profiles)
        try {
            model.addProfile(profile, meta);
        } catch (error) {
            failed.push(`${name}: ${error.message}`);
        }
    say(failed.join('; '));
    begin();
}

function say(text, isAlarm = true) {
    byId('state').textContent = text;
    byId('state').classList.toggle('alarm', isAlarm);
}

/* Up to three processes by name; of more, the programs, those with the most profiles first. */
function titleOf(processes) {
    const names = processes.map(processName).filter(n => n.trim());
    if (names.length < 4)
        return names.join(', ');
    const nTicks = new Map();
    for (const kind of model.kinds.values())
        for (const tick of kind.ticks)
            nTicks.set(processes[tick.process].program, (nTicks.get(processes[tick.process].program) || 0) + 1);
    const programs = [...nTicks.keys()].filter(Boolean).sort((a, b) => nTicks.get(b) - nTicks.get(a));
    return `${programs.slice(0, 3).join(', ')}${programs.length > 3 ? ' and others' : ''}: ${names.length} processes`;
}

/* The kind that the page begins with: what its first sentence is about, which is the worst; without sentences, memory. */
function firstKind() {
    const view = model.sides ? null : model.sentences.map(viewOfSentence).find(found => found && found.kind);
    return view ? view.kind : model.kinds.has('heap') ? 'heap' : [...model.kinds.keys()].sort((a, b) => kindPlace(a) - kindPlace(b))[0];
}

function begin() {
    if (!model.kinds.size) {
        if (!byId('state').textContent)
            say('no profiles yet: drop pprof files here', false);
        return;
    }
    for (const kind of model.kinds.values())
        kind.putInOrder();
    fitToData();
    const title = titleOf(model.processes.items) || 'deltaprof';
    byId('title').textContent = title;
    document.title = `${title} - deltaprof`;
    if (!model.kinds.has(state.kind))
        state.kind = firstKind();
    byId('liveWords').textContent = live ? live.words() : '';
    render();
}

/* The range in which one side of a comparison begins: up to the peak if all its processes have ended, as `top` does. */
function rangeOfSide(process) {
    const heap = model.kinds.get('heap'), members = model.groups.members(process);
    const isPeak = heap && heap.ticks.some(t => !members || members[t.process]) && heap.lastBeforeEnd(members);
    return {from: -Infinity, to: isPeak ? heap.ticks[peakTick(heap, process).index].end : Infinity, process};
}

async function main() {
    listen();
    const linked = peaksShown.isByHand = stateFromFragment();
    const family = /** @type {any} */ (document.querySelector('script[data-cursor]')), until = family ? Number(family.dataset.until) : Infinity;
    try {
        for (const data of document.querySelectorAll('script[type="application/octet-stream"]')) {
            const text = atob(data.textContent.trim());
            if (text)
                readPack(await inflate(Uint8Array.from(text, c => c.charCodeAt(0))), model, until);
            data.remove();
        }
    } catch (error) {
        say(`the data of this page cannot be read: ${error.message}`);
    }
    addStuck();
    const heap = model.kinds.get('heap');
    if (model.sides && !linked) {
        const [a, b] = model.sides.map(side => rangeOfSide(model.groups.ofDirectory(side)));
        const isHeap = heap && (!model.kinds.has(state.kind) || state.kind === 'heap'), shown = range => ({...range, to: isHeap ? range.to : Infinity});
        Object.assign(peaksShown, {a: a.to, b: b.to});
        Object.assign(state, shown(b), {a: shown(a)});
    } else if (heap && heap.ticks.length > 1 && !linked) {
        const peak = peakTick(heap), type = Math.max(heap.types.findIndex(t => t.type === HEAP_DEFAULT), 0);
        const last = folds.self({kind: 'heap', type, mode: 'level', to: Infinity, process: -1, passes: null}).reduce((a, b) => a + b, 0);
        if (peak.value > 0 && (heap.lastBeforeEnd() || last < peak.value / 10))
            peaksShown.b = heap.ticks[peak.index].end;
        if (peaksShown.b !== null && (model.kinds.has(state.kind) ? state.kind : firstKind()) === 'heap')
            state.to = peaksShown.b;
        if (!peak.value && heap.types.some(t => t.type === 'alloc_space'))
            state.type = 'alloc_space';
    }
    begin();
    if (document.documentElement.dataset.live || location.pathname.endsWith('/debug/pprof/view')) {
        say('asking the process', false);
        live = new Live(model, location.pathname.replace(/view$/, ''), family && {cursor: family.dataset.cursor, until}, {onTick: begin, onState: say, onWaits: drawWaits});
        live.start();
    }
    document.documentElement.dataset.ready = String(Math.round(performance.now())); /* in ms */
}
main();
