# SPDX-License-Identifier: MIT
"""Programs that give up rights: namespaces, seccomp filters, no clock, limits on files, another user."""
import os
import signal
import subprocess

from endings import WITH_AND_WITHOUT_AGENT, ends, last
from harness import environment, main, new_directory, run, victim


def that_namespaces_work_while_the_agent_runs():
    ends('unshare', program='sandbox', confs=['heap_rate=1,interval=20ms'])


def says_why(how, words, conf='heap_rate=1,interval=20ms'):
    """The log has one line at the end; before it there may be one of a tick that failed."""
    r = run([victim('sandbox'), how], conf)
    *earlier, line = r.stderr.splitlines()
    assert r.status == 5 and words in line and line.startswith('deltaprof['), (r.status, r.stderr)
    assert [e.replace('stay pending', 'are lost') for e in earlier] in ([], [line]), r.stderr
    return r


def that_a_seccomp_filter_is_survived():
    for conf in WITH_AND_WITHOUT_AGENT:
        assert last(says_why('seccomp', 'seccomp', conf=conf), 'sandbox') == (1, 1)


def that_a_filter_past_the_hooks_is_survived():
    """No library function is called for it. The profiler finds it before a tick."""
    for conf in ('heap_rate=1,interval=0', 'heap_rate=1,interval=2s'):
        r = run([victim('sandbox'), 'seccomp-directly'], conf)
        assert r.status == 5 and not r.stderr, (conf, r.status, r.stderr)


def that_asking_about_filters_changes_nothing():
    ends('seccomp-asks', program='sandbox')


def that_behind_a_narrow_filter_the_profiler_makes_no_call():
    for conf in WITH_AND_WITHOUT_AGENT:
        assert last(says_why('narrow', 'seccomp', conf=conf + ',block_rate=1ns'), 'sandbox') == (1, 1)
        p = subprocess.Popen([victim('sandbox'), 'narrow', 'wait'], env=environment(conf + ',log=none', new_directory()),
                             stdout=subprocess.PIPE)
        assert p.stdout.readline() == b'ready\n', p.wait(timeout=60)
        p.send_signal(signal.SIGTERM)
        assert p.wait(timeout=60) == -signal.SIGTERM


def that_a_process_without_a_clock_goes_on():
    for how in ('strict', 'clockless'):
        for conf in WITH_AND_WITHOUT_AGENT:
            r = run([victim('sandbox'), how], conf + ',log=none')
            assert r.status == 5, (how, conf, r.status)


def that_a_limit_on_file_sizes_does_not_kill():
    for conf in WITH_AND_WITHOUT_AGENT:
        says_why('no-files', 'EFBIG; they are lost', conf=conf + ',tables=none')


def that_privileges_can_be_dropped_while_the_agent_runs():
    if os.geteuid() == 0:
        says_why('setuid', 'as uid 65534: EACCES (chmod 1777 lets it); they are lost', conf='heap_rate=1,interval=20ms,tables=none')


main(globals())
