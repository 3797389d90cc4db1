/* SPDX-License-Identifier: MIT */
/*
 * lanes.js - a lane for each thread: which function it ran, or in which state it was, at which time. Events are known to 20 ms; a wait is drawn
 * from its begin.
 *
 * Time goes across the chosen range. Of the events within a pixel the one that covers most of it is drawn, so a lane is an array of as many rows
 * as it is wide, made once for a range. Lanes are pixels in memory, so ten events cost the browser as much as a hundred thousand; what the mouse
 * adds is drawn upon a copy, which a drag begins with.
 */
const LANE_PX = 15, THIN_TOP = 4, THIN_BOTTOM = 9, LANES_SHOWN = 40, LANE_WORDS_PX = 150, LANE_AXIS_PX = 16;
const THREAD_LABEL = 'thread id', STATE_LABEL = 'state';
/* In light and in dark: a label upon them is legible. */
const STATE_COLOURS = {running: ['#6cc08b', '#2c7a47'], runnable: ['#e6c84a', '#7d6800'], lock: ['#f08a75', '#a8392a'], io: ['#b79ae0', '#6a4a99'], sleep: ['#c4c4cc', '#55555f'],
                       fault: ['#f2b264', '#955a12'], allocates: ['#8fbdf0', '#2f639e']};
const stateColour = name => (STATE_COLOURS[name] || ['#aaa', '#666'])[Number(isDark())];
/* States that events tell by the values that they have, the first of these: sample type, state. */
const STATE_OF_TYPE = [['delay', 'lock'], ['cpu', 'running'], ['wall', 'unknown'], ['alloc_space', 'allocates']];

class Lanes {
    /* onRange(from, to) in ms; onPick(lane); onHover(null or {ms, lane, row}, event). */
    constructor(canvas, {onRange, onPick, onHover}) {
        this.canvas = canvas;
        this.onRange = onRange;
        this.onPick = onPick;
        this.onHover = onHover;
        this.lanes = /** @type {any[]} */ ([]);
        this.events = /** @type {any} */ (null);
        this.image = this.sheet = /** @type {any} */ (null); /* pixels, and a canvas of their size */
        this.drag = this.kept = /** @type {any} */ (null);
        this.from = this.to = 0;
        this.dark = false;
        canvas.tabIndex = 0;
        const on = (event, act) => canvas.addEventListener(event, act);
        on('pointerdown', event => {
            if (event.button || !this.lanes.length)
                return;
            canvas.setPointerCapture(event.pointerId);
            this.keep();
            this.drag = [this.place(event), this.place(event)];
        });
        on('pointermove', event => this.move(event));
        on('pointerup', event => this.up(event));
        on('pointercancel', () => this.letGo());
        on('pointerleave', event => this.onHover(null, event));
        on('dblclick', () => this.onRange(-Infinity, Infinity));
        on('keydown', event => this.key(event));
    }

    /*
     * lanes: [{name, isChosen}]; events: {n, lane, from, to: by event, in ms, of the lanes' numbers; -1 is in no lane; pixel(event): its colour, isThin(event)}.
     */
    show({lanes, events, from, to, dark}) {
        [this.lanes, this.events, this.from, this.to, this.dark] = [lanes.slice(0, LANES_SHOWN), events, from, to, dark];
        this.nMore = lanes.length - this.lanes.length;
        const ratio = window.devicePixelRatio || 1;
        this.ratio = ratio;
        this.width = Math.max(this.canvas.parentElement.clientWidth, 200);
        this.words = laneWordsPx(this.width);
        this.height = this.lanes.length * LANE_PX + LANE_AXIS_PX;
        sizeCanvas(this.canvas, this.width, this.height, ratio);
        this.drag = null;
        this.paint();
        this.drawFocus();
    }

    /* Fills `rows`: by lane and pixel, the number of the event that is seen there; -1: none. */
    paint() {
        const {events, from, to} = this, n = Math.max(Math.floor(this.width - this.words), 1), by = n / (to - from);
        const rows = new Int32Array(n * this.lanes.length).fill(-1), covered = new Float32Array(rows.length);
        for (let i = 0; i < events.n; i++) {
            const lane = events.lane[i], left = (events.from[i] - from) * by, right = (events.to[i] - from) * by;
            if (lane < 0 || lane >= this.lanes.length || right <= 0 || left >= n)
                continue;
            for (let x = Math.max(Math.floor(left), 0); x < Math.min(right, n); x++) {
                const share = Math.min(x + 1, right) - Math.max(x, left), at = lane * n + x;
                if (share >= covered[at]) {
                    covered[at] = share;
                    rows[at] = i;
                }
            }
        }
        this.n = n;
        this.rows = rows;
        const context = this.canvas.getContext('2d');
        context.setTransform(1, 0, 0, 1, 0, 0);
        context.clearRect(0, 0, this.canvas.width, this.canvas.height);
        context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
        this.paintEvents(context);
        context.font = '11px system-ui, sans-serif';
        context.textBaseline = 'middle';
        this.lanes.forEach((lane, at) => {
            context.fillStyle = lane.isChosen ? (this.dark ? '#6fc3ff' : '#0067a5') : this.dark ? '#ccc' : '#333';
            context.fillText(fitted(context, lane.name, this.words - 8), 4, at * LANE_PX + LANE_PX / 2);
        });
        context.fillStyle = this.dark ? '#ccc' : '#333';
        const y = this.height - LANE_AXIS_PX / 2;
        for (const ms of finerTimes(from, to, n / 110)) {
            const x = this.words + (ms - from) * by, text = to - from < 10000 ? `${formatTime(ms)}.${String(new Date(ms).getMilliseconds()).padStart(3, '0')}` : formatTime(ms);
            const width = context.measureText(text).width;
            context.fillRect(Math.round(x), this.height - LANE_AXIS_PX, 1, 3);
            if (x + width / 2 < this.width && x - width / 2 > this.words - 10)
                context.fillText(text, x - width / 2, y + 2);
        }
    }

    /* A line of pixels in the middle of each lane, another one at its edges, where a thin event leaves the ground. */
    paintEvents(context) {
        const {events, rows, n} = this, ground = pixelOf(this.dark ? '#2b2b33' : '#ececf1'), height = this.lanes.length * LANE_PX;
        if (!height)
            return;
        if (!this.image || this.image.width !== n || this.image.height !== height)
            [this.image, this.sheet] = [new ImageData(n, height), Object.assign(document.createElement('canvas'), {width: n, height})];
        const pixels = new Uint32Array(this.image.data.buffer), middle = new Uint32Array(n), edge = new Uint32Array(n);
        this.lanes.forEach((_, lane) => {
            middle.fill(ground);
            edge.fill(ground);
            for (let x = 0, at = lane * n; x < n; x++, at++)
                if (rows[at] >= 0) {
                    middle[x] = events.pixel(rows[at]);
                    if (!events.isThin(rows[at]))
                        edge[x] = middle[x];
                }
            for (let y = 0; y < LANE_PX - 2; y++)
                pixels.set(y >= THIN_TOP && y < THIN_BOTTOM ? middle : edge, (lane * LANE_PX + y) * n);
        });
        this.sheet.getContext('2d').putImageData(this.image, 0, 0);
        context.imageSmoothingEnabled = false;
        context.drawImage(this.sheet, this.words, 0);
    }

    /* A copy of what is drawn. */
    keep() {
        this.kept = this.kept || document.createElement('canvas');
        sizeCanvas(this.kept, this.width, this.height, this.ratio);
        const context = this.kept.getContext('2d');
        context.clearRect(0, 0, this.kept.width, this.kept.height);
        context.drawImage(this.canvas, 0, 0);
    }

    drawDrag() {
        const context = this.canvas.getContext('2d');
        context.setTransform(1, 0, 0, 1, 0, 0);
        context.clearRect(0, 0, this.canvas.width, this.canvas.height);
        context.drawImage(this.kept, 0, 0);
        context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
        context.fillStyle = this.dark ? 'rgba(255,255,255,0.25)' : 'rgba(0,0,0,0.2)';
        if (this.drag && this.drag[0] !== this.drag[1])
            context.fillRect(Math.max(Math.min(...this.drag), this.words), 0, Math.abs(this.drag[1] - this.drag[0]), this.height);
    }

    letGo() {
        if (this.drag) {
            this.drag = null;
            this.drawDrag();
        }
    }

    drawFocus() {
        const context = this.canvas.getContext('2d');
        if (document.activeElement === this.canvas && this.canvas.matches(':focus-visible')) {
            context.strokeStyle = this.dark ? '#ccc' : '#333';
            context.strokeRect(1, 1, this.width - 2, this.height - 2);
        }
    }

    place(event) {
        return event.clientX - this.canvas.getBoundingClientRect().left;
    }

    time(x) {
        return this.from + Math.min(Math.max((x - this.words) / this.n, 0), 1) * (this.to - this.from);
    }

    move(event) {
        if (!this.lanes.length)
            return;
        const x = this.place(event), lane = Math.floor((event.clientY - this.canvas.getBoundingClientRect().top) / LANE_PX);
        if (this.drag) {
            this.drag[1] = x;
            this.drawDrag();
        }
        const isIn = lane >= 0 && lane < this.lanes.length, row = isIn && x >= this.words ? this.rows[lane * this.n + Math.min(Math.floor(x - this.words), this.n - 1)] : -1;
        this.onHover(isIn ? {ms: this.time(x), lane: this.lanes[lane], row} : null, event);
    }

    up(event) {
        if (!this.drag)
            return;
        const [a, b] = [this.drag[0], this.place(event)].sort((p, q) => p - q), lane = this.lanes[Math.floor((event.clientY - this.canvas.getBoundingClientRect().top) / LANE_PX)];
        this.letGo();
        if (b - a >= DRAG_PX)
            this.onRange(this.time(a), this.time(b));
        else if (lane)
            this.onPick(lane);
    }

    /* + and - halve and double the range around its middle, arrows move it by a quarter, Escape shows all. */
    key(event) {
        const {from, to} = this, width = to - from;
        const moved = {'+': [from + width / 4, to - width / 4], '-': [from - width / 2, to + width / 2], ArrowLeft: [from - width / 4, to - width / 4], ArrowRight: [from + width / 4, to + width / 4],
                       Escape: [-Infinity, Infinity]}[event.key];
        if (!moved || !this.lanes.length)
            return;
        event.preventDefault();
        this.onRange(...moved);
    }
}

/* The chart and the heat map above lanes begin where the lanes do. */
function laneWordsPx(width) {
    return Math.min(LANE_WORDS_PX, Math.floor(width / 4));
}

/* Round times, down to 10 ms. */
function finerTimes(from, to, n) {
    const step = [10, 20, 50, 100, 200, 500].find(ms => (to - from) / ms <= n);
    if (!step)
        return roundTimes(from, to, n);
    return Array.from({length: Math.floor((to - from) / step) + 1}, (_, i) => (Math.ceil(from / step) + i) * step).filter(ms => ms < to);
}
