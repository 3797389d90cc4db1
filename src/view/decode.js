/* SPDX-License-Identifier: MIT */
/*
 * decode.js - reads protocol buffers, the profile.proto of pprof, and gzip.
 *
 * Source: https://github.com/google/pprof/blob/main/proto/profile.proto. Unknown fields are skipped. Integers become
 * JavaScript numbers: exact up to 2^53; a time in nanoseconds is exact to about 250 ns.
 */

/* Reads varints and length-delimited fields of a message. */
class Wire {
    constructor(bytes, start = 0, end = bytes.length) {
        this.bytes = bytes;
        this.at = start;
        this.end = end;
    }

    more() {
        return this.at < this.end;
    }

    /* A signed 64-bit value: negative ones take ten bytes. */
    varint() {
        let low = 0;
        let high = 0;
        for (let shift = 0; shift < 70; shift += 7) {
            if (this.at >= this.end)
                throw new Error(`the profile ends inside a number, at byte ${this.at}`);
            const byte = this.bytes[this.at++];
            if (shift < 28)
                low += (byte & 0x7f) * 2 ** shift;
            else if (shift === 28) {
                low += (byte & 0x0f) * 2 ** 28;
                high += (byte & 0x7f) >> 4;
            } else
                high += (byte & 0x7f) * 2 ** (shift - 32);
            if (byte < 0x80)
                return (high % 4294967296 | 0) * 4294967296 + low;
        }
        throw new Error(`a number is longer than ten bytes, at byte ${this.at}`);
    }

    /* Small numbers, the usual case of the pack. */
    small() {
        let value = 0;
        let factor = 1;
        for (;;) {
            if (this.at >= this.end)
                throw new Error('the data ends inside a number');
            const byte = this.bytes[this.at++];
            value += (byte & 0x7f) * factor;
            if (byte < 0x80)
                return value;
            factor *= 128;
        }
    }

    /* Zigzag: 0, -1, 1, -2 ... */
    signed() {
        const isNegative = this.bytes[this.at] & 1, value = this.small(); /* above 2^53 the value is rounded, and its last bit is lost */
        return isNegative ? -(value + 1) / 2 : value / 2;
    }

    span() {
        const n = this.varint();
        if (n < 0 || n > this.end - this.at)
            throw new Error(`the profile ends inside a field, at byte ${this.at}`);
        this.at += n;
        return [this.at - n, this.at];
    }

    text() {
        const [start, end] = this.span();
        return Wire.utf8.decode(this.bytes.subarray(start, end));
    }

    /* [field number, wire type] of the next field. */
    key() {
        const key = this.varint();
        return [Math.floor(key / 8), key % 8];
    }

    skip(type) {
        if (type === 0)
            this.varint();
        else if (type === 1)
            this.at += 8;
        else if (type === 2)
            this.span();
        else if (type === 5)
            this.at += 4;
        else
            throw new Error(`wire type ${type} at byte ${this.at} is none of profile.proto`);
        if (this.at > this.end)
            throw new Error(`the profile ends inside a field, at byte ${this.at}`);
    }
}
Wire.utf8 = new TextDecoder('utf-8', {ignoreBOM: true});

async function pump(bytes, transform) {
    const stream = new Blob([bytes]).stream().pipeThrough(transform);
    return new Uint8Array(await new Response(stream).arrayBuffer());
}

function isGzip(bytes) {
    return bytes.length > 2 && bytes[0] === 0x1f && bytes[1] === 0x8b;
}

async function inflate(bytes) {
    try {
        return isGzip(bytes) ? await pump(bytes, new DecompressionStream('gzip')) : bytes;
    } catch { /* the browser's own words for it are those of a request that failed */
        throw new Error('its gzip data is damaged or ends too early');
    }
}

async function deflate(bytes) {
    return pump(bytes, new CompressionStream('gzip'));
}

/* Calls handlers[field](wire, type) for each field of a message; fields without a handler are skipped. */
function readMessage(bytes, [start, end], handlers) {
    const wire = new Wire(bytes, start, end);
    while (wire.more()) {
        const [field, type] = wire.key();
        const handle = handlers[field];
        if (handle)
            handle(wire, type);
        else
            wire.skip(type);
    }
}

/* Packed or not, appends to `to`. */
function readNumbers(wire, type, to) {
    if (type !== 2) {
        to.push(wire.varint());
        return;
    }
    const [start, end] = wire.span();
    const inner = new Wire(wire.bytes, start, end);
    while (inner.more())
        to.push(inner.varint());
}

/*
 * Returns a profile as {types: [{type, unit}], samples: [{locations, values, labels: [[key, value]]}], locations: Map of id to
 * {address, mapping, lines: [{name, file, line}]}, timeNs, durationNs, period, comments, program}. Locations are leaf first, lines
 * innermost first. Throws an Error that says what is wrong.
 */
function decodeProfile(bytes) {
    const strings = [];
    const types = [], samples = [], comments = [], mappings = new Map(), functions = new Map(), locations = new Map();
    const profile = {types, samples, locations, comments, timeNs: 0, durationNs: 0, period: 0, program: ''};
    const text = index => strings[index] || '';
    let firstMapping = 0;

    readMessage(bytes, [0, bytes.length], {
        1(wire) {
            const type = {type: 0, unit: 0};
            readMessage(bytes, wire.span(), {1: w => { type.type = w.varint(); }, 2: w => { type.unit = w.varint(); }});
            types.push(type);
        },
        2(wire) {
            const sample = {locations: [], values: [], labels: []};
            readMessage(bytes, wire.span(), {
                1: (w, t) => readNumbers(w, t, sample.locations),
                2: (w, t) => readNumbers(w, t, sample.values),
                3(w) {
                    const label = {key: 0, str: 0, num: 0};
                    readMessage(bytes, w.span(), {
                        1: v => { label.key = v.varint(); },
                        2: v => { label.str = v.varint(); },
                        3: v => { label.num = v.varint(); },
                    });
                    sample.labels.push(label);
                },
            });
            samples.push(sample);
        },
        3(wire) {
            const mapping = {id: 0, start: 0, offset: 0, file: 0};
            readMessage(bytes, wire.span(), {
                1: w => { mapping.id = w.varint(); },
                2: w => { mapping.start = w.varint(); },
                4: w => { mapping.offset = w.varint(); },
                5: w => { mapping.file = w.varint(); },
            });
            firstMapping = firstMapping || mapping.id;
            mappings.set(mapping.id, mapping);
        },
        4(wire) {
            const location = {id: 0, mapping: 0, address: 0, lines: []};
            readMessage(bytes, wire.span(), {
                1: w => { location.id = w.varint(); },
                2: w => { location.mapping = w.varint(); },
                3: w => { location.address = w.varint(); },
                4(w) {
                    const line = {id: 0, line: 0};
                    readMessage(bytes, w.span(), {1: v => { line.id = v.varint(); }, 2: v => { line.line = v.varint(); }});
                    location.lines.push(line);
                },
            });
            locations.set(location.id, location);
        },
        5(wire) {
            const fn = {id: 0, name: 0, file: 0};
            readMessage(bytes, wire.span(), {
                1: w => { fn.id = w.varint(); },
                2: w => { fn.name = w.varint(); },
                4: w => { fn.file = w.varint(); },
            });
            functions.set(fn.id, fn);
        },
        6(wire) { strings.push(wire.text()); },
        9(wire) { profile.timeNs = wire.varint(); },
        10(wire) { profile.durationNs = wire.varint(); },
        12(wire) { profile.period = wire.varint(); },
        13: (wire, type) => readNumbers(wire, type, comments),
    });

    if (!types.length)
        throw new Error('no sample types: this is not a pprof profile');
    for (const type of types) {
        type.type = text(type.type);
        type.unit = text(type.unit);
    }
    for (let i = 0; i < comments.length; i++)
        comments[i] = text(comments[i]);
    for (const location of locations.values()) {
        const mapping = mappings.get(location.mapping);
        location.library = mapping ? text(mapping.file) : '';
        location.place = mapping ? location.address - mapping.start + mapping.offset : location.address;
        location.lines = location.lines.map(({id, line}) => {
            const fn = functions.get(id);
            return {name: fn ? text(fn.name) : '', file: fn ? text(fn.file) : '', line};
        });
    }
    for (const {locations: ids, values} of samples) {
        if (values.length !== types.length)
            throw new Error(`a sample has ${values.length} values for ${types.length} sample types`);
        const strange = ids.find(id => !locations.has(id));
        if (strange !== undefined)
            throw new Error(`a sample has the location ${strange}, which the profile does not have`);
    }
    for (const sample of samples)
        sample.labels = sample.labels.map(l => [text(l.key), l.str ? text(l.str) : String(l.num)]);
    profile.program = baseName(text((mappings.get(firstMapping) || {file: 0}).file));
    return profile;
}

function baseName(path) {
    return path.slice(path.lastIndexOf('/') + 1);
}
