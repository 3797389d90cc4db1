# SPDX-License-Identifier: MIT
"""The cases of bench_paced.py: what runs, for how long, what leaks, and how many of its blocks are sampled on average."""
import collections

# load, idle: ticks. interval: ms. truth: the function that leaks, or None. samples: of the leak, expected; 0 where none leaks.
Case = collections.namedtuple('Case', 'set name program truth samples load idle interval rate end')


def rows(name, interval, table):
    return [Case(name, case or program, program, truth, samples, load, idle, interval, rate << 10, end)
            for case, program, truth, samples, load, idle, rate, end in table]


CASES = (
    # case (if not the program's name), program, truth, samples, load, idle, rate in k, end
    rows('load_then_idle', 100, [
        (None, 'session_cycles', 'login', 96, 40, 40, 512, 'exit'),
        (None, 'requests_without_reply', 'add_pending', 34, 40, 40, 512, 'exit'),
        (None, 'listeners_stay', 'subscribe_view', 64, 40, 20, 512, 'term'),
        (None, 'parents_are_owned', 'new_element', 43, 40, 60, 512, 'exit'),
        (None, 'refused_uploads', 'receive_upload', 37, 20, 60, 512, '_exit'),
        (None, 'contexts_of_threads', 'serve_in_thread', 41, 40, 20, 512, 'exit'),
        (None, 'audit_records', 'record_audit', 41, 40, 40, 512, 'term'),
        (None, 'header_set_again', 'copy_header', 41, 40, 40, 512, 'exit'),
        (None, 'request_listeners', 'add_listener', 46, 40, 40, 512, 'exit'),
        (None, 'results_by_request', 'remember_result', 62, 40, 40, 512, 'term'),
        (None, 'lru_of_pages', None, 0, 40, 40, 512, 'exit'),
        (None, 'pool_of_connections', None, 0, 40, 40, 512, 'exit'),
        (None, 'arena_keeps_chunks', None, 0, 60, 30, 512, 'term'),
        (None, 'table_is_full', None, 0, 40, 40, 512, 'exit'),
        (None, 'vocabulary', None, 0, 40, 40, 512, '_exit'),
        (None, 'buffers_at_their_limit', None, 0, 40, 60, 512, 'exit'),
        (None, 'ring_of_messages', None, 0, 40, 40, 512, 'exit'),
        (None, 'slabs_are_kept', None, 0, 40, 40, 512, 'term'),
        (None, 'cached_pages', None, 0, 40, 40, 512, 'exit'),
        (None, 'documents_loaded_once', None, 0, 40, 20, 512, 'exit'),
    ])
    + rows('short_runs', 200, [
        ('handles_in_2_ticks', 'handles_of_jobs', 'keep_handle', 10, 2, 0, 512, 'exit'),
        ('handles_in_8_ticks', 'handles_of_jobs', 'keep_handle', 51, 8, 0, 512, 'exit'),
        ('tasks_in_4_ticks', 'tasks_hold_themselves', 'new_task', 11, 4, 0, 512, 'exit'),
        ('tasks_in_6_ticks_at_64k', 'tasks_hold_themselves', 'new_task', 132, 6, 0, 64, 'term'),
        ('counters_in_5_ticks', 'counters_by_visit', 'count_visit_of', 10, 5, 0, 512, 'exit'),
        ('counters_in_7_ticks_at_64k', 'counters_by_visit', 'count_visit_of', 118, 7, 0, 64, '_exit'),
        ('pictures_in_6_ticks', 'pictures_dropped', 'decode_picture', 23, 6, 0, 512, 'exit'),
        ('lines_in_7_ticks', 'lines_without_reader', 'keep_line', 3, 7, 0, 512, 'exit'),
        ('getline_in_3_ticks', 'buffers_of_getline', 'read_file', 10, 3, 0, 512, 'exit'),
        ('results_in_8_ticks', 'results_by_request', 'remember_result', 23, 8, 0, 512, 'exit'),
        ('configuration_in_2_ticks', 'configuration_at_start', None, 0, 2, 0, 512, 'exit'),
        ('configuration_in_8_ticks', 'configuration_at_start', None, 0, 8, 0, 512, 'exit'),
        ('sessions_in_3_ticks', 'sessions_in_balance', None, 0, 3, 0, 512, 'exit'),
        ('sessions_in_8_ticks_at_64k', 'sessions_in_balance', None, 0, 8, 0, 64, 'term'),
        ('ring_in_5_ticks', 'ring_of_events', None, 0, 5, 0, 512, 'exit'),
        ('rows_in_6_ticks', 'rows_in_batches', None, 0, 6, 0, 512, '_exit'),
        ('templates_in_4_ticks', 'templates_compiled_once', None, 0, 4, 0, 512, 'exit'),
        ('cache_in_3_ticks', 'cache_still_fills', None, 0, 3, 0, 512, 'exit'),
        ('turns_in_7_ticks', 'buffers_take_turns', None, 0, 7, 0, 512, 'term'),
        ('batches_in_6_ticks', 'batches_handed_on', None, 0, 6, 0, 64, 'exit'),
    ])
    + rows('linear_queues', 100, [
        ('subscriber_at_512k', 'subscriber_is_slower', 'publish_message', 41, 40, 0, 512, 'exit'),
        ('writer_at_512k', 'writer_is_slower', 'queue_log_line', 30, 40, 0, 512, 'exit'),
        ('broker_at_512k', 'broker_falls_behind', 'accept_delivery', 36, 40, 0, 512, 'term'),
        ('mails_at_512k', 'mails_tried_again', 'compose_mail', 41, 40, 0, 512, 'exit'),
        ('journal_at_512k', 'journal_only_grows', 'new_entry', 35, 40, 0, 512, '_exit'),
        ('subscriber_at_64k', 'subscriber_is_slower', 'publish_message', 150, 16, 0, 64, 'exit'),
        ('outbox_at_64k', 'outbox_of_small_blocks', 'put_in_outbox', 46, 40, 0, 64, 'exit'),
        ('exporter_at_64k', 'exporter_lags', 'end_span', 8, 40, 0, 64, 'exit'),
        ('worker_at_64k', 'worker_at_half_speed', 'enqueue_job', 109, 40, 0, 64, 'exit'),
        ('consumer_at_64k', 'consumer_at_half_speed', 'enqueue_event', 46, 40, 0, 64, 'term'),
        ('flushed_at_512k', 'flushed_when_full', None, 0, 40, 0, 512, 'exit'),
        ('long_teeth_at_512k', 'long_teeth', None, 0, 40, 0, 512, 'exit'),
        ('backlog_at_512k', 'backlog_drains_away', None, 0, 40, 0, 512, 'term'),
        ('length_swings_at_512k', 'length_swings', None, 0, 40, 0, 512, 'exit'),
        ('producer_waits_at_512k', 'producer_waits_for_room', None, 0, 40, 0, 512, 'exit'),
        ('flushed_at_64k', 'flushed_when_full', None, 0, 40, 0, 64, '_exit'),
        ('long_teeth_at_64k', 'long_teeth', None, 0, 46, 0, 64, 'exit'),
        ('queue_at_64k', 'queue_at_a_length', None, 0, 40, 0, 64, 'exit'),
        ('length_wanders_at_64k', 'length_wanders', None, 0, 60, 0, 64, 'exit'),
        ('batches_at_64k', 'batches_handed_on', None, 0, 40, 0, 64, 'term'),
    ])
)
PYTHON = ('request_listeners', 'results_by_request', 'consumer_at_half_speed', 'cached_pages', 'documents_loaded_once', 'batches_handed_on')
