/* SPDX-License-Identifier: MIT */
/*
 * flame.js - draws a tree as a flame graph on a canvas.
 *
 * layout() makes boxes out of a tree once, by node in the order of drawing; draw() paints those that can be seen in the present
 * window. A box is as wide as its total; children stand side by side, largest first (`heavy`) or by name. With two ranges a box is
 * as wide as the larger of the two, and its colour says which one.
 *
 * A row of boxes is first a line of pixels in memory; the browser then stretches all lines at once to the height of the rows. So the
 * browser does the same work for ten boxes and for fifty thousand. Only labels are drawn one by one, and only wide boxes have one.
 *
 * A click makes a node as wide as the canvas (the zoom). The wheel with control and dragging move the window without changing the zoom.
 */
const ROW_PX = 18, TALL_ROW_PX = 24, MOVE_MS = 150, DRAG_PX = 4, LABEL_PX = 24;

class Flame {
    /* onPick(node) is called when the zoom has moved to a node. onHover(node or -1, event or null). */
    constructor(canvas, {onPick, onHover}) {
        this.canvas = canvas;
        this.onPick = onPick;
        this.onHover = onHover;
        this.boxes = {n: 0};
        this.boxOf = new Int32Array(0);
        this.unit = '';
        this.whole = this.wholeB = this.freed = 0; /* the sums of which shares are given, and what a range lost */
        this.zoom = 0;
        this.selected = 0;
        this.matching = null;
        this.window = {from: 0, width: 1};
        this.rowPx = ROW_PX;
        this.animation = this.nAnimations = 0; /* the number of the one that runs; 0: none */
        this.drag = null;
        canvas.tabIndex = 0;
        canvas.addEventListener('pointerdown', event => this.down(event));
        canvas.addEventListener('pointermove', event => this.move(event));
        canvas.addEventListener('pointerup', event => this.up(event));
        canvas.addEventListener('pointercancel', () => { this.drag = null; });
        canvas.addEventListener('pointerleave', event => this.onHover(-1, event));
        canvas.addEventListener('wheel', event => this.wheel(event), {passive: false});
        canvas.addEventListener('keydown', event => this.key(event));
    }

    /*
     * options: {order: heavy or name, up: the root is at the bottom, lines: boxes are lines of functions, room: pixels that it may fill, dark, lens,
     * empty: what it says if there is no box}. zoom: what zoomText() said of a node.
     */
    show(tree, frames, options, zoom = '') {
        const whole = this.boxes.n ? this.boxes.w[0] : 0, usual = this.windowOf(this.zoom), {from, width} = this.window;
        const isMoved = whole > 0 && this.tree && this.zoomText() === zoom && (from !== usual.from || width !== usual.width) && !this.animation;
        this.tree = tree;
        this.frames = frames;
        this.options = options;
        this.layout();
        this.zoom = this.find(zoom);
        this.selected = Math.max(this.boxOf[this.zoom], 0);
        this.animation = 0;
        this.window = this.windowOf(this.zoom);
        if (isMoved && this.boxes.w[0] > 0) /* new data do not move what the user moved */
            this.window = {from: from / whole * this.boxes.w[0], width: width / whole * this.boxes.w[0]};
        this.draw();
    }

    /* The node that is zoomed to, as a short text: a hash of the names from the root to it; "" is the root. */
    zoomText() {
        const path = [];
        for (let i = this.zoom; i > 0; i = this.tree.parent[i])
            path.push(this.tree.frame[i]);
        return path.length ? path.reduceRight((hash, frame) => hashOf(`${hash} ${this.keyOf(this.frames[frame])}`), 0).toString(36) : '';
    }

    /* The node of such a text, if it is drawn; else the root. */
    find(text) {
        if (!text)
            return 0;
        const hashes = new Uint32Array(this.tree.n), wanted = parseInt(text, 36);
        for (let i = 1; i < this.tree.n; i++) {
            hashes[i] = hashOf(`${hashes[this.tree.parent[i]]} ${this.keyOf(this.frames[this.tree.frame[i]])}`);
            if (hashes[i] === wanted && this.boxOf[i] >= 0)
                return i;
        }
        return 0;
    }

    layout() {
        const {tree, frames, options} = this;
        const width = tree.totalB ? tree.total.map((v, i) => Math.max(v, tree.totalB[i])) : tree.total;
        if (tree.totalB) { /* a box is never narrower than its children together */
            const inner = new Float64Array(tree.n);
            for (let i = tree.n - 1; i >= 0; i--) {
                width[i] = Math.max(width[i], inner[i]);
                if (i > 0)
                    inner[tree.parent[i]] += width[i];
            }
        }
        /* Children of each node that have a width, by counting. */
        const first = new Int32Array(tree.n + 1);
        let n = 1;
        for (let i = 1; i < tree.n; i++)
            if (width[i] > 0) {
                first[tree.parent[i] + 1]++;
                n++;
            }
        for (let i = 0; i < tree.n; i++)
            first[i + 1] += first[i];
        const children = new Int32Array(n), next = first.slice();
        for (let i = 1; i < tree.n; i++)
            if (width[i] > 0)
                children[next[tree.parent[i]]++] = i;
        const boxes = {n: 0, node: new Int32Array(n), x: new Float64Array(n), w: new Float64Array(n), depth: new Int32Array(n),
                       end: new Int32Array(n)};
        const order = options.order === 'name' ?
            (a, b) => (frames[tree.frame[a]].name < frames[tree.frame[b]].name ? -1 : 1) : (a, b) => width[b] - width[a];
        const stack = [0, 0, 0]; /* node, x, depth */
        let deepest = 0;
        while (stack.length) {
            const depth = stack.pop(), x = stack.pop(), node = stack.pop();
            const i = boxes.n++;
            boxes.node[i] = node;
            boxes.x[i] = x;
            boxes.w[i] = width[node];
            boxes.depth[i] = depth;
            deepest = Math.max(deepest, depth);
            const callees = children.subarray(first[node], first[node + 1]);
            const sorted = callees.length > 1 ? [...callees].sort(order) : callees;
            let right = x;
            for (const callee of sorted)
                right += width[callee];
            for (let k = sorted.length - 1; k >= 0; k--) { /* the leftmost comes off the stack first */
                right -= width[sorted[k]];
                stack.push(sorted[k], right, depth + 1);
            }
        }
        /* Boxes are in the order of a depth-first walk, so the boxes within a box follow it, up to `end`. */
        const open = [];
        for (let i = 0; i < boxes.n; i++) {
            while (open.length && boxes.depth[open[open.length - 1]] >= boxes.depth[i])
                boxes.end[open.pop()] = i;
            open.push(i);
        }
        for (const i of open)
            boxes.end[i] = boxes.n;
        this.boxes = boxes;
        this.colours = new Uint32Array(boxes.n); /* pixels by box; 0: not known yet */
        this.deepest = deepest;
        this.boxOf = new Int32Array(tree.n).fill(-1);
        for (let i = 0; i < boxes.n; i++)
            this.boxOf[boxes.node[i]] = i;
    }

    resize() {
        const ratio = window.devicePixelRatio || 1;
        const width = Math.max(this.canvas.parentElement.clientWidth, 200), nRows = this.deepest + 1;
        this.rowPx = nRows * TALL_ROW_PX <= this.options.room ? TALL_ROW_PX : ROW_PX;
        this.canvas.dataset.row = String(this.rowPx);
        const height = (this.deepest + 1) * this.rowPx;
        sizeCanvas(this.canvas, width, height, ratio);
        this.width = width;
        this.ratio = ratio;
    }

    y(depth) {
        return this.options.up ? (this.deepest - depth) * this.rowPx : depth * this.rowPx;
    }

    draw() {
        const {boxes, options} = this;
        this.resize();
        const context = this.canvas.getContext('2d');
        context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
        context.clearRect(0, 0, this.width, this.canvas.height);
        context.font = `${this.rowPx > ROW_PX ? 13 : 12}px system-ui, sans-serif`;
        context.textBaseline = 'middle';
        if (!boxes.n || !(boxes.w[0] > 0)) {
            context.fillStyle = options.dark ? '#ccc' : '#333';
            context.fillText(options.empty, 8, this.rowPx / 2);
            return;
        }
        const {from, scale} = this.view(), labelled = this.paint(context, from, scale);
        context.fillStyle = options.dark ? '#fff' : '#111';
        for (const i of labelled) {
            const left = Math.max((boxes.x[i] - from) * scale, 0), right = Math.min((boxes.x[i] + boxes.w[i] - from) * scale, this.width);
            context.fillText(fitted(context, this.label(boxes.node[i]), right - left - 8), left + 4, this.y(boxes.depth[i]) + this.rowPx / 2);
        }
        if (document.activeElement === this.canvas)
            this.frameSelected(context, from, scale);
    }

    /*
     * A pixel has the colour of the box at its middle. So of boxes that are narrower than a pixel some are seen, and no row has a hole.
     * Returns the boxes that are wide enough for a label.
     */
    paint(context, from, scale) {
        const {boxes, ratio, deepest, colours} = this, n = Math.round(this.width * ratio), by = scale * ratio;
        const {canvas, image, pixels} = this.linesOf(n, deepest + 1), labelled = [];
        pixels.fill(0);
        for (let i = 0; i < boxes.n;) {
            const left = Math.max(Math.round((boxes.x[i] - from) * by), 0), right = Math.min(Math.round((boxes.x[i] + boxes.w[i] - from) * by), n);
            if (left >= right) {
                i = boxes.end[i]; /* nor can anything within it be seen */
                continue;
            }
            const row = (this.options.up ? deepest - boxes.depth[i] : boxes.depth[i]) * n;
            const colour = colours[i] || (colours[i] = pixelOf(this.boxColour(i)));
            for (let at = row + left; at < row + right; at++)
                pixels[at] = colour;
            if (right - left > 2)
                pixels[row + right - 1] = faded(colour);
            if (right - left > LABEL_PX * ratio)
                labelled.push(i);
            i++;
        }
        canvas.getContext('2d').putImageData(image, 0, 0);
        context.imageSmoothingEnabled = false;
        context.drawImage(canvas, 0, 0, this.width, (deepest + 1) * this.rowPx);
        for (let row = 0; row <= deepest; row++)
            context.clearRect(0, (row + 1) * this.rowPx - 1, this.width, 1);
        return labelled;
    }

    /* A canvas with a line of n pixels for each row. */
    linesOf(n, nRows) {
        const {lines} = this;
        if (lines && lines.image.width === n && lines.image.height === nRows)
            return lines;
        const canvas = document.createElement('canvas'), image = new ImageData(n, nRows);
        canvas.width = n;
        canvas.height = nRows;
        return (this.lines = {canvas, image, pixels: new Uint32Array(image.data.buffer)});
    }

    frameSelected(context, from, scale) {
        const {boxes, selected: i} = this, x = (boxes.x[i] - from) * scale;
        const left = Math.max(x, 0), right = Math.min(x + boxes.w[i] * scale, this.width);
        context.strokeStyle = context.fillStyle;
        context.lineWidth = 2;
        if (left < this.width && right > 0)
            context.strokeRect(left + 1, this.y(boxes.depth[i]) + 1, Math.max(right - left - 2.5, 1), this.rowPx - 3);
    }

    boxColour(i) {
        const node = this.boxes.node[i];
        return this.matching && node && !this.matching[this.tree.frame[node]] ? (this.options.dark ? '#33333a' : '#e8e8e8') : this.colour(node);
    }

    /* The name; with the line, if boxes are lines; and of a box beside another one of the same name, how they differ. */
    label(node) {
        const frame = this.frames[this.tree.frame[node]];
        if (this.options.lines)
            return frame.line ? `${frame.name}:${frame.line}` : frame.name;
        if (!node || folds.nNamed(frame.name) < 2 || !this.hasTwin(node, frame))
            return frame.name;
        return `${frame.name} (${baseName(frame.file || frame.library) || 'no file'})`;
    }

    /* Whether the same caller has another box of that name. */
    hasTwin(node, frame) {
        const {boxes} = this, parent = this.boxOf[this.tree.parent[node]];
        for (let i = parent + 1; i < boxes.end[parent]; i = boxes.end[i])
            if (boxes.node[i] !== node && this.frames[this.tree.frame[boxes.node[i]]].name === frame.name)
                return true;
        return false;
    }

    /* What tells a box from its siblings in a link. */
    keyOf(frame) {
        return this.options.lines ? `${frame.name}:${frame.line}` : frame.name;
    }

    colour(node) {
        const {tree, options} = this;
        if (node === 0)
            return options.dark ? '#3a3a42' : '#ccc';
        if (tree.totalB)
            return changeColour(tree.total[node], tree.totalB[node], options.dark);
        return options.lens && tree.extraTotal ? options.lens.colour(tree, node) : frameColour(this.frames[tree.frame[node]], options.dark);
    }

    /* The part of the values that is seen: {from, width}. */
    windowOf(node) {
        const {boxes} = this, box = this.boxOf[node] >= 0 ? this.boxOf[node] : 0;
        return boxes.n ? {from: boxes.x[box], width: boxes.w[box]} : {from: 0, width: 1};
    }

    view() {
        return {from: this.window.from, scale: this.width / this.window.width};
    }

    /* Calls use() while the whole width of the zoom is drawn, wherever the window was moved. */
    drawnWhole(use) {
        const before = this.window;
        this.window = this.windowOf(this.zoom);
        this.draw();
        use();
        this.window = before;
        this.draw();
    }

    /* Never beyond the whole, nor narrower than a millionth of it. */
    setWindow(from, width) {
        const whole = this.boxes.w[0];
        const w = Math.min(Math.max(width, whole * 1e-6), whole);
        this.window = {from: Math.min(Math.max(from, 0), whole - w), width: w};
        this.draw();
    }

    /* Moves the window there; at once for those who asked their system for less motion. */
    goTo(target) {
        const begin = {...this.window}, id = this.animation = ++this.nAnimations, started = performance.now();
        if (matchMedia('(prefers-reduced-motion: reduce)').matches)
            return void this.setWindow(target.from, target.width);
        const step = now => {
            if (id !== this.animation)
                return;
            const part = Math.min(Math.max((now - started) / MOVE_MS, 0), 1), eased = part * (2 - part);
            this.setWindow(begin.from + (target.from - begin.from) * eased, begin.width + (target.width - begin.width) * eased);
            if (part < 1)
                requestAnimationFrame(step);
            else
                this.animation = 0;
        };
        requestAnimationFrame(step);
    }

    down(event) {
        if (event.button || !this.boxes.n)
            return;
        this.canvas.setPointerCapture(event.pointerId);
        this.drag = {x: event.clientX, from: this.window.from, moved: false};
    }

    move(event) {
        const {drag} = this;
        if (!drag)
            return void this.onHover(this.nodeAt(event), event);
        drag.moved = drag.moved || Math.abs(event.clientX - drag.x) >= DRAG_PX;
        if (drag.moved) {
            this.animation = 0;
            this.onHover(-1, event);
            this.setWindow(drag.from - (event.clientX - drag.x) / this.view().scale, this.window.width);
        }
    }

    up(event) {
        const {drag} = this;
        this.drag = null;
        if (drag && !drag.moved)
            this.pick(this.nodeAt(event));
    }

    /* With control (and what a trackpad makes of two fingers) it zooms around the pointer, sideways it moves. */
    wheel(event) {
        if (!this.boxes.n || (!event.ctrlKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)))
            return; /* the page scrolls */
        event.preventDefault();
        const {from, scale} = this.view();
        this.animation = 0;
        if (!event.ctrlKey)
            return void this.setWindow(from + event.deltaX / scale, this.window.width);
        const at = from + (event.clientX - this.canvas.getBoundingClientRect().left) / scale;
        const factor = Math.exp(Math.min(Math.max(event.deltaY, -100), 100) / 200);
        this.setWindow(at - (at - from) * factor, this.window.width * factor);
    }

    nodeAt(event) {
        const {boxes} = this;
        if (!boxes.n || !(boxes.w[0] > 0))
            return -1;
        const place = this.canvas.getBoundingClientRect();
        const {from, scale} = this.view();
        const x = (Math.floor((event.clientX - place.left) * this.ratio) + 0.5) / this.ratio / scale + from; /* the middle of the pixel */
        const row = Math.floor((event.clientY - place.top) / this.rowPx);
        const depth = this.options.up ? this.deepest - row : row;
        for (let i = 0; i < boxes.n;) {
            if (x < boxes.x[i] || x >= boxes.x[i] + boxes.w[i])
                i = boxes.end[i];
            else if (boxes.depth[i] === depth)
                return boxes.node[i];
            else
                i++;
        }
        return -1;
    }

    /* Makes a node as wide as the canvas; if it is that already, its caller. */
    pick(node) {
        if (node < 0)
            return;
        this.zoom = node === this.zoom && node > 0 ? this.tree.parent[node] : node;
        this.selected = Math.max(this.boxOf[this.zoom], 0);
        this.goTo(this.windowOf(this.zoom));
        this.onPick(this.zoom);
    }

    reset() {
        this.zoom = 0;
        this.selected = 0;
        this.goTo(this.windowOf(0));
    }

    search(matching) {
        this.matching = matching;
        this.colours.fill(0);
        this.draw();
    }

    /* Where a box is on the screen, in place of a mouse. */
    placeOf(box) {
        const {from, scale} = this.view(), place = this.canvas.getBoundingClientRect();
        const x = Math.min(Math.max((this.boxes.x[box] - from) * scale, 0), this.width - 20);
        return {clientX: place.left + x, clientY: place.top + this.y(this.boxes.depth[box]) + this.rowPx, byKey: true};
    }

    key(event) {
        const {boxes} = this;
        const at = this.selected, depth = boxes.depth[at];
        const inward = this.options.up ? 'ArrowUp' : 'ArrowDown', outward = this.options.up ? 'ArrowDown' : 'ArrowUp';
        let to = at;
        if (event.key === inward && at + 1 < boxes.end[at])
            to = at + 1;
        else if (event.key === outward && depth > 0)
            to = this.boxOf[this.tree.parent[boxes.node[at]]];
        else if (event.key === 'ArrowRight' && boxes.end[at] < boxes.n && boxes.depth[boxes.end[at]] === depth)
            to = boxes.end[at];
        else if (event.key === 'ArrowLeft' && depth > 0) {
            const parent = this.boxOf[this.tree.parent[boxes.node[at]]];
            for (let i = parent + 1; i < at; i = boxes.end[i])
                to = i;
        } else if (event.key === 'Enter')
            this.pick(boxes.node[at]);
        else if (event.key === 'Escape') {
            this.reset();
            this.onPick(0);
        } else if ('+-'.includes(event.key)) {
            const width = this.window.width * (event.key === '+' ? 0.5 : 2), middle = this.window.from + this.window.width / 2;
            this.goTo({from: middle - width / 2, width});
        } else
            return;
        event.preventDefault();
        this.selected = to;
        this.draw();
        this.onHover(boxes.node[to], this.placeOf(to));
    }
}

/* The part of a text that fits, by the mean width of a character, since measuring each text would be slow. */
function fitted(context, text, width) {
    const key = `${context.font.slice(0, 2)}${text}`;
    let whole = fitted.widths.get(key);
    if (whole === undefined) {
        if (fitted.widths.size > 50000)
            fitted.widths.clear();
        whole = context.measureText(text).width;
        fitted.widths.set(key, whole);
    }
    if (whole <= width)
        return text;
    const n = Math.floor((width - 12) / whole * text.length);
    return n > 1 ? `${text.slice(0, n)}…` : '';
}
fitted.widths = new Map();
