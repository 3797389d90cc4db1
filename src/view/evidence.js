/* SPDX-License-Identifier: MIT */
/*
 * evidence.js - whether what grows within a range is a leak. The same judgement as that of `deltaprof leaks`: src/query/evidence.c explains
 * it, src/query/series.c makes the same curves.
 */
const POINTS = 32, POINTS_NEEDED = 4, MANY_LEFT = 8, FEWEST_STEPS = 3, PHASES = 7;
const TURNOVER_LESS = 0.8, SIGNS_BOUND = 3.178, LARGEST_STEP = 0.5, LOAD_SPREAD = 0.3, DOUBLING_STEP = 1.3, SURE = 0.5;

const clamp = value => Math.min(Math.max(value, 0), 1);
const sumOf = (values, first, last) => values.slice(first, last).reduce((a, b) => a + b, 0);

/* The probability that a normal variable is less than z. Abramowitz and Stegun 7.1.26; wrong by less than 2e-7. */
function probability(z) {
    const x = Math.abs(z) / Math.SQRT2, t = 1 / (1 + 0.3275911 * x);
    const half = 0.5 * t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * Math.exp(-x * x);
    return z < 0 ? half : 1 - half;
}

/* {hourly: of the line that fits best, steady: Kendall's tau} of points [first, last). */
function slopeOf(times, values, first, last) {
    const n = last - first;
    if (n < 2)
        return {hourly: 0, steady: 0};
    let tMean = 0, vMean = 0, tt = 0, tv = 0, pairs = 0;
    for (let i = first; i < last; i++) {
        tMean += (times[i] - times[first]) / n;
        vMean += (values[i] - values[first]) / n; /* of what does not change, exactly 0 */
    }
    for (let i = first; i < last; i++) {
        const t = times[i] - times[first] - tMean;
        tt += t ** 2;
        tv += t * (values[i] - values[first] - vMean);
        for (let j = i + 1; j < last; j++)
            pairs += Math.sign(values[j] - values[i]);
    }
    return {hourly: tt > 0 ? tv / tt * 3600e3 : 0, steady: pairs / (n * (n - 1) / 2)};
}

/* The judge of one stack: its curve {bytes, samples, allocated (samples), made (blocks)}, by point, at these times (ms) since start. */
class Evidence {
    constructor(times, start, curve) {
        Object.assign(this, {times, start, curve, bytes: curve.bytes, last: times.length - 1, warm: (times.length + 2) >> 2});
        const samples = curve.samples[this.last];
        this.weight = samples > 0 ? curve.bytes[this.last] / samples : 0;
    }

    /* What chance has to explain. */
    get growth() {
        const {last, warm} = this, allocated = sumOf(this.curve.allocated, warm + 1, last + 1);
        const freed = allocated > 0 ? clamp(this.freed(warm, last) / allocated) : 0;
        return Math.max(this.bytes[last] - this.bytes[warm], 0) * (1 - TURNOVER_LESS * freed);
    }

    squares(first, last, mean) {
        let sum = 0;
        for (let i = first; i < last; i++)
            sum += (this.bytes[i + 1] - this.bytes[i] - mean) ** 2;
        return sum;
    }

    fitted(first, last) {
        return (this.times[last] - this.times[first]) / 3600e3 * slopeOf(this.times, this.bytes, first, last + 1).hourly;
    }

    largestStep(first, last) {
        const growth = this.bytes[last] - this.bytes[first];
        let largest = 0;
        const width = Math.max(Math.floor((last - first) / PHASES), 1);
        for (let i = first; i + width <= last; i++)
            largest = Math.max(largest, this.bytes[i + width] - this.bytes[i]);
        return growth > 0 ? largest / growth : 1;
    }

    /* Sampled blocks. */
    freed(first, last) {
        return Math.max(sumOf(this.curve.allocated, first + 1, last + 1) - (this.curve.samples[last] - this.curve.samples[first]), 0);
    }

    /* The variance of the growth along the line, without a leak. */
    lineVariance(first, last) {
        const {bytes, curve} = this, n = last - first + 1, ends = (bytes[first] + bytes[last]) * this.weight;
        const perTick = sumOf(curve.allocated, first + 1, last + 1) / (last - first);
        const life = perTick > 0 ? sumOf(curve.samples, first, last + 1) / n / perTick : 1e9;
        const kept = Math.exp(-1 / Math.max(life, 1e-3)), line = this.fitted(first, last), mean = sumOf(bytes, first, last + 1) / n;
        let residue = 0;
        for (let i = first; i <= last; i++)
            residue += (bytes[i] - mean - line * ((i - first) / (last - first) - 0.5)) ** 2;
        return Math.min(2, 12 / n * (1 + kept) / (1 - kept)) * Math.max(ends / 2, residue / n);
    }

    bySigns(first, last) {
        const {bytes} = this, walk = this.squares(first, last, 0), z = walk > 0 ? (bytes[last] - bytes[first]) / Math.sqrt(walk) : 0;
        let nUp = 0, nDown = 0;
        for (let i = first; i < last; i++) {
            nUp += bytes[i + 1] > bytes[i] ? 1 : 0;
            nDown += bytes[i + 1] < bytes[i] ? 1 : 0;
        }
        return Math.min(nDown ? 1 : 2 ** -nUp, Math.exp(-z * z / 2), SIGNS_BOUND * probability(-z));
    }

    chance(first, last) {
        const fitted = this.fitted(first, last), variance = this.lineVariance(first, last);
        const byLine = fitted > 0 && variance > 0 ? Math.exp(-fitted * fitted / variance / 2) : 1;
        const trend = clamp((slopeOf(this.times, this.bytes, first, last + 1).steady - 0.2) / 0.4);
        const turnedOver = clamp(this.freed(first, last) / Math.max(this.curve.samples[last], 1));
        return Math.min(this.bySigns(first, last), 1 - trend * turnedOver * (1 - byLine));
    }

    pace(first, last) {
        const n = last - first, growth = this.bytes[last] - this.bytes[first];
        const walk = this.squares(first, last, growth / n), ends = (this.bytes[first] + this.bytes[last]) * this.weight;
        return ends < walk / 2 ? {perTick: this.fitted(first, last) / n, variance: this.lineVariance(first, last)} :
            {perTick: growth / n, variance: Math.max(walk, growth * this.weight)};
    }

    /* The probability that there is growth which a higher load does not explain. */
    beyondLoad() {
        const {times, last, curve} = this, half = last >> 1, time = (times[half] - times[0]) / (times[last] - times[half]);
        const nBefore = sumOf(curve.allocated, 1, half + 1), nAfter = sumOf(curve.allocated, half + 1, last + 1);
        const byBlocks = sumOf(curve.made, half + 1, last + 1) / sumOf(curve.made, 1, half + 1);
        const rise = Math.min(nAfter / nBefore, byBlocks) * time;
        const growth = this.bytes[last] - this.bytes[half];
        if (!(rise > 1) || rise === Infinity || growth <= 0)
            return 1;
        const error = 1 / (nBefore + 0.5) + 1 / (nAfter + 0.5), prior = LOAD_SPREAD ** 2;
        const change = Math.log(rise) * prior / (prior + error);
        const explained = this.bytes[half] * Math.expm1(change), deviation = this.bytes[half] * Math.exp(change) * Math.sqrt(prior * error / (prior + error));
        const turnedOver = clamp(this.freed(half, last) / Math.max(curve.samples[half], 1));
        return 1 - turnedOver * 2 * probability((explained - growth) / Math.sqrt(Math.max(deviation ** 2 + this.pace(half, last).variance, 1)));
    }

    /* Of a buffer that is doubled when it is full; null: it is none. */
    doubling(allGrowth) {
        const {bytes, times, last, curve} = this, at = [];
        let steps = 0, other = 0, exact = 1; /* 0: a step is by another factor than 2 */
        for (let i = 1; i <= last; i++) {
            const step = bytes[i] - bytes[i - 1];
            if (bytes[i - 1] > 0 && bytes[i] >= DOUBLING_STEP * bytes[i - 1]) {
                at.push(i);
                steps += step;
                exact = Math.abs(bytes[i] / bytes[i - 1] - 2) < 0.02 ? exact : 0;
            } else if (at.length)
                other += Math.abs(step);
        }
        if (at.length + exact < FEWEST_STEPS || other > steps / 10)
            return null;
        const now = at[at.length - 1], before = at[at.length - 2];
        if (curve.samples[last] <= 0 || curve.samples[before - 1] <= 0 || bytes[last] / curve.samples[last] < 1.5 * bytes[before - 1] / curve.samples[before - 1])
            return null;
        const pace = (bytes[now - 1] - bytes[before - 1]) / (times[now] - times[before]);
        if (pace <= 0)
            return null;
        const toFull = (bytes[now] - bytes[now - 1]) / pace, share = allGrowth > 0 ? clamp(steps / allGrowth) : 1;
        const confidence = (1 - clamp(Math.exp(-(at.length + exact) / 2) / Math.max(share, 1e-9))) * clamp(2 - (times[last] - times[now]) / toFull);
        return {verdict: confidence >= SURE ? 'leak' : 'filled up, then stopped', confidence, hourly: pace * 3600e3};
    }

    /* {verdict, confidence, hourly}. allGrowth: the sum of `growth` over all stacks of the process. */
    judge(allGrowth) {
        const {last, warm, curve} = this, half = last >> 1, doubling = this.doubling(allGrowth);
        if (doubling)
            return doubling;
        const {hourly} = slopeOf(this.times, this.bytes, half, last + 1);
        if (this.growth <= 0 || hourly <= 0)
            return {verdict: curve.samples[half] > 0 && sumOf(curve.allocated, half + 1, last + 1) < 0.5 ? 'grew, then stopped' : 'steady', confidence: 0, hourly};
        const chance = clamp(this.chance(warm, last) * Math.max(allGrowth / this.growth, 1));
        const spread = clamp((1 - this.largestStep(warm, last)) / (1 - LARGEST_STEP)), lasting = lastingOf(this);
        const confidence = (1 - chance) * spread * lasting * clamp(this.beyondLoad());
        return {verdict: confidence >= SURE ? 'leak' : lasting < 0.5 ? 'filled up, then stopped' : 'steady, or by chance or load', confidence, hourly};
    }
}

/* Of a process that ended before growth could be seen. */
function leftAtEnd({left, allocated, after}) {
    const n = Math.min(left, after), freed = Math.max(allocated - n, 0);
    return n >= MANY_LEFT && freed < n / 50 ? {verdict: 'left at the end, never freed', confidence: 0.6 * (1 - (freed + 1) / (n + freed + 2)), hourly: 0} :
        {verdict: 'too few ticks to tell', confidence: 0, hourly: 0};
}

/* The number of sampled blocks in a value: a block of s bytes is sampled with probability 1 - exp(-s / period). */
function samplesOf(objects, bytes, period) {
    if (objects <= 0 || period <= 1)
        return Math.max(objects, 0);
    return objects * -Math.expm1(-(bytes > 0 ? bytes / objects : 1) / period);
}

/*
 * By node, the stack that it belongs to: it begins at the first frame of the user's own code. {name, stack, hasOwn}; the same object for
 * the same stack.
 */
function ownStacks() {
    const {frames, parent, frame} = model, folded = folds.folded(), {hasRuntime} = folds.brief(), stacks = new Map();
    const own = frames.items.map(f => !f.foreign), runtime = frames.items.map(isRuntimeFrame);
    return i => {
        let path = [];
        for (let j = folded[i]; j > 0; j = parent.data[j])
            path.push(frame.data[j]);
        const withoutLibrary = path.filter(f => !frames.items[f].isLibrary);
        path = withoutLibrary.length ? withoutLibrary : path;
        if (hasRuntime) { /* the interpreter between two frames of its language is left out */
            const [inner, outer] = [path.findIndex(f => runtime[f]), path.findLastIndex(f => runtime[f])];
            for (let k = outer - 1; k > inner; k--)
                if (!runtime[path[k]] && frames.items[path[k]].library)
                    path.splice(k, 1);
        }
        let from = path.findIndex(f => runtime[f] && own[f]);
        from = from >= 0 ? from : path.findIndex(f => own[f]);
        const names = path.slice(Math.max(from, 0)).map(f => frames.items[f].name), key = names.join('\n');
        let found = stacks.get(key);
        if (!found)
            stacks.set(key, found = {name: names[0] || '[no stack]', names, hasOwn: from >= 0});
        return found;
    };
}

/* [{name, names, bytes, growth, verdict, confidence, hourly}] by stack, over all processes that are shown, within the range. */
function leaksNow(kind) {
    const types = ['inuse_objects', 'inuse_space', 'alloc_objects', 'alloc_space'].map(name => kind.types.findIndex(t => t.type === name));
    const found = new Map(), stackOf = ownStacks(), cache = new Map();
    const passes = folds.labelFilter([INHERITED], labelsNow());
    const stack = node => cache.get(node) || cache.set(node, stackOf(node)).get(node);
    const processes = new Set(kind.ticks.map(t => t.process).filter(p => state.process < 0 || p === state.process));
    for (const process of processes)
        for (const [of, row] of leaksOf(kind, process, types, passes, stack)) {
            const known = found.get(of);
            if (!known || row.confidence > known.confidence)
                found.set(of, {...row, bytes: row.bytes + (known ? known.bytes : 0), growth: row.growth + (known ? known.growth : 0),
                               hourly: row.hourly + (known ? known.hourly : 0)});
            else
                Object.assign(known, {bytes: known.bytes + row.bytes, growth: known.growth + row.growth, hourly: known.hourly + row.hourly});
        }
    return [...found].map(([of, row]) => ({...of, ...row}));
}

/* Map of stack to what is known of it in one process. */
function leaksOf(kind, process, types, passes, stack) {
    const [inObjects, inSpace, allocObjects, allocSpace] = types.map(t => (t < 0 ? null : kind.values[t].data));
    const ticks = kind.ticks.map((t, i) => ({...t, i})).filter(t => t.process === process && t.end <= state.to && !(t.marks & 4));
    const before = ticks.filter(t => t.end <= state.from).length;
    /* Profiles of the end of the process are no points: then destructors freed, or were about to. */
    const exit = ticks.findIndex((t, k) => k >= before && (t.marks & 1) > 0), ended = ticks.length && ticks[ticks.length - 1].marks & 2 ? ticks.length - 1 : ticks.length;
    const nAll = exit >= 0 ? exit : ended, nTicks = Math.max(nAll - before, 0), nPoints = Math.min(nTicks, POINTS);
    const pointOf = k => (k ? 1 + Math.floor((k - 1) * (nPoints - 1) / (nTicks - 1)) : 0);
    const period = ticks.length ? ticks[ticks.length - 1].period : 1;
    const times = [], curves = new Map(), start = ticks.length > before ? ticks[before].start : 0;
    const curve = of => {
        let known = curves.get(of);
        if (!known) {
            const zeros = () => new Array(nPoints).fill(0);
            curves.set(of, known = {bytes: zeros(), samples: zeros(), allocated: zeros(), made: zeros(), rows: new Map(), begin: 0, end: null, sampled: 0});
        }
        return known;
    };
    /* Values in use of a stack: sums of the levels of its rows, each with its own mean size. */
    const levels = c => {
        let bytes = 0, samples = 0;
        for (const [objects, space] of c.rows.values()) {
            bytes += Math.max(space, 0);
            samples += samplesOf(objects, space, period);
        }
        return {bytes, samples};
    };
    ticks.forEach((tick, k) => {
        const [begin, end] = kind.rowsOfTicks(tick.i, tick.i + 1), point = k >= before && k < nAll ? pointOf(k - before) : -1;
        for (let row = begin; row < end; row++) {
            if (passes && !passes[kind.labels.data[row]])
                continue;
            const c = curve(stack(kind.node.data[row])), key = kind.labels.data[row] * 4294967296 + kind.node.data[row];
            const level = c.rows.get(key) || [0, 0];
            level[0] += inObjects ? inObjects[row] : 0;
            level[1] += inSpace[row];
            c.rows.set(key, level);
            const made = allocSpace ? samplesOf(allocObjects[row], allocSpace[row], period) : 0;
            if (point >= 0) {
                c.allocated[point] += made;
                c.made[point] += allocObjects ? allocObjects[row] : 0;
            }
            if (k >= before)
                c.sampled += made;
        }
        if (k < before)
            for (const c of k + 1 === before ? curves.values() : [])
                c.begin = levels(c).bytes;
        else if (point >= 0 && (k + 1 === nAll || pointOf(k + 1 - before) !== point)) {
            times[point] = tick.end;
            for (const c of curves.values())
                ({bytes: c.bytes[point], samples: c.samples[point]} = levels(c));
        } else if (k === nAll)
            for (const c of curves.values())
                c.end = levels(c);
    });
    const rows = new Map(), judges = new Map();
    let allGrowth = 0;
    if (nPoints >= POINTS_NEEDED)
        for (const [of, c] of curves) {
            const judge = new Evidence(times, start, c);
            judges.set(of, judge);
            allGrowth += judge.growth;
        }
    for (const [of, c] of curves) {
        const after = levels(c), left = c.end || after;
        const evidence = judges.has(of) ? judges.get(of).judge(allGrowth) :
            leftAtEnd({left: ended < ticks.length || exit >= 0 ? left.samples : 0, allocated: c.sampled, after: exit >= 0 && ended < ticks.length ? after.samples : Infinity});
        /* Too few points: as `top` shows it, at the exit where there was one. */
        const atEnd = !nPoints || (!judges.has(of) && (exit >= 0 || evidence.confidence > 0)), bytes = atEnd ? left.bytes : c.bytes[nPoints - 1];
        rows.set(of, {bytes, growth: bytes - c.begin, ...evidence});
    }
    return rows;
}

/* Leaks first, the largest an hour first; then by growth. */
function drawLeaks() {
    const kind = model.kinds.get('heap');
    const search = searchNow();
    const rows = leaksNow(kind).filter(r => (r.growth > 0 || r.confidence > 0) && (!search || r.names.some(search.says)));
    for (const row of rows) {
        row.isLeak = row.confidence >= SURE && row.hasOwn && (row.hourly > 0 || row.verdict.startsWith('left'));
        if (!row.hasOwn)
            row.verdict = 'of a library';
        else if (row.verdict === 'leak')
            row.verdict = row.isLeak ? `leak, confidence ${Math.round(100 * row.confidence)} %` : 'steady';
        row.weight = row.isLeak ? 1e18 + row.confidence * Math.max(row.hourly, row.verdict.startsWith('left') ? row.bytes : 0) : row.growth;
    }
    const nLeaks = rows.filter(r => r.isLeak).length;
    byId('leaksWords').textContent = `${nLeaks ? `${nLeaks} leak${nLeaks > 1 ? 's' : ''}` : 'No leak: no stack grows without end'}. ${
        'Stacks begin at the first function of the program\u2019s own code; deltaprof leaks judges in the same way.'}`;
    const number = (name, value, text, title) => ({name, isNumber: true, value, text, title});
    const bytes = n => formatValue(n, 'bytes');
    leaks.show([{name: 'verdict', value: r => -r.weight, text: r => r.verdict, exact: r => `confidence ${r.confidence.toFixed(6)}`, class: r => (r.isLeak ? 'verdict alarm' : 'verdict')},
                number('in use', r => r.bytes, r => bytes(r.bytes)), number('growth', r => r.growth, r => bytes(r.growth), 'within the range'),
                number('an hour', r => r.hourly, r => (r.hourly > 0 ? bytes(r.hourly) : ''), 'over the second half of the range'),
                {name: 'stack', value: r => r.names.join(' ‹ '), text: r => r.names.slice(0, Math.min(r.names.indexOf('main') + 1 || 8, 8)).join(' ‹ ')}], rows, 'verdict', false);
}
