# SPDX-License-Identifier: MIT
"""Code that was made at run time: stacks go on by the tables that it registers, without any by frame pointers, or end
there, and have no wrong frames."""
import os
import platform

from harness import main, profiles, run, skip, victim

NATIVE = ['inner', 'outer', 'main', '__libc_start_call_main', '__libc_start_main', '__libc_start_main_impl', '_start']


def stacks(mode, most=32):
    """The stacks of what `inner` allocates."""
    return read(mode, most)[0]


def read(mode, most):
    """The same, and the number of stacks that the profile says were cut short."""
    r = run([victim('generated'), mode], 'heap_rate=1,cpu_rate=0,interval=0')
    path = f'/tmp/perf-{r.stdout.strip()}.map'
    if os.path.exists(path):
        os.unlink(path)
    assert r.status == 0 and not r.stderr, r.stderr
    found, cut = {}, 0
    for p in profiles(r):
        cut += sum(int(c.split()[0]) for c in p.comments if c.endswith('stacks cut short: unreadable memory or unknown unwind data'))
        for s in p.samples:
            if s.values['alloc_space'] and s.frames[0].function == 'inner':
                found[tuple(s.frames)] = s.values['alloc_objects']
    assert sum(found.values()) == most, found
    return sorted(found, key=len), cut


def that_frame_pointers_lead_through_generated_code():
    assert len(stacks('keeps')) == 4
    for stack in stacks('keeps'):
        names = [f.function or '' for f in stack if not (f.function or '').startswith('libc.so.6+')]  # no names without symbols
        native = [n for n in names if n in NATIVE]
        assert 'main' in names and names[-1] in ('_start', '__libc_start_main', '__libc_start_call_main'), names
        assert len(names) - len(native) == native.count('inner'), names  # each `inner` was called by one generated frame
        assert native.index('outer') == native.count('inner'), names


def that_another_value_in_the_register_gives_no_wrong_frame():
    for mode in ('moves', 'clears'):
        for stack in stacks(mode):
            names = [f.function or '' for f in stack]
            assert names[0] == 'inner' and names[1] not in NATIVE, names
            assert names[2:] in ([], ['[truncated]']), (mode, names)


def that_code_runs_in_the_frame_of_its_interpreter():
    if platform.machine() != 'x86_64':
        skip('on x86_64 only')
    found, cut = read('hosted', 40)
    assert len(found) == 5 and not cut, (cut, found)
    for names in ([f.function or '' for f in stack] for stack in found):
        generated = [n for n in names if n not in NATIVE and not n.startswith('libc.so.6+')]
        assert 'main' in names and (names[1] == 'main' or len(generated) == names.count('inner')), names
        assert names[1] == 'main' or names.index('outer') == 2 * names.count('inner'), names


def that_a_frame_that_no_state_knows_gives_no_wrong_frame():
    if platform.machine() != 'x86_64':
        skip('on x86_64 only')
    for stack in read('unhosted', 40)[0]:
        names = [f.function or '' for f in stack]
        assert names[1] == 'main' or names[1] not in NATIVE and names[2:] in ([], ['[truncated]']), names


def that_the_programs_perf_map_names_generated_code():
    for stack in stacks('map'):
        generated = [f for f in stack if f.function == 'handler']
        assert len(generated) == [f.function for f in stack].count('inner'), stack
        assert {f.file for f in generated} == {'/app/file.js'}, generated


def that_what_debuggers_are_told_names_generated_code():
    for stack in stacks('describes'):
        names = [f.function for f in stack]
        assert names.count('handler_of_debuggers') == names.count('inner'), stack


def that_tables_registered_with_libgcc_lead_through_generated_code():
    """The victim checks that libgcc's own unwinder finds `main` by them. It withdraws them and unmaps the code before the last
    eight allocations."""
    for mode in ('registers-fp', 'registers'):
        found, cut = read(mode, 40)
        assert len(found) == 5 and not cut, (mode, cut, found)
        for names in ([f.function or '' for f in stack] for stack in found):
            assert 'main' in names, (mode, names)
            if names[1] == 'main':
                continue
            inner, outer, generated = names.count('inner'), names.index('outer'), [n for n in names[:names.index('outer')] if n not in NATIVE]
            assert len(generated) == inner and outer == 2 * inner, (mode, names)


def that_rules_are_those_of_the_tables_that_are_registered_now():
    """Two codes take turns at one address: they have frames of other sizes, and tables that say so."""
    found, cut = read('changes', 64)
    assert not cut and all('main' in [f.function for f in stack] for stack in found), (cut, found)


def that_code_which_is_mapped_twice_has_the_names_of_its_file():
    r = run([victim('mapped_twice')], 'heap_rate=1,interval=0')
    assert r.status == 0 and not r.stderr, r.stderr
    leaves = [s.frames[0].function for p in profiles(r) for s in p.samples if s.values['alloc_space'] == 10000]
    assert leaves == ['in_second_mapping'], leaves


main(globals())
