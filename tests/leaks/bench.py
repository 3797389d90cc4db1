# SPDX-License-Identifier: MIT
"""Measures how often `deltaprof leaks` is right: 200 programs, about half of which leak in a known place.

    bench.py BUILD [tuning|held|fresh|shapes|final|unseen|blind|sealed|all|short|PROGRAM...]

A program works for 40 ticks of 15 seconds, ten minutes, at heap_rate=512k. It asks for profiles as soon as the work of a
tick is done. Then the times in its files are set as if each tick had taken 15 seconds, so that rates per hour are right.
Each set was written without a look at the ranking, and recorded once; then the ranking was tuned with it. `sealed` is the newest:
nothing was tuned with it, so its first recording says how good the ranking is on programs that it has not seen. A report is right
if it begins with the function that leaks. precision = right reports / reports; recall = leaks that were found / leaks. `short`
runs some clear cases and fails if one is misjudged twice: samples are random and differ from run to run.
"""
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time

from real import REAL

BUILD = os.path.abspath(sys.argv[1])
PRELOAD = os.path.join(BUILD, 'runtime_hooks/preload/libdeltaprof_preload.so')
PROGRAMS = os.path.join(BUILD, 'tests/leaks/leaks_programs')
DELTAPROF = os.path.join(BUILD, 'src/cli/deltaprof')
N_TICKS, TICK_NS, START_NS = 40, 15 * 10**9, 1_700_000_000 * 10**9
NONE = ()
# Program: its half, and the functions that leak. a|b: function a may be inlined into its caller b, or one leak is of both.
CASES = {
    'error_path': ('tuning', ['read_body']),
    'shared_cycle': ('held', ['make_session']),
    'cache_without_eviction': ('tuning', ['cache_put']),
    'listener_never_removed': ('held', ['subscribe']),
    'thread_never_joined': ('tuning', ['start_transfer']),
    'growing_vectors': ('held', ['record_metric']),
    'log_names': ('tuning', ['open_log']),
    'small_blocks': ('held', ['remember_peer']),
    'one_of_workers': ('tuning', ['serve_upload']),
    'slow_beside_churn': ('held', ['load_image']),
    'begins_late': ('tuning', ['attach_debug_info']),
    'plugin': ('held', ['plugin_transform']),
    'message_text': ('tuning', ['format_message']),
    'regex_per_request': ('held', ['match_route']),
    'realloc_grows': ('tuning', ['append_history']),
    'queue_without_consumer': ('held', ['publish']),
    'tombstones': ('tuning', ['insert_key']),
    'destructor_forgets': ('held', ['decode_image|image::image']),
    'thread_data': ('tuning', ['thread_scratch']),
    'snapshots_kept': ('held', ['take_snapshot']),
    'two_leaks': ('tuning', ['copy_headers', 'copy_trailers']),
    'exception_path': ('held', ['parse_document']),
    'rare_and_large': ('tuning', ['load_model']),
    'load_and_leak': ('held', ['track_session']),
    'slowing': ('tuning', ['keep_token']),
    'accelerating': ('held', ['queue_retry']),
    'bursts': ('tuning', ['flush_batch']),
    'sqlite_grows': ('held', ['*']),
    'python_listeners': ('tuning', ['*']),
    'redis_grows': ('held', ['*']),
    'cache_fills': ('tuning', NONE),
    'cache_fills_slowly': ('held', NONE),
    'object_pool': ('tuning', NONE),
    'request_arenas': ('held', NONE),
    'lazy_tables': ('tuning', NONE),
    'load_doubles': ('held', NONE),
    'load_ramps': ('tuning', NONE),
    'periodic_load': ('held', NONE),
    'backlog_drains': ('tuning', NONE),
    'fragmentation': ('held', NONE),
    'stops_at_two_thirds': ('tuning', NONE),
    'phases_of_start': ('held', NONE),
    'hash_fills': ('tuning', NONE),
    'double_buffer': ('held', NONE),
    'random_lifetimes': ('tuning', NONE),
    'thread_pool': ('held', NONE),
    'garbage_collected': ('tuning', NONE),
    'garbage_collected_rarely': ('held', NONE),
    'memoize_bounded': ('tuning', NONE),
    'interned_names': ('held', NONE),
    'log_flushed': ('tuning', NONE),
    'daily_peak': ('held', NONE),
    'late_singletons': ('tuning', NONE),
    'freed_by_another_thread': ('held', NONE),
    'tokens_expire': ('tuning', NONE),
    'retries_wander': ('held', NONE),
    'worker_caches': ('tuning', NONE),
    'sqlite_updates': ('held', NONE),
    'python_steady': ('tuning', NONE),
    'redis_steady': ('held', NONE),
    'timer_closures': ('fresh', ['schedule_timeout']),
    'unlinked_nodes': ('fresh', ['append_node']),
    'overwritten_values': ('fresh', ['set_header']),
    'thread_buffers': ('fresh', ['thread_buffer']),
    'varying_load': ('fresh', ['enqueue_audit']),
    'lines_never_flushed': ('fresh', ['add_line']),
    'cache_of_bytes': ('fresh', NONE),
    'log_ring': ('fresh', NONE),
    'batch_every_ten': ('fresh', NONE),
    'warms_up_until_tick_24': ('fresh', NONE),
    'long_connections': ('fresh', NONE),
    'regrown_buffer': ('fresh', NONE),
    'per_connection': ('shapes', ['open_connection_state']),
    'under_one_percent': ('final', ['read_packet']),
    'errors_in_bursts': ('shapes', ['save_failure']),
    'one_array_doubles': ('final', ['append_event']),
    'table_rehashes': ('shapes', ['count_visit']),
    'streams_of_libc': ('final', ['open_report']),
    'key_without_destructor': ('shapes', ['set_thread_buffer']),
    'wrong_subscriber_removed': ('final', ['add_subscriber']),
    'error_messages': ('shapes', ['keep_message']),
    'fast': ('final', ['render_frame']),
    'by_shifts': ('shapes', ['audit_request']),
    'evicted_without_attachment': ('final', ['attach_preview']),
    'lru_at_bound': ('shapes', NONE),
    'cache_of_popular_keys': ('final', NONE),
    'arena_keeps_chunks': ('shapes', NONE),
    'sessions_double': ('final', NONE),
    'sessions_live_long': ('shapes', NONE),
    'traffic_grows': ('final', NONE),
    'logs_flushed_when_full': ('shapes', NONE),
    'tables_by_country': ('final', NONE),
    'ring_of_strings': ('shapes', NONE),
    'compaction': ('final', NONE),
    'array_doubles_and_stops': ('shapes', NONE),
    'undo_history': ('final', NONE),
    'timeout_keeps_entry': ('unseen', ['add_connection']),
    'log_line_on_error': ('unseen', ['begin_log_line']),
    'malformed_input': ('unseen', ['new_tree_node']),
    'handlers_by_reconnect': ('unseen', ['register_handlers']),
    'intern_unique_ids': ('unseen', ['intern_symbol']),
    'sweep_misses_guests': ('unseen', ['create_session']),
    'series_by_realloc': ('unseen', ['append_point']),
    'cycle_when_retried': ('unseen', ['make_context']),
    'new_users_all_the_time': ('unseen', ['stats_of']),
    'arena_keeps_overflow': ('unseen', ['overflow_block']),
    'closed_with_history': ('unseen', ['record_edit']),
    'subscriber_stops_reading': ('unseen', ['deliver']),
    'reload_keeps_rules': ('unseen', ['compile_rule']),
    'intern_vocabulary': ('unseen', NONE),
    'lru_full_at_a_third': ('unseen', NONE),
    'lru_full_at_two_thirds': ('unseen', NONE),
    'table_doubles': ('unseen', NONE),
    'history_of_two_resolutions': ('unseen', NONE),
    'bursts_drain': ('unseen', NONE),
    'thread_local_caches': ('unseen', NONE),
    'sessions_with_ttl': ('unseen', NONE),
    'users_saturate': ('unseen', NONE),
    'arena_reset': ('unseen', NONE),
    'index_built_lazily': ('unseen', NONE),
    'archiver_lags': ('blind', ['log_event']),
    'keepalive_rearmed': ('blind', ['arm_timer|keepalive_rearmed']),
    'detached_thread_state': ('blind', ['error_state_of']),
    'resolver_outages': ('blind', ['send_attempt']),
    'getline_per_host': ('blind', ['read_hosts']),
    'pool_loses_connections': ('blind', ['create_connection']),
    'options_requests': ('blind', ['format_header|serve_options']),
    'half_open_flows': ('blind', ['add_flow']),
    'unfinished_traces': ('blind', ['record_span']),
    'library_manifests': ('blind', ['library_allocate|manifest_copy|manifest_node|parse_entries|manifest_parse|load_manifest']),
    'font_sizes_animated': ('blind', ['rasterize_font']),
    'recursive_closures': ('blind', ['new_closure|new_scope']),
    'dialog_slots': ('blind', ['render_thumbnail|open_dialog']),
    'parser_drops_stack': ('blind', ['copy_token']),
    'ghost_reader': ('blind', ['write_version']),
    'evicted_statements': ('blind', ['compile_statement']),
    'move_assignment': ('blind', ['allocate_plane|plane::plane']),
    'symbol_pages': ('blind', ['new_symbol_page|intern_name']),
    'constructor_throws': ('blind', ['allocate_planes|decoder::decoder']),
    'key_frames_late': ('blind', ['allocate_frame']),
    'leases_on_a_wheel': ('blind', NONE),
    'bounded_backlog': ('blind', NONE),
    'reconnect_storm': ('blind', NONE),
    'catalogue_changes': ('blind', NONE),
    'flight_recorder': ('blind', NONE),
    'double_buffered_logs': ('blind', NONE),
    'slab_reuse': ('blind', NONE),
    'decaying_chunks': ('blind', NONE),
    'thread_scratch_warms': ('blind', NONE),
    'opcode_caches': ('blind', NONE),
    'index_rebuilt': ('blind', NONE),
    'block_cache_clock': ('blind', NONE),
    'lsm_levels': ('blind', NONE),
    'data_set_loaded': ('blind', NONE),
    'semispace_memo': ('blind', NONE),
    'glyph_atlas_wiped': ('blind', NONE),
    'gap_buffers': ('blind', NONE),
    'arenas_until_link': ('blind', NONE),
    'plans_of_fixed_queries': ('blind', NONE),
    'generational_collector': ('blind', NONE),
    'reset_streams': ('sealed', ['open_stream']),
    'compressed_replies': ('sealed', ['begin_compression']),
    'moved_connections': ('sealed', ['accept_datagrams|moved_connections']),
    'limiter_addresses': ('sealed', ['window_of']),
    'names_by_chance': ('sealed', ['queue_message|names_by_chance']),
    'missing_names': ('sealed', ['remember_missing']),
    'first_of_chain': ('sealed', ['prepend_buffer']),
    'converters_stay_open': ('sealed', ['decode_subject']),
    'locked_spools': ('sealed', ['is_spool_locked']),
    'exported_variables': ('sealed', ['export_variable']),
    'weak_textures': ('sealed', ['load_texture|weak_textures']),
    'explored_world': ('sealed', ['generate_part']),
    'packet_shells': ('sealed', ['new_packet']),
    'late_packets': ('sealed', ['store_packet']),
    'statement_headers': ('sealed', ['grow_session_memory']),
    'chained_errors': ('sealed', ['raise_error']),
    'idle_reader': ('sealed', ['copy_routes']),
    'hung_uploads': ('sealed', ['read_upload']),
    'tooltips_without_parent': ('sealed', ['make_tooltip']),
    'synchronized_again': ('sealed', ['allocate_sync_buffer']),
    'changes_for_replicas': ('sealed', NONE),
    'copies_while_saving': ('sealed', NONE),
    'scores_decay': ('sealed', NONE),
    'filters_of_periods': ('sealed', NONE),
    'buffers_adapt': ('sealed', NONE),
    'threads_by_load': ('sealed', NONE),
    'log_until_snapshot': ('sealed', NONE),
    'configuration_drains': ('sealed', NONE),
    'ids_of_window': ('sealed', NONE),
    'slow_clients_cut': ('sealed', NONE),
    'uploads_in_parts': ('sealed', NONE),
    'tiers_of_code': ('sealed', NONE),
    'epochs_pass': ('sealed', NONE),
    'vacuum_by_share': ('sealed', NONE),
    'regions_around_players': ('sealed', NONE),
    'long_transactions': ('sealed', NONE),
    'frames_since_key': ('sealed', NONE),
    'counted_strings': ('sealed', NONE),
    'coroutine_stacks': ('sealed', NONE),
    'leaves_split': ('sealed', NONE),
}
SHORT = ['log_names', 'cache_without_eviction', 'one_of_workers', 'two_leaks', 'lazy_tables', 'stops_at_two_thirds', 'garbage_collected']


def environment(out, more=''):
    env = {k: v for k, v in os.environ.items() if k not in ('LD_PRELOAD', 'LD_LIBRARY_PATH', 'MALLOC_PERTURB_')}
    env['LD_PRELOAD'] = PRELOAD
    env['DELTAPROF_CONF'] = f'heap_rate=512k,mutex_rate=0,block_rate=0,interval=0,keep=0,exit_timeout=60s,out={out}{more}'
    return env


def varint(data, at):
    """The number at `at`, and where the next thing begins."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def number(field, n):
    out = bytearray([field << 3])
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def without(data, fields):
    """A message without some fields that are numbers."""
    out, at = bytearray(), 0
    while at < len(data):
        begin = at
        tag, at = varint(data, at)
        value, at = varint(data, at)
        at += value if tag & 7 == 2 else 0
        if tag >> 3 not in fields:
            out += data[begin:at]
    return bytes(out)


def stamp(out):
    """Sets the times of each process's files to those of ticks of 15 seconds."""
    for name in os.listdir(out):
        found = re.fullmatch(r'(.*)\.(\d+)\.heap\.pb\.gz', name)
        path = os.path.join(out, name)
        if not found:
            os.unlink(path)
            continue
        with open(path, 'rb') as f:
            data = without(gzip.decompress(f.read()), (9, 10))
        tick = int(found[2]) - 1
        with open(path, 'wb') as f:
            f.write(gzip.compress(data + number(9, START_NS + tick * TICK_NS) + number(10, TICK_NS), 1))


def record(program, out):
    if program in REAL:
        REAL[program](environment(out, ',signal=USR2,signals=on'), out, N_TICKS)
    else:
        subprocess.run([PROGRAMS, program], env=environment(out), check=True, timeout=300)
    stamp(out)


def judge(program):
    """The leaks in the report; None: the program is not installed."""
    with tempfile.TemporaryDirectory(prefix='deltaprof-leaks-') as out:
        if kept := os.environ.get('DP_LEAKS_KEEP'):  # a directory that is not removed, for inspection
            out = os.path.join(kept, program)
            os.makedirs(out)
        try:
            record(program, out)
        except FileNotFoundError:
            return None
        done = subprocess.run([DELTAPROF, 'leaks', '--json', '-n0', out], stdout=subprocess.PIPE, check=True, timeout=120)
    return json.loads(done.stdout)['leaks']


def is_of(report, function):
    """'*': the program's symbols differ between systems, so any reported function counts as the one leak."""
    return function == '*' or report['function'].split('(')[0] in function.split('|')


class Score:
    def __init__(self):
        self.n_reports = self.n_right = self.n_leaks = self.n_found = 0

    def add(self, reports, wanted):
        """The functions that were missed, and the reports that are wrong."""
        wrong = [r for r in reports if not any(is_of(r, f) for f in wanted)]
        missed = [f for f in wanted if not any(is_of(r, f) for r in reports)]
        self.n_reports += len(reports)
        self.n_right += len(reports) - len(wrong)
        self.n_leaks += len(wanted)
        self.n_found += len(wanted) - len(missed)
        return missed, wrong

    def print(self, half):
        print(f'{half}_precision {self.n_right / max(self.n_reports, 1):.3f} of {self.n_reports} reports')
        print(f'{half}_recall {self.n_found / max(self.n_leaks, 1):.3f} of {self.n_leaks} leaks')


def main(chosen):
    known = {'all': list(CASES), 'short': SHORT}
    for half in 'tuning', 'held', 'fresh', 'shapes', 'final', 'unseen', 'blind', 'sealed':
        known[half] = [p for p, (h, _) in CASES.items() if h == half]
    programs = [p for word in chosen or ['all'] for p in known.get(word, [word])]
    scores, n_wrong, begin = {}, 0, time.monotonic()
    for program in programs:
        half, wanted = CASES[program]
        reports = judge(program)
        if chosen == ['short'] and reports is not None and any(Score().add(reports, wanted)):
            reports = judge(program)
        if reports is None:
            print(f'{program}: skipped, it is not installed')
            continue
        missed, false = scores.setdefault(half, Score()).add(reports, wanted)
        n_wrong += bool(missed or false)
        words = [f'missed {f}' for f in missed] + [f'wrong: {r["function"]} ({r["confidence"]:.2f}, {r["bytes"]} bytes)' for r in false]
        surest = max((r['confidence'] for r in reports), default=0)
        print(f'{program}: {half}, {"; ".join(words) or "right"}' + (f' (confidence {surest:.2f})' if reports and not false else ''), flush=True)
    for half, score in scores.items():
        score.print(half)
    print(f'seconds {time.monotonic() - begin:.0f}')
    return chosen == ['short'] and n_wrong > 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[2:]))
