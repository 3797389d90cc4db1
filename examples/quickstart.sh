#!/bin/sh
# SPDX-License-Identifier: MIT
# From a fresh Debian machine to the heap profile of a redis-server under load, in a minute or two:
# installs what is missing (as root), builds, profiles, shows. The last line is `N passed, N failed`.
# usage: sh examples/quickstart.sh [BUILD-DIRECTORY]
set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
build=${1:-$top/build}
deltaprof=$build/src/tool/cli/deltaprof
port=7799
passed=0 failed=0
unset LD_PRELOAD DELTAPROF_CONF DELTAPROF_RUN
export LC_ALL=C.UTF-8 HOME="${HOME:-/tmp}"

say() {
    printf '\n\033[1m%s\033[0m\n' "$*"
}
if [ ! -t 1 ]; then
    say() { printf '\n%s\n' "$*"; }
fi

check() { # WHAT COMMAND...
    what=$1
    shift
    if "$@" >/dev/null 2>&1; then
        passed=$((passed + 1))
        echo "  yes: $what"
    else
        failed=$((failed + 1))
        echo "  NO: $what"
    fi
}

finish() {
    [ -z "${redis:-}" ] || kill "$redis" 2>/dev/null
    [ -z "${work:-}" ] || rm -rf "$work"
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
    exit
}

give_up() {
    echo "$1"
    failed=$((failed + 1))
    finish
}

case $build in
*[[:space:]:]*) give_up "ld.so preloads nothing from a path with a blank or a colon: sh examples/quickstart.sh BUILD-DIRECTORY" ;;
esac
mkdir -p "$build" && [ -w "$build" ] || give_up "cannot write to $build: sh examples/quickstart.sh BUILD-DIRECTORY"

say "1. What it needs"
sh "$top/tests/install.sh" build quickstart
for program in meson ninja pkg-config redis-server redis-benchmark redis-cli; do
    command -v $program >/dev/null || give_up "$program is not installed"
done
echo "  all there"

say "2. Building into $build"
log=$(mktemp)
{ [ -f "$build/build.ninja" ] || timeout 120 meson setup -Dtests=disabled "$build" "$top"; } </dev/null >"$log" 2>&1 &&
    timeout 600 ninja -C "$build" </dev/null >>"$log" 2>&1 || { tail -n 30 "$log"; rm -f "$log"; give_up "the build failed"; }
rm -f "$log"
echo "  built $deltaprof"

say "3. Profiling redis-server under redis-benchmark, a delta every two seconds"
work=$(mktemp -d) && profiles=$work/profiles || give_up "no temporary directory"
set -x
"$deltaprof" run -o interval=2s,out="$profiles" -- redis-server --port $port --save '' --dir "$work" >"$work/redis.log" &
{ set +x; } 2>/dev/null
redis=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do
    redis-cli -p $port ping >/dev/null 2>&1 && break
    sleep 0.5
done
set -x
timeout 6 redis-benchmark -p $port -t set,lpush,hset,zadd -n 10000000 -r 100000 -d 200 -q >/dev/null </dev/null
{ set +x; } 2>/dev/null
redis-cli -p $port shutdown nosave >/dev/null 2>&1
wait "$redis"
status=$?
redis=
ls -l "$profiles"

say "4. What is in use, by function: deltaprof top --type inuse_space"
"$deltaprof" top -n 10 --type inuse_space "$profiles"/redis-server.*.heap.pb.gz

second=$(ls "$profiles"/redis-server.*.heap.pb.gz 2>/dev/null | sed -n 2p)
if command -v go >/dev/null; then
    say "5. What the second delta says was allocated: go tool pprof -top -sample_index=alloc_space"
    timeout 120 go tool pprof -symbolize=none -top -nodecount=10 -sample_index=alloc_space "$second" </dev/null 2>/dev/null
fi

say "In short"
check "redis-server ended as without the profiler" [ "$status" = 0 ]
check "there are at least three deltas" [ "$(ls "$profiles" | grep -c 'heap.pb.gz$')" -ge 3 ]
"$deltaprof" top -n 100 --type alloc_space "$profiles"/redis-server.*.heap.pb.gz >"$work/top" 2>&1
check "they name what redis runs for SET" grep -q setCommand "$work/top"
check "they name who allocates" grep -qE 'zmalloc|zrealloc|sdsnew|createObject|createStringObject|createEmbeddedStringObject' "$work/top"
if command -v go >/dev/null; then
    timeout 120 go tool pprof -symbolize=none -top -cum "$second" </dev/null >"$work/go" 2>&1
    check "go tool pprof reads them and names the same" grep -q setCommand "$work/go"
fi
finish
