/* SPDX-License-Identifier: MIT */
/*
 * heat.js - the heat map of events, as CPU samples: seconds go across, the milliseconds within a second go down. So what happens
 * once a second, or in bursts of 20 ms, is seen. A block that is dragged over is the range of time of all other views.
 */
const HEAT_KIND = 'events', HEAT_ROWS = 50, HEAT_ROW_PX = 4, HEAT_LEAST_PX = 4, HEAT_SHADES = 100;

class Heat {
    /* onRange(from, to): in ms. onHover(null or {ms, value}, event). */
    constructor(canvas, {onRange, onHover}) {
        this.canvas = canvas;
        this.onRange = onRange;
        this.onHover = onHover;
        this.drag = null;
        this.ticks = null;
        this.time = [0, 1];
        this.image = this.sheet = /** @type {any} */ (null); /* pixels, and a canvas of their size */
        this.counted = /** @type {any[]} */ ([]); /* of what `cells` are the sums */
        this.from = -Infinity;
        this.to = Infinity;
        this.dark = false;
        const on = (event, act) => canvas.addEventListener(event, act);
        on('pointerdown', event => {
            if (event.button)
                return;
            canvas.setPointerCapture(event.pointerId);
            this.drag = [this.cell(event), this.cell(event)];
        });
        on('pointermove', event => this.move(event));
        on('pointerup', event => this.up(event));
        on('pointercancel', () => { this.drag = null; this.draw(); });
        on('pointerleave', event => this.onHover(null, event));
        canvas.tabIndex = 0;
        on('keydown', event => this.key(event));
        on('dblclick', () => this.onRange(-Infinity, Infinity));
    }

    /* time: [begin, end] across, as of the chart; values: by tick; a tick lies within one cell. from, to: the range that is chosen. */
    show({ticks, values, time, from, to, dark}) {
        [this.ticks, this.time, this.from, this.to, this.dark] = [ticks, time, from, to, dark];
        this.width = Math.max(this.canvas.parentElement.clientWidth, 200);
        this.begin = Math.floor(time[0] / 1000) * 1000;
        const nSeconds = Math.ceil((time[1] - this.begin) / 1000), nMost = Math.floor(this.width / HEAT_LEAST_PX);
        this.secondsEach = Math.ceil(nSeconds / nMost);
        this.nColumns = Math.ceil(nSeconds / this.secondsEach);
        const drawn = [values, this.nColumns, this.secondsEach, this.begin];
        if (drawn.some((part, i) => part !== this.counted[i])) {
            this.counted = drawn;
            this.cells = new Float64Array(this.nColumns * HEAT_ROWS);
            ticks.forEach((tick, i) => { this.cells[this.cellAt((tick.start + tick.end) / 2)] += values[i]; });
            this.most = this.cells.reduce((most, value) => Math.max(most, value), 0);
        }
        this.draw();
    }

    get cellMs() {
        return this.secondsEach * 1000 / HEAT_ROWS;
    }

    get columnPx() {
        return this.width * this.secondsEach * 1000 / (this.time[1] - this.time[0]);
    }

    /* Where the first column begins, at or before the canvas. */
    get left() {
        return (this.begin - this.time[0]) / (this.secondsEach * 1000) * this.columnPx;
    }

    cellAt(ms) {
        return Math.floor((ms - this.begin) / this.cellMs);
    }

    /* The number of the cell under the pointer; cells are numbered in the order of time. */
    cell(event) {
        const box = this.canvas.getBoundingClientRect(), clamp = (n, most) => Math.min(Math.max(Math.floor(n), 0), most - 1);
        return clamp((event.clientX - box.left - this.left) / this.columnPx, this.nColumns) * HEAT_ROWS + clamp((event.clientY - box.top) / HEAT_ROW_PX, HEAT_ROWS);
    }

    move(event) {
        if (!this.ticks)
            return;
        const cell = this.cell(event);
        if (this.drag)
            this.drag[1] = cell;
        this.draw();
        this.onHover({ms: this.begin + cell * this.cellMs, value: this.cells[cell], cellMs: this.cellMs}, event);
    }

    up(event) {
        if (!this.drag)
            return;
        this.drag[1] = this.cell(event);
        const [first, last] = this.drag.sort((a, b) => a - b);
        this.drag = null;
        this.onRange(this.begin + first * this.cellMs, this.begin + (last + 1) * this.cellMs);
    }

    /* Arrows move the block by a cell or a column; with Shift they move its end. The first one chooses the cell with the most. */
    key(event) {
        const by = {ArrowUp: -1, ArrowDown: 1, ArrowLeft: -HEAT_ROWS, ArrowRight: HEAT_ROWS}[event.key];
        if (event.key === 'Escape')
            return void this.onRange(-Infinity, Infinity);
        if (!by || !this.ticks)
            return;
        event.preventDefault();
        const isWhole = this.from === -Infinity && this.to === Infinity, n = this.cells.length, clamp = cell => Math.min(Math.max(cell, 0), n - 1);
        let first = isWhole ? this.cells.indexOf(this.most) : clamp(this.cellAt(this.from)), last = isWhole ? first : clamp(this.cellAt(this.to - this.cellMs / 2));
        if (!isWhole && event.shiftKey)
            last = Math.max(clamp(last + by), first);
        else if (!isWhole && first + by >= 0 && last + by < n)
            [first, last] = [first + by, last + by];
        this.onRange(this.begin + first * this.cellMs, this.begin + (last + 1) * this.cellMs);
        this.onHover({ms: this.begin + first * this.cellMs, value: this.cells[first], cellMs: this.cellMs}, {clientX: this.canvas.getBoundingClientRect().left + 30, clientY: this.canvas.getBoundingClientRect().top});
    }

    draw() {
        const ratio = window.devicePixelRatio || 1, height = HEAT_ROWS * HEAT_ROW_PX;
        sizeCanvas(this.canvas, this.width, height, ratio);
        const context = this.canvas.getContext('2d');
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        context.clearRect(0, 0, this.width, height);
        const [first, last] = this.drag ? this.drag.slice().sort((a, b) => a - b) : [this.cellAt(this.from), this.cellAt(this.to - this.cellMs / 2)];
        this.paint(first, last);
        context.imageSmoothingEnabled = false;
        context.drawImage(this.sheet, this.left, 0, this.nColumns * this.columnPx, height);
    }

    /* A pixel for each cell; the browser makes them larger. */
    paint(first, last) {
        const {nColumns, cells, dark} = this;
        if (!this.image || this.image.width !== nColumns)
            [this.image, this.sheet] = [new ImageData(nColumns, HEAT_ROWS), Object.assign(document.createElement('canvas'), {width: nColumns, height: HEAT_ROWS})];
        const pixels = new Uint32Array(this.image.data.buffer), chosen = pixelOf(dark ? '#2b2b33' : '#ececf1');
        for (let cell = 0; cell < cells.length; cell++) {
            const isChosen = cell >= first && cell <= last, share = Math.round(this.cells[cell] / this.most * HEAT_SHADES) / HEAT_SHADES;
            const colour = cells[cell] ? pixelOf(`hsl(${45 - 45 * share},95%,${dark ? 30 + 25 * share : 75 - 30 * share}%)`) : isChosen ? chosen : 0;
            pixels[cell % HEAT_ROWS * nColumns + Math.floor(cell / HEAT_ROWS)] = isChosen || !colour ? colour : (colour & 0xffffff | 0x4d << 24) >>> 0;
        }
        this.sheet.getContext('2d').putImageData(this.image, 0, 0);
    }
}
