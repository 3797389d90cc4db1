#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares walks on aarch64, with and without pointer authentication, with libgcc's, and walks over simulated stacks with
# a plain unwinder's. Everything is built by a cross compiler and run by qemu-user.
set -eu
top=$(cd "$(dirname "$0")/../../.." && pwd)
cc=aarch64-linux-gnu-gcc
sysroot=/usr/aarch64-linux-gnu
command -v $cc >/dev/null && command -v qemu-aarch64 >/dev/null && [ -e $sysroot/lib/libc.so.6 ] && [ -e $sysroot/include/stdint.h ] || { echo "skipped: no $cc or qemu-aarch64"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# The hook halves of the subjects.
hooks=$(for room in heap locks; do sed -n "/^${room}_hook_sources/,/^)/s|^  '\(.*\)',|$top/src/host/$room/\1|p" "$top/src/host/$room/meson.build"; done)
build() { # COMPILER OUT SOURCE FLAG...
    compiler=$1 out=$2 source=$3
    shift 3
    $compiler -std=gnu11 -O2 -D_GNU_SOURCE -DDP_MODULE_DIR='""' -ftls-model=initial-exec -rdynamic -I"$top/src" -I"$top/include" -idirafter "$top/src/base/compat" "$@" \
        "$source" "$top"/src/host/shared/*.c "$top"/src/host/objects/*.c "$top"/src/host/unwind/*.c "$top"/src/host/thread/*.c "$top"/src/host/table/*.c \
        $hooks "$top"/src/host/api/recording.c "$top"/src/profile/*.c "$top"/src/tmpfs/*.c "$top"/src/base/*.c -lpthread -ldl -o "$out"
}
build $cc "$dir/equal" "$top/tests/hooks/unwind/equal.c" -DEQUAL_BACKTRACE
build $cc "$dir/model" "$top/tests/unit/host/unwind/test_walk_model.c"
n=0
for flags in -O0 '-O2 -fomit-frame-pointer' '-O3 -fno-omit-frame-pointer' '-O2 -mbranch-protection=standard' '-O0 -mbranch-protection=pac-ret+leaf'; do
    n=$((n + 1))
    $cc $flags -g -w -D_GNU_SOURCE -fPIC -shared "$top/tests/hooks/unwind/shapes.c" -o "$dir/shapes-$n.so"
done
TICKS=${TICKS:-30} qemu-aarch64 -L $sysroot -cpu max "$dir/equal" auto "$dir"/shapes-*.so
qemu-aarch64 -L $sysroot -cpu max "$dir/model" 200000
# Once more from sites of a hook that clang compiled, whose frame record lies elsewhere than gcc's.
if command -v clang >/dev/null; then
    build 'clang --target=aarch64-linux-gnu' "$dir/equal-clang" "$top/tests/hooks/unwind/equal.c" -DEQUAL_BACKTRACE
    TICKS=${TICKS:-10} qemu-aarch64 -L $sysroot -cpu max "$dir/equal-clang" auto "$dir"/shapes-[25].so
fi
