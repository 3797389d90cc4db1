/* SPDX-License-Identifier: MIT */
/*
 * format.js - formats numbers for people, and chooses colours.
 */

function formatValue(value, unit) {
    if (unit === 'bytes')
        return scaled(value, [[1 << 30, 'GB'], [1 << 20, 'MB'], [1 << 10, 'kB']], 'B');
    if (unit === 'nanoseconds')
        return scaled(value, [[3.6e12, 'h'], [6e10, 'min'], [1e9, 's'], [1e6, 'ms'], [1e3, 'us']], 'ns');
    return scaled(value, [[1e9, 'G'], [1e6, 'M'], [1e4, 'k', 1e3]], '');
}

/* per: of values per second, '/s', or for time per second what is counted: ' CPUs'. */
function formatRate(value, unit, per) {
    return per && unit === 'nanoseconds' ? `${Number((value / 1e9).toPrecision(2))}${per}` : `${formatValue(value, unit)}${per}`;
}

function scaled(value, steps, least) {
    const size = Math.abs(value);
    for (const [from, name, by] of steps)
        if (size >= from)
            return `${trimmed(value / (by || from))} ${name}`;
    return `${trimmed(value)}${least ? ` ${least}` : ''}`;
}

function trimmed(value) {
    const size = Math.abs(value);
    return value.toFixed(size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2);
}

function formatShare(part, whole) {
    return whole ? `${(100 * part / whole).toFixed(1)} %` : '';
}

function formatTime(ms, withDate = false) {
    const date = new Date(ms);
    const two = n => String(n).padStart(2, '0');
    const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
    return withDate ? `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${time}` : time;
}

function hashOf(text) {
    let hash = 2166136261;
    for (let i = 0; i < text.length; i++)
        hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
    return hash >>> 0;
}

/*
 * The hues of Okabe and Ito, which people with the usual forms of colour blindness can distinguish. A library has a hue, a
 * function a lightness of it.
 */
const HUES = [[41, 95], [202, 70], [56, 80], [205, 95], [26, 95], [327, 45], [260, 35], [90, 30], [350, 45]];

const RUNTIME_HUE = [164, 65];

/* A frame that was named by a language's runtime: it has a file but belongs to no library. */
function isRuntimeFrame(frame) {
    return frame.file !== '' && (frame.library === '' || frame.library[0] === '[');
}

/* Cached in the frame, because it is needed for every box that is drawn. */
function frameColour(frame, dark) {
    const key = dark ? 'darkColour' : 'lightColour';
    return frame[key] || (frame[key] = makeColour(frame, dark));
}

function makeColour(frame, dark) {
    const [hue, saturation] = isRuntimeFrame(frame) ? RUNTIME_HUE : HUES[hashOf(baseName(frame.library) || frame.file) % HUES.length];
    const shade = hashOf(frame.name) % 12;
    return dark ? `hsl(${hue},${Math.round(saturation * 0.55)}%,${23 + shade}%)` : `hsl(${hue},${saturation}%,${68 + shade}%)`;
}

/* Red: it grew; blue: it shrank; stronger for a larger share. Readable without seeing red and green. */
function changeColour(a, b, dark) {
    const most = Math.max(a, b);
    const change = most > 0 ? (b - a) / most : 0;
    const strength = Math.round(Math.abs(change) * 60);
    if (strength < 1)
        return dark ? '#555' : '#ddd';
    const hue = change > 0 ? 8 : 215;
    return dark ? `hsl(${hue},${30 + strength}%,${30 + strength / 4}%)` : `hsl(${hue},${40 + strength}%,${88 - strength / 2}%)`;
}

/* A colour, hsl(...) or #..., as a pixel of an ImageData. */
function pixelOf(colour) {
    let pixel = pixelOf.known.get(colour);
    if (pixel === undefined)
        pixelOf.known.set(colour, pixel = makePixel(colour));
    return pixel;
}
pixelOf.known = new Map();

function makePixel(colour) {
    let [red, green, blue] = [0, 0, 0];
    if (colour[0] === '#') {
        const digits = colour.length === 4 ? colour.replace(/[^#]/g, '$&$&') : colour;
        [red, green, blue] = [1, 3, 5].map(at => parseInt(digits.slice(at, at + 2), 16));
    } else {
        const [hue, saturation, lightness] = colour.match(/[\d.]+/g).map(Number), l = lightness / 100, most = saturation / 100 * Math.min(l, 1 - l);
        [red, green, blue] = [0, 8, 4].map(n => {
            const k = (n + hue / 30) % 12;
            return Math.round(255 * (l - most * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
        });
    }
    return (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
}

/* Half transparent: the gap between two boxes. */
const faded = pixel => (pixel & 0xffffff | 0x80 << 24) >>> 0;
