/* SPDX-License-Identifier: MIT */
/*
 * lasting.js - the probability that the growth of a stack has not ended. The same judgement as that of src/query/lasting.c, which explains
 * it.
 */
const RESIDUE = 0.15, PRIOR = 1.5, FEW_FREED = 0.1, LATEST = 0.75, SLOWEST = 2.4;

/* Of memory that is never freed: the sampled blocks by tick, and the times at which ticks end, from 0 to 1. */
class Events {
    constructor(judge) {
        const {times, bytes, last, warm, weight} = judge, time = times[last] - times[warm];
        Object.assign(this, {n: last - warm, at: [], end: [], start: Math.max((times[warm] - judge.start) / time, 0), atStart: bytes[warm] / weight});
        for (let i = 0; i < this.n; i++) {
            this.at.push(Math.max(bytes[warm + i + 1] - bytes[warm + i], 0) / weight);
            this.end.push(Math.min(Math.max((times[warm + i + 1] - times[warm]) / time, i ? this.end[i - 1] : 0), 1));
        }
        this.all = sumOf(this.at, 0, this.n);
        this.dispersion = Math.max(1, this.dispersionOf(1), this.dispersionOf(2), this.dispersionOf(4));
    }

    /* The variance of sums over `width` ticks between neighbours, by their mean. */
    dispersionOf(width) {
        const n = Math.floor(this.n / width), mean = this.all * width / this.n;
        let squares = 0, before = 0;
        for (let i = 0; i < n; i++) {
            const now = sumOf(this.at, this.n - (n - i) * width, this.n - (n - i - 1) * width);
            squares += i ? (now - before) ** 2 : 0;
            before = now;
        }
        return n > 1 && mean > 0 ? squares / (2 * (n - 1) * mean) / (1 + Math.sqrt(3 / n)) : 1;
    }

    /* How much better than any other share the model's share q of events at the start explains their number. */
    startLikelihood(q) {
        const n1 = this.atStart / this.dispersion, n2 = this.all / this.dispersion, f = (n1 + 1) / (n1 + n2 + 2);
        const logRatio = n1 * Math.log(Math.max(q, 1e-9) / f) + n2 * Math.log(Math.max(1 - q, 1e-9) / (1 - f));
        return 0.5 + 0.5 * Math.exp(logRatio) * Math.sqrt((n1 + n2 + 2) / (2 * Math.PI * f * (1 - f)));
    }

    /* The likelihood of a rate that becomes `ratio` of what it was at the end of tick `at`, relative to a constant rate. */
    stepLikelihood(at, ratio) {
        const before = sumOf(this.at, 0, at + 1), after = this.all - before, t = this.end[at], area = Math.max(t + ratio * (1 - t), 1e-9);
        return Math.exp((before * Math.log(1 / area) + (after > 0 ? after * Math.log(Math.max(ratio, 1e-9) / area) : 0)) / this.dispersion) *
            this.startLikelihood(this.start / (this.start + area));
    }

    meanStepLikelihood(ratio) {
        let likelihoods = 0;
        for (let i = 0; i + 1 < this.n && this.end[i] <= LATEST; i++)
            likelihoods += this.stepLikelihood(i, ratio) * (this.end[i + 1] - this.end[i]);
        return likelihoods;
    }

    decayLikelihood(k) {
        let logLikelihood = 0, begin = 0;
        for (let i = 0; i < this.n; begin = this.end[i++]) {
            const share = (Math.exp(-k * begin) - Math.exp(-k * this.end[i])) / -Math.expm1(-k);
            if (this.at[i] > 0)
                logLikelihood += this.at[i] * Math.log(Math.max(share, 1e-12) / Math.max(this.end[i] - begin, 1e-9));
        }
        const before = Math.expm1(k * Math.min(this.start, 1));
        return Math.exp(logLikelihood / this.dispersion) * this.startLikelihood(before / (before - Math.expm1(-k)));
    }

    goesOn() {
        const on = 0.5 * this.startLikelihood(this.start / (this.start + 1)) + 0.25 * this.meanStepLikelihood(0.5) + 0.25 * this.meanStepLikelihood(2);
        let ended = 0.25 * this.meanStepLikelihood(0) + 0.25 * this.meanStepLikelihood(RESIDUE);
        for (let k = SLOWEST; k <= 5 * SLOWEST; k *= 2)
            ended += 0.5 / 3 * this.decayLikelihood(k);
        return PRIOR * on / (PRIOR * on + ended);
    }
}

/* The probability that the growth of a judge's stack (evidence.js) has not ended. */
function lastingOf(judge) {
    const {times, last, warm, weight, curve} = judge, lateAt = last - ((last + 2) >> 2);
    const lateTime = times[last] - times[lateAt], earlyTime = times[lateAt] - times[warm];
    if (lateTime <= 0 || earlyTime <= 0)
        return 0;
    if (weight > 0 && judge.freed(warm, last) <= FEW_FREED * (curve.samples[last] - curve.samples[warm]))
        return new Events(judge).goesOn();
    const ratio = lateTime / earlyTime, late = judge.pace(lateAt, last), early = judge.pace(warm, lateAt);
    const lateGrowth = (last - lateAt) * late.perTick, expected = (lateAt - warm) * early.perTick * ratio;
    if (expected <= 0)
        return lateGrowth > 0 ? 1 : 0;
    const variance = Math.max(late.variance, Math.max(early.variance * ratio, expected * weight) / 2) + ratio * ratio * early.variance;
    return PRIOR / (PRIOR + Math.exp(-(lateGrowth * Math.log(1 / RESIDUE) - expected * (1 - RESIDUE)) * expected / Math.max(variance, 1)));
}
