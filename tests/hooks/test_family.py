# SPDX-License-Identifier: MIT
"""malloc and its family give the same results and the same errno with and without us, at every rate."""
from harness import main, same, victim


def that_corner_cases_are_the_same_unsampled():
    same([victim('family')], 'heap_rate=512k')


def that_corner_cases_are_the_same_with_every_event_sampled():
    same([victim('family')], 'heap_rate=1')


def that_corner_cases_are_the_same_with_the_heap_off():
    same([victim('family')], 'heap_rate=0')


def that_corner_cases_are_the_same_in_a_tiny_memory():
    same([victim('family')], 'heap_rate=1,memory=4M')


main(globals())
