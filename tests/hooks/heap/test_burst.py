# SPDX-License-Identifier: MIT
"""A peak that was over before a file could be written is shown with its stacks."""
from harness import main, profiles, run, victim


def at_peak(threads, conf):
    """Bytes in use by function in the profile in which they are most, and what they were in truth."""
    r = run([victim('burst'), threads], f'interval=1h,{conf}')
    assert r.status == 0 and not r.stderr, r.stderr
    found = []
    for p in profiles(r, peaks=True):
        of = {name: sum(s.values['inuse_space'] for s in p.samples if any(f.function == name for f in s.frames)) for name in ('burst', 'steady')}
        found.append((sum(of.values()), of, p.comments))
    _, of, comments = max(found, key=lambda f: f[0])
    return of, [int(word) for word in r.stdout.split()], comments


def that_a_burst_is_shown_with_its_stacks():
    for threads in ('1', '8'):
        of, (burst, steady), comments = at_peak(threads, 'heap_rate=1')
        assert 0.9 * burst <= of['burst'] <= burst and of['steady'] == steady, (threads, of, burst)
        assert '#peak' in comments and any(c.startswith('#PeakAt=') for c in comments), comments


def that_the_allocations_of_all_profiles_are_those_of_the_program():
    r = run([victim('burst'), '4'], 'interval=50ms,heap_rate=1')
    count = sum(s.values['alloc_objects'] for p in profiles(r) for s in p.samples if s.frames[0].function == 'burst')
    assert count == 4 * 500 * (20 + 1), count
    assert not any(s.values['inuse_space'] for s in profiles(r)[-1].samples if s.frames[0].function == 'burst')


def that_a_sampled_burst_is_shown():
    of, (burst, _), _ = at_peak('8', 'heap_rate=64k')
    assert 0.7 * burst <= of['burst'] <= 1.4 * burst, (of, burst)  # 600 samples, 10 %, and what a copy may lack


main(globals())
