#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the packages of tests/packages that are missing, all of them or those of the sections that are named.
# usage: sh tests/install.sh [SECTION...]
# Without root, or without apt-get, it names what is missing and leaves it at that. The exit status is 1 if apt-get failed.
set -u
list=$(dirname "$0")/packages

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# A line is a package, or alternatives a|b of which the first that the release knows is taken.
missing=
for line in $(awk -v want=" $* " '/^\[/ { on = want == "  " || index(want, " " substr($0, 2, length($0) - 2) " ") }
                                  on && /^[a-z]/ { print }' "$list"); do
    for package in $(echo "$line" | tr '|' ' '); do
        is_installed "$package" && continue 2
    done
    missing="$missing $line"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed, which root could do:$missing"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
log=$(mktemp)
# A daemon that a package brings is not to be started here.
policy=/usr/sbin/policy-rc.d
[ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy && made=yes; }
why() { # the first thing that apt-get complains of
    grep -m 1 '^E:' "$log" || tail -n 1 "$log"
}
timeout 300 apt-get update </dev/null >"$log" 2>&1 || { status=1; why; }
wanted=
for line in $missing; do
    for package in $(echo "$line" | tr '|' ' ') ''; do
        [ -n "$package" ] || echo "this release has no $line"
        apt-cache policy "$package" | grep -q '^  Candidate: [^(]' && wanted="$wanted $package" && break
    done
done
install() {
    timeout 900 apt-get install -y --no-install-recommends "$@" </dev/null >"$log" 2>&1
}
echo "installing:$wanted"
if ! install $wanted; then
    if [ -n "${status:-}" ]; then # there is no network
        echo "could not be installed: $(why)"
    else # one that fails must not cost the others
        for package in $wanted; do
            install "$package" || { status=1; echo "could not be installed: $package: $(why)"; }
        done
    fi
fi
[ -z "${made:-}" ] || rm -f $policy
rm -f "$log"
exit ${status:-0}
