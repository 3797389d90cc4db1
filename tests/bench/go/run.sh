#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds records.go against the library of a build directory, with godeltaprof from Go's module cache or proxy, and runs it:
# tests/bench/go/run.sh BUILD [FLAG...]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
shift
version=v0.1.12
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/records.go" "$work"
cd "$work"
printf 'module bench\n\ngo 1.25.0\n\nrequire github.com/grafana/pyroscope-go/godeltaprof %s\n' $version >go.mod
export GOFLAGS=-mod=mod CGO_CFLAGS="-I$here/../../../include" CGO_LDFLAGS="-L$build/src -Wl,-rpath,$build/src"
path=github.com/grafana/pyroscope-go/godeltaprof
module=$(go mod download -json $path@$version | sed -n 's/^[[:space:]]*"Dir": "\(.*\)".*/\1/p')
cp -r "$module" godeltaprof
chmod -R u+w godeltaprof
cp "$here/export.go" godeltaprof
go mod edit -replace $path=./godeltaprof
go build -o records .
./records "$@"
