# SPDX-License-Identifier: MIT
"""The programs of test_bundle.py: compiled here, or found in BUNDLE-DIRECTORY/programs, and the libraries that they need."""
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
BUNDLE, *CASES = sys.argv[1:]
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(('LD_', 'DELTAPROF_'))}
MACHINE, = re.findall(r'-(\w+)\.tar\.xz', ' '.join(os.listdir(BUNDLE)))
MUSL = f'/lib/ld-musl-{MACHINE}.so.1'
EXECUTED = ['-g', '-O1', '-fno-optimize-sibling-calls']
GLIBC_COMPILER = [BUNDLE + '/bin/cc', '-fno-sanitize=all']
MUSL_COMPILER = ['musl-gcc', '-Wl,--eh-frame-hdr'] if MACHINE == 'x86_64' else [BUNDLE + '/bin/musl-cc', '-fno-sanitize=all', '-dynamic']


def run(*command, **how):
    return subprocess.run(command, check=True, text=True, capture_output=True, timeout=how.pop('timeout', 60), env=CLEAN, **how)


def compile_with(compiler, source, program):
    compiled = prepared(compiler, source)
    if os.path.exists(compiled) and compiled != program:
        shutil.copy(compiled, program)
        return
    subprocess.run([*compiler, *EXECUTED, '-o', program, source, '-lpthread'], check=True,
                   env={**CLEAN, 'ZIG_GLOBAL_CACHE_DIR': BUNDLE + '/cache', 'ZIG_LOCAL_CACHE_DIR': BUNDLE + '/cache'})


def prepared(compiler, source):
    return f'{BUNDLE}/programs/{os.path.basename(compiler[0])}-{os.path.basename(source)[:-2]}'


def copy_glibc(root):
    """The loader and the parts of libc that the command or the libraries may name, of this machine."""
    with open('/proc/self/maps') as f:
        lib, = set(re.findall(r'(/\S+/)libc\.so\.6', f.read()))
    os.makedirs(root + lib)
    for name in ('libc.so.6', 'libm.so.6', 'libpthread.so.0', 'libdl.so.2', 'librt.so.1'):
        shutil.copy(lib + name, root + lib)
    loader = re.search(r'interpreter: (\S+)\]', run('readelf', '-lW', '/bin/true').stdout).group(1)
    os.makedirs(root + os.path.dirname(loader), exist_ok=True)
    shutil.copy(loader, root + loader)


def copy_musl(root):
    os.makedirs(root + '/lib', exist_ok=True)
    shutil.copy(MUSL, root + MUSL)


def compile_all():
    shutil.rmtree(BUNDLE + '/programs', ignore_errors=True)
    os.mkdir(BUNDLE + '/programs')
    for compiler in GLIBC_COMPILER, MUSL_COMPILER:
        for source in glob.glob(HERE + '/victim*.c'):
            compile_with(compiler, source, prepared(compiler, source))
