/* SPDX-License-Identifier: MIT */
/*
 * names.js - short names of C++ and Rust functions, and which functions only pass an allocation or a lock on: both as in src/tool/query,
 * for profiles that the page decodes itself.
 */
/* The table of src/profile/kinds.c: {name, rank, locks, types, levels} of each kind with deltas. */
const KINDS = JSON.parse('@KINDS@');
const KIND_NAMES = KINDS.map(kind => kind.name);
const PASSING = '@PASSING@'.split('|'); /* the lists of src/tool/query/passing.c and locking.c; a '*' stands for any text */
const PASSING_WHOLE = new Set(PASSING.filter(p => !p.includes('*')));
const PASSING_GLOBS = new RegExp(`^(?:${PASSING.filter(p => p.includes('*')).map(p => p.replace(/[^\w*]/g, '\\$&').replaceAll('*', '.*')).join('|')})$`, 's');

function isPassing(name) {
    return PASSING_WHOLE.has(name) || PASSING_GLOBS.test(name);
}

const RULES = JSON.parse('@RULES@'); /* the lists of src/tool/query/library.c */
/* A method of a type of Rust's library, or of its trait for a primitive type, as is_rust_type there. */
const RUST_TYPE = /^<(?:[&*[(]|mut |const |dyn )*(?:(?:core|alloc|std|hashbrown)::|(?:[ui](?:8|16|32|64|128|size)|f32|f64|bool|char|str|T)[\])]* as (?:core|alloc|std)::)/;
const begins = (text, list) => RULES[list].some(prefix => text.startsWith(prefix));
const contains = (text, list) => RULES[list].some(part => text.includes(part));

/* A function of a language's own library: std::, core::, importlib. */
function isLibrary(name, file) {
    return begins(name, 'library_prefixes') || begins(file, 'frozen_prefixes') || RUST_TYPE.test(name) ||
        (file.startsWith('/rustc/') && file.includes('/library/')) || file.includes('/rustlib/src/rust/library/');
}

/* Native code of a runtime whose own functions are named. */
function isInterpreter(frame) {
    return begins(baseName(frame.library), 'interpreter_prefixes');
}

/* A place in a file without symbols: libc.so.6+0x12ab. */
function isPlace(name) {
    return /\+0x[0-9a-f]+$/.test(name);
}

/* No code of the user: of the system's libraries, or a library's source that was inlined. library: a path. */
function isForeign(library, file) {
    const isRuntime = library === '[anon]' && file !== '';
    const isOfSystem = path => begins(path, 'system_prefixes') || contains(path, 'system_parts');
    const slash = library.lastIndexOf('/'), isLibrary = slash < 0 || library.includes('.so', slash) || library.startsWith('/ld-', slash);
    return (isRuntime ? isOfSystem(file) : isOfSystem(library) && isLibrary) || library === '' || (library[0] === '[' && !isRuntime) ||
        begins(file, 'source_prefixes') || contains(file, 'source_parts');
}

/* Characters of "operator<<", "operator()" and so on at a place that look like brackets and are none; 0: no operator. */
function operatorAt(name, at) {
    if (at < 8 || !name.endsWith('operator', at))
        return 0;
    const found = ['<<=', '<=>', '<<', '<=', '<', '>>=', '>>', '>=', '>', '->*', '->', '()', '[]'].find(o => name.startsWith(o, at));
    return found ? found.length : 0;
}

/* Without <...> inside of <...>. */
function withoutNested(name) {
    let to = '', depth = 0;
    for (let at = 0; at < name.length;) {
        const n = operatorAt(name, at) || (name[at] === '>' && name[at - 1] === '-' ? 1 : 0);
        depth += !n && name[at] === '<' ? 1 : 0;
        const closes = !n && name[at] === '>' && depth > 0, isKept = depth < 2;
        for (let i = 0; i < (n || 1); i++, at++)
            if (isKept && !(name[at] === ' ' && name[at + 1] === '>'))
                to += name[at];
        depth -= closes ? 1 : 0;
    }
    return to;
}

/* Without a parameter list at the end and what stands behind it; null: there is none. */
function withoutParameters(whole) {
    const name = whole.replace(/ \[clone .*/s, '');
    const found = /^(.+\))(?: const| volatile|&| )*$/s.exec(name);
    if (!found)
        return null;
    let at = found[1].length - 1;
    for (let depth = 0; at >= 0; at--) {
        depth += name[at] === ')' ? 1 : name[at] === '(' ? -1 : 0;
        if (!depth)
            break;
    }
    const isPart = at <= 0 || name.endsWith('operator', at) || name.startsWith('(anonymous namespace)', at) || name[at - 1] === '.' || name[at - 1] === ' ';
    return isPart ? null : name.slice(0, at);
}

/* Without a return type, which only templates have: the text up to a blank outside of all brackets. */
function withoutReturnType(name) {
    let depth = 0, start = 0;
    for (let at = 0; at < name.length; at++) {
        const n = operatorAt(name, at);
        if (n) {
            at += n - 1;
            continue;
        }
        if ('<({['.includes(name[at]))
            depth++;
        else if ('>)}]'.includes(name[at]) && depth > 0)
            depth--;
        const isOperator = at >= 8 && name.endsWith('operator', at);
        if (name[at] === ' ' && !depth && !isOperator && name[at + 1] !== '<')
            start = at + 1;
        else if (isOperator && name[at] === ' ')
            break; /* operator new, operator bool */
    }
    return start < name.length ? name.slice(start) : name;
}

function shortName(name) {
    if (!/[<(]|::/.test(name) || name.includes('/') || (name[0] === '<' && !name.includes('::')) || name[0] === '[')
        return name;
    const bare = withoutParameters(name);
    let short = bare ?? name.replace(/ \[clone .*/s, '');
    if (bare !== null || short.includes('::'))
        short = withoutReturnType(short);
    short = withoutNested(short.replaceAll('__cxx11::', '').replaceAll('__1::', ''));
    return short.replaceAll(', std::allocator', '').replaceAll('<std::allocator>', '')
        .replaceAll('std::basic_string<char, std::char_traits>', 'std::string').replaceAll('std::basic_string::', 'std::string::')
        .replaceAll('std::basic_string,', 'std::string,').replaceAll('std::basic_string>', 'std::string>');
}
