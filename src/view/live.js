/* SPDX-License-Identifier: MIT */
/*
 * live.js - fetches profiles from the process that served this page, or from `deltaprof serve`, which speaks for many: there, rows have the label pid.
 *
 * The page has its own cursor, so no other reader loses deltas. `deltaprof serve` puts the files on disk into the page, with the name of a cursor that
 * begins where each process's files end. Without files the first delta has everything since the start of the processes, and is one long tick. Each
 * request acknowledges the reply before (`after`), so a reply that was lost is covered by the next one. If the cursor is gone, the page goes on with a
 * new one, from now on.
 *
 * Memory: a kind has at most as many ticks as it began with, and TICKS_KEPT more for each process that runs, up to TICKS_MOST; older ticks are joined
 * two by two. So a page that stays open for days does not grow.
 */
const POLL_MS = 5000, FIRST_POLL_MS = 1000, FIRST_POLLS = 5; /* so that there is a chart soon */
const LATE_MS = 10000; /* then the page says that it still waits */
const TICKS_KEPT = 360, TICKS_MOST = 5760;
const POLLS_LEFT_OUT = 11; /* for a kind that is off */
const SINCE_START = 'start', SINCE_FILES = 'files', FROM_NOW = 'now';

class Live {
    /* base: the path of /debug/pprof/, with a slash at its end. family: of `deltaprof serve`: {cursor, until: ms, when it began}; null: one process. */
    constructor(model, base, family, {onTick, onState, onWaits}) {
        this.model = model;
        this.base = base;
        this.family = family;
        this.onTick = onTick;
        this.onState = onState;
        this.onWaits = onWaits;
        this.pid = '';
        this.left = {}; /* by kind: how many polls are left out before it is asked for again */
        this.newCursor(SINCE_START);
        if (family && family.cursor)
            [this.cursor, this.begins] = [family.cursor, SINCE_FILES];
        this.nBefore = new Map([...model.kinds].map(([name, kind]) => [name, kind.ticks.length]));
        this.programs = new Map(model.processes.items.map(p => [p.pid, p.program]));
        this.living = this.livingAtFirst();
    }

    newCursor(begins) {
        this.cursor = `view-${crypto.getRandomValues(new Uint32Array(2)).join('')}`;
        this.seq = {};
        this.begins = begins;
    }

    /* The pids of processes whose files do not say that they ended. */
    livingAtFirst() {
        const heap = this.model.kinds.get('heap'), ended = heap ? heap.lastTicks().ended : [];
        return new Set(this.model.processes.items.filter((_, i) => ended[i] !== undefined && !(ended[i] & 7)).map(p => p.pid));
    }

    async start() {
        for (let n = 1;; n++) {
            if (!document.hidden)
                await this.poll();
            await new Promise(resolve => setTimeout(resolve, n < FIRST_POLLS ? FIRST_POLL_MS : POLL_MS));
        }
    }

    async poll() {
        const late = setTimeout(() => this.onState(`the process has not answered for ${LATE_MS / 1000} s`), LATE_MS);
        try {
            for (const kind of KIND_NAMES)
                await this.pollKind(kind);
            await this.pollWaits();
            this.onState('');
            this.onTick();
        } catch (error) {
            this.onState(error.message);
        } finally {
            clearTimeout(late);
        }
    }

    async pollKind(kind) {
        const seq = this.seq[kind];
        if (this.left[kind]-- > 0)
            return;
        const reply = await this.fetch(`delta_${kind}?cursor=${this.cursor}&after=${seq || 0}${seq === undefined && this.begins === FROM_NOW ? '&from=now' : ''}`);
        if (!reply) {
            this.left[kind] = reply === undefined ? POLLS_LEFT_OUT : 0;
            return;
        }
        if (seq === undefined && this.begins === SINCE_FILES && reply.profile.timeNs / 1e6 < this.family.until - 1)
            return void this.newCursor(FROM_NOW); /* the server was started again, and has begun at the start of the processes */
        for (const {profile, pid} of this.parts(kind, reply.profile))
            this.model.addProfile(profile, {kindName: kind, pid, program: await this.programOf(pid, profile), isTotal: seq === undefined && this.begins === SINCE_START});
        const of = this.model.kinds.get(kind), most = (this.nBefore.get(kind) || 0) + Math.min(TICKS_KEPT * Math.max(this.living.size, 1), TICKS_MOST);
        if (of && of.ticks.length > most)
            of.joinOldest();
        this.seq[kind] = reply.seq;
    }

    /* By process. One that has nothing in use any more has no row, but its tick says so. The first tick behind files begins where they end. */
    parts(kind, profile) {
        if (!this.family)
            return [{profile, pid: this.pid}];
        const isLevel = KINDS.find(k => k.name === kind).levels.length > 0, samples = new Map(isLevel ? [...this.living].map(pid => [pid, []]) : []);
        for (const {labels, ...sample} of profile.samples) {
            const pid = (labels.find(l => l[0] === 'pid') || ['', 'ended'])[1];
            if (!samples.has(pid))
                samples.set(pid, []);
            samples.get(pid).push({...sample, labels: labels.filter(l => l[0] !== 'pid')});
        }
        if (isLevel)
            this.living = new Set([...samples].filter(([pid, rows]) => rows.length && pid !== 'ended').map(([pid]) => pid));
        const ticks = this.seq[kind] === undefined && this.begins === SINCE_FILES && this.model.kinds.get(kind)?.ticks || [], {items} = this.model.processes;
        return [...samples].map(([pid, rows]) => {
            const last = ticks.reduce((end, t) => (items[t.process].pid === pid ? Math.max(end, t.end) : end), 0), timeNs = last ? last * 1e6 : profile.timeNs;
            return {pid, profile: {...profile, samples: rows, timeNs, durationNs: profile.timeNs + profile.durationNs - timeNs}};
        });
    }

    /* Of a process of the family that is new, the metrics tell it. */
    async programOf(pid, profile) {
        if (this.family && !this.programs.has(pid)) {
            const text = await (await this.request('metrics')).text();
            for (const [, of, program] of text.matchAll(/\{pid="(\d+)",program="([^"]*)"/g))
                this.programs.set(of, program);
            if (!this.programs.has(pid))
                this.programs.set(pid, profile.program);
        }
        return this.programs.get(pid) || profile.program;
    }

    /* What the page says of its ticks. */
    words() {
        const ticks = [...this.model.kinds.values()].flatMap(kind => kind.ticks), total = ticks.find(t => t.isTotal), said = [];
        if (total)
            said.push(`${formatTime(total.start, true)} to ${formatTime(total.end)}: one tick, sums since the start`);
        if (this.family && this.family.cursor && this.nBefore.size)
            said.push(`until ${formatTime(this.family.until)}: from files`);
        if (ticks.some(t => t.isJoined))
            said.push('old ticks are joined');
        return `live${said.map(words => `; ${words}`).join('')}`;
    }

    /* The text of `waits`: the threads that wait now. */
    async pollWaits() {
        const response = await this.request('waits');
        if (response.ok)
            this.onWaits(await response.text());
    }

    request(path) {
        return fetch(location.origin + this.base + path, {cache: 'no-store', credentials: 'same-origin'})
            .catch(() => { throw new Error('no answer from the process'); });
    }

    /* A reply as {profile, seq}; undefined: this kind is off; null: the cursor is gone. */
    async fetch(path) {
        const response = await this.request(path);
        if (response.status === 404)
            return undefined;
        if (response.status === 409) {
            this.newCursor(FROM_NOW);
            return null;
        }
        if (!response.ok)
            throw new Error(`${path.split('?')[0]}: ${response.status} ${(await response.text()).split('\n')[0].slice(0, 200)}`);
        const pid = response.headers.get('X-Deltaprof-Pid') || '';
        if (this.pid && pid && pid !== this.pid)
            throw new Error(`process ${pid} answers in place of ${this.pid}: load the page again`);
        this.pid = pid;
        const bytes = await inflate(new Uint8Array(await response.arrayBuffer()));
        return {profile: decodeProfile(bytes), seq: response.headers.get('X-Deltaprof-Seq')};
    }
}
