/* SPDX-License-Identifier: MIT */
/*
 * live.js - profiles from the process that served this page.
 *
 * One cumulative profile of each kind comes first, as the tick before all others. Then deltas come under a cursor of this page
 * alone, so no other reader loses any. Each reply acknowledges the one before (`after`), so a reply that was lost is covered by
 * the next. The oldest ticks are put together when there are many, so a page that stays open for days does not grow.
 */
const KINDS = ['heap', 'mutex', 'block'];
const POLL_MS = 5000;

class Live {
    /* base: the path of /debug/pprof/, with a slash at its end. */
    constructor(model, base, {onTick, onState}) {
        this.model = model;
        this.base = base;
        this.onTick = onTick;
        this.onState = onState;
        this.cursor = `view-${crypto.getRandomValues(new Uint32Array(2)).join('')}`;
        this.seq = {};
        this.pid = '';
        this.paused = false;
    }

    async start() {
        for (;;) {
            if (!this.paused && !document.hidden)
                await this.poll();
            await new Promise(resolve => setTimeout(resolve, POLL_MS));
        }
    }

    async poll() {
        try {
            for (const kind of KINDS)
                await this.pollKind(kind);
            this.onState('');
            this.onTick();
        } catch (error) {
            this.onState(`no answer from the process: ${error.message}`);
        }
    }

    async pollKind(kind) {
        if (this.seq[kind] === undefined) {
            const first = await this.fetch(`delta_${kind}?cursor=${this.cursor}&from=now`);
            if (!first)
                return;
            this.seq[kind] = first.seq;
            const whole = await this.fetch(kind);
            if (whole)
                this.add(kind, whole, true);
            return;
        }
        const delta = await this.fetch(`delta_${kind}?cursor=${this.cursor}${this.seq[kind] ? `&after=${this.seq[kind]}` : ''}`);
        if (!delta)
            return;
        this.add(kind, delta, false);
        this.seq[kind] = delta.seq;
    }

    /* A reply as {profile, seq}, or null where this kind is switched off. */
    async fetch(path) {
        const response = await fetch(this.base + path, {cache: 'no-store', credentials: 'same-origin'});
        if (response.status === 404)
            return null;
        if (!response.ok)
            throw new Error(`${path.split('?')[0]}: ${response.status} ${(await response.text()).split('\n')[0].slice(0, 200)}`);
        const pid = response.headers.get('X-Deltaprof-Pid') || '';
        if (this.pid && pid && pid !== this.pid)
            throw new Error(`process ${pid} answers in place of ${this.pid}: load the page again`);
        this.pid = pid;
        const bytes = await inflate(new Uint8Array(await response.arrayBuffer()));
        return {profile: decodeProfile(bytes), seq: response.headers.get('X-Deltaprof-Seq')};
    }

    add(kind, {profile}, isFirst) {
        if (isFirst) /* since the start of the process: no tick of its own in time */
            profile.durationNs = 0;
        this.model.addProfile(profile, {kindName: kind, pid: this.pid});
    }
}
