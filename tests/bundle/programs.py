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

MUSL_LIBRARY = [*MUSL_COMPILER, '-shared', '-fPIC', '-O2', '-I', TOP + '/include', '-DDELTAPROF_TLS_MODEL=',
                *(['-mtls-dialect=gnu2'] if MACHINE == 'x86_64' else [])]


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


# Ubuntu 24.04. Debian 12 lacks its script, which is the same as that of Ubuntu 22.04.
MIRRORS = {'noble': ['http://archive.ubuntu.com/ubuntu', '/usr/share/debootstrap/scripts/jammy']}


def debootstrap(release, root, *packages):
    """Unpacks a release with more packages; nothing is configured."""
    more = ['--include=' + ','.join(packages), *(['--components=main,universe'] if release in MIRRORS else [])] if packages else []
    run('debootstrap', '--foreign', '--variant=minbase', *more, release, root, *MIRRORS.get(release, []), timeout=600)
    if os.path.islink(root + '/proc'):
        os.remove(root + '/proc')
    for package in glob.glob(root + '/var/cache/apt/archives/*.deb') if packages else []:
        run('dpkg-deb', '-x', package, root)


def make_wheel():
    for old in glob.glob(BUNDLE + '/*.whl'):
        os.remove(old)
    run(sys.executable, TOP + '/examples/deploy/wheel.py', BUNDLE)


def unpack_image(to):
    """Makes the image, and unpacks it by programs of others."""
    run('sh', TOP + '/examples/deploy/oci.sh', BUNDLE)
    image, = glob.glob(BUNDLE + '/*.oci')
    version = os.path.basename(image).split('-')[1]
    run('skopeo', 'copy', f'oci:{image}:{version}', f'dir:{to}/copied')  # compares every digest
    shutil.rmtree(to + '/copied')
    run('umoci', 'unpack', '--image', f'{image}:{version}', to + '/unpacked')


def make_all():
    """The programs, the wheel and the image, for a machine that cannot make them."""
    shutil.rmtree(BUNDLE + '/programs', ignore_errors=True)
    os.mkdir(BUNDLE + '/programs')
    make_wheel()
    if shutil.which('skopeo') and shutil.which('umoci'):
        unpack_image(BUNDLE + '/programs')
    for compiler in GLIBC_COMPILER, MUSL_COMPILER:
        for source in glob.glob(HERE + '/victim*.c'):
            compile_with(compiler, source, prepared(compiler, source))
    compile_with(MUSL_LIBRARY, HERE + '/opened.c', prepared(MUSL_LIBRARY, HERE + '/opened.c'))
