#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the packages of tests/packages that are missing, all of them or those of the sections that are named.
# usage: sh tests/install.sh [SECTION...]
# Without root, or without apt-get, it names what is missing and leaves it at that.
set -u
list=$(dirname "$0")/packages

missing=
for package in $(awk -v want=" $* " '/^\[/ { on = want == "  " || index(want, " " substr($0, 2, length($0) - 2) " ") }
                                     on && /^[a-z]/ { print }' "$list"); do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed:$missing"
    exit 0
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# A daemon that a package brings is not to be started here.
policy=/usr/sbin/policy-rc.d
[ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy && made=yes; }
{ timeout 300 apt-get update && timeout 900 apt-get install -y --no-install-recommends $missing; } \
    </dev/null >"$log" 2>&1 || { status=$?; tail -n 20 "$log"; }
[ -z "${made:-}" ] || rm -f $policy
rm -f "$log"
exit ${status:-0}
