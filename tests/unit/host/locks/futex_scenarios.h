/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/record/futex_scenarios.h - what the three threads of test_futex_model.c do: at most four operations each,
 * on two words.
 */
#pragma once

#include "contended_steps.h"

/*
 * TIMED: may end by a timeout or a signal; STARTLED: may end as if woken. MOVE: sleepers of word 0 to word 1; MOVE_PI:
 * word 1 is a PI lock. OWNER_DIES: the kernel wakes one. WAKE_ALIAS: by another address of the word, here the other
 * word's. WAKE_OP: one of each word.
 */
enum {
    WAIT = 1,
    TIMED,
    STARTLED,
    LOCK_PI,
    LOCK_PI_TIMED,
    UNLOCK_PI,
    WAKE_ONE,
    WAKE_ALL,
    WAKE_ALIAS,
    WAKE_OP,
    OWNER_DIES,
    MOVE,
    MOVE_PI
};
enum { CLASSES = 2, CLASS = 40, OWNER = 7, SLEEPERS = 8 };
struct op {
    int what, word;
};
struct scenario {
    const char *name;
    int class[THREADS];
    struct op ops[THREADS][4];
};

static const struct scenario all_woken = {"a wake of all", {0, 0, 0}, {{{WAIT, 0}}, {{WAIT, 0}}, {{WAKE_ALL, 0}}}};
static const struct scenario one_by_one = {
    "wakes of one", {0, 0, 0}, {{{WAIT, 0}}, {{WAIT, 0}}, {{WAKE_ONE, 0}, {WAKE_ONE, 0}}}};
static const struct scenario chain = {"who is woken wakes the next",
                                      {0, 0, 0},
                                      {{{WAIT, 0}, {WAKE_ONE, 0}}, {{WAIT, 0}, {WAKE_ONE, 0}}, {{WAKE_ONE, 0}}}};
static const struct scenario timeouts = {
    "timeouts and signals", {0, 0, 0}, {{{TIMED, 0}}, {{TIMED, 0}}, {{WAKE_ALL, 0}}}};
static const struct scenario startled = {
    "waits that end for no reason", {0, 0, 0}, {{{STARTLED, 0}}, {{WAIT, 0}}, {{WAKE_ALL, 0}}}};
static const struct scenario classes = {
    "two classes on one word", {0, 1, 0}, {{{WAIT, 0}}, {{TIMED, 0}}, {{WAKE_ALL, 0}}}};
static const struct scenario words = {
    "two words of one group", {0, 1, 0}, {{{WAIT, 0}, {WAKE_ALL, 1}}, {{WAIT, 1}}, {{WAKE_ALL, 0}}}};
static const struct scenario moved_over = {
    "waiters that are moved", {0, 1, 0}, {{{WAIT, 0}}, {{WAIT, 0}}, {{MOVE, 0}, {WAKE_ALL, 1}}}};
static const struct scenario moved_late = {
    "moved, while one gives up", {0, 0, 0}, {{{TIMED, 0}}, {{WAIT, 0}}, {{MOVE, 0}, {WAKE_ALL, 1}}}};
static const struct scenario pi = {
    "a PI lock",
    {0, 0, 0},
    {{{LOCK_PI, 0}, {UNLOCK_PI, 0}}, {{LOCK_PI, 0}, {UNLOCK_PI, 0}}, {{LOCK_PI, 0}, {UNLOCK_PI, 0}}}};
static const struct scenario pi_late = {
    "a PI lock, while one gives up",
    {0, 1, 0},
    {{{LOCK_PI, 0}, {UNLOCK_PI, 0}}, {{LOCK_PI_TIMED, 0}, {UNLOCK_PI, 0}}, {{LOCK_PI, 0}, {UNLOCK_PI, 0}}}};
static const struct scenario moved_to_pi = {
    "waiters that are moved to a PI lock",
    {0, 1, 0},
    {{{WAIT, 0}, {UNLOCK_PI, 1}}, {{TIMED, 0}, {UNLOCK_PI, 1}}, {{LOCK_PI, 1}, {MOVE_PI, 0}, {UNLOCK_PI, 1}}}};
static const struct scenario orphaned = {"the owner of a robust lock dies",
                                         {0, 0, 0},
                                         {{{WAIT, 0}, {WAKE_ONE, 0}}, {{WAIT, 0}, {WAKE_ONE, 0}}, {{OWNER_DIES, 0}}}};
static const struct scenario aliased = {
    "a wake by another address", {0, 1, 0}, {{{WAIT, 0}}, {{TIMED, 0}}, {{WAKE_ALIAS, 0}}}};
static const struct scenario moved_and_aliased = {
    "moved, then a wake by another address", {0, 0, 0}, {{{WAIT, 0}}, {{WAIT, 1}}, {{MOVE, 0}, {WAKE_ALIAS, 1}}}};
static const struct scenario two_at_once = {
    "a wake of two words", {0, 1, 0}, {{{WAIT, 0}, {WAKE_ONE, 1}}, {{WAIT, 1}}, {{WAKE_OP, 0}}}};

static const struct scenario *const all[] = {&all_woken,  &one_by_one,  &chain,      &timeouts,   &startled,
                                             &classes,    &words,       &moved_over, &moved_late, &pi,
                                             &pi_late,    &moved_to_pi, &orphaned,   &aliased,    &moved_and_aliased,
                                             &two_at_once};
