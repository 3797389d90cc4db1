# SPDX-License-Identifier: MIT
"""Builds deltaprof for aarch64, with branch protection, and tests it under kernels with pages of 4 and of 16 KiB.

usage: run.py TOP DIRECTORY [all] [4k|16k] [TEST...]
       run.py TOP DIRECTORY bundle BUNDLE-DIRECTORY [4k|16k] [CASE...]

The kernels and the guest's system are Debian's packages for arm64, which a private root of apt fetches into DIRECTORY once
(200 MB). qemu boots both kernels at once, and the guests run tests of the tree: a short choice, or with `all` what is known to
work there, or the named ones. Tests that compile or need programs that the guest lacks are left out.
The second form runs tests/bundle/test_bundle.py with an archive for aarch64, and with programs, a wheel and an image that are
made here; without a CASE new_user.py as well. PYTHONPATH leads to their modules.
"""
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import threading

TOP, DIR = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
HERE, ROOT, BUILD = os.path.join(TOP, 'tests/aarch64'), os.path.join(DIR, 'root'), os.path.join(DIR, 'build')
KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
KERNELS = {'4k': 'linux-image-cloud-arm64', '16k': 'linux-image-arm64-16k'}
KERNELS_OF = 'trixie'  # the first release with a kernel of 16 KiB
MANY_CORES = '4k'  # the guest with four processors, for the stress tests; everything else uses two
SECONDS = 700  # that a guest may take for the short choice

# A test, and its cases; none: all.
SHORT = {
    'unit mem': [], 'unit vma': [], 'unit bare_code': [], 'unit loader older glibc': [],
    'hooks bare': ['that_frames_of_every_form_are_passed', 'that_callbacks_of_libc_are_passed', 'that_an_interrupted_function_without_a_frame_is_passed'],
    'hooks generated': ['that_frame_pointers_lead_through_generated_code', 'that_another_value_in_the_register_gives_no_wrong_frame'],
    'stress record': [], 'stress unwind_cache': [], 'stress events': [], 'stress core': [],
    'hooks exact': ['that_eight_threads_with_fork_and_dlopen_are_counted_exactly'],
    'hooks locks': ['that_the_profiles_agree_to_the_nanosecond'],
    'hooks fork': ['that_a_tick_between_two_blocks_of_a_child_loses_nothing'],
    'hooks tables': ['that_a_forked_child_leaves_its_own_events', 'that_a_raw_clone_counts_nothing_into_its_parent',
                     'that_an_out_of_memory_kill_loses_no_more'],  # here in a control group of version 2
    'hooks python': ['that_a_stack_of_a_hundred_functions_is_whole'],
    'hooks crash': ['that_a_stack_overflow_delivers', 'that_a_crash_while_threads_allocate_and_ticks_run_delivers'],
}
# Of these, the ones that know no pages run in one guest.
ONCE = {'unit bare_code', 'hooks bare', 'hooks generated', 'stress record', 'stress unwind_cache', 'stress events', 'stress core'}
SHORT_TARGETS = ['deltaprof', 'deltaprof_preload', 'gzip', 'symbolize', 'lines', 'unwind', 'plugin', 'profile_pb2',
                 'test_mem', 'test_vma', 'test_bare_code', 'test_loader_older'] + \
                ['victim_' + v for v in ('exact', 'locks', 'storm', 'tables', 'crash', 'bare', 'generated')] + \
                ['stress_' + s for s in ('record', 'unwind_cache', 'events', 'core')]
# `unit symbolize` compiles, `unit gate model` takes minutes of emulation.
NOT_IN_ALL = {'unit symbolize', 'unit gate model'}
HOOKS_IN_ALL = {'bare', 'exact', 'maps', 'locks', 'waiting', 'crash', 'fork', 'exit', 'loader', 'process', 'static', 'python'}
CASES_IN_ALL = {'hooks locks': [  # shares of holders depend on time, which is the emulator's
    'that_the_profiles_agree_to_the_nanosecond', 'that_waits_count_however_they_end', 'that_every_primitive_works_and_is_labelled',
    'that_locks_may_be_destroyed_and_holders_may_end', 'that_a_tenure_ends_in_cond_wait', 'that_children_forked_under_contention_balance',
    'that_return_codes_are_the_same', 'that_rates_switch_the_kinds_off', 'that_sampled_releases_are_scaled_back']}


def skip(why):
    print('skipped:', why)
    sys.exit(77)


def run(*command, **options):
    p = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if p.returncode:
        print(*command[:6], p.stdout[-4000:], sep='\n')
        sys.exit(1)
    return p.stdout


# ---- Debian's packages ----

def release():
    for line in open('/etc/os-release') if os.path.exists('/etc/os-release') else []:
        if line.startswith('VERSION_CODENAME='):
            return line.split('=')[1].strip().strip('"')
    return ''


def apt(tool, *arguments):
    at = os.path.join(DIR, 'apt')
    return subprocess.run([tool, '-o', f'Dir::State={at}/state', '-o', f'Dir::State::status={at}/status', '-o', f'Dir::Cache={at}/cache',
                           '-o', f'Dir::Etc::sourcelist={at}/sources.list', '-o', 'Dir::Etc::sourceparts=-', '-o', 'APT::Architecture=arm64',
                           '-o', 'APT::Architectures::=arm64', '-o', 'APT::Sandbox::User=root', '-o', f'APT::Default-Release={release()}',
                           '-o', 'Acquire::Languages=none', '-o', 'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false',
                           *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, cwd=at)


def wanted_packages():
    """A line of the file is one package, under one of some names."""
    with open(os.path.join(HERE, 'packages')) as f:
        return [line.strip().split('|') for line in f if line.strip() and line[0] != '#']


def known_packages(wanted):
    known = set(re.findall(r'^(\S+):\n +Installed: .*\n +Candidate: [^(]', apt('apt-cache', 'policy', *sum(wanted, [])).stdout, re.M))
    for names in wanted:
        if not known & set(names):
            skip(f'{release()} has no {"|".join(names)} for arm64')
    return [next(name for name in names if name in known) for names in wanted]


def fetch(*arguments):
    try:
        done = apt('apt-get', *arguments)
    except subprocess.TimeoutExpired:
        skip('the packages for arm64 could not be fetched in 300 s')
    if done.returncode:
        skip('the packages for arm64 could not be fetched: ' + done.stdout.strip().split('\n')[-1])


def unpack_system():
    at = os.path.join(DIR, 'apt')
    shutil.rmtree(at, ignore_errors=True)
    shutil.rmtree(ROOT, ignore_errors=True)
    for d in 'state/lists/partial', 'cache/archives/partial':
        os.makedirs(os.path.join(at, d))
    open(os.path.join(at, 'status'), 'w').close()
    with open(os.path.join(at, 'sources.list'), 'w') as f:
        f.writelines(f'deb [signed-by={KEYRING}] http://deb.debian.org/debian {r} main\n' for r in sorted({release(), KERNELS_OF}))
    fetch('update')
    wanted = known_packages(wanted_packages())
    fetch('install', '-y', '--no-install-recommends', '--download-only', *wanted)
    os.makedirs(ROOT)
    archives = os.path.join(at, 'cache/archives')
    for name in sorted(os.listdir(archives)):
        if name.endswith('.deb'):
            run('dpkg-deb', '-x', os.path.join(archives, name), ROOT)
    for d, subdirs, files in os.walk(ROOT):  # links into the root, which lies elsewhere
        for link in (os.path.join(d, f) for f in subdirs + files):
            if os.path.islink(link) and os.readlink(link).startswith('/'):
                to = os.path.relpath(ROOT + os.readlink(link), d)
                os.remove(link)
                os.symlink(to, link)


def unpack_kernels():
    """The kernel is one of the first files in its package: the rest is not unpacked."""
    at, unpacked = os.path.join(DIR, 'apt'), os.path.join(DIR, 'kernel')
    os.makedirs(unpacked, exist_ok=True)
    for size, package in KERNELS.items():
        image = re.search(r'Depends: (linux-image-\S+)', apt('apt-cache', '-t', KERNELS_OF, 'depends', package).stdout)
        if not image:
            skip(f'{KERNELS_OF} has no {package}')
        fetch('download', image.group(1))
        deb = next(f for f in os.listdir(at) if f.startswith(image.group(1) + '_'))
        kernel = './boot/vmlinuz-' + image.group(1)[len('linux-image-'):]
        run('sh', '-c', 'dpkg-deb --fsys-tarfile "$1" 2>/dev/null | tar x -C "$2" --occurrence=1 "$3"', 'sh', os.path.join(at, deb), unpacked, kernel)
        os.replace(os.path.join(unpacked, kernel), os.path.join(DIR, 'vmlinuz-' + size))
        os.remove(os.path.join(at, deb))
    shutil.rmtree(os.path.join(at, 'cache'))


# ---- the build ----

def configure():
    pkg_config, cross = os.path.join(DIR, 'pkg-config'), os.path.join(DIR, 'cross.txt')
    with open(pkg_config, 'w') as f:
        f.write(f'#!/bin/sh\nexport PKG_CONFIG_SYSROOT_DIR={ROOT} PKG_CONFIG_LIBDIR={ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig\n'
                'exec pkg-config "$@"\n')
    os.chmod(pkg_config, 0o755)
    with open(cross, 'w') as f:
        f.write(f"""[binaries]
c = ['aarch64-linux-gnu-gcc', '--sysroot={ROOT}']
ar = 'aarch64-linux-gnu-gcc-ar'
strip = 'aarch64-linux-gnu-strip'
objcopy = 'aarch64-linux-gnu-objcopy'
pkgconfig = '{pkg_config}'
[properties]
needs_exe_wrapper = true
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
""")
    if not os.path.exists(os.path.join(BUILD, 'build.ninja')):
        run('meson', 'setup', '--cross-file', cross, '-Dwerror=true', BUILD, TOP)


def build(everything):
    run('ninja', '-C', BUILD, 'build.ninja')  # an older one does not know new targets
    targets = json.loads(run('meson', 'introspect', '--targets', BUILD))
    files = [os.path.relpath(t['filename'][0], BUILD) for t in targets
             if t['name'] in SHORT_TARGETS and t['type'] not in ('static library', 'run')]
    run('ninja', '-C', BUILD, *([] if everything else files))
    objects = [n for n in names_under(BUILD, lambda path: path.endswith('.o')) if n.startswith(('src/', 'runtime_hooks/'))]
    marked = run('readelf', '-nW', *objects, cwd=BUILD).count('AArch64 feature: BTI, PAC')
    if not objects or marked != len(objects):
        sys.exit(f'{marked} of {len(objects)} objects have branch protection')


# ---- the guest ----

INIT = """#!/bin/busybox sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mkdir -p /proc /sys /dev /tmp /run
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs tmp /tmp
mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup /sys/fs/cgroup
echo +memory > /sys/fs/cgroup/cgroup.subtree_control
ln -sf /proc/self/fd /dev/fd
hostname guest
ip link set lo up
python3 /in_guest.py
echo "== end"
poweroff -f
"""


def archive(out, at, names):
    with open(out, 'wb') as f:
        p = subprocess.run(['cpio', '-o', '-H', 'newc', '--quiet'], cwd=at, input='\n'.join(names).encode(), stdout=f)
    if p.returncode:
        sys.exit('cpio failed')


def with_directories(names):
    found = set()
    for name in names:
        while name := os.path.dirname(name):
            found.add(name)
    return sorted(found) + sorted(names)


def names_under(at, wanted):
    return [os.path.relpath(os.path.join(d, f), at) for d, subdirs, files in os.walk(at, followlinks=False)
            for f in files + [s for s in subdirs if os.path.islink(os.path.join(d, s))] if wanted(os.path.join(d, f))]


def pack_system():
    unused = re.compile(r'\.[ao]$|^(usr/include|usr/share/(doc|man|locale|i18n|info|perl)|usr/lib/gcc|boot)/|/(gconv|ldscripts|gprofng|perl\S*)/|san\.so')
    archive(os.path.join(DIR, 'system.cpio'), ROOT, with_directories([n for n in names_under(ROOT, lambda path: True) if not unused.search(n)]))


def pack(paths):
    archive(os.path.join(DIR, 'tree.cpio'), '/', with_directories([path[1:] for path in paths]))


def files_of_tests():
    return [os.path.join(TOP, d, n) for d in ('tests', 'examples', 'runtime_hooks')
            for n in names_under(os.path.join(TOP, d), lambda path: '__pycache__' not in path)]


def pack_tree():
    def is_used(path):
        return os.path.islink(path) or (os.access(path, os.X_OK) or '.so' in path or path.endswith('.py')) and '/meson-' not in path \
            and '.p/' not in path
    names = names_under(BUILD, is_used)
    pack([os.path.join(BUILD, n) for n in names] + files_of_tests())


def pack_bundle(bundle, cases):
    """The archive, what its test makes on this machine, and the jobs: that test, and the commands of a new user."""
    command, commands = (['/usr/bin/python3', os.path.join(TOP, 'tests/bundle', name), bundle] for name in ('test_bundle.py', 'new_user.py'))
    modules = [os.path.abspath(path) for path in os.environ['PYTHONPATH'].split(':')]
    env = {'PYTHONPATH': ':'.join(modules), 'PYTHONDONTWRITEBYTECODE': '1'}
    run(*command, 'compile', env={**os.environ, **env})
    archives = [name for name in os.listdir(bundle) if name.endswith(('.tar.xz', '.whl'))]
    made = ['programs/' + name for name in names_under(bundle + '/programs', lambda path: True)]
    pack({os.path.join(bundle, name) for name in archives + made} |
         {os.path.join(d, name) for d in modules for name in os.listdir(d) if name.endswith('.py')} | set(files_of_tests()))
    jobs = [{'name': 'bundle', 'cmd': [*command, *cases], 'env': env, 'timeout': 3600}]
    if not cases:
        jobs.append({'name': 'new user', 'cmd': [*commands, 'here', 'glibc', 'musl'], 'env': env, 'timeout': 600, 'is_shown': True})
    return jobs


def tests_of(choice):
    """{'name', 'cmd', 'env', 'timeout'} of the chosen tests, with their cases."""
    jobs = []
    for t in json.loads(run('meson', 'introspect', '--tests', BUILD)):
        suite, _, short = t['name'].partition(' ')
        known = suite in ('unit', 'stress') and t['name'] not in NOT_IN_ALL or suite == 'hooks' and short in HOOKS_IN_ALL
        cases = (SHORT if choice is SHORT else CASES_IN_ALL).get(t['name'], [])
        if t['name'] in choice or (choice == 'all' and known):
            command = ['/usr/bin/python3' if os.path.basename(c).startswith('python3') and i == 0 else c for i, c in enumerate(t['cmd'])]
            jobs.append({'name': t['name'], 'cmd': command + cases, 'env': t['env'], 'timeout': 4 * t['timeout'] if choice is not SHORT else 600})
    return jobs


def boot(size, jobs, seconds, results):
    at = os.path.join(DIR, 'job-' + size)
    shutil.rmtree(at, ignore_errors=True)
    os.makedirs(os.path.join(at, 'files/etc'))
    files = {'init': INIT, 'in_guest.py': open(os.path.join(HERE, 'in_guest.py')).read(), 'job.json': json.dumps(jobs),
             'etc/passwd': 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/sh\n', 'etc/hosts': '127.0.0.1 localhost guest\n',
             'etc/group': 'root:x:0:\nnogroup:x:65534:\n'}
    for name, text in files.items():
        with open(os.path.join(at, 'files', name), 'w') as f:
            f.write(text)
        os.chmod(os.path.join(at, 'files', name), 0o755)
    os.makedirs(os.path.join(at, 'files/bin'))
    for applet in 'mount', 'ip', 'poweroff', 'hostname', 'tar', 'unshare', 'xz':
        os.symlink('/bin/busybox', os.path.join(at, 'files/bin', applet))
    os.symlink('bash', os.path.join(at, 'files/bin/sh'))
    archive(os.path.join(at, 'job.cpio'), os.path.join(at, 'files'), with_directories(names_under(os.path.join(at, 'files'), lambda path: True)))
    with open(os.path.join(at, 'initrd'), 'wb') as f:
        for part in os.path.join(DIR, 'system.cpio'), os.path.join(DIR, 'tree.cpio'), os.path.join(at, 'job.cpio'):
            shutil.copyfileobj(open(part, 'rb'), f)
    cores = '4' if size == MANY_CORES else '2'
    command = ['qemu-system-aarch64', '-M', 'virt', '-cpu', 'max,pauth-impdef=on', '-accel', 'tcg,thread=multi', '-smp', cores, '-m', '3072',
               '-kernel', os.path.join(DIR, 'vmlinuz-' + size), '-initrd', os.path.join(at, 'initrd'),
               '-append', 'console=ttyAMA0 quiet panic=-1', '-nographic', '-no-reboot', '-nic', 'none']
    try:
        out = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds).stdout
    except subprocess.TimeoutExpired as e:
        out = (e.stdout or b'') + f'\nno end after {seconds} s\n'.encode()
    results[size] = out.decode(errors='replace').replace('\r', '')
    shutil.rmtree(at)


def main():
    os.nice(5)
    for program in 'qemu-system-aarch64', 'aarch64-linux-gnu-gcc', 'cpio', 'dpkg-deb', 'apt-get', 'meson', 'ninja', 'pkg-config':
        if not shutil.which(program):
            skip(f'no {program}')
    if not os.path.exists(KEYRING):
        skip(f'no {KEYRING}')
    arguments = sys.argv[3:]
    bundle = os.path.abspath(arguments[1]) if arguments[:1] == ['bundle'] else None
    arguments = arguments[2:] if bundle else arguments
    sizes = [a for a in arguments if a in KERNELS] or list(KERNELS)
    named = [a for a in arguments if a not in KERNELS]
    choice = 'all' if named == ['all'] else named or SHORT
    os.makedirs(DIR, exist_ok=True)
    unpacked, wanted, kernels = os.path.join(DIR, 'unpacked'), repr(wanted_packages()), None
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        if not os.path.exists(unpacked) or open(unpacked).read() != wanted:
            unpack_system()
            kernels = pool.submit(unpack_kernels)  # meanwhile this is built
        if bundle:
            jobs = pack_bundle(bundle, named)
        else:
            configure()
            build(choice is not SHORT)
            pack_tree()
            jobs = tests_of(choice)
        if kernels:
            pack_system()
            kernels.result()
            with open(unpacked, 'w') as f:
                f.write(wanted)
    jobs = {size: [j for j in jobs if choice is not SHORT or size == MANY_CORES or j['name'] not in ONCE] for size in sizes}
    results = {}
    guests = [threading.Thread(target=boot, args=(size, jobs[size], SECONDS if choice is SHORT and not bundle else 7200, results)) for size in sizes]
    for guest in guests:
        guest.start()
    for guest in guests:
        guest.join()
    failed = False
    for size in sizes:
        print(f'---- kernel with pages of {size}\n{results[size]}')
        ok = re.findall(r'^== (.*): (?:ok|skipped) \(', results[size], re.M)
        is_size = f'== pages of {int(size[:-1]) * 1024} bytes' in results[size]
        failed |= not is_size or '== end' not in results[size] or sorted(ok) != sorted(j['name'] for j in jobs[size])
    sys.exit(failed)


main()
