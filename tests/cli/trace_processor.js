// SPDX-License-Identifier: MIT
/*
 * Asks Perfetto's trace processor: the WebAssembly that the Perfetto UI runs in a worker.
 *
 *     node trace_processor.js DIRECTORY TRACE < QUERIES > ANSWERS
 *
 * DIRECTORY has engine_bundle.js and trace_processor.wasm. QUERIES is a JSON list of SQL texts. ANSWERS is a JSON list
 * with one list of rows for each query. A row is a list of strings, numbers and nulls; a number beyond 2^53 is a string.
 * The messages are those of trace_processor.proto: TraceProcessorRpcStream, TraceProcessorRpc and QueryResult.
 */
'use strict';
const fs = require('fs');

const METHOD = { append: 1, finalize: 2, query: 3 };
const RPC = { request: 2, response: 3, fatal: 5, data: 101, queryArgs: 103, appended: 201, result: 203 };
const CELL = { int: 2, double: 3, text: 4 };
const CHUNK_BYTES = 4 << 20;

// ---- protobuf ----

function varint(n) {
    return n < 128 ? [n] : [(n % 128) | 128, ...varint(Math.floor(n / 128))];
}

const numberField = (field, n) => Buffer.from([...varint(field * 8), ...varint(n)]);
const bytesField = (field, b) => Buffer.concat([Buffer.from([...varint(field * 8 + 2), ...varint(b.length)]), b]);

class Reader {
    constructor(buffer) {
        this.buffer = buffer;
        this.at = 0;
    }

    varint() {
        for (let n = 0n, shift = 0n;; shift += 7n) {
            const byte = this.buffer[this.at++];
            n |= BigInt(byte & 127) << shift;
            if (byte < 128)
                return n;
        }
    }

    // The rest as [field, value]. A value is a BigInt, or a Reader of the field's bytes.
    * fields() {
        while (this.at < this.buffer.length) {
            const tag = Number(this.varint());
            if (tag % 8 === 0) {
                yield [tag >> 3, this.varint()];
                continue;
            }
            const size = tag % 8 === 1 ? 8 : tag % 8 === 5 ? 4 : Number(this.varint());
            this.at += size;
            yield [tag >> 3, new Reader(this.buffer.subarray(this.at - size, this.at))];
        }
    }

    * varints() {
        while (this.at < this.buffer.length)
            yield this.varint();
    }

    text() {
        return this.buffer.toString();
    }
}

// ---- answers ----

// CellsBatch has the types of its cells, and then the values of each type.
function* cellsOf(batch) {
    let types = [], ints = [], doubles = [], texts = [];
    for (const [field, value] of batch.fields()) {
        if (field === 1)
            types = [...value.varints()].map(Number);
        else if (field === 2)
            ints = [...value.varints()].map((n) => BigInt.asIntN(64, n));
        else if (field === 3)
            doubles = Array.from({ length: value.buffer.length / 8 }, (_, i) => value.buffer.readDoubleLE(8 * i));
        else if (field === 5)
            texts = value.text().split('\0');
    }
    const next = [ints, doubles, texts].map((list) => list.values());
    for (const type of types) {
        const cell = type === CELL.int ? next[0].next().value : type === CELL.double ? next[1].next().value : type === CELL.text ? next[2].next().value : null;
        yield typeof cell !== 'bigint' ? cell : Number.isSafeInteger(Number(cell)) ? Number(cell) : String(cell);
    }
}

function rowsOf(results) {
    const names = [], cells = [];
    for (const result of results)
        for (const [field, value] of result.fields()) {
            if (field === 1)
                names.push(value.text());
            else if (field === 2)
                throw new Error(value.text());
            else if (field === 3)
                cells.push(...cellsOf(value));
        }
    return Array.from({ length: names.length && cells.length / names.length }, (_, i) => cells.slice(i * names.length, (i + 1) * names.length));
}

// ---- the worker ----

class TraceProcessor {
    static async start(directory) {
        process.chdir(directory); // the bundle opens its WebAssembly by its name
        const bundle = fs.readFileSync('engine_bundle.js', 'utf8').replace('const wasmBridge =', '$& self.bridge =');
        const processor = new TraceProcessor(), self = {};
        new Function('self', 'require', '__dirname', 'console', bundle)(self, require, directory, { log() {}, warn() {} });
        await self.bridge.whenInitialized;
        processor.port = { postMessage: (data) => processor.replies.push(Buffer.from(data)) };
        processor.replies = [];
        self.onmessage({ data: { enginePort: processor.port } });
        return processor;
    }

    // The values of that field in the replies, which are there when the call returns.
    ask(method, field, ...args) {
        this.sequence = (this.sequence || 0) + 1;
        const rpc = Buffer.concat([numberField(1, this.sequence), numberField(RPC.request, method), ...args]);
        this.replies.length = 0;
        this.port.onmessage({ data: new Uint8Array(bytesField(1, rpc)) });
        const values = [];
        for (const [, reply] of new Reader(Buffer.concat(this.replies)).fields())
            for (const [number, value] of reply.fields()) {
                if (number === RPC.fatal)
                    throw new Error(value.text());
                if (number === field)
                    values.push(value);
            }
        return values;
    }

    load(trace) {
        for (let at = 0; at < trace.length; at += CHUNK_BYTES)
            for (const reply of this.ask(METHOD.append, RPC.appended, bytesField(RPC.data, trace.subarray(at, at + CHUNK_BYTES))))
                for (const [field, value] of reply.fields())
                    if (field === 2)
                        throw new Error(value.text());
        this.ask(METHOD.finalize, RPC.response);
    }

    query(sql) {
        return rowsOf(this.ask(METHOD.query, RPC.result, bytesField(RPC.queryArgs, bytesField(1, Buffer.from(sql)))));
    }
}

async function main(directory, path) {
    const trace = fs.readFileSync(path), queries = JSON.parse(fs.readFileSync(0, 'utf8'));
    const processor = await TraceProcessor.start(directory);
    processor.load(trace);
    fs.writeFileSync(1, JSON.stringify(queries.map((sql) => processor.query(sql))));
}

main(...process.argv.slice(2)).catch((error) => {
    fs.writeSync(2, error.stack + '\n');
    process.exit(1);
});
