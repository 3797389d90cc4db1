/* SPDX-License-Identifier: MIT */
/*
 * chart.js - values over time, with a range that is dragged, or moved by keys.
 *
 * A chart has at most one point a pixel: ticks within a pixel are joined, so a day of ticks is drawn as fast as a minute.
 */
const CHART_TOP = 16, CHART_PX = 140, LEAST_MS = 1000, PLACES_MOST = 64;

class Chart {
    /* onRange(from, to): in ms; the user chose it. onHover(null or {ms, values: [[name, value]]}, event). */
    constructor(canvas, {onRange, onHover}) {
        this.canvas = canvas;
        this.onRange = onRange;
        this.onHover = onHover;
        this.drag = null;
        this.hover = -1;
        this.places = 1;
        this.from = 0;
        this.to = 1;
        this.mark = /** @type {any} */ (null);
        this.ticks = null;
        this.layers = [];
        this.lines = [];
        this.ranges = [];
        this.unit = this.empty = this.rate = '';
        this.dark = false;
        canvas.tabIndex = 0;
        canvas.addEventListener('pointerdown', event => this.down(event));
        canvas.addEventListener('pointermove', event => this.move(event));
        canvas.addEventListener('pointerup', event => this.up(event));
        canvas.addEventListener('pointercancel', () => { this.drag = null; this.draw(); });
        canvas.addEventListener('pointerleave', event => this.leave(event));
        canvas.addEventListener('dblclick', () => this.onRange(-Infinity, Infinity));
        canvas.addEventListener('keydown', event => this.key(event));
    }

    /*
     * from, to: the time across, in ms; mark: null or {from, to, text}, a stretch of it. ticks: [{start, end}]; layers: [{name, values by tick, colour}] stacked; lines: the same, each by itself; ranges: [{from, to,
     * colour}], the first one is moved by keys. rate: behind values that are shown per second, as for formatRate(). empty: what it says if all values are 0.
     */
    show({ticks, layers, lines, unit, rate, ranges, dark, empty, from, to, mark}) {
        const before = this.drawn;
        Object.assign(this, {ticks, layers, lines, unit, rate, ranges, dark, empty, from, to, mark});
        this.resize();
        /* A range that moves leaves the values as they were. */
        this.drawn = [this.mark?.from, this.from, this.to, this.width, this.ratio, ticks.length, unit, rate, dark, empty, ...[...layers, ...lines].flatMap(l => [l.values, l.colour]), layers.length];
        if (this.drawn.length !== before?.length || this.drawn.some((part, i) => part !== before[i])) {
            this.places = this.placesOfPixel();
            this.layerBins = this.mostBusy(layers.map(l => this.binned(l.values)));
            this.lineBins = this.mostBusy(lines.map(l => this.binned(l.values)));
            this.isPainted = false;
        }
        this.draw();
    }

    resize() {
        const ratio = window.devicePixelRatio || 1;
        this.width = Math.max(this.canvas.parentElement.clientWidth, 200);
        this.height = CHART_PX;
        sizeCanvas(this.canvas, this.width, this.height, ratio);
        this.ratio = ratio;
    }

    x(ms) {
        return (ms - this.from) / (this.to - this.from) * this.width;
    }

    time(x) {
        return this.from + Math.min(Math.max(x / this.width, 0), 1) * (this.to - this.from);
    }

    /* A place of `binned` is a pixel, or as long as the usual tick if that is less, but a second at least: of several in a pixel the one with the highest sum is drawn, so that a busy second is seen. */
    placesOfPixel() {
        const {ticks} = this, usual = ticks.map(t => t.end - t.start).sort((a, b) => a - b)[ticks.length >> 1] || 0;
        return this.rate ? Math.min(Math.max(Math.ceil((this.to - this.from) / Math.max(1000, usual) / this.width), 1), PLACES_MOST) : 1;
    }

    mostBusy(series) {
        const {places} = this, n = Math.max(1, Math.floor(this.width)), from = new Int32Array(n);
        if (places === 1)
            return series;
        const sumAt = at => series.reduce((sum, values) => sum + values[at], 0);
        for (let b = 0, most; b < n; b++)
            for (let at = b * places, end = at + places; at < end; at++)
                if (at === b * places || sumAt(at) > most)
                    [from[b], most] = [at, sumAt(at)];
        return series.map(values => Float64Array.from(from, at => values[at]));
    }

    /* By place: the rate of a series within it, or a level at the end of the tick there; where no tick is, at the end of the one before. */
    binned(values) {
        const n = Math.max(1, Math.floor(this.width)) * this.places, x = ms => (ms - this.from) / (this.to - this.from) * n;
        const bins = new Float64Array(n);
        let filled = 0;
        /* What came within a short tick, as CPU time since the sample before, may have taken longer. */
        const least = Math.min(LEAST_MS, (this.to - this.from) / 100);
        this.ticks.forEach((tick, i) => {
            const to = Math.min(Math.max(x(tick.end), 0), n);
            if (!this.rate) {
                const end = Math.max(Math.ceil(to), 1), start = Math.min(Math.max(Math.floor(x(tick.start)), filled), end - 1);
                bins.fill(values[i - 1], filled, start);
                bins.fill(values[i], start, end);
                filled = Math.max(filled, end);
                return;
            }
            /* A pixel gets the share of a tick that it covers of the tick's time. */
            const start = x(tick.start), from = start < 0 ? start : Math.min(start, Math.max(x(tick.end - least), 0), Math.max(to - 1e-6, 0));
            for (let b = Math.floor(Math.max(from, 0)); b < to; b++)
                bins[b] += values[i] * (Math.min(b + 1, to) - Math.max(b, from)) / (to - from);
        });
        if (this.rate) {
            const seconds = (this.to - this.from) / 1000 / n;
            for (let b = 0; b < n; b++)
                bins[b] /= seconds;
        }
        return bins;
    }

    /* What the mouse and the focus add is drawn upon a copy of the rest: a frame while the mouse moves costs one copy. */
    draw() {
        if (!this.isPainted) {
            this.image = this.image || document.createElement('canvas'); /* a new one for each tick would be memory that the browser gives back late */
            sizeCanvas(this.image, this.width, this.height, this.ratio);
            const sheet = this.image.getContext('2d');
            sheet.setTransform(1, 0, 0, 1, 0, 0);
            sheet.clearRect(0, 0, this.image.width, this.image.height);
            this.drawValues(sheet);
            this.isPainted = true;
        }
        const context = this.canvas.getContext('2d');
        context.setTransform(1, 0, 0, 1, 0, 0);
        context.clearRect(0, 0, this.canvas.width, this.canvas.height);
        context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
        for (const range of this.ticks.length ? this.ranges : []) {
            context.fillStyle = range.colour;
            const left = Math.max(this.x(range.from), 0);
            context.fillRect(left, 0, Math.max(Math.min(this.x(range.to), this.width) - left, 1), this.height);
        }
        context.setTransform(1, 0, 0, 1, 0, 0);
        context.drawImage(this.image, 0, 0);
        context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
        const shade = this.dark ? '255,255,255' : '0,0,0';
        if (this.drag) {
            const [a, b] = [this.drag.from, this.drag.to].sort((p, q) => p - q);
            context.fillStyle = `rgba(${shade},0.2)`;
            context.fillRect(a, 0, b - a, this.height);
        } else if (this.hover >= 0) {
            context.fillStyle = `rgba(${shade},0.6)`;
            context.fillRect(this.hover, 0, 1, this.height);
        }
        if (document.activeElement === this.canvas && this.canvas.matches(':focus-visible')) {
            context.strokeStyle = this.dark ? '#ccc' : '#333';
            context.lineWidth = 2;
            context.strokeRect(1, 1, this.width - 2, this.height - 2);
        }
    }

    drawValues(context) {
        context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
        context.font = '11px system-ui, sans-serif';
        const ink = this.dark ? '#ccc' : '#333';
        if (!this.ticks.length) {
            context.fillStyle = ink;
            context.fillText('no profiles yet', 8, 20);
            return;
        }
        const bottom = this.height - 16, n = Math.max(1, Math.floor(this.width));
        const under = new Float64Array(n);
        let most = 0;
        for (let b = 0; b < n; b++) {
            let sum = 0;
            for (const layer of this.layerBins)
                sum += Math.max(layer[b], 0);
            most = Math.max(most, sum, ...this.lineBins.map(l => l[b]));
        }
        if (most <= 0) {
            context.fillStyle = ink;
            context.fillText(this.empty, 8, 20);
        }
        const y = value => bottom - (most ? value / most : 0) * (bottom - CHART_TOP);
        this.layerBins.forEach((layer, i) => {
            context.fillStyle = this.layers[i].colour;
            for (let b = 0, end; b < n; b = end) { /* pixels of one height are one box: paths of a jagged day take ten times as long */
                for (end = b + 1; end < n && layer[end] === layer[b] && under[end] === under[b];)
                    end++;
                const top = y(under[b] + Math.max(layer[b], 0));
                context.fillRect(b, top, end - b, y(under[b]) - top);
            }
            for (let b = 0; b < n; b++)
                under[b] += Math.max(layer[b], 0);
        });
        this.lineBins.forEach((line, i) => {
            context.fillStyle = this.lines[i].colour;
            for (let b = 0, end, before = y(line[0]); b < n; b = end) {
                for (end = b + 1; end < n && line[end] === line[b];)
                    end++;
                const at = y(line[b]);
                context.fillRect(b, Math.min(at, before), 1.5, Math.abs(at - before) + 1.5);
                context.fillRect(b, at, end - b, 1.5);
                before = at;
            }
        });
        if (this.mark) {
            context.fillStyle = this.dark ? '#ff9d9d' : '#b33';
            const left = this.x(this.mark.from);
            context.fillRect(left, 0, this.x(this.mark.to) - left, 3);
            context.fillText(this.mark.text, Math.min(left, this.width - context.measureText(this.mark.text).width - 4), 14);
        }
        this.drawScale(context, ink, most, y, bottom);
    }

    /* Lines at round values, times at round places. */
    drawScale(context, ink, most, y, bottom) {
        const faint = this.dark ? 'rgba(255,255,255,0.16)' : 'rgba(0,0,0,0.13)';
        const step = roundStep(most / 2.2, this.unit);
        for (let value = step; step > 0 && value <= most; value += step) {
            context.fillStyle = faint;
            context.fillRect(0, Math.round(y(value)), this.width, 1);
        }
        for (let value = step; step > 0 && value <= most; value += step) {
            const text = formatRate(value, this.unit, this.rate), base = Math.round(y(value)) - 3;
            context.fillStyle = PAPER[this.dark]; /* no line of the chart runs through a text */
            context.fillRect(2, base - 10, context.measureText(text).width + 5, 13);
            context.fillStyle = ink;
            context.fillText(text, 4, base);
        }
        context.fillStyle = ink;
        const ends = [formatTime(this.from, true), formatTime(this.to, true)], widths = ends.map(text => context.measureText(text).width);
        context.fillText(ends[0], 4, this.height - 4);
        context.fillText(ends[1], this.width - widths[1] - 4, this.height - 4);
        for (const ms of roundTimes(this.from, this.to, this.width / 140)) {
            const text = formatTime(ms), half = context.measureText(text).width / 2, x = this.x(ms);
            if (x - half < widths[0] + 16 || x + half > this.width - widths[1] - 16)
                continue;
            context.fillRect(Math.round(x), bottom, 1, 3);
            context.fillText(text, x - half, this.height - 4);
        }
    }

    place(event) {
        return event.clientX - this.canvas.getBoundingClientRect().left;
    }

    down(event) {
        if (!this.ticks || !this.ticks.length || event.button)
            return;
        this.canvas.setPointerCapture(event.pointerId);
        this.drag = {from: this.place(event), to: this.place(event)};
    }

    move(event) {
        if (!this.ticks || !this.ticks.length)
            return;
        if (this.drag)
            this.drag.to = this.place(event);
        this.hover = Math.min(Math.max(Math.round(this.place(event)), 0), Math.floor(this.width) - 1);
        const values = [...this.lines.map((l, i) => [l.name, this.lineBins[i][this.hover]]),
                        ...this.layers.map((l, i) => [l.name, this.layerBins[i][this.hover]]).reverse()];
        this.onHover({ms: this.time(this.hover), values: values.filter(([, v]) => v > 0), rate: this.rate, unit: this.unit,
                      sum: this.layerBins.reduce((sum, l) => sum + Math.max(l[this.hover], 0), 0)}, event);
        this.draw();
    }

    leave(event) {
        this.hover = -1;
        this.onHover(null, event);
        if (this.ticks)
            this.draw();
    }

    up(event) {
        if (!this.drag)
            return;
        this.move(event);
        const [a, b] = [this.drag.from, this.drag.to].sort((p, q) => p - q);
        this.drag = null;
        this.leave(event); /* no tip over what is below, until the pointer moves again */
        if (b - a >= 3)
            this.onRange(this.time(a), this.time(b));
        else
            this.draw();
    }

    /* Arrows move the range by a tick, with shift its begin only, with control its end only; Home and End go to the first and last tick. */
    key(event) {
        const {ticks} = this;
        if (!ticks || !ticks.length)
            return;
        const range = this.ranges[0] || {from: -Infinity, to: Infinity};
        const edges = [Math.min(ticks[0].start, ticks[0].end), ...new Set(ticks.map(t => t.end))];
        const nearest = ms => {
            const above = Math.min(lowerBound(edges, e => e >= ms), edges.length - 1);
            return above && ms - edges[above - 1] <= edges[above] - ms ? above - 1 : above;
        };
        let from = range.from === -Infinity ? 0 : nearest(range.from), to = range.to === Infinity ? edges.length - 1 : nearest(range.to);
        const by = event.key === 'ArrowLeft' ? -1 : event.key === 'ArrowRight' ? 1 : 0;
        if (event.key === 'Escape')
            return void this.onRange(-Infinity, Infinity);
        if (event.key === 'Home')
            [from, to] = [0, 1];
        else if (event.key === 'End')
            [from, to] = [edges.length - 2, edges.length - 1];
        else if (!by)
            return;
        event.preventDefault();
        const isWhole = from === 0 && to === edges.length - 1;
        if (by && isWhole && !event.shiftKey && !event.ctrlKey)
            from = to - 1;
        else if (by && from + by >= 0 && to + by < edges.length && !event.shiftKey && !event.ctrlKey) {
            from += by;
            to += by;
        } else if (by && event.shiftKey)
            from = Math.min(Math.max(from + by, 0), to - 1);
        else if (by && event.ctrlKey)
            to = Math.min(Math.max(to + by, from + 1), edges.length - 1);
        this.onRange(edges[from], edges[to]);
    }
}

/* Where a chart of ticks begins. Of a first tick that has everything since the start, it shows at most as much time as of all others. */
function chartBegin(ticks) {
    const {start, end, isTotal} = ticks[0], begin = Math.min(start || end, end);
    return isTotal ? Math.max(begin, end - Math.max(ticks[ticks.length - 1].end - end, 15000)) : begin;
}

/* Only a new size makes the browser allocate, clear and lay out. */
function sizeCanvas(canvas, width, height, ratio) {
    const w = Math.round(width * ratio), h = Math.round(height * ratio);
    if (canvas.width !== w || canvas.height !== h) {
        canvas.width = w;
        canvas.height = h;
    }
    for (const [name, px] of [['width', `${width}px`], ['height', `${height}px`]])
        if (canvas.style[name] !== px)
            canvas.style[name] = px;
}

/* A round number not above a value: 1, 2 or 5 times a power of ten, of bytes a power of two. */
function roundStep(value, unit) {
    if (!(value > 0))
        return 0;
    if (unit === 'bytes')
        return 2 ** Math.floor(Math.log2(value));
    const power = 10 ** Math.floor(Math.log10(value));
    return power * [5, 2, 1].find(n => n * power <= value);
}

/* At most n round times within (from, to). */
function roundTimes(from, to, n) {
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].map(s => s * 1000);
    const step = steps.find(s => (to - from) / s <= n) || 86400e3 * Math.ceil((to - from) / 86400e3 / n);
    const offset = new Date(from).getTimezoneOffset() * 60000, times = [];
    for (let ms = Math.ceil((from - offset) / step) * step + offset; ms < to; ms += step)
        times.push(ms);
    return times;
}
