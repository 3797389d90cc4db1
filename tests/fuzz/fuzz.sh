#!/bin/sh
# SPDX-License-Identifier: MIT
# Coverage-guided fuzzing of one target with libFuzzer: fuzz.sh TARGET SECONDS [CORPUS-DIRECTORY]
# TARGET: decode, diff, formats, cfi, object, request, tables, top, elf or dwarf. New inputs go to CORPUS-DIRECTORY (default: a temporary one); crashes
# to the current directory. SECONDS 0: 5,000 runs, the same ones each time. ELFUTILS=DIRECTORY, a tree of elfutils built by clang -fsanitize=fuzzer-no-link,address: elf and dwarf see
# into its libraries. Needs clang and libclang-rt-dev.
set -eu
target=$1 seconds=$2
here=$(cd "$(dirname "$0")" && pwd)
src=$here/../../src
new=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
program=$work/fuzz base=$work/base.a
[ -n "$new" ] || mkdir "${new:=$work/new}"
system="-lpthread -ldl"
hooks=$(for room in heap locks; do sed -n "/^${room}_hook_sources/,/^)/s|^  '\(.*\)',|$src/host/$room/\1|p" "$src/host/$room/meson.build"; done)
core="$(ls "$src"/host/shared/*.c "$src"/host/objects/*.c "$src"/host/unwind/*.c "$src"/host/thread/*.c "$src"/host/table/*.c "$src"/config/*.c) $hooks $src/host/api/recording.c $base"
compile="clang -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -D_GNU_SOURCE -DDP_MODULE_DIR=\"\" -I$src -I$src/../include"
# An archive, so that each target takes of base and profile what it needs, and exact_mem.c stands for mem.c where it comes first.
(cd "$work" && $compile -c "$src"/base/*.c "$src"/profile/*.c "$src"/tmpfs/*.c && ar rc base.a ./*.o)
case $target in
request) set -- "$src/endpoint/request.c" "$src/endpoint/access.c" $core $system ;;
cfi) set -- "$src/host/unwind/cfi.c" "$src/host/unwind/cfi_program.c" "$src/host/unwind/rule.c" ;;
top)
    set -- "$src"/tool/model/*.c "$src"/pprof/*.c "$src/modules/gzip.c" -DDP_LIBDIR='""' -DDP_BIN_TO_LIB='""' -lisal -lm $system
    set -- "$src"/tool/cli/top.c "$src"/tool/cli/options.c "$src"/tool/summary/heading.c "$src"/tool/summary/no_symbols.c "$src"/tool/query/*.c "$@" "$base"
    ;;
elf | dwarf)
    [ "$target" = elf ] || export ASAN_OPTIONS=detect_leaks=0 # libdw leaks where DWARF is broken
    module=$([ "$target" = elf ] && echo symbolize || echo lines)
    libraries="-ldw -lelf"
    [ -z "${ELFUTILS:-}" ] || libraries="-Wl,--start-group $(echo "$ELFUTILS"/lib*/lib*_pic.a "$ELFUTILS"/backends/lib*_pic.a) \
        $ELFUTILS/libelf/libelf.a $ELFUTILS/lib/libeu.a -Wl,--end-group"
    set -- "$src/modules/$module.c" "$src/modules/session.c" "$src/modules/elffile.c" "$src/modules/elfsymbols.c" \
        "$src/modules/demangle.c" $libraries -llzma -lz -liberty $system
    ;;
object) set -- $core $system ;;
tables)
    halves=$(for room in heap locks cpu wall; do ls "$src"/host/$room/*.c; done)
    set -- "$src/host/api/adopt.c" "$src/host/api/build_id.c" "$src/host/api/recording.c" "$src"/host/shared/*.c "$src"/host/objects/*.c \
        "$src"/host/unwind/*.c "$src"/host/thread/*.c "$src"/host/table/*.c "$src"/config/*.c $halves "$src"/host/symbols/*.c \
        "$src"/host/resident/*.c "$src"/host/report/*.c "$src"/host/records/*.c "$src"/pprof/*.c "$src/modules/gzip.c" $base -lisal $system
    ;;
formats)
    set -- "$src"/tool/formats/*.c "$src"/tool/query/*.c "$here/exact_mem.c" "$src"/tool/model/*.c "$src"/pprof/*.c $base "$src/modules/gzip.c" -DDP_LIBDIR='""' -DDP_BIN_TO_LIB='""' -lisal -lm $system
    ;;
*) set -- "$here/exact_mem.c" "$src"/tool/model/*.c "$src"/pprof/*.c $base "$src/modules/gzip.c" -lisal $system ;;
esac
$compile "$here/fuzz_$target.c" "$@" -o "$program"
how=-max_total_time=$seconds
[ "$seconds" != 0 ] || how="-runs=5000 -seed=1"
"$program" $how -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
    "$new" "$here/corpus/$target"
