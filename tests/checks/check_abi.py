# SPDX-License-Identifier: MIT
"""The binary interface of libdeltaprof.so is the one that is written down in libdeltaprof.abi beside this file.

    check_abi.py SOURCE-ROOT CORE.so [--accept]

libabigail reads it from the library: exported functions and variables, and the sizes, offsets and values of the public types
that they use. --accept writes down what there is now.
"""
import difflib
import os
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

TOP, LIBRARY, *ACCEPT = sys.argv[1:]
WRITTEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'libdeltaprof.abi')
CHANGED = f'''The binary interface is not the one that is written down.
A program that was built before must go on working with this library: what was there keeps its place, size and meaning. A struct
may get members only at its end, and only where the program passes its size. outside.h may change. If the change keeps this rule, or
if soversion in meson.build is raised, accept it:
    python3 tests/checks/check_abi.py . {os.path.abspath(LIBRARY)} --accept
'''


class Interface:
    def __init__(self, xml):
        self.root = ElementTree.fromstring(xml)
        self.by_id = {each.get('id'): each for each in self.root.iter() if each.get('id')}
        self.lines = {}  # of a type, by its name

    def parameters(self, of):
        return ', '.join('...' if p.get('is-variadic') else self.name(p.get('type-id')) for p in of.findall('parameter')) or 'void'

    def name(self, identity):
        """A type as it is written in C, near enough. A public type that is used gets its lines."""
        it = self.by_id[identity]
        name = it.get('name')
        if it.tag in ('class-decl', 'union-decl', 'enum-decl'):
            self.describe(it)
            kind = {'class-decl': 'struct', 'union-decl': 'union', 'enum-decl': 'enum'}[it.tag]
            return f'{kind} {name}' if not it.get('is-anonymous') else f'{kind} of {int(it.get("size-in-bits", 0)) // 8} bytes'
        if it.tag == 'pointer-type-def':
            to = self.by_id[it.get('type-id')]
            if to.tag == 'function-type':
                return f'{self.name(to.find("return").get("type-id"))} (*)({self.parameters(to)})'
            to = self.name(it.get('type-id'))
            return to + ('*' if to.endswith('*') else ' *')
        if it.tag == 'qualified-type-def':
            words = [word for word in ('const', 'volatile', 'restrict') if it.get(word) == 'yes']
            of = self.name(it.get('type-id'))
            return of + ' '.join(words) if of.endswith('*') else ' '.join([*words, of])
        if it.tag == 'array-type-def':
            return self.name(it.get('type-id')) + ''.join(f'[{s.get("length")}]' for s in it.findall('subrange'))
        if it.tag == 'typedef-decl' and name.startswith('deltaprof_') and name not in self.lines:
            self.lines[name] = []
            self.lines[name] = [f'typedef {name}: {self.name(it.get("type-id"))}']
        return name

    def describe(self, it):
        name = it.get('name')
        if not name.startswith('deltaprof_') or name in self.lines or it.get('is-declaration-only'):
            return
        if name.startswith('deltaprof_outside'):
            return  # outside.h is for the command of the same build
        self.lines[name] = []  # it may refer to itself
        if it.tag == 'enum-decl':
            lines = [f'enum {name}', *(f'    {each.get("name")} = {each.get("value")}' for each in it.findall('enumerator'))]
        else:
            members = [(int(m.get('layout-offset-in-bits', 0)), m.find('var-decl')) for m in it.findall('data-member')]
            lines = [f'struct {name}: {int(it.get("size-in-bits")) // 8} bytes',
                     *(f'    {at / 8:g} {self.name(m.get("type-id"))} {m.get("name")}' for at, m in members)]
        self.lines[name] = lines

    def text(self):
        exported = [e for e in self.root.iter() if e.tag in ('function-decl', 'var-decl') and e.get('elf-symbol-id')]
        lines = []
        for each in sorted(exported, key=lambda e: e.get('name')):
            if each.tag == 'function-decl':
                result = self.name(each.find('return').get('type-id'))
                lines.append(f'{each.get("elf-symbol-id")}: {result} ({self.parameters(each)})')
            else:
                lines.append(f'{each.get("elf-symbol-id")}: {self.name(each.get("type-id"))}')
        return '\n'.join(sorted(set(lines)) + [line for name in sorted(self.lines) for line in self.lines[name]]) + '\n'


def interface():
    with tempfile.NamedTemporaryFile(suffix='.xml') as out:
        subprocess.run(['abidw', '--exported-interfaces-only', '--headers-dir', TOP + '/include/deltaprof', '--drop-private-types',
                        '--out-file', out.name, LIBRARY], check=True)
        return Interface(out.read()).text()


class Abi(unittest.TestCase):
    def test_the_interface_is_the_one_that_is_written_down(self):
        with open(WRITTEN) as f:
            written = f.read()
        now = interface()
        if now != written:
            self.fail(CHANGED + '\n'.join(difflib.unified_diff(written.split('\n'), now.split('\n'), 'libdeltaprof.abi', LIBRARY,
                                                              n=1, lineterm='')))


if ACCEPT:
    with open(WRITTEN, 'w') as file:
        file.write(interface())
else:
    unittest.main(argv=sys.argv[:1])
