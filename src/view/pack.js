/* SPDX-License-Identifier: MIT */
/*
 * pack.js - reads the pack, into which `deltaprof view` puts many files. All numbers are varints; signed ones are zigzag.
 *
 *     strings     n, then length and bytes of each
 *     frames      n, then name, file, library (strings), line, flags (1: it only passes an allocation on, 2: no code of the user, 4: a language's own library);
 *                 numbered from 1
 *     nodes       n, then parent (distance back), frame; numbered from 1, 0 is the root
 *     label sets  n, then n labels, each key and value (strings)
 *     processes   n, then program, pid, host (strings)
 *     kinds       n, then name (string), n types each {type, unit (strings)}, n ticks, each: process, end in microseconds since the
 *                 tick before (signed), duration in microseconds, period, rss, anonymous rss, standard deviation of its parts (bytes), n parts
 *                 of the anonymous rss, each name (string) and bytes, marks (1: #exit, 2: #ended, 4: no profile,
 *                 the process has ended), n comments (strings), n rows, each: node (signed, to the row
 *                 before), label set, and for each type the value (signed; of levels the difference)
 *     leaks       1 if they were judged, else 0; then verdict, what it needs (strings), ticks of work, ns of work, samples, n rows,
 *                 each: 1 if it is a leak, 0 if it may be one, bytes, bytes an hour, confidence in per mille, n names (strings)
 *     sentences   n, then kind, text, verb of the command that shows more, function (strings)
 *     sides       0, or 2 and the hosts (strings) that `view --diff` compares
 *     sources     n files, each: name (string), n lines, each number and text (string)
 */
/* until: in ms; ticks that end later are left out. */
function readPack(bytes, model, until = Infinity) {
    const wire = new Wire(bytes);
    const many = read => {
        const n = wire.small();
        const items = new Array(n);
        for (let i = 0; i < n; i++)
            items[i] = read(i);
        return items;
    };
    const strings = many(() => {
        const n = wire.small();
        wire.at += n;
        if (wire.at > wire.end)
            throw new Error('the data ends inside a text');
        return Wire.utf8.decode(bytes.subarray(wire.at - n, wire.at));
    });
    const string = () => strings[wire.small()];
    const frames = [0, ...many(() => {
        const name = string(), file = string(), library = string(), line = wire.small(), flags = wire.small();
        return model.frameNumber(name, file, line, library, (flags & 1) > 0, (flags & 2) > 0, (flags & 4) > 0);
    })];
    const nodes = [0];
    many(i => {
        const parent = i + 1 - wire.small();
        nodes.push(model.child(nodes[parent], frames[wire.small()]));
    });
    const labelSets = many(() => model.labelNumber(many(() => [string(), string()])));
    const processes = many(() => {
        const program = string(), pid = string(), host = string();
        return model.processNumber(program, pid, host);
    });
    many(() => {
        const name = string();
        const types = many(() => ({type: string(), unit: string()}));
        const kind = model.kind(name, types);
        const values = new Array(types.length);
        let end = 0;
        many(() => {
            const process = processes[wire.small()];
            end += wire.signed();
            const start = end - wire.small();
            const period = wire.small(), rss = wire.small(), anon = wire.small(), error = wire.small();
            const parts = many(() => [string(), wire.small()]);
            const marks = wire.small();
            const comments = many(string);
            const tick = {start: start / 1e3, end: end / 1e3, process, firstRow: kind.nRows, comments, period, marks,
                          rss: rss ? {rss, anon, error, parts} : null};
            const isKept = tick.end <= until;
            if (isKept)
                kind.ticks.push(tick);
            let node = 0;
            for (let n = wire.small(); n > 0; n--) {
                node += wire.signed();
                const labels = labelSets[wire.small()];
                for (let i = 0; i < values.length; i++)
                    values[i] = wire.signed();
                if (isKept)
                    kind.addRow(name === 'wall' ? model.nodeInState(nodes[node], labels) : nodes[node], labels, values);
            }
        });
    });
    const heat = model.kinds.get(HEAT_KIND);
    if (heat && !heat.ticks.length)
        model.kinds.delete(HEAT_KIND);
    else if (heat)
        heat.keepTypes((_, values) => values.data.subarray(0, values.n).some(v => v));
    if (wire.small())
        model.leaks = {verdict: string(), needs: string(), ticks: wire.small(), ns: wire.small(), samples: wire.small(),
                       rows: many(() => ({isLeak: wire.small() > 0, bytes: wire.small(), hourly: wire.small(), confidence: wire.small() / 1000, names: many(string)}))};
    model.sentences = many(() => ({kind: string(), text: string(), verb: string(), name: string()}));
    const sides = many(string);
    model.sides = sides.length === 2 ? sides : null;
    model.sources = new Map(many(() => [string(), many(() => ({line: wire.small(), text: string()}))]));
    model.version++;
}
