#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes the Debian packages of this tree by the recipe in debian/, for the release that it runs on.
# usage: sh examples/deploy/deb.sh [DIRECTORY]
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
work=${1:-$top/build-deb}
sh "$top/tests/install.sh" build deb
rm -rf "$work/deltaprof"
mkdir -p "$work/deltaprof"
work=$(cd "$work" && pwd)
cd "$top"
tar --exclude='./build*' --exclude=./.git -cf - . | tar -C "$work/deltaprof" -xf -
cp -r examples/deploy/debian "$work/deltaprof/debian"
cd "$work/deltaprof"
dpkg-buildpackage -us -uc -b
ls -l "$work"/*.deb
