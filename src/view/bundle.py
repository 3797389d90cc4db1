# SPDX-License-Identifier: MIT
"""Makes the page: one HTML file from the template, the style and the scripts, with a Content-Security-Policy that allows just
these, by their hashes. Writes HTML, or a C array of two texts: the part before the data and the part behind it.

    bundle.py OUT.c PASSING.c LOCKING.c LIBRARY.c KINDS.c TEMPLATE STYLE SCRIPT...

PASSING.c, LOCKING.c and LIBRARY.c are those of src/tool/query: the scripts have their lists of functions that are folded, and of code that
is no code of the user.
KINDS.c has the table of the kinds of profile: the scripts have the names and the sample types of kinds with deltas,
and the time within which several processes write one tick.
"""
import base64
import hashlib
import json
import re
import string
import sys

out, passing, locking, library, kinds, template, style, *scripts = sys.argv[1:]


def read(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


def small(text):
    """The text without comment lines and indents."""
    text = re.sub(r'^[ \t]*/\*.*?\*/[ \t]*\n', '', text, flags=re.M | re.S)
    return re.sub(r'^[ \t]+|\n(?=\n)', '', text, flags=re.M)


STRING = re.compile(r"""'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*\"""")
REGEX = re.compile(r'/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*')


def embedded_end(text, at):
    """Behind the closing } of what a template embeds by ${ at `at`."""
    at, depth = at + 2, 1
    while depth:
        if text[at] == '`':
            at = template_end(text, at + 1)
        elif text[at] in '"\'':
            at = STRING.match(text, at).end()
        else:
            depth += (text[at] == '{') - (text[at] == '}')
            at += 1
    return at


def template_end(text, at):
    """Behind the closing ` of a template whose text begins at `at`."""
    while text[at] != '`':
        if text.startswith('${', at):
            at = embedded_end(text, at)
        else:
            at += 2 if text[at] == '\\' else 1
    return at + 1


WORD = re.compile(r'[\w$]+')
BLANKS = re.compile(r'[ \n]*')


def is_word(character):
    return WORD.match(character) is not None


RESERVED = set("""break case catch class const continue default delete do else extends false finally for function if import in instanceof let new null return super switch this throw
true try typeof undefined var void while yield async await of get set static constructor Infinity NaN arguments eval location""".split())
DECLARATIONS = [r'^(?:async )?(?:function|class) (\w+)', r'\b(?:const|let) (\w+)', r'\b(?:const|let) ([\[{][^;\n]*?[\]}])(?= =[^=>]| of )', r'[,;] (\w+) = ', r'\(([^()]*)\) =>', r'\b(\w+) =>',
                r'function \w*\(([^()]*)\)', r'^ +(?:async )?\w+\(([^()]*)\) \{$', r'catch \((\w+)\)']


def short_names(text):
    """{name: short one} of what the scripts declare, anywhere: one name has one short name, so no scope has to be known. A name that is also one of a property, or a text, stays."""
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S).replace('...', ' ')
    bare = STRING.sub("''", text)
    declared = {name for way in DECLARATIONS for found in re.findall(way, bare, flags=re.M) for name in re.findall(r'[A-Za-z_$][\w$]*', found)}
    fixed = set(re.findall(r'\.(\w+)|\b(?=(\w+):)|[\'"](?=(\w+)[\'"])', text))
    declared -= RESERVED | {name for names in fixed for name in names}
    words = re.findall(r'[A-Za-z_$][\w$]*', text)
    n = {name: words.count(name) for name in declared}
    taken, letters = set(words) - declared | RESERVED, string.ascii_letters
    short = (a + b for a in ['', *letters] for b in letters)
    return {name: next(one for one in short if one not in taken) for name in sorted(declared, key=lambda name: (-n[name], name))}


def dense_template(text, names):
    """A template from its first ` to its last, with what stands in it made dense."""
    out, at = '', 0
    while at < len(text):
        begin = at
        if text[at] == '\\':
            at += 2
        elif text.startswith('${', at):
            at = embedded_end(text, at)
            out += '${' + dense(text[begin + 2:at - 1], names).strip() + '}'
            continue
        else:
            at += 1
        out += text[begin:at]
    return out


def dense(text, names):
    """A script without comments, and without blanks and line ends that separate nothing, with short names for `names`: `const` is `let`, as nothing assigns to one. Texts stay as they are."""
    out, at = '\n', 0
    while at < len(text):
        begin, c = at, text[at]
        if c in '"\'':
            at = STRING.match(text, at).end()
        elif c == '`':
            at = template_end(text, at + 1)
            out += dense_template(text[begin:at], names)
            continue
        elif is_word(c):
            at = WORD.match(text, at).end()
            is_property = out[-1] == '.' and not out.endswith('...')
            out += text[begin:at] if is_property else names.get(text[begin:at], text[begin:at])
            continue
        elif text.startswith('/*', at):
            at = begin = text.index('*/', at) + 2
        elif c == '/' and (out.rstrip(' ')[-1] in '(,=:[!&|?{};>\n' or out.endswith('return ')):
            at = REGEX.match(text, at).end()
        elif c in ' \n':
            at += 1
            behind = BLANKS.match(text, at).end()
            following = text[behind:behind + 1]
            joins = is_word(out[-1]) and (is_word(following) or following in '/`') or following in '+-' and following == out[-1] or following == '/' and out[-1] not in ')]' or out[-1] == '/'
            if not joins or out[-1] in ' \n':  # each statement ends with ; or }, as the page's lint makes sure
                begin = at
        else:
            at += 1
        out += text[begin:at]
    return out


def source_hash(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def passing_names():
    names = []
    for path in passing, locking:
        found = re.findall(r'^    "(.*)",$', read(path), flags=re.M)
        if len(found) < 50 or any(re.search(r"[|'\\]", name) for name in found):
            sys.exit(f'{path}: no list of names that can be copied')
        names += found
    return '|'.join(names)


def library_lists():
    """{name: texts} of the lists, as JSON."""
    lists = {name: re.findall(r'"([^"\n]+)"', texts) for name, texts in re.findall(r'const (\w+)\[\] = \{(.*?)\};', read(library), flags=re.S)}
    if not {'library_prefixes', 'system_prefixes'} <= set(lists) or not all(lists.values()):
        sys.exit(f'{library}: no lists that can be copied')
    return json.dumps(lists, separators=(',', ':'))


def kind_table():
    """[{name, rank, locks, types, levels}] of the kinds with an endpoint for deltas."""
    rows = re.split(r'^    \[DP_KIND_\w+\] =$', read(kinds).split('dp_kind_table[DP_KINDS] = {')[1].split('\n};')[0], flags=re.M)[1:]
    table = []
    for row in rows:
        types = re.findall(r'\{"(\w+)", "\w+", DP_KIND_(FLOW|LEVEL),', row)
        name, rank = re.search(r'\.name = "(\w+)"', row), re.search(r'\.rank = (\d+)', row)
        if not types or not name or not rank:
            sys.exit(f'{kinds}: a row that cannot be copied: {row}')
        if re.search(r'\{"delta_\w+", true,', row):
            table.append({'name': name[1], 'rank': int(rank[1]), 'locks': '.has_locks = true' in row,
                          'types': [t for t, _ in types], 'levels': [t for t, nature in types if nature == 'LEVEL']})
    return json.dumps(table, separators=(',', ':'))


def dense_style(text):
    return re.sub(r'\s*([{};,])\s*', r'\1', re.sub(r': +', ':', text)).replace(';}', '}')


css = dense_style(small(read(style)))
text = ''.join(map(read, scripts))
script = '(() => {\n"use strict";\n' + dense(text, {'const': 'let', **short_names(text)}).replace('@PASSING@', passing_names()).replace('@RULES@', library_lists()).replace('@KINDS@', kind_table()).replace('@SLACK_MS@', re.search(r'dp_kind_tick_slack_ms = (\d+);', read(kinds))[1]) + '})();\n'
if '</script' in script or '</style' in css:
    sys.exit('a closing tag inside the script or the style')
csp = (f"default-src 'none'; script-src {source_hash(script)}; style-src {source_hash(css)}; connect-src 'self'; "
       "img-src data: blob:; base-uri 'none'; form-action 'none'")
page = small(read(template)).replace('@CSP@', csp).replace('@STYLE@', css).replace('@SCRIPT@', script)
before, after = page.split('@DATA@')


def c_text(name, text):
    data = text.encode()
    lines = [', '.join(str(b) for b in data[i:i + 32]) for i in range(0, len(data), 32)]
    return f'const unsigned char {name}[] = {{\n' + ',\n'.join(lines) + f'\n}};\nconst size_t {name}_bytes = {len(data)};\n'


with open(out, 'w', encoding='utf-8') as f:
    if out.endswith('.html'):
        f.write(before + after)
    else:
        f.write('#include "view/page.h"\n' + c_text('dp_view_page_before', before) + c_text('dp_view_page_after', after) +
                f'const char dp_view_page_policy[] = "{csp}; frame-ancestors \'none\'";\n')
