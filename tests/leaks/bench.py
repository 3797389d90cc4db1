# SPDX-License-Identifier: MIT
"""Measures how often `deltaprof leaks` is right: 200 programs, about half of which leak in a known place.

    bench.py BUILD [SET...|all|short|PROGRAM...]

A program works for 40 ticks of 15 seconds, ten minutes, at heap_rate=512k. It asks for profiles as soon as the work of a
tick is done. Then the times in its files are set as if each tick had taken 15 seconds, so that rates per hour are right.
The sets are named for what they hold: `patterns` (one program for each usual cause, and
real programs), `timers_and_buffers`, `shapes` (leaks that are slow, fast, in bursts, in steps), `sessions_and_tables`,
`servers_and_engines` (servers and network libraries; databases, interpreters, editors), `brokers_and_games` (brokers, proxies,
mail servers; games, media servers). A report is right
if it begins with the function that leaks. precision = right reports / reports; recall = leaks that were found / leaks. `short`
runs some clear cases and fails if one is misjudged twice: samples are random and differ from run to run.
"""
import collections
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
DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')
N_TICKS, TICK_NS, START_NS = 40, 15 * 10**9, 1_700_000_000 * 10**9
NONE = ()
# Program: its set, and the functions that leak. a|b: function a may be inlined into its caller b, or one leak is of both.
CASES = {
    'error_path': ('patterns', ['read_body']),
    'shared_cycle': ('patterns', ['make_session']),
    'cache_without_eviction': ('patterns', ['cache_put']),
    'listener_never_removed': ('patterns', ['subscribe']),
    'thread_never_joined': ('patterns', ['start_transfer']),
    'growing_vectors': ('patterns', ['record_metric']),
    'log_names': ('patterns', ['open_log']),
    'small_blocks': ('patterns', ['remember_peer']),
    'one_of_workers': ('patterns', ['serve_upload']),
    'slow_beside_churn': ('patterns', ['load_image']),
    'begins_late': ('patterns', ['attach_debug_info']),
    'plugin': ('patterns', ['plugin_transform']),
    'message_text': ('patterns', ['format_message']),
    'regex_per_request': ('patterns', ['match_route']),
    'realloc_grows': ('patterns', ['append_history']),
    'queue_without_consumer': ('patterns', ['publish']),
    'tombstones': ('patterns', ['insert_key']),
    'destructor_forgets': ('patterns', ['decode_image|image::image']),
    'thread_data': ('patterns', ['thread_scratch']),
    'snapshots_kept': ('patterns', ['take_snapshot']),
    'two_leaks': ('patterns', ['copy_headers', 'copy_trailers']),
    'exception_path': ('patterns', ['parse_document']),
    'rare_and_large': ('patterns', ['load_model']),
    'load_and_leak': ('patterns', ['track_session']),
    'slowing': ('patterns', ['keep_token']),
    'accelerating': ('patterns', ['queue_retry']),
    'bursts': ('patterns', ['flush_batch']),
    'sqlite_grows': ('patterns', ['*']),
    'python_listeners': ('patterns', ['*']),
    'redis_grows': ('patterns', ['*']),
    'cache_fills': ('patterns', NONE),
    'cache_fills_slowly': ('patterns', NONE),
    'object_pool': ('patterns', NONE),
    'request_arenas': ('patterns', NONE),
    'lazy_tables': ('patterns', NONE),
    'load_doubles': ('patterns', NONE),
    'load_ramps': ('patterns', NONE),
    'periodic_load': ('patterns', NONE),
    'backlog_drains': ('patterns', NONE),
    'fragmentation': ('patterns', NONE),
    'stops_at_two_thirds': ('patterns', NONE),
    'phases_of_start': ('patterns', NONE),
    'hash_fills': ('patterns', NONE),
    'double_buffer': ('patterns', NONE),
    'random_lifetimes': ('patterns', NONE),
    'thread_pool': ('patterns', NONE),
    'garbage_collected': ('patterns', NONE),
    'garbage_collected_rarely': ('patterns', NONE),
    'memoize_bounded': ('patterns', NONE),
    'interned_names': ('patterns', NONE),
    'log_flushed': ('patterns', NONE),
    'daily_peak': ('patterns', NONE),
    'late_singletons': ('patterns', NONE),
    'freed_by_another_thread': ('patterns', NONE),
    'tokens_expire': ('patterns', NONE),
    'retries_wander': ('patterns', NONE),
    'worker_caches': ('patterns', NONE),
    'sqlite_updates': ('patterns', NONE),
    'python_steady': ('patterns', NONE),
    'redis_steady': ('patterns', NONE),
    'timer_closures': ('timers_and_buffers', ['schedule_timeout']),
    'unlinked_nodes': ('timers_and_buffers', ['append_node']),
    'overwritten_values': ('timers_and_buffers', ['set_header']),
    'thread_buffers': ('timers_and_buffers', ['thread_buffer']),
    'varying_load': ('timers_and_buffers', ['enqueue_audit']),
    'lines_never_flushed': ('timers_and_buffers', ['add_line']),
    'cache_of_bytes': ('timers_and_buffers', NONE),
    'log_ring': ('timers_and_buffers', NONE),
    'batch_every_ten': ('timers_and_buffers', NONE),
    'warms_up_until_tick_24': ('timers_and_buffers', NONE),
    'long_connections': ('timers_and_buffers', NONE),
    'regrown_buffer': ('timers_and_buffers', NONE),
    'per_connection': ('shapes', ['open_connection_state']),
    'under_one_percent': ('shapes', ['read_packet']),
    'errors_in_bursts': ('shapes', ['save_failure']),
    'one_array_doubles': ('shapes', ['append_event']),
    'table_rehashes': ('shapes', ['count_visit']),
    'streams_of_libc': ('shapes', ['open_report']),
    'key_without_destructor': ('shapes', ['set_thread_buffer']),
    'wrong_subscriber_removed': ('shapes', ['add_subscriber']),
    'error_messages': ('shapes', ['keep_message']),
    'fast': ('shapes', ['render_frame']),
    'by_shifts': ('shapes', ['audit_request']),
    'evicted_without_attachment': ('shapes', ['attach_preview']),
    'lru_at_bound': ('shapes', NONE),
    'cache_of_popular_keys': ('shapes', NONE),
    'arena_keeps_chunks': ('shapes', NONE),
    'sessions_double': ('shapes', NONE),
    'sessions_live_long': ('shapes', NONE),
    'traffic_grows': ('shapes', NONE),
    'logs_flushed_when_full': ('shapes', NONE),
    'tables_by_country': ('shapes', NONE),
    'ring_of_strings': ('shapes', NONE),
    'compaction': ('shapes', NONE),
    'array_doubles_and_stops': ('shapes', NONE),
    'undo_history': ('shapes', NONE),
    'timeout_keeps_entry': ('sessions_and_tables', ['add_connection']),
    'log_line_on_error': ('sessions_and_tables', ['begin_log_line']),
    'malformed_input': ('sessions_and_tables', ['new_tree_node']),
    'handlers_by_reconnect': ('sessions_and_tables', ['register_handlers']),
    'intern_unique_ids': ('sessions_and_tables', ['intern_symbol']),
    'sweep_misses_guests': ('sessions_and_tables', ['create_session']),
    'series_by_realloc': ('sessions_and_tables', ['append_point']),
    'cycle_when_retried': ('sessions_and_tables', ['make_context']),
    'new_users_all_the_time': ('sessions_and_tables', ['stats_of']),
    'arena_keeps_overflow': ('sessions_and_tables', ['overflow_block']),
    'closed_with_history': ('sessions_and_tables', ['record_edit']),
    'subscriber_stops_reading': ('sessions_and_tables', ['deliver']),
    'reload_keeps_rules': ('sessions_and_tables', ['compile_rule']),
    'intern_vocabulary': ('sessions_and_tables', NONE),
    'lru_full_at_a_third': ('sessions_and_tables', NONE),
    'lru_full_at_two_thirds': ('sessions_and_tables', NONE),
    'table_doubles': ('sessions_and_tables', NONE),
    'history_of_two_resolutions': ('sessions_and_tables', NONE),
    'bursts_drain': ('sessions_and_tables', NONE),
    'thread_local_caches': ('sessions_and_tables', NONE),
    'sessions_with_ttl': ('sessions_and_tables', NONE),
    'users_saturate': ('sessions_and_tables', NONE),
    'arena_reset': ('sessions_and_tables', NONE),
    'index_built_lazily': ('sessions_and_tables', NONE),
    'archiver_lags': ('servers_and_engines', ['log_event']),
    'keepalive_rearmed': ('servers_and_engines', ['arm_timer|keepalive_rearmed']),
    'detached_thread_state': ('servers_and_engines', ['error_state_of']),
    'resolver_outages': ('servers_and_engines', ['send_attempt']),
    'getline_per_host': ('servers_and_engines', ['read_hosts']),
    'pool_loses_connections': ('servers_and_engines', ['create_connection']),
    'options_requests': ('servers_and_engines', ['format_header|serve_options']),
    'half_open_flows': ('servers_and_engines', ['add_flow']),
    'unfinished_traces': ('servers_and_engines', ['record_span']),
    'library_manifests': ('servers_and_engines', ['library_allocate|manifest_copy|manifest_node|parse_entries|manifest_parse|load_manifest']),
    'font_sizes_animated': ('servers_and_engines', ['rasterize_font']),
    'recursive_closures': ('servers_and_engines', ['new_closure|new_scope']),
    'dialog_slots': ('servers_and_engines', ['render_thumbnail|open_dialog']),
    'parser_drops_stack': ('servers_and_engines', ['copy_token']),
    'ghost_reader': ('servers_and_engines', ['write_version']),
    'evicted_statements': ('servers_and_engines', ['compile_statement']),
    'move_assignment': ('servers_and_engines', ['allocate_plane|plane::plane']),
    'symbol_pages': ('servers_and_engines', ['new_symbol_page|intern_name']),
    'constructor_throws': ('servers_and_engines', ['allocate_planes|decoder::decoder']),
    'key_frames_late': ('servers_and_engines', ['allocate_frame']),
    'leases_on_a_wheel': ('servers_and_engines', NONE),
    'bounded_backlog': ('servers_and_engines', NONE),
    'reconnect_storm': ('servers_and_engines', NONE),
    'catalogue_changes': ('servers_and_engines', NONE),
    'flight_recorder': ('servers_and_engines', NONE),
    'double_buffered_logs': ('servers_and_engines', NONE),
    'slab_reuse': ('servers_and_engines', NONE),
    'decaying_chunks': ('servers_and_engines', NONE),
    'thread_scratch_warms': ('servers_and_engines', NONE),
    'opcode_caches': ('servers_and_engines', NONE),
    'index_rebuilt': ('servers_and_engines', NONE),
    'block_cache_clock': ('servers_and_engines', NONE),
    'lsm_levels': ('servers_and_engines', NONE),
    'data_set_loaded': ('servers_and_engines', NONE),
    'semispace_memo': ('servers_and_engines', NONE),
    'glyph_atlas_wiped': ('servers_and_engines', NONE),
    'gap_buffers': ('servers_and_engines', NONE),
    'arenas_until_link': ('servers_and_engines', NONE),
    'plans_of_fixed_queries': ('servers_and_engines', NONE),
    'generational_collector': ('servers_and_engines', NONE),
    'reset_streams': ('brokers_and_games', ['open_stream']),
    'compressed_replies': ('brokers_and_games', ['begin_compression']),
    'moved_connections': ('brokers_and_games', ['accept_datagrams|moved_connections']),
    'limiter_addresses': ('brokers_and_games', ['window_of']),
    'names_by_chance': ('brokers_and_games', ['queue_message|names_by_chance']),
    'missing_names': ('brokers_and_games', ['remember_missing']),
    'first_of_chain': ('brokers_and_games', ['prepend_buffer']),
    'converters_stay_open': ('brokers_and_games', ['decode_subject']),
    'locked_spools': ('brokers_and_games', ['is_spool_locked']),
    'exported_variables': ('brokers_and_games', ['export_variable']),
    'weak_textures': ('brokers_and_games', ['load_texture|weak_textures']),
    'explored_world': ('brokers_and_games', ['generate_part']),
    'packet_shells': ('brokers_and_games', ['new_packet']),
    'late_packets': ('brokers_and_games', ['store_packet']),
    'statement_headers': ('brokers_and_games', ['grow_session_memory']),
    'chained_errors': ('brokers_and_games', ['raise_error']),
    'idle_reader': ('brokers_and_games', ['copy_routes']),
    'hung_uploads': ('brokers_and_games', ['read_upload']),
    'tooltips_without_parent': ('brokers_and_games', ['make_tooltip']),
    'synchronized_again': ('brokers_and_games', ['allocate_sync_buffer']),
    'changes_for_replicas': ('brokers_and_games', NONE),
    'copies_while_saving': ('brokers_and_games', NONE),
    'scores_decay': ('brokers_and_games', NONE),
    'filters_of_periods': ('brokers_and_games', NONE),
    'buffers_adapt': ('brokers_and_games', NONE),
    'threads_by_load': ('brokers_and_games', NONE),
    'log_until_snapshot': ('brokers_and_games', NONE),
    'configuration_drains': ('brokers_and_games', NONE),
    'ids_of_window': ('brokers_and_games', NONE),
    'slow_clients_cut': ('brokers_and_games', NONE),
    'uploads_in_parts': ('brokers_and_games', NONE),
    'tiers_of_code': ('brokers_and_games', NONE),
    'epochs_pass': ('brokers_and_games', NONE),
    'vacuum_by_share': ('brokers_and_games', NONE),
    'regions_around_players': ('brokers_and_games', NONE),
    'long_transactions': ('brokers_and_games', NONE),
    'frames_since_key': ('brokers_and_games', NONE),
    'counted_strings': ('brokers_and_games', NONE),
    'coroutine_stacks': ('brokers_and_games', NONE),
    'leaves_split': ('brokers_and_games', NONE),
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
    """Sets the times of each process's files to those of ticks of 15 seconds. A tick with a peak has two files."""
    ticks, second = collections.Counter(), set()
    for name in sorted(os.listdir(out)):
        found = re.fullmatch(r'(.*)\.(\d+)\.heap\.pb\.gz', name)
        path = os.path.join(out, name)
        if not found:
            os.unlink(path)
            continue
        with open(path, 'rb') as f:
            data = without(gzip.decompress(f.read()), (9, 10))
        process, duration_ns = found[1], TICK_NS
        begin_ns = START_NS + ticks[process] * TICK_NS
        if process in second:
            begin_ns, duration_ns = begin_ns + TICK_NS, 0
        is_first = b'#PeakAt=' in data
        second = second | {process} if is_first else second - {process}
        ticks[process] += not is_first
        with open(path, 'wb') as f:
            f.write(gzip.compress(data + number(9, begin_ns) + number(10, duration_ns), 1))


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

    def print(self, name):
        print(f'{name}_precision {self.n_right / max(self.n_reports, 1):.3f} of {self.n_reports} reports')
        print(f'{name}_recall {self.n_found / max(self.n_leaks, 1):.3f} of {self.n_leaks} leaks')


def main(chosen):
    known = {'all': list(CASES), 'short': SHORT}
    for name in {name for name, _ in CASES.values()}:
        known[name] = [p for p, (of, _) in CASES.items() if of == name]
    programs = [p for word in chosen or ['all'] for p in known.get(word, [word])]
    scores, n_wrong, begin = {}, 0, time.monotonic()
    for program in programs:
        name, wanted = CASES[program]
        reports = judge(program)
        if chosen == ['short'] and reports is not None and any(Score().add(reports, wanted)):
            reports = judge(program)
        if reports is None:
            print(f'{program}: skipped, it is not installed')
            continue
        missed, false = scores.setdefault(name, Score()).add(reports, wanted)
        n_wrong += bool(missed or false)
        words = [f'missed {f}' for f in missed] + [f'wrong: {r["function"]} ({r["confidence"]:.2f}, {r["bytes"]} bytes)' for r in false]
        surest = max((r['confidence'] for r in reports), default=0)
        print(f'{program}: {name}, {"; ".join(words) or "right"}' + (f' (confidence {surest:.2f})' if reports and not false else ''), flush=True)
    for name, score in scores.items():
        score.print(name)
    print(f'seconds {time.monotonic() - begin:.0f}')
    return chosen == ['short'] and n_wrong > 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[2:]))
