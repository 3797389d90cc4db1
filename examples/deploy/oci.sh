#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes an image of the archive by bundle.sh: an OCI image layout, without a daemon and without a network. The image has
# /deltaprof and nothing else: other images copy it, or containers mount it. It cannot run by itself.
# usage: sh examples/deploy/oci.sh [BUNDLE-DIRECTORY]
# The layout is BUNDLE-DIRECTORY/deltaprof-VERSION-ARCH.oci. To send it to a registry:
#     skopeo copy oci:deltaprof-VERSION-ARCH.oci docker://REGISTRY/deltaprof:VERSION
# In a Dockerfile: COPY --from=REGISTRY/deltaprof:VERSION /deltaprof /opt/deltaprof
# In a pod of Kubernetes 1.33 and later: a volume with image.reference: REGISTRY/deltaprof:VERSION, of which the server mounts
# subPath deltaprof.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(cd "${1:-$top/build-bundle}" && pwd)
archive=$(echo "$work"/deltaprof-*.tar.xz)
[ -f "$archive" ] || { echo "$work has no deltaprof-VERSION-ARCH.tar.xz: sh examples/deploy/bundle.sh makes it" >&2; exit 1; }
name=$(basename "$archive" .tar.xz)
version=$(echo "$name" | cut -d- -f2)
case $name in
*-x86_64) architecture=amd64 ;;
*-aarch64) architecture=arm64 ;;
*) echo "$name: the architecture is neither x86_64 nor aarch64" >&2; exit 1 ;;
esac
created=$(date -u -d "@${SOURCE_DATE_EPOCH:-0}" +%Y-%m-%dT%H:%M:%SZ)
image=$work/$name.oci
rm -rf "$image"
mkdir -p "$image/blobs/sha256"

digest() { # FILE
    sha256sum "$1" | cut -d' ' -f1
}
# FILE TYPE: makes it a blob, and prints the descriptor of that.
blob() {
    is=$(digest "$1")
    mv "$1" "$image/blobs/sha256/$is"
    printf '"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%d' "$2" "$is" \
        "$(stat -c %s "$image/blobs/sha256/$is")"
}

xz -dc "$archive" >"$image/layer.tar"
uncompressed=$(digest "$image/layer.tar")
gzip -9n "$image/layer.tar"
layer=$(blob "$image/layer.tar.gz" layer.v1.tar+gzip)
cat >"$image/config" <<END
{"created":"$created","architecture":"$architecture","os":"linux","config":{"Labels":{"org.opencontainers.image.title":"deltaprof","org.opencontainers.image.version":"$version","org.opencontainers.image.licenses":"MIT"}},"rootfs":{"type":"layers","diff_ids":["sha256:$uncompressed"]},"history":[{"created":"$created","created_by":"examples/deploy/oci.sh"}]}
END
config=$(blob "$image/config" config.v1+json)
cat >"$image/manifest" <<END
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{$config},"layers":[{$layer}]}
END
manifest=$(blob "$image/manifest" manifest.v1+json)
cat >"$image/index.json" <<END
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{$manifest,"platform":{"architecture":"$architecture","os":"linux"},"annotations":{"org.opencontainers.image.ref.name":"$version"}}]}
END
echo '{"imageLayoutVersion":"1.0.0"}' >"$image/oci-layout"
du -sh "$image"
