/* SPDX-License-Identifier: MIT */
/*
 * live.js - fetches profiles from the process that served this page.
 *
 * The page has its own cursor, so no other reader loses deltas. The first delta has everything since the start of the
 * process; it becomes a tick of no length before all others. Each request acknowledges the reply before (`after`), so a reply
 * that was lost is covered by the next one. If the process has dropped the cursor, the page goes on with a new one, from now
 * on. The oldest ticks are joined when there are many, so a page that stays open for days does not grow.
 */
const POLL_MS = 5000, FIRST_POLL_MS = 1000, FIRST_POLLS = 5; /* so that there is a chart soon */
const LATE_MS = 10000; /* then the page says that it still waits */
const TICKS_KEPT = 2000;
const POLLS_LEFT_OUT = 11; /* for a kind that is off */

class Live {
    /* base: the path of /debug/pprof/, with a slash at its end. */
    constructor(model, base, {onTick, onState, onWaits}) {
        this.model = model;
        this.base = base;
        this.onTick = onTick;
        this.onState = onState;
        this.onWaits = onWaits;
        this.pid = '';
        this.left = {}; /* by kind: how many polls are left out before it is asked for again */
        this.newCursor();
        this.goesOn = false;
    }

    newCursor() {
        this.cursor = `view-${crypto.getRandomValues(new Uint32Array(2)).join('')}`;
        this.seq = {};
        this.goesOn = true;
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
        const reply = await this.fetch(`delta_${kind}?cursor=${this.cursor}&after=${seq || 0}${this.goesOn ? '&from=now' : ''}`);
        if (!reply) {
            this.left[kind] = reply === undefined ? POLLS_LEFT_OUT : 0;
            return;
        }
        if (seq === undefined && !this.goesOn) /* everything since the start of the process: a tick of no length */
            Object.assign(reply.profile, {timeNs: reply.profile.timeNs + reply.profile.durationNs, durationNs: 0});
        this.model.addProfile(reply.profile, {kindName: kind, pid: this.pid});
        const of = this.model.kinds.get(kind);
        if (of.ticks.length > TICKS_KEPT)
            of.joinOldest();
        this.seq[kind] = reply.seq;
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
            this.newCursor();
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
