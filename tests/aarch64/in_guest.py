# SPDX-License-Identifier: MIT
"""In the guest: runs the tests of /job.json one after the other, prints a line for each, and what a failed one and those to be shown wrote."""
import json
import os
import subprocess
import time

ALL = os.sched_getaffinity(0)
SMALL = {'DELTAPROF_TEST_PERCENT': '25', 'DELTAPROF_TEST_SLOWER': '4'}  # of repetitions; what a run may take
print(f"== pages of {os.sysconf('SC_PAGESIZE')} bytes", flush=True)
for test in json.load(open('/job.json')):
    began = time.monotonic()
    try:
        p = subprocess.run(test['cmd'], env={**os.environ, **SMALL, **test['env']}, cwd='/tmp', stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=test['timeout'],
                           preexec_fn=lambda: os.sched_setaffinity(0, ALL if test['name'].startswith('stress ') else {0, 1}))
        status, out = {0: 'ok', 77: 'skipped'}.get(p.returncode, f'FAILED, status {p.returncode}'), p.stdout
    except subprocess.TimeoutExpired as e:
        status, out = 'FAILED, no end', e.stdout or b''
    print(f"== {test['name']}: {status} ({time.monotonic() - began:.0f} s)", flush=True)
    if status != 'ok' or test.get('is_shown'):
        print(out.decode(errors='replace')[-3000:], flush=True)
