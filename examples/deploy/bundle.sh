#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes deltaprof-VERSION-ARCH.tar.xz: the command, its libraries and modules with all that they need, for any Linux with
# glibc 2.28 or newer, or with musl 1.2.3 or newer (Alpine). It may be unpacked anywhere. bin/deltaprof needs glibc,
# bin/deltaprof-musl needs musl; each of them profiles programs of both.
# usage: sh examples/deploy/bundle.sh [DIRECTORY [ARCH]]
# ARCH is x86_64 or aarch64, by default that of this machine; each needs a directory of its own.
# Needs Debian with the packages in sections build and bundle of tests/packages, which it installs as root, and the compiler
# in PyPI's package ziglang, which brings the headers and symbols of glibc 2.28. Libraries are linked into the modules.
# libcurl, mbedTLS, libmicrohttpd, libelf, libiberty and ISA-L are built from Debian's sources without what deltaprof does
# not use.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
work=${1:-$top/build-bundle}
mkdir -p "$work"
work=$(cd "$work" && pwd)
version=$(sed -n "s/^ *version: '\(.*\)',/\1/p" "$top/meson.build" | head -n 1)
here=$(uname -m)
machine=${2:-$here}
case $machine in
x86_64) debian=amd64 ;;
aarch64) debian=arm64 ;;
*) echo "$machine: the architecture is neither x86_64 nor aarch64" >&2; exit 1 ;;
esac
glibc=2.28
ziglang=ziglang==0.17.1
system= # the root of Debian's static libraries and their headers
unset LD_PRELOAD DELTAPROF_CONF DELTAPROF_RUN
export LC_ALL=C.UTF-8 ZIG_GLOBAL_CACHE_DIR="$work/cache" ZIG_LOCAL_CACHE_DIR="$work/cache" SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-0}"

quietly() { # NAME COMMAND...: shows the output of a command that fails
    echo "$1"
    shift
    nice "$@" </dev/null >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
}

sh "$top/tests/install.sh" build bundle

# ---- the compiler

if [ ! -x "$work/python/bin/python3" ]; then
    quietly "installing $ziglang" sh -c "python3 -m venv '$work/python' && '$work/python/bin/pip' install '$ziglang' && exit"
fi
zig=$(echo "$work"/python/lib/python3*/site-packages/ziglang/zig)
mkdir -p "$work/bin"
for tool in ar ranlib; do
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$zig" "$tool" >"$work/bin/$tool"
done
# The mark of what may run with a shadow stack: zig refuses the linker's option for it, -z shstk. glibc reads the mark from
# any note that is aligned to 8.
mark=
if [ "$machine" = x86_64 ]; then
    mark=$work/bin/shadow_stack.o
    printf '%s\n' '.section .note.shadow_stack, "a", @note' '.balign 8' '.long 4, 16, 5 /* NT_GNU_PROPERTY_TYPE_0 */' '.asciz "GNU"' \
        '.long 0xc0000002, 4, 2, 0 /* GNU_PROPERTY_X86_FEATURE_1_AND: SHSTK */' | as -o "$mark" -
fi
# meson asks for the linker's name and for macros; zig does not know the version in a target when it only preprocesses.
for libc in gnu musl; do
    cat >"$work/bin/$libc-cc" <<END
#!/bin/sh
target=$machine-linux-$libc
mark= compiles=
[ $libc = musl ] || target=\$target.$glibc
for argument; do
    case \$argument in
    -Wl,--version) echo 'LLD 20.0.0 (compatible with GNU linkers)' && exit ;;
    -E) target=$machine-linux-$libc compiles=1 ;;
    -c | -S) compiles=1 ;;
    -o) mark=$mark ;;
    esac
done
[ -z "\$compiles" ] || mark=
exec $zig cc -target \$target "\$@" \$mark
END
done
mv "$work/bin/gnu-cc" "$work/bin/cc"
# FLAG... -o OBJECT SOURCE: by GNU's assembler; ISA-L's sources for aarch64 have instructions that clang's does not take.
cat >"$work/bin/assemble" <<END
#!/bin/sh
flags=
while [ \$# -gt 3 ]; do
    [ "\$1" = -c ] || flags="\$flags \$1"
    shift
done
$work/bin/cc -E -D__ASSEMBLY__ \$flags -o "\$2.s" "\$3" && $machine-linux-gnu-as -o "\$2" "\$2.s"
END
chmod 755 "$work/bin"/*
export CC="$work/bin/cc" AR="$work/bin/ar" RANLIB="$work/bin/ranlib"

# ---- libraries, static and without a dependency on the system's

deps=$work/deps
sources=$work/sources
mkdir -p "$deps/lib/pkgconfig" "$deps/include" "$sources"
machines="--build=$here-linux-gnu --host=$machine-linux-gnu"
small='-O2 -g0 -fPIC -ffunction-sections -fdata-sections'

fetch() { # COMMAND...: apt-get, in $sources, with lists of Debian's sources and of packages for another machine
    (
        . /etc/os-release
        mkdir -p "$sources/lists/partial"
        echo "deb-src http://deb.debian.org/debian $VERSION_CODENAME main" >"$sources/sources.list"
        printf 'Dir::Etc::SourceList "%s";\nDir::Etc::SourceParts "-";\nDir::State::Lists "%s";\nAPT::Sandbox::User "root";\n' \
            "$sources/sources.list" "$sources/lists" >"$sources/apt.conf"
        if [ "$machine" != "$here" ]; then
            echo "deb http://deb.debian.org/debian $VERSION_CODENAME main" >>"$sources/sources.list"
            printf 'APT::Architecture "%s";\nAPT::Architectures {"%s";};\n' $debian $debian >>"$sources/apt.conf"
        fi
        export APT_CONFIG="$sources/apt.conf"
        cd "$sources"
        [ -e updated ] || { apt-get update && touch updated; }
        apt-get "$@"
    )
}
unpack() { # PACKAGE: Debian's source as $sources/PACKAGE
    [ -d "$sources/$1" ] || (fetch source "$1" && cd "$sources" && mv "$1"-[0-9]*/ "$1")
}
if [ "$machine" != "$here" ]; then
    system=$work/system
    if [ ! -d "$system" ]; then
        echo "fetching libraries for $debian"
        fetch download zlib1g-dev liblzma-dev libiberty-dev libunwind-dev >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
        for package in "$sources"/*_"$debian".deb; do
            dpkg-deb -x "$package" "$system"
        done
    fi
fi

isal() {
    assembler=
    [ "$machine" != aarch64 ] || assembler="AS=$work/bin/assemble"
    make -f Makefile.unx -j2 lib units='igzip crc mem' programs= CC="$CC" AR="$AR" host_cpu="$machine" $assembler
    cp bin/isa-l.a "$deps/lib/libisal.a"
    mkdir -p "$deps/include/isa-l"
    cp include/*.h "$deps/include/isa-l"
}
microhttpd() {
    ./configure $machines --prefix="$deps" --disable-shared --with-pic --disable-https --disable-doc \
        --disable-examples --disable-curl --disable-nls CFLAGS="$small"
    make -j2 -C src/microhttpd install
    make -C src/include install
}
mbedtls() {
    make -j2 -C library static CC="$CC" AR="$AR" CFLAGS="$small"
    cp library/*.a "$deps/lib"
    cp -r include/mbedtls include/psa "$deps/include"
}
curl() {
    without=
    for protocol in ldap ftp file rtsp dict telnet tftp pop3 imap smb smtp gopher mqtt ntlm; do
        without="$without --disable-$protocol"
    done
    for library in zlib brotli zstd libpsl libidn2 nghttp2 librtmp libssh2 libgsasl; do
        without="$without --without-$library"
    done
    ./configure $machines --prefix="$deps" --disable-shared --with-pic --with-mbedtls="$deps" \
        --with-ca-bundle=/etc/ssl/certs/ca-certificates.crt --disable-manual --disable-cookies --disable-alt-svc --disable-hsts \
        --disable-netrc --disable-doh $without CFLAGS="$small"
    make -j2 -C lib install
    make -C include install
}

build() { # PACKAGE FUNCTION: once
    [ ! -e "$deps/$2.built" ] || return 0
    echo "building $1"
    (unpack "$1" && cd "$sources/$1" && $2) </dev/null >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
    touch "$deps/$2.built"
}
elfutils() {
    ./configure $machines --disable-debuginfod --disable-libdebuginfod --disable-nls --without-bzlib \
        --without-zstd CFLAGS="$small -w -I$deps/include" LDFLAGS="-L$deps/lib"
    # The static libraries only.
    for library in lib/libeu libelf/libelf libcpu/libcpu libebl/libebl libdwelf/libdwelf libdwfl/libdwfl \
        backends/libebl_backends libdw/libdw; do
        make -j2 -C "${library%/*}" "${library#*/}.a"
    done
    cp lib/libeu.a libelf/libelf.a libdw/libdw.a "$deps/lib"
}
unwinder() {
    ./configure $machines --prefix="$deps" --disable-shared --with-pic --disable-tests --disable-documentation \
        --disable-minidebuginfo --disable-coredump --disable-ptrace --disable-setjmp --disable-cxx-exceptions \
        CFLAGS="$small -w -Wno-error=incompatible-pointer-types"
    make -j2 -C src libunwind.la "libunwind-$machine.la"
    cp src/.libs/libunwind.a "$deps/lib"
    cp "src/.libs/libunwind-$machine.a" "$deps/lib/libunwind-generic.a"
}
describe() { # NAME VERSION LINK-ARGUMENTS: for pkg-config
    printf 'Name: %s\nDescription: %s, static\nVersion: %s\nLibs: -L%s %s\nCflags: -I%s\n' "$1" "$1" "$2" "$deps/lib" "$3" \
        "$deps/include" >"$deps/lib/pkgconfig/$1.pc"
}

# Headers of the same release as the sources.
for header in zlib zconf lzma libelf gelf dwarf isa-l; do
    cp "/usr/include/$header.h" "$deps/include"
done
cp "$system/usr/include/$machine-linux-gnu"/libunwind*.h "$deps/include"
cp -r /usr/include/lzma /usr/include/elfutils /usr/include/libiberty "$top/src/base/compat/sys" "$deps/include"
for library in z lzma iberty; do
    cp "$system/usr/lib/$machine-linux-gnu/lib$library.a" "$deps/lib"
done
build libisal isal
build libmicrohttpd microhttpd
build mbedtls mbedtls
build curl curl
build elfutils elfutils
build libunwind unwinder
describe zlib 1 -lz
describe liblzma 5 -llzma
describe libisal 2.30 -lisal
describe libelf 0.188 '-lelf -leu -lz'
describe libdw 0.188 '-ldw -lelf -leu -llzma -lz'
describe libunwind-generic 1.6 '-lunwind-generic -lunwind'
describe libmicrohttpd 0.9.75 -lmicrohttpd
describe libcurl 7.88.1 '-lcurl -lmbedtls -lmbedx509 -lmbedcrypto'

# ---- deltaprof

glibc_deps=$deps
# A build for another machine is described by a file; nothing of it is run.
configure() { # NAME DIRECTORY OPTION...
    name=$1 directory=$2 cross=
    shift 2
    [ ! -e "$directory/build.ninja" ] || return 0
    if [ "$machine" != "$here" ]; then
        cross="--cross-file=$directory.txt"
        cat >"$directory.txt" <<END
[binaries]
c = '$CC'
ar = '$AR'
ranlib = '$RANLIB'
pkgconfig = 'pkg-config'
[properties]
needs_exe_wrapper = true
pkg_config_libdir = '$PKG_CONFIG_LIBDIR'
[built-in options]
c_args = ['$(echo "$CFLAGS" | sed "s/ /', '/g")']
c_link_args = ['$(echo "$LDFLAGS" | sed "s/ /', '/g")']
[host_machine]
system = 'linux'
cpu_family = '$machine'
cpu = '$machine'
endian = 'little'
END
    fi
    quietly "configuring $name" meson setup "$directory" "$top" $cross "$@"
}
export PKG_CONFIG_LIBDIR="$deps/lib/pkgconfig" CFLAGS="-I$deps/include" LDFLAGS="-L$deps/lib"
configure deltaprof "$work/build" --prefix /deltaprof --libdir lib -Dtests=disabled
quietly "building deltaprof" ninja -C "$work/build"
root=$work/root
rm -rf "$root"
quietly "installing into $root" meson install -C "$work/build" --no-rebuild --destdir "$root"
bundle=$root/deltaprof
# What a program that is linked with deltaprof is built with stays in the package for development.
rm -rf "$bundle/include" "$bundle/lib/pkgconfig" "$bundle"/lib/*.a "$bundle"/lib/*.so
module=$(find "$bundle" -name deltaprof.py)
mkdir -p "$bundle/lib/python"
sed "s,join(here\, '[^']*',join(here\, '..'," "$module" >"$bundle/lib/python/deltaprof.py"
rm -rf "$bundle"/lib/python3* "$bundle/local"

# ---- the same for musl: the command, what is loaded into programs, and the modules that compress, name and answer requests

deps=$work/musl
mkdir -p "$deps/lib/pkgconfig"
[ -e "$deps/include" ] || cp -r "$glibc_deps/include" "$deps/include"
# The parts that are needed of these call nothing in which the C libraries differ.
cp "$glibc_deps/lib/libz.a" "$glibc_deps/lib/liblzma.a" "$glibc_deps/lib/libisal.a" "$deps/lib"

again() { # PACKAGE FUNCTION: a library that was built for glibc, once more with the configuration of that build
    [ ! -e "$deps/$2.built" ] || return 0
    echo "building $1 for musl"
    (rm -rf "$deps/$1" && cp -a "$sources/$1" "$deps/$1" && cd "$deps/$1" && $2) </dev/null >"$work/log" 2>&1 ||
        { tail -n 40 "$work/log"; exit 1; }
    touch "$deps/$2.built"
}
musl_elf() {
    make -C lib clean
    make -C libelf clean
    sed -i 's/#define HAVE_ERROR_H 1/#define HAVE_ERR_H 1/' config.h
    make -C lib CC="$work/bin/musl-cc" crc32.o crc32_file.o next_prime.o
    make -C libelf CC="$work/bin/musl-cc" CPPFLAGS="-D'rawmemchr(s,c)=memchr(s,c,(size_t)-1)'" -j2 libelf.a
    "$work/bin/ar" rc "$deps/lib/libeu.a" lib/crc32.o lib/crc32_file.o lib/next_prime.o
    cp libelf/libelf.a "$deps/lib"
}
musl_microhttpd() {
    make -C src/microhttpd clean
    make -C src/microhttpd CC="$work/bin/musl-cc" -j2 libmicrohttpd.la
    cp src/microhttpd/.libs/libmicrohttpd.a "$deps/lib"
}
musl_iberty() {
    cd libiberty
    for part in cp-demangle rust-demangle safe-ctype; do
        "$work/bin/musl-cc" $small -w -I../include -DHAVE_STDLIB_H -DHAVE_STRING_H -c $part.c
    done
    "$work/bin/ar" rc "$deps/lib/libiberty.a" cp-demangle.o rust-demangle.o safe-ctype.o
}
again elfutils musl_elf
again libmicrohttpd musl_microhttpd
unpack libiberty >"$work/log" 2>&1
again libiberty musl_iberty
describe zlib 1 -lz
describe liblzma 5 -llzma
describe libisal 2.30 -lisal
describe libelf 0.188 '-lelf -leu -lz'
describe libmicrohttpd 0.9.75 -lmicrohttpd
export PKG_CONFIG_LIBDIR="$deps/lib/pkgconfig" CFLAGS="-I$deps/include" LDFLAGS="-L$deps/lib -dynamic" CC="$work/bin/musl-cc"
configure "deltaprof for musl" "$work/build-musl" --prefix /deltaprof --libdir lib/musl \
    --bindir lib/musl/bin -Dtests=disabled -Dextras=disabled
quietly "building deltaprof for musl" ninja -C "$work/build-musl"
quietly "installing it into $root" meson install -C "$work/build-musl" --no-rebuild --destdir "$root"
rm -rf "$bundle/include" "$bundle"/lib/musl/*.so
ln -s ../lib/musl/bin/deltaprof "$bundle/bin/deltaprof-musl"

find "$bundle" -type f | while read -r file; do
    case $(head -c 4 "$file" | od -An -c) in *E*L*F*) "$machine-linux-gnu-strip" --strip-unneeded "$file" ;; esac
done
# glibc's ld.so refuses a preloaded object of another system with one line, and runs the program: the byte EI_OSABI.
printf '\377' | dd of="$(readlink -f "$bundle/lib/musl/libdeltaprof_preload.so.0")" bs=1 seek=7 conv=notrunc status=none
mkdir -p "$bundle/share/doc/deltaprof"
cp "$top/LICENSE" "$bundle/share/doc/deltaprof"
for package in libisal libmicrohttpd mbedtls curl elfutils libunwind libiberty; do
    cp "$sources/$package/debian/copyright" "$bundle/share/doc/deltaprof/$package"
done
for package in zlib1g-dev liblzma-dev; do
    cp "/usr/share/doc/$package/copyright" "$bundle/share/doc/deltaprof/$package"
done

# Every object needs only a glibc that is old enough, and only glibc.
find "$bundle" -path "$bundle/lib/musl" -prune -o -type f -exec sh -c 'readelf -h "$1" >/dev/null 2>&1 && echo "$1"' - {} \; >"$work/objects"
while read -r object; do
    newest=$(readelf -VW "$object" | grep -o 'GLIBC_[0-9.]*' | sort -V | tail -n 1)
    printf '%-40s %8d bytes  %s\n' "${object#"$root"/}" "$(stat -c %s "$object")" "$newest"
    [ "$(printf '%s\n' "GLIBC_$glibc" "$newest" | sort -V | tail -n 1)" = "GLIBC_$glibc" ] || exit 1
done <"$work/objects"

name=deltaprof-$version-$machine.tar.xz
tar -C "$root" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - deltaprof | xz -9e -T1 >"$work/$name"
ls -l "$work/$name"
