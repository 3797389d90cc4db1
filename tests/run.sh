#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds deltaprof and runs every test. The last line is `N passed, N failed`; the exit status is 0 if none failed.
# usage: sh tests/run.sh [BUILD-DIRECTORY]
# As root on Debian it first installs what tests/packages names, if it can. A test whose program is not there is skipped.
set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
build=${1:-$top/build}
log=$build/meson-logs/testlog.json
unset LD_PRELOAD DELTAPROF_CONF DELTAPROF_RUN
export LC_ALL=C.UTF-8 HOME="${HOME:-/tmp}"

give_up() {
    echo "$1"
    echo "0 passed, 1 failed"
    exit 1
}

case $build in
*[[:space:]:]*) give_up "ld.so preloads nothing from a path with a blank or a colon: sh tests/run.sh BUILD-DIRECTORY" ;;
esac
mkdir -p "$build" && [ -w "$build" ] || give_up "cannot write to $build: sh tests/run.sh BUILD-DIRECTORY"
sh "$top/tests/install.sh" || echo "going on with what is there"
for program in meson ninja pkg-config; do
    command -v $program >/dev/null || give_up "$program is not installed, and nothing can be built without it"
done
again= # what has been installed meanwhile is found
[ ! -f "$build/build.ninja" ] || again='--reconfigure -Dtests=enabled'
timeout 300 meson setup $again "$build" "$top" </dev/null || give_up "meson setup failed"
timeout 1800 ninja -C "$build" all meson-test-prereq </dev/null || give_up "the build failed"
timeout 600 go tool pprof -h >/dev/null 2>&1 </dev/null # newer versions of Go build it now

jobs=$(($(nproc) + 2)) # tests sleep half of their time
[ "$jobs" -le 4 ] || jobs=4
rm -f "$log" "$build/failed"
run_tests() {
    timeout 3600 meson test -C "$build" --no-rebuild --timeout-multiplier 3 --print-errorlogs "$@" </dev/null
    [ -f "$log" ] || give_up "meson test failed"
}
count() {
    grep -cE "\"result\": \"($1)\"" "$log"
}
run_tests --num-processes "$jobs"
passed=$(count 'OK|EXPECTEDFAIL') skipped=$(count SKIP) failed=0

# A test that failed beside others on a busy machine is asked once more, alone, and named. More than three are a fault.
grep -vE '"result": "(OK|EXPECTEDFAIL|SKIP)"' "$log" | sed 's,^{"name": "[^"]* / \([^"]*\)".*,\1,' >"$build/failed"
[ "$(wc -l <"$build/failed")" -le 3 ] || failed=$(wc -l <"$build/failed")
[ "$failed" != 0 ] || while IFS= read -r name; do
    echo "failed beside other tests, once more alone: $name"
    run_tests --num-processes 1 "$name"
    if [ "$(count 'OK')" = 1 ]; then
        passed=$((passed + 1))
        echo "passed alone: $name"
    else
        failed=$((failed + 1))
    fi
done <"$build/failed"

[ "$skipped" = 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
