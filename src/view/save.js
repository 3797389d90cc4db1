/* SPDX-License-Identifier: MIT */
/*
 * save.js - saves the view that is shown as a file: PNG, SVG, pprof, folded stacks.
 */

function download(name, blob) {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(blob);
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/* One line a stack: `main;serve;malloc 4096`, root first. */
function foldedStacks(tree, frames) {
    const lines = [];
    for (let i = 1; i < tree.n; i++) {
        if (!tree.self[i])
            continue;
        const names = [];
        for (let j = i; j > 0; j = tree.parent[j])
            names.push(frames[tree.frame[j]].name.replace(/[;\n]/g, ':'));
        lines.push(`${names.reverse().join(';')} ${Math.round(tree.self[i])}`);
    }
    return `${lines.join('\n')}\n`;
}

const PAPER = {true: '#17171b', false: '#fff'}, INK = {true: '#fff', false: '#111'};

const HEAD_PX = 18, HEAD_FONT = '12px sans-serif';

/* What stands above a saved picture: lines [{text, colour}] of what it shows and of its colours. */
function headOfPicture() {
    const lines = [`${byId('title').textContent}: ${byId('shown').textContent}`, byId('flameWords').textContent, byId('range').textContent].map(text => ({text, colour: ''}));
    return [...lines, ...[...byId('lensLegend').querySelectorAll('i')].map(swatch => ({text: swatch.parentElement.textContent, colour: swatch.style.color}))];
}

/* As wide as the graphs, and as the longest line. */
function widthOfPicture(flames, head) {
    const context = document.createElement('canvas').getContext('2d');
    context.font = HEAD_FONT;
    return Math.ceil(Math.max(...flames.map(f => f.width), ...head.map(({text}) => context.measureText(text).width + 40)));
}

/* The flame graphs at their present zoom in their whole width, one below the other. */
function flamePng(flames) {
    const canvas = document.createElement('canvas'), head = headOfPicture(), [{ratio, options: {dark}}] = flames, context = canvas.getContext('2d');
    canvas.width = widthOfPicture(flames, head) * ratio;
    canvas.height = head.length * HEAD_PX * ratio + flames.reduce((sum, f) => sum + f.canvas.height, 0);
    context.fillStyle = PAPER[dark];
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.scale(ratio, ratio);
    context.font = HEAD_FONT;
    head.forEach(({text, colour}, i) => {
        context.fillStyle = colour || 'transparent';
        context.fillRect(8, i * HEAD_PX + 4, 10, 10);
        context.fillStyle = INK[dark];
        context.fillText(text, colour ? 24 : 8, i * HEAD_PX + 13);
    });
    context.setTransform(1, 0, 0, 1, 0, 0);
    let y = head.length * HEAD_PX * ratio;
    for (const f of flames) {
        f.drawnWhole(() => context.drawImage(f.canvas, 0, y));
        y += f.canvas.height;
    }
    return canvas;
}

function flameSvg(flames) {
    const escape = text => text.replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`).replace(/[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g, '\ufffd');
    const [{options: {dark}}] = flames, head = headOfPicture(), width = widthOfPicture(flames, head);
    const parts = head.map(({text, colour}, i) => `${colour ? `<rect x="8" y="${i * HEAD_PX + 4}" width="10" height="10" fill="${colour}"/>` : ''}<text x="${colour ? 24 : 8}" y="${i * HEAD_PX + 13}">${escape(text)}</text>`);
    let top = head.length * HEAD_PX;
    for (const of of flames) {
        const {boxes, tree, width: w, deepest, unit} = of, {from, width: whole} = of.windowOf(of.zoom), scale = w / whole;
        for (let i = 0; i < boxes.n; i++) {
            const x = Math.max((boxes.x[i] - from) * scale, 0), right = Math.min((boxes.x[i] - from + boxes.w[i]) * scale, w);
            if (right - x < 0.4)
                continue;
            const node = boxes.node[i], y = top + of.y(boxes.depth[i]), name = of.label(node);
            const value = tree.totalB ? `A ${formatValue(tree.total[node], unit)}, B ${formatValue(tree.totalB[node], unit)}` : formatValue(tree.total[node], unit);
            const shown = escape(name.slice(0, Math.floor((right - x - 8) / 6.5)));
            parts.push(`<g><title>${escape(name)}\n${value}</title><rect x="${x.toFixed(1)}" y="${y}" width="${(right - x - 0.5).toFixed(1)}" height="${
                of.rowPx - 1}" fill="${of.colour(node)}"/>${right - x > 24 ? `<text x="${(x + 4).toFixed(1)}" y="${y + of.rowPx / 2 + 4}">${shown}</text>` : ''}</g>`);
        }
        top += (deepest + 1) * of.rowPx;
    }
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${top}" font-family="sans-serif" font-size="12" fill="${INK[dark]}"><rect width="100%" height="100%" fill="${PAPER[dark]}"/>${parts.join('')}</svg>\n`;
}

/* Writes protocol buffers. */
class WireWriter {
    constructor() {
        this.bytes = new Column(Uint8Array);
    }

    varint(value) {
        let n = BigInt.asUintN(64, BigInt(Math.trunc(value)));
        while (n > 127n) {
            this.bytes.push(Number(n & 127n) | 128);
            n >>= 7n;
        }
        this.bytes.push(Number(n));
    }

    number(field, value) {
        if (!value)
            return;
        this.varint(field * 8);
        this.varint(value);
    }

    span(field, bytes) {
        this.varint(field * 8 + 2);
        this.varint(bytes.length);
        for (const byte of bytes)
            this.bytes.push(byte);
    }

    message(field, write) {
        const inner = new WireWriter();
        write(inner);
        this.span(field, inner.done());
    }

    done() {
        return this.bytes.data.subarray(0, this.bytes.n);
    }
}

/*
 * The rows of a query as a pprof profile, with all types and labels, and no frame folded: allocations and waits in the range, and what is in
 * use at its end, or for the modes `retained` and `kept` its growth.
 */
function encodeRange(model, query) {
    const kind = model.kinds.get(query.kind), frames = model.frames.items, parent = model.parent.data, frame = model.frame.data;
    const matching = query.filter ? keptNodes(model, query.filter) : null;
    const out = new WireWriter();
    const strings = new Interner(), locations = new Interner(), libraries = new Interner();
    strings.number('');
    const type = (field, t, unit) => out.message(field, m => {
        m.number(1, strings.number(t));
        m.number(2, strings.number(unit));
    });
    for (const t of kind.types)
        type(1, t.type, t.unit);
    const [first, last] = kind.ticksWithin(query.from, query.to), [begin, end] = kind.rowsOfTicks(first, last), rows = new Map();
    const node = kind.node.data, labels = kind.labels.data, tick = kind.tick.data;
    const members = model.groups.members(query.process), isGrowth = query.mode !== 'level' && query.mode !== 'sum', ofLevel = folds.ticksOf({...query, mode: isGrowth ? 'retained' : 'level'});
    for (let i = 0; i < end; i++) {
        if ((members && !members[kind.ticks[tick[i]].process]) || (query.passes && !query.passes[labels[i]]) || (matching && !matching[node[i]]))
            continue;
        const key = labels[i] * 4294967296 + node[i];
        const row = rows.get(key) || rows.set(key, kind.values.map(() => 0)).get(key);
        kind.values.forEach((v, k) => {
            const isSeen = kind.isLevel[k] ? !isGrowth || i >= begin : i >= begin;
            if (isSeen && (!kind.isLevel[k] || !ofLevel || ofLevel[tick[i]]))
                row[k] += v.data[i];
        });
    }
    for (const [key, values] of rows) {
        if (!values.some(v => v))
            continue;
        const ids = [];
        for (let j = key % 4294967296; j > 0; j = parent[j])
            ids.push(locations.number(frame[j]) + 1);
        out.message(2, m => {
            for (const id of ids)
                m.number(1, id);
            for (const value of values) {
                m.varint(2 * 8);
                m.varint(Math.round(value));
            }
            for (const [name, value] of model.labelSets.items[Math.floor(key / 4294967296)])
                m.message(3, l => {
                    l.number(1, strings.number(name));
                    l.number(2, strings.number(value));
                });
        });
    }
    locations.items.forEach((number, i) => {
        const library = libraries.number(frames[number].library) + 1;
        out.message(4, m => {
            m.number(1, i + 1);
            m.number(2, library);
            m.message(4, line => {
                line.number(1, i + 1);
                line.number(2, frames[number].line);
            });
        });
        out.message(5, m => {
            m.number(1, i + 1);
            m.number(2, strings.number(frames[number].name));
            m.number(4, strings.number(frames[number].file));
        });
    });
    libraries.items.forEach((library, i) => {
        out.message(3, m => {
            m.number(1, i + 1);
            m.number(2, (i + 1) * 1048576);
            m.number(3, (i + 1) * 1048576 + 4096);
            m.number(5, strings.number(library));
            m.number(7, 1);
        });
    });
    const fromMs = first < last ? (first ? kind.ticks[first - 1].end : extent(kind)[0]) : 0, toMs = first < last ? kind.ticks[last - 1].end : 0;
    out.number(9, fromMs * 1e6);
    out.number(10, (toMs - fromMs) * 1e6);
    const tickNow = kind.ticks[Math.max(last - 1, 0)];
    if (query.kind === 'heap' && tickNow && tickNow.period) {
        type(11, 'space', 'bytes');
        out.number(12, tickNow.period);
    }
    out.number(13, strings.number('a range saved from the page'));
    out.number(14, strings.number(kind.types[query.type].type));
    for (const text of strings.items)
        out.span(6, new TextEncoder().encode(text));
    return out.done();
}

/* By node, whether its stack has a frame that matches. */
function keptNodes(model, search) {
    const matching = folds.matches(search), has = new Uint8Array(model.nNodes);
    for (let i = 1; i < has.length; i++)
        has[i] = has[model.parent.data[i]] | matching[model.frame.data[i]];
    return has;
}
