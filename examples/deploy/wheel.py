# SPDX-License-Identifier: MIT
"""Makes a wheel of an archive by bundle.sh: `pip install` brings the command, and `import deltaprof`.

    python3 examples/deploy/wheel.py BUNDLE-DIRECTORY

The files of the archive lie in deltaprof_files beside the module; links become files with the names that are looked for.
The wheel is for glibc and for musl, as the archive is.
"""
import base64
import glob
import hashlib
import os
import re
import sys
import zipfile

BUNDLE = sys.argv[1]
VERSION, MACHINE = re.search(r'deltaprof-([\d.]+)-(\w+)\.tar\.xz$', glob.glob(BUNDLE + '/deltaprof-*.tar.xz')[0]).groups()
TAGS = [f'{libc}_{MACHINE}' for libc in ('manylinux_2_28', 'musllinux_1_2')]
INFO = f'deltaprof-{VERSION}.dist-info'
ROOT = os.path.join(BUNDLE, 'root/deltaprof')
COMMAND = '''import os
import sys


def main():
    files = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'deltaprof_files')
    try:
        glibc = os.confstr('CS_GNU_LIBC_VERSION')
    except (OSError, ValueError):  # musl's confstr does not know the name
        glibc = None
    command = os.path.join(files, 'bin/deltaprof' if glibc else 'lib/musl/bin/deltaprof')
    os.execv(command, ['deltaprof', *sys.argv[1:]])
'''


def contents():
    """(name, bytes, mode) of each file."""
    for directory, _, names in os.walk(ROOT):
        for name in names:
            path = os.path.join(directory, name)
            with open(path, 'rb') as f:
                data = f.read()
            where = os.path.relpath(path, ROOT)
            if where == 'lib/python/deltaprof.py':
                yield 'deltaprof.py', data.replace(b"join(here, '..'", b"join(here, 'deltaprof_files/lib'"), 0o644
            elif not re.search(r'\.so\.\d+\.|-musl$', name) and not where.startswith('share/man'):
                yield 'deltaprof_files/' + where, data, 0o755 if os.access(path, os.X_OK) else 0o644
    yield 'deltaprof_command.py', COMMAND.encode(), 0o644
    yield INFO + '/METADATA', f'''Metadata-Version: 2.1
Name: deltaprof
Version: {VERSION}
Summary: continuous profiler of memory and locks for native Linux programs
License: MIT
'''.encode(), 0o644
    yield INFO + '/WHEEL', f'Wheel-Version: 1.0\nGenerator: deltaprof\nRoot-Is-Purelib: false\n'.encode() + \
        ''.join(f'Tag: py3-none-{tag}\n' for tag in TAGS).encode(), 0o644
    yield INFO + '/entry_points.txt', b'[console_scripts]\ndeltaprof = deltaprof_command:main\n', 0o644


record = ''
path = os.path.join(BUNDLE, f'deltaprof-{VERSION}-py3-none-{".".join(TAGS)}.whl')
with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
    def add(name, data, mode):
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        info.external_attr, info.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
        wheel.writestr(info, data)

    for name, data, mode in sorted(contents()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
        record += f'{name},sha256={digest},{len(data)}\n'
        add(name, data, mode)
    add(INFO + '/RECORD', (record + INFO + '/RECORD,,\n').encode(), 0o644)
print(path, os.path.getsize(path))
