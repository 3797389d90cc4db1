# SPDX-License-Identifier: MIT
"""Functions that end in a jump to a hook are in the stacks, although they have no frame."""
import subprocess

from harness import main, profiles, reader, run, skip, victim


def jumps(program):
    """Whether the compiler turned the last calls into jumps."""
    code = subprocess.run(['objdump', '-d', '--no-show-raw-insn', '--disassemble=makes', program], capture_output=True, text=True).stdout
    return 'malloc' in code and not any(op in code.split('makes>:')[1] for op in ('call', '\tbl\t', 'blr'))


def that_the_function_before_the_jump_is_the_leaf():
    for name in ('tails', 'tails_no_plt'):
        if not jumps(victim(name)):
            skip('no jump to malloc in', name)
        r = run([victim(name)], 'heap_rate=1,block_rate=1ns')
        heap = reader.sum_profiles(profiles(r))
        for function, size in (('makes', 100), ('passes_on', 200), ('calls', 300)):
            stacks = {names[:2]: row for (names, _), row in heap.items() if names[:1] == (function,)}
            assert set(stacks) == {(function, 'main')}, (function, stacks)
            assert stacks[function, 'main']['alloc_space'] == 100 * size, (function, stacks)
        mutex = reader.by_function(reader.sum_profiles(profiles(r, kind='mutex')), 'delay')
        assert 'main' not in mutex and mutex.get('checkpoint', 0) > 0, mutex


def that_code_inlined_at_the_entry_is_not_taken_for_the_function():
    stacks = {names[:2] for (names, _), row in reader.sum_profiles(profiles(run([victim('tails')], 'heap_rate=1,symbolize=lines'))).items() if row['alloc_objects'] == 100}
    assert ('mixes', 'main') in stacks, stacks


main(globals())
