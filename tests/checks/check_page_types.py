# SPDX-License-Identifier: MIT
"""Checks the types of the page's scripts, in the order in which they are joined: names that nothing defines, arguments of other types.

    check_page_types.py TOP
"""
import pathlib
import re
import shutil
import subprocess
import sys

top = pathlib.Path(sys.argv[1])
if not shutil.which('tsc'):
    print('no tsc')
    sys.exit(77)
scripts = re.findall(r"'(\w+\.js)'", (top / 'src/view/meson.build').read_text())
missing = {p.name for p in (top / 'src/view').glob('*.js')} - set(scripts)
if not scripts or missing:
    sys.exit(f'src/view/meson.build does not name {", ".join(sorted(missing)) or "a script"}')
found = subprocess.run(['tsc', '--noEmit', '--allowJs', '--checkJs', '--target', 'es2022', '--lib', 'dom,dom.iterable,es2022', str(top / 'tests/checks/browser.d.ts'),
                        *(str(top / 'src/view' / name) for name in scripts)], capture_output=True, text=True)
print(found.stdout, end='')
sys.exit(found.returncode != 0)
