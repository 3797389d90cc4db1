// SPDX-License-Identifier: MIT
//
// linear_queues.cpp - queues and logs. Some grow in a straight line to the end, beside blocks that pass through them;
// others grow and drain, swing, or stay at a length.
#include "paced.h"

#include <cmath>
#include <deque>

typedef std::deque<char *> queue;

static void take(queue &from, size_t n)
{
    for (; n > 0 && !from.empty(); n--) {
        free(from.front());
        from.pop_front();
    }
}

/* The queue has grown by n blocks, which are lost unless it is drained. */
static void grown(int n, size_t n_bytes)
{
    for (int i = 0; i < n; i++)
        lost(n_bytes);
}

// ---- that grow ----

// The subscriber takes three of five messages. 3 MB stand in the queue at the beginning.
static queue messages;

OWN static void publish_message()
{
    messages.push_back(xmalloc(2000));
}

static void subscriber_is_slower(int step)
{
    for (int i = 0; i < (step ? 120 : 1620); i++)
        publish_message();
    take(messages, 73);
    grown(step ? 47 : 1547, 2000);
}

// The writer of a log is a sixth too slow.
static queue log_lines;

OWN static void queue_log_line()
{
    log_lines.push_back(xmalloc(2400));
}

static void writer_is_slower(int)
{
    for (int i = 0; i < 200; i++)
        queue_log_line();
    take(log_lines, 167);
    grown(33, 2400);
}

// A broker passes on eight of nine deliveries in time.
static queue deliveries;

OWN static void accept_delivery()
{
    deliveries.push_back(xmalloc(2600));
}

static void broker_falls_behind(int)
{
    for (int i = 0; i < 324; i++)
        accept_delivery();
    take(deliveries, 288);
    grown(36, 2600);
}

// Mails that cannot be delivered are queued again, and one new one in three cannot.
static queue mails;

OWN static char *compose_mail()
{
    return xmalloc(9000);
}

static void mails_tried_again(int)
{
    for (int i = 0; i < 36; i++) {
        char *mail = compose_mail();
        if (next_random(3)) {
            free(mail);
        } else {
            mails.push_back(mail);
            lost(9000);
        }
    }
}

// A small outbox: 15 kB more in each step.
static queue outbox;

OWN static void put_in_outbox()
{
    outbox.push_back(xmalloc(200));
}

static void outbox_of_small_blocks(int)
{
    for (int i = 0; i < 150; i++)
        put_in_outbox();
    take(outbox, 75);
    grown(75, 200);
}

// Spans of traces are exported a little more slowly than they end: some eight samples at 64k.
static queue spans;

OWN static void end_span()
{
    spans.push_back(xmalloc(640));
}

static void exporter_lags(int)
{
    for (int i = 0; i < 40; i++)
        end_span();
    take(spans, 36);
    grown(4, 640);
}

// Jobs of three sizes wait for a worker that is down to half its speed.
static queue jobs;

OWN static void enqueue_job(size_t n_bytes)
{
    jobs.push_back(xmalloc(n_bytes));
}

static void worker_at_half_speed(int)
{
    static const size_t sizes[] = {500, 1500, 4000};
    for (int i = 0; i < 36; i++)
        enqueue_job(sizes[i % 3]);
    take(jobs, 18);
    grown(18, 2000);
}

// ---- that breathe ----

// Orders are written when there are 3,000.
static queue orders;

OWN static void add_order()
{
    orders.push_back(xmalloc(2200));
}

static void flushed_when_full(int)
{
    for (unsigned n = 90 + next_random(60); n > 0; n--)
        add_order();
    if (orders.size() >= 3000)
        take(orders, orders.size());
}

// A reader comes every 80 steps: the run ends in the middle of a tooth.
static queue entries;

OWN static void add_entry()
{
    entries.push_back(xmalloc(3000));
}

static void long_teeth(int step)
{
    for (int i = 0; i < 60; i++)
        add_entry();
    if (step % 80 == 79)
        take(entries, entries.size());
}

// A backlog grows for 40 % of the run, and drains until 80 %.
static queue backlog;

OWN static void add_to_backlog()
{
    backlog.push_back(xmalloc(2500));
}

static void backlog_drains_away(int step)
{
    for (int i = 0; i < 100; i++)
        add_to_backlog();
    if (step < n_load_steps * 2 / 5)
        take(backlog, 20);
    else
        take(backlog, backlog.size() > 400 ? 180 : 100);
}

// As many go as come. 2,500 stand in the queue from the beginning.
static queue packets;

OWN static void receive_packet()
{
    packets.push_back(xmalloc(2100));
}

static void queue_at_a_length(int step)
{
    for (unsigned n = step ? 80 + next_random(41) : 2600; n > 0; n--)
        receive_packet();
    take(packets, packets.size() > 2500 ? packets.size() - 2500 : 0);
}

// The length follows the load, which swings with a period of 56 steps.
static queue calls;

OWN static void queue_call()
{
    calls.push_back(xmalloc(2700));
}

static void length_swings(int step)
{
    auto wanted = static_cast<size_t>(1600 - 1300 * std::cos(2 * 3.14159265 * step / 56));
    size_t passing = 60;
    take(calls, passing);
    while (calls.size() < wanted)
        queue_call();
    take(calls, calls.size() - wanted);
}

// The consumer wanders: now faster, now slower than the producer. A full queue refuses.
static queue tickets;

OWN static void add_ticket()
{
    tickets.push_back(xmalloc(2300));
}

static void length_wanders(int step)
{
    static unsigned speed = 100;
    if (step % 12 == 0)
        speed = tickets.size() > 1200 ? 130 : tickets.size() < 400 ? 70 : 70 + next_random(61);
    for (int i = 0; i < 100 && tickets.size() < 2200; i++)
        add_ticket();
    take(tickets, speed);
}

// A queue with room for 3,000 is full after a quarter of the run. The producer then waits for room.
static queue tasks;

OWN static void add_task()
{
    tasks.push_back(xmalloc(2600));
}

static void producer_waits_for_room(int)
{
    take(tasks, 50);
    for (int i = 0; i < 112 && tasks.size() < 3000; i++)
        add_task();
}

const paced_program linear_queues[] = {
    {"subscriber_is_slower", subscriber_is_slower, nullptr},
    {"writer_is_slower", writer_is_slower, nullptr},
    {"broker_falls_behind", broker_falls_behind, nullptr},
    {"mails_tried_again", mails_tried_again, nullptr},
    {"outbox_of_small_blocks", outbox_of_small_blocks, nullptr},
    {"exporter_lags", exporter_lags, nullptr},
    {"worker_at_half_speed", worker_at_half_speed, nullptr},
    {"flushed_when_full", flushed_when_full, nullptr},
    {"long_teeth", long_teeth, nullptr},
    {"backlog_drains_away", backlog_drains_away, nullptr},
    {"queue_at_a_length", queue_at_a_length, nullptr},
    {"length_swings", length_swings, nullptr},
    {"length_wanders", length_wanders, nullptr},
    {"producer_waits_for_room", producer_waits_for_room, nullptr},
    {nullptr, nullptr, nullptr},
};
