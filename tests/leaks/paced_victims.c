/* SPDX-License-Identifier: MIT */
/* paced_victims.c - programs in C for the three sets. Some leak, others keep what they use again. */
#include "paced.h"

#include <stdio.h>
#include <string.h>

/* ---- that leak ---- */

/* A header that is set again replaces the text of the first, and does not free it. */
static char *headers[40];

OWN static char *copy_header(const char *text)
{
    return strdup(text);
}

static void header_set_again(int step)
{
    char text[1800];
    memset(text, 'a' + step % 26, sizeof text);
    text[sizeof text - 1] = 0;
    for (int i = 0; i < 60; i++) {
        char **at = &headers[next_random(40)];
        if (*at)
            lost(sizeof text);
        *at = copy_header(text);
    }
}

/* Each file that is read leaves the buffer of getline. */
OWN static size_t read_file(int step)
{
    char text[5000], *line = NULL;
    size_t n_bytes = 0;
    memset(text, 'a' + step % 26, sizeof text);
    FILE *file = fmemopen(text, sizeof text, "r");
    if (!file)
        return 0;
    if (getline(&line, &n_bytes, file) < 0)
        n_bytes = 0;
    fclose(file);
    lost(n_bytes);
    return n_bytes;
}

static void buffers_of_getline(int step)
{
    for (int i = 0; i < 40; i++)
        read_file(step);
}

/* Entries are linked in front of a list that is only read. */
struct entry {
    struct entry *next;
    char text[1900];
};
static struct entry *journal;

OWN static struct entry *new_entry(struct entry *next)
{
    struct entry *fresh = malloc(sizeof *fresh);
    if (fresh)
        fresh->next = next;
    lost(sizeof *fresh);
    return fresh;
}

static void journal_only_grows(int step)
{
    (void)step;
    for (int i = 0; i < 48; i++)
        journal = new_entry(journal);
}

/* ---- that do not leak ---- */

/* The last 6,000 messages. The ring is full after a third of the load and then replaces. */
static char *ring[6000];

OWN static char *copy_message(size_t n_bytes)
{
    char *copy = malloc(n_bytes);
    if (copy)
        memset(copy, 'm', n_bytes);
    return copy;
}

static void ring_of_messages(int step)
{
    static unsigned n;
    (void)step;
    for (int i = 0; i < 3 * 6000 / n_load_steps; i++, n++) {
        free(ring[n % 6000]);
        ring[n % 6000] = copy_message(1500 + next_random(1000));
    }
}

/* Objects stand in slabs of 64. The number of objects swings below a peak; slabs are kept. */
enum { SLAB_BYTES = 32768, PER_SLAB = 64 };
static char *slabs[1000];
static int n_slabs;

OWN static void add_slab(void)
{
    slabs[n_slabs++] = xmalloc(SLAB_BYTES);
}

static void slabs_are_kept(int step)
{
    int begin = n_load_steps / 3;
    int objects = step < begin ? 40000 * step / begin : 25000 + (int)next_random(15000);
    while (n_slabs * PER_SLAB < objects && n_slabs < 1000)
        add_slab();
}

/* Two buffers take turns: one is filled while the other is written and freed. */
static char *filling[400], *writing[400];

OWN static char *new_record(void)
{
    return xmalloc(4500);
}

static void buffers_take_turns(int step)
{
    for (int i = 0; i < 40; i++)
        filling[step % 10 * 40 + i] = new_record();
    if (step % 10 != 9)
        return;
    for (int i = 0; i < 400; i++) {
        free(writing[i]);
        writing[i] = filling[i];
    }
}

const struct paced_program paced_victims[] = {
    {"header_set_again", header_set_again, NULL},
    {"buffers_of_getline", buffers_of_getline, NULL},
    {"journal_only_grows", journal_only_grows, NULL},
    {"ring_of_messages", ring_of_messages, NULL},
    {"slabs_are_kept", slabs_are_kept, NULL},
    {"buffers_take_turns", buffers_take_turns, NULL},
    {NULL, NULL, NULL},
};
