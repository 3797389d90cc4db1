#!/bin/sh
# SPDX-License-Identifier: MIT
# Coverage-guided fuzzing of one target with libFuzzer: fuzz.sh TARGET SECONDS [CORPUS-DIRECTORY]
# TARGET: decode, diff, cfi, object or request. New inputs go to CORPUS-DIRECTORY (default: a temporary one); crashes to the current directory.
set -eu
target=$1 seconds=$2
here=$(cd "$(dirname "$0")" && pwd)
src=$here/../../src
new=${3:-$(mktemp -d)}
program=$(mktemp)
trap 'rm -f "$program"' EXIT
case $target in
request) set -- "$src/sink/request.c" "$src/sink/access.c" "$src/base/address.c" "$src"/base/config*.c "$src/base/text.c" ;;
cfi) set -- "$src/record/cfi.c" "$src/record/cfi_program.c" "$src/record/rule.c" ;;
object) set -- "$src"/record/*.c "$src"/base/*.c -lpthread -ldl ;;
*) set -- "$here/exact_mem.c" "$src"/pprof/*.c "$src/base/hash.c" "$src/base/module.c" "$src/modules/gzip.c" -lisal ;;
esac
clang -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -D_GNU_SOURCE -DDP_MODULE_DIR='""' -I"$src" -I"$src/../include" \
    "$here/fuzz_$target.c" "$@" -o "$program"
"$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
    "$new" "$here/corpus/$target"
