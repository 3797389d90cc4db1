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

/* The flame graph at its present zoom. */
function flameSvg(flame) {
    const escape = text => text.replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);
    const {boxes, options, tree, frames} = flame;
    const {from, scale} = flame.view();
    const parts = [];
    for (let i = 0; i < boxes.n; i++) {
        const x = Math.max((boxes.x[i] - from) * scale, 0), right = Math.min((boxes.x[i] - from + boxes.w[i]) * scale, flame.width);
        if (right - x < 0.4)
            continue;
        const node = boxes.node[i], y = flame.y(boxes.depth[i]);
        const fill = node === 0 ? '#ccc' : tree.totalB ? changeColour(tree.total[node], tree.totalB[node], options.dark) :
            frameColour(frames[tree.frame[node]], options.dark);
        const name = escape(flame.label(node));
        const shown = escape(flame.label(node).slice(0, Math.floor((right - x - 8) / 6.5)));
        parts.push(`<g><title>${name}</title><rect x="${x.toFixed(1)}" y="${y}" width="${(right - x - 0.5).toFixed(1)}" height="${
            ROW_PX - 1}" fill="${fill}"/>${right - x > 24 ? `<text x="${(x + 4).toFixed(1)}" y="${y + 13}">${shown}</text>` : ''}</g>`);
    }
    const height = (flame.deepest + 1) * ROW_PX;
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${flame.width}" height="${height}" font-family="sans-serif" font-size="12">${
        parts.join('')}</svg>\n`;
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

/* A pprof profile of a tree: one value a stack. */
function encodeProfile(tree, frames, {type, unit, fromMs, toMs, comment}) {
    const out = new WireWriter();
    const strings = new Interner();
    strings.number('');
    const locations = new Interner();
    out.message(1, m => {
        m.number(1, strings.number(type));
        m.number(2, strings.number(unit));
    });
    for (let i = 1; i < tree.n; i++) {
        if (!tree.self[i])
            continue;
        const ids = [];
        for (let j = i; j > 0; j = tree.parent[j])
            ids.push(locations.number(tree.frame[j]) + 1);
        out.message(2, m => {
            for (const id of ids)
                m.number(1, id);
            m.number(2, Math.round(tree.self[i]));
        });
    }
    const libraries = new Interner();
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
    out.number(9, fromMs * 1e6);
    out.number(10, (toMs - fromMs) * 1e6);
    out.number(13, strings.number(comment));
    for (const text of strings.items)
        out.span(6, new TextEncoder().encode(text));
    return out.done();
}
