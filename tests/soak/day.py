# SPDX-License-Identifier: MIT
"""A day of compiling through one process's table of CPU samples, in minutes: 100 samples a second, profiles every 15
seconds. Nearly as many stacks as samples pass through the table; no sample may lose its function.

    day.py BUILD HOURS [KNOWN]      24 hours are 8,640,000 samples in 5,760 profiles: some five minutes of CPU time

Of 100 samples KNOWN (90) have one of 20,000 stacks, as the same headers are compiled again and again; the others have stacks
that come once. Files are read and deleted while the program runs. The exit status is 0 if all samples are in the files and
none is in [overflow].
"""
import collections
import glob
import gzip
import os
import subprocess
import sys
import tempfile
import time

build, hours = os.path.abspath(sys.argv[1]), float(sys.argv[2])
known = sys.argv[3] if len(sys.argv) > 3 else '90'
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), '../reader'), os.path.join(build, 'tests/reader')]
import reader  # noqa: E402

SAMPLES, EACH = 1500, 64  # samples of a profile; of EACH profiles one is read whole
ticks = max(int(hours * 240), 1)
conf = 'cpu_rate=1m,heap_rate=0,mutex_rate=0,block_rate=0,interval=0,keep=0,symbolize=functions,tables=none'
n_files = n_read = n_overflow = 0
seen = collections.Counter()


def look_at(path):
    global n_files, n_read, n_overflow
    with open(path, 'rb') as f:
        data = f.read()
    os.unlink(path)
    n_files += 1
    n_overflow += b'[overflow]' in gzip.decompress(data)
    if n_files % EACH != 1:
        return
    n_read += 1
    for sample in reader.load(data).samples:
        n = sample.values['samples']
        seen['all'] += n
        seen['named'] += n if sample.names[0].startswith('leaf_') else 0
        seen['cut'] += n if sample.names[-1] == '[truncated]' else 0
        seen['overflow'] += n if '[overflow]' in sample.names else 0


with tempfile.TemporaryDirectory(prefix='deltaprof-day-') as out:
    environment = {**os.environ, 'LD_PRELOAD': os.path.join(build, 'runtime_hooks/preload/libdeltaprof_preload.so'),
                   'DELTAPROF_CONF': f'{conf},out={out}'}
    begin = time.monotonic()
    program = subprocess.Popen([os.path.join(build, 'tests/soak/day'), str(ticks), str(SAMPLES), known], env=environment,
                               stdout=subprocess.PIPE, text=True)
    is_over = False
    while not is_over:
        is_over = program.poll() is not None
        for path in sorted(glob.glob(out + '/*.cpu.pb.gz')):
            look_at(path)
        time.sleep(0.05)
    n_sent = int(program.stdout.read() or 0)
print(f'{n_sent} samples, {n_files} profiles, {hours:g} hours in {time.monotonic() - begin:.0f} s; {n_overflow} profiles with [overflow]; '
      f'of {n_read} profiles that were read whole: {dict(seen)}')
expected = SAMPLES * n_read
passed = (program.returncode == 0 and n_sent == ticks * SAMPLES and n_files >= ticks and not n_overflow and
          seen['named'] >= 0.999 * seen['all'] and abs(seen['all'] - expected) <= 2 * n_read + SAMPLES)
print('1 passed, 0 failed' if passed else '0 passed, 1 failed')
sys.exit(not passed)
