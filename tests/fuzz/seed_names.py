# SPDX-License-Identifier: MIT
"""Writes the seeds of fuzz_elf and fuzz_dwarf: small libraries as compilers make them, and some wrong in one place.

    seed_names.py tests/fuzz/corpus
"""
import os
import struct
import subprocess
import sys
import tempfile

SOURCE = """
static inline __attribute__((always_inline)) int inner(int x) { return x * 3 + 1; }
static __attribute__((noinline)) int callee(int x) { return inner(x) - 7; }
int outer(int x) { return inner(x) + callee(x + 1); }
int _ZN1a1bEv(int x) { return outer(x) + 1; }
"""
FLAGS = ["-O1", "-shared", "-fPIC", "-nostdlib", "-Wl,-z,noseparate-code", "-Wl,--build-id", "-Wl,-z,norelro"]
top = sys.argv[1]


def run(*words):
    subprocess.run(words, check=True)


def build(directory, compiler, *more):
    path = os.path.join(directory, "lib.so")
    with open(os.path.join(directory, "lib.c"), "w") as file:
        file.write(SOURCE)
    subprocess.run([compiler, *FLAGS, *more, "lib.c", "-o", path], check=True, cwd=directory)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def inside(image):
    """An address in outer, by .dynsym's first function, and the one behind the first instruction."""
    for at in range(0, len(image) - 24, 8):
        name, info, other, section, value, size = struct.unpack_from("<IBBHQQ", image, at)
        if info == 0x12 and 0 < section < 32 and 0 < value < 1 << 20 and 0 < size < 4096:
            return struct.pack("<QQ", value + 1, value + size - 1)
    return bytes(16)


def put(target, name, image):
    os.makedirs(os.path.join(top, target), exist_ok=True)
    with open(os.path.join(top, target, name), "wb") as file:
        file.write(inside(image) + image)


def wrong(image):
    """The same with section headers, counts, sizes and links that cannot be."""
    shoff, = struct.unpack_from("<Q", image, 40)
    for name, at, value in (
            ("shoff_far", 40, struct.pack("<Q", 1 << 62)),
            ("shnum_many", 60, b"\xff\xff"),
            ("shnum_none", 60, b"\0\0"),
            ("shstrndx_beyond", 62, b"\xfe\xff"),
            ("shentsize_odd", 58, b"\x03\0"),
            ("phnum_many", 56, b"\xff\xff"),
            ("section_far", shoff + 64 * 3 + 24, struct.pack("<QQ", 1 << 40, 1 << 40)),
            ("section_link", shoff + 64 * 3 + 40, b"\xff\xff\xff\x7f"),
            ("entsize_zero", shoff + 64 * 3 + 56, bytes(8)),
            ("other_order", 5, b"\2"),
            ("class_32", 4, b"\1")):
        yield name, image[:at] + value + image[at + len(value):]
    yield "cut", image[:len(image) // 2]
    yield "header_only", image[:64]
    yield "archive", b"!<arch>\nlib.so/         0           0     0     644     100       `\n" + image[:100]
    yield "empty", b""


with tempfile.TemporaryDirectory() as directory:
    plain = read(build(directory, "gcc"))
    put("elf", "symtab", plain)
    path = build(directory, "gcc", "-Wl,--strip-debug")
    symbols = path + ".symbols"
    run("objcopy", "--only-keep-debug", path, symbols)
    run("strip", path)
    put("elf", "dynsym", read(path))
    run("xz", "-kf", symbols)
    run("objcopy", "--add-section", ".gnu_debugdata=" + symbols + ".xz", path, path + ".mini")
    put("elf", "minidebuginfo", read(path + ".mini"))
    run("objcopy", "--add-gnu-debuglink=" + symbols, path, path + ".link")
    put("elf", "debuglink", read(path + ".link"))
    put("elf", "clang", read(build(directory, "clang")))
    for name, image in wrong(plain):
        put("elf", name, image)

    for compiler in "gcc", "clang":
        for version in "4", "5":
            put("dwarf", f"{compiler}_{version}", read(build(directory, compiler, "-gdwarf-" + version)))
    put("dwarf", "compressed", read(build(directory, "gcc", "-g", "-gz=zlib")))
    put("dwarf", "types", read(build(directory, "gcc", "-g", "-fdebug-types-section")))
    dwarf = read(build(directory, "gcc", "-g"))
    put("dwarf", "cut", dwarf[:len(dwarf) // 2])
    at = dwarf.index(b"lib.c\0")
    for shift in -64, -8, 9, 64:  # among strings, line tables and abbreviations
        put("dwarf", f"ones_{shift}", dwarf[:at + shift] + b"\xff" * 8 + dwarf[at + shift + 8:])
