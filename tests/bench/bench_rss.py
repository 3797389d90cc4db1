# SPDX-License-Identifier: MIT
"""How much of the anonymous resident memory `deltaprof rss` explains, for ten servers under load, with `mmap=on`. Servers
that are not installed are left out. DP_BENCH_SERVERS chooses some of them."""
import glob
import json
import os
import subprocess
import time

from servers import DELTAPROF, started, wait_for

CONF = 'interval=1s,mmap=on,symbolize=none,log=none'
SERVERS = 'redis memcached postgres mariadb nginx python node rust java fragmented'


def show(name, pid, out):
    def profiled():
        return len(glob.glob(f'{out}/*.{pid}.*.heap.pb.gz')) > 0
    wait_for(profiled, 'a profile of ' + name)
    files = f'{out}/*.{pid}.*.heap.pb.gz'
    n, end = len(glob.glob(files)), time.monotonic() + 8
    while len(glob.glob(files)) < n + 2 and time.monotonic() < end:  # what came since the last profile has no part; a quiet server writes none
        time.sleep(0.1)
    text = subprocess.run([DELTAPROF, 'rss', '--json', str(pid)], check=True, stdout=subprocess.PIPE, text=True).stdout
    answer = json.loads(text)
    parts = sorted(answer['parts'], key=lambda part: -part['bytes'])
    print(f"{name} explained: {100 * answer['explained_bytes'] / answer['anonymous_bytes']:.1f} %"
          f" of {answer['anonymous_bytes'] / 2**20:.1f} MB; not explained: {answer['unexplained_bytes'] / 2**20:.2f} MB"
          f" ({', '.join(part['name'] + ' ' + format(part['bytes'] / 2**20, '.2f') for part in parts)})", flush=True)


for name in os.environ.get('DP_BENCH_SERVERS', SERVERS).split():
    with started(name, CONF) as (pid, out):
        if pid:
            show(name, pid, out)
