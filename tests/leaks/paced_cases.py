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
    + rows('services', 100, [
        (None, 'sessions_without_logout', 'create_session', 34, 60, 0, 512, 'exit'),
        (None, 'tokens_of_expired_sessions', 'index_token', 34, 60, 0, 512, 'exit'),
        (None, 'evicted_without_overflow', 'store_overflow', 33, 60, 0, 512, 'term'),
        (None, 'broken_connections', 'connect_to_database', 36, 60, 30, 512, 'exit'),
        (None, 'log_buffers_of_threads', 'register_log_buffer', 40, 60, 0, 512, '_exit'),
        (None, 'arenas_of_errors', 'new_arena_chunk', 36, 60, 0, 512, 'exit'),
        (None, 'plugin_reloaded', 'compile_rule', 34, 60, 0, 512, 'exit'),
        (None, 'cookies_beside_page_cache', 'parse_cookie', 36, 60, 0, 512, 'term'),
        (None, 'object_of_cache_lost', 'read_object', 34, 60, 30, 512, 'exit'),
        (None, 'deliveries_of_outages', 'prepare_delivery', 41, 60, 0, 512, '_exit'),
        (None, 'worker_keeps_traces', 'keep_trace', 38, 60, 0, 512, 'exit'),
        (None, 'leak_after_warm_up', 'new_buffer', 36, 60, 0, 512, 'exit'),
        (None, 'rows_stay_behind', 'stage_row', 30, 60, 0, 512, 'term'),
        (None, 'series_of_labels', 'add_series', 36, 60, 30, 512, 'exit'),
        (None, 'contexts_of_callbacks', 'make_context', 37, 60, 0, 512, '_exit'),
        (None, 'timers_of_a_dead_slot', 'arm_timer', 30, 60, 0, 512, 'exit'),
        (None, 'transactions_by_load', 'open_transaction', 39, 60, 0, 512, 'exit'),
        (None, 'answers_for_unknown_names', 'cache_answer', 19, 60, 0, 512, 'term'),
        (None, 'spans_while_debugged', 'attach_span', 30, 60, 30, 512, 'exit'),
        (None, 'templates_loaded_again', 'load_template', 18, 60, 0, 512, '_exit'),
        (None, 'sessions_time_out', None, 0, 60, 0, 512, 'exit'),
        (None, 'lru_full_late', None, 0, 60, 0, 512, 'exit'),
        (None, 'random_eviction', None, 0, 60, 30, 512, 'term'),
        (None, 'pool_by_spikes', None, 0, 60, 0, 512, 'exit'),
        (None, 'log_rotated', None, 0, 60, 0, 512, '_exit'),
        (None, 'arenas_of_requests', None, 0, 60, 0, 512, 'exit'),
        (None, 'plugin_replaced', None, 0, 60, 0, 512, 'exit'),
        (None, 'warm_up_then_flat', None, 0, 60, 30, 512, 'term'),
        (None, 'mixed_sizes', None, 0, 60, 0, 512, 'exit'),
        (None, 'slow_sawtooth', None, 0, 60, 0, 512, '_exit'),
        (None, 'users_by_day', None, 0, 60, 0, 512, 'exit'),
        (None, 'worker_with_cache', None, 0, 60, 0, 512, 'exit'),
        (None, 'bursts_worked_off', None, 0, 60, 30, 512, 'term'),
        (None, 'words_run_out', None, 0, 60, 0, 512, 'exit'),
        (None, 'retired_by_epochs', None, 0, 60, 0, 512, '_exit'),
        (None, 'index_built_again', None, 0, 60, 0, 512, 'exit'),
        (None, 'producer_held_back', None, 0, 60, 0, 512, 'exit'),
        (None, 'history_overwritten', None, 0, 60, 30, 512, 'term'),
        (None, 'load_doubles', None, 0, 60, 0, 512, 'exit'),
        (None, 'collected_when_full', None, 0, 60, 0, 512, '_exit'),
    ])
)
PYTHON = ('request_listeners', 'results_by_request', 'consumer_at_half_speed', 'cached_pages', 'documents_loaded_once', 'batches_handed_on')
