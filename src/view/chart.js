/* SPDX-License-Identifier: MIT */
/*
 * chart.js - draws values over time, and lets the user drag a range.
 *
 * A chart has at most one point a pixel: ticks within a pixel are joined, so a day of ticks is drawn as fast as a minute.
 */
class Chart {
    /* onRange(from, to) is called with the range that the user chose, in ms. */
    constructor(canvas, onRange) {
        this.canvas = canvas;
        this.onRange = onRange;
        this.series = [];
        this.drag = null;
        canvas.addEventListener('pointerdown', event => this.down(event));
        canvas.addEventListener('pointermove', event => this.move(event));
        canvas.addEventListener('pointerup', event => this.up(event));
        canvas.addEventListener('dblclick', () => this.onRange(this.from, this.to));
    }

    /*
     * ticks: [{start, end}]; layers: [{name, values by tick, colour}] stacked; lines: the same, each by itself; ranges: [{from, to,
     * colour}]. rate: values are shown per second.
     */
    show({ticks, layers, lines, unit, rate, ranges, dark}) {
        Object.assign(this, {ticks, layers, lines, unit, rate, ranges, dark});
        this.from = ticks.length ? Math.min(ticks[0].start || ticks[0].end, ticks[0].end) : 0;
        this.to = ticks.length ? ticks[ticks.length - 1].end : 1;
        if (this.to <= this.from)
            this.from = this.to - 1000;
        this.draw();
    }

    x(ms) {
        return (ms - this.from) / (this.to - this.from) * this.width;
    }

    time(x) {
        return this.from + Math.min(Math.max(x / this.width, 0), 1) * (this.to - this.from);
    }

    /* By pixel: the sum of a series within it, or the last value of a level up to it; null without data. */
    binned(values) {
        const n = Math.max(1, Math.floor(this.width));
        const bins = new Float64Array(n), has = new Uint8Array(n);
        this.ticks.forEach((tick, i) => {
            const to = Math.min(Math.max(this.x(tick.end), 0), n);
            if (!this.rate) {
                const last = Math.max(0, Math.ceil(to) - 1);
                bins[last] = values[i];
                has[last] = 1;
                return;
            }
            /* A pixel gets the share of a tick that it covers of the tick's time. */
            const from = Math.min(Math.max(this.x(tick.start), 0), Math.max(to - 1e-6, 0));
            for (let b = Math.floor(from); b < to; b++)
                bins[b] += values[i] * (Math.min(b + 1, to) - Math.max(b, from)) / (to - from);
        });
        if (this.rate) {
            const seconds = (this.to - this.from) / 1000 / n;
            for (let b = 0; b < n; b++)
                bins[b] /= seconds;
        } else
            for (let b = 1; b < n; b++)
                if (!has[b])
                    bins[b] = bins[b - 1];
        return bins;
    }

    draw() {
        const ratio = window.devicePixelRatio || 1;
        this.width = Math.max(this.canvas.parentElement.clientWidth, 200);
        this.height = 120;
        this.canvas.width = Math.round(this.width * ratio);
        this.canvas.height = Math.round(this.height * ratio);
        this.canvas.style.width = `${this.width}px`;
        this.canvas.style.height = `${this.height}px`;
        const context = this.canvas.getContext('2d');
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        context.clearRect(0, 0, this.width, this.height);
        context.font = '11px system-ui, sans-serif';
        const ink = this.dark ? '#ccc' : '#333';
        if (!this.ticks.length) {
            context.fillStyle = ink;
            context.fillText('no profiles yet', 8, 20);
            return;
        }
        const top = 16, bottom = this.height - 16;
        const layers = this.layers.map(l => this.binned(l.values)), lines = this.lines.map(l => this.binned(l.values));
        const n = Math.max(1, Math.floor(this.width));
        const under = new Float64Array(n);
        let most = 0;
        for (let b = 0; b < n; b++) {
            let sum = 0;
            for (const layer of layers)
                sum += Math.max(layer[b], 0);
            most = Math.max(most, sum, ...lines.map(l => l[b]));
        }
        const y = value => bottom - (most ? value / most : 0) * (bottom - top);
        for (const range of this.ranges) {
            context.fillStyle = range.colour;
            const left = Math.max(this.x(range.from), 0);
            context.fillRect(left, 0, Math.max(Math.min(this.x(range.to), this.width) - left, 1), this.height);
        }
        layers.forEach((layer, i) => {
            context.fillStyle = this.layers[i].colour;
            context.beginPath();
            for (let b = 0; b < n; b++)
                context.lineTo(b, y(under[b] + Math.max(layer[b], 0)));
            for (let b = n - 1; b >= 0; b--)
                context.lineTo(b, y(under[b]));
            context.fill();
            for (let b = 0; b < n; b++)
                under[b] += Math.max(layer[b], 0);
        });
        lines.forEach((line, i) => {
            context.strokeStyle = this.lines[i].colour;
            context.lineWidth = 1.5;
            context.beginPath();
            for (let b = 0; b < n; b++)
                context.lineTo(b, y(line[b]));
            context.stroke();
        });
        context.fillStyle = ink;
        context.fillText(`${formatValue(most, this.unit)}${this.rate ? '/s' : ''}`, 4, 11);
        context.fillText(formatTime(this.from, true), 4, this.height - 4);
        const last = formatTime(this.to, true);
        context.fillText(last, this.width - context.measureText(last).width - 4, this.height - 4);
        if (this.drag) {
            const [a, b] = [this.drag.from, this.drag.to].sort((p, q) => p - q);
            context.fillStyle = this.dark ? 'rgba(255,255,255,0.25)' : 'rgba(0,0,0,0.18)';
            context.fillRect(a, 0, b - a, this.height);
        }
    }

    place(event) {
        return event.clientX - this.canvas.getBoundingClientRect().left;
    }

    down(event) {
        if (!this.ticks || !this.ticks.length)
            return;
        this.canvas.setPointerCapture(event.pointerId);
        this.drag = {from: this.place(event), to: this.place(event)};
    }

    move(event) {
        if (!this.drag)
            return;
        this.drag.to = this.place(event);
        this.draw();
    }

    up(event) {
        if (!this.drag)
            return;
        this.move(event);
        const [a, b] = [this.drag.from, this.drag.to].sort((p, q) => p - q);
        this.drag = null;
        if (b - a >= 3)
            this.onRange(this.time(a), this.time(b), event.shiftKey);
        else
            this.draw();
    }
}
