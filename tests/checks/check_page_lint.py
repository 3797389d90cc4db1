# SPDX-License-Identifier: MIT
"""What eslint says of the page's scripts, which are one program: it reads them as they are joined.

    check_page_lint.py TOP
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

top = pathlib.Path(sys.argv[1])
RULES = ['array-callback-return', 'eqeqeq', 'no-else-return', 'no-eval', 'no-implied-eval', 'no-lone-blocks', 'no-new-func', 'no-self-compare', 'no-sequences', 'no-throw-literal',
         'no-undef-init', 'no-unneeded-ternary', 'no-unused-vars', 'no-useless-concat', 'no-useless-return', 'no-var', 'object-shorthand', 'prefer-template', 'semi']
CONFIG = {'root': True, 'env': {'browser': True, 'es6': True}, 'globals': {'BigInt': 'readonly', 'CompressionStream': 'readonly', 'DecompressionStream': 'readonly'},
          'parserOptions': {'ecmaVersion': 2021}, 'extends': 'eslint:recommended',
          'rules': {**{rule: 'error' for rule in RULES}, 'prefer-const': ['error', {'destructuring': 'all'}], 'no-control-regex': 'off'}}

if not shutil.which('eslint'):
    print('no eslint')
    sys.exit(77)
names = re.findall(r"'(\w+\.js)'", (top / 'src/view/meson.build').read_text())
texts = [(top / 'src/view' / name).read_text() for name in names]
places = [(name, n) for name, text in zip(names, texts) for n in range(1, text.count('\n') + 1)]
with tempfile.NamedTemporaryFile('w', suffix='.json') as config:
    json.dump(CONFIG, config)
    config.flush()
    # Debian's modules lie where only Debian's node looks for them.
    done = subprocess.run(['eslint', '--no-eslintrc', '-c', config.name, '-f', 'json', '--stdin'], input=''.join(texts), capture_output=True, text=True,
                          env=dict(os.environ, NODE_PATH='/usr/share/nodejs'))
if not done.stdout:
    sys.exit(done.stderr)
found = json.loads(done.stdout)[0]['messages']
for message in found:
    name, n = places[message['line'] - 1] if message.get('line') else ('', 0)
    print(f'{name}:{n}: {message["message"]} ({message["ruleId"]})')
sys.exit(bool(found))
