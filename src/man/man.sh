#!/bin/sh
# SPDX-License-Identifier: MIT
# Writes the man page: the template, with the verbs and the configuration keys as `deltaprof` prints them.
# usage: man.sh DELTAPROF TEMPLATE
set -eu
deltaprof=$1 template=$2

roff() { # text as it stands
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/"
}

verbs=$("$deltaprof" --help | awk '/^  deltaprof [a-z]+ / { print $2 }')

synopsis() {
    for verb in $verbs; do
        printf '.B deltaprof %s\n' "$verb"
        "$deltaprof" "$verb" --help | sed -n '1s/^usage: deltaprof [a-z]* //p' | roff
        echo .br
    done
}

# The text of each verb's help, without the keys that `run` lists.
describe() {
    for verb in $verbs; do
        printf '.SS %s\n.nf\n' "$verb"
        "$deltaprof" "$verb" --help | awk 'NR > 2 && /^Keys of / { exit } NR > 2' | roff
        echo .fi
    done
}

keys() {
    "$deltaprof" run --help | awk '/^Keys of / { on = 1; next } on' | roff | awk '
        /^  [a-z_]+=/ { sub(/^  /, ""); n = index($0, "="); print ".TP"; print "\\fB" substr($0, 1, n - 1) "\\fR" substr($0, n); next }
        NF { sub(/^ +/, ""); print }'
}

version=$("$deltaprof" --version | sed -n 's/^deltaprof //p')
while IFS= read -r line; do
    case $line in
    @SYNOPSIS@) synopsis ;;
    @VERBS@) describe ;;
    @KEYS@) keys ;;
    *@VERSION@*) printf '%s\n' "$line" | sed "s/@VERSION@/$version/" ;;
    *) printf '%s\n' "$line" ;;
    esac
done <"$template"
