# SPDX-License-Identifier: MIT
"""Writes the seeds of fuzz_cfi into the directory named: one small unwind table each, valid or damaged in one place."""
import os
import struct
import sys


def uleb(n):
    out = b""
    while True:
        n, low = n >> 7, n & 0x7F
        out += bytes([low | (0x80 if n else 0)])
        if not n:
            return out


def record(body):
    body += b"\0" * (-(len(body) + 4) % 8)
    return struct.pack("<I", len(body)) + body


def table(program, cie_program=b"\x0c\x07\x08\x90\x01", augmentation=b"zR", aug_data=b"\x1b", version=1, address=0x1000, at=0x1004):
    base = 8  # one entry in the search table
    cie = record(struct.pack("<I", 0) + bytes([version]) + augmentation + b"\0" + b"\x01\x78\x10" +
                 (uleb(len(aug_data)) + aug_data if augmentation[:1] == b"z" else b"") + cie_program)
    fde_at = base + len(cie)
    fde = record(struct.pack("<Iii", fde_at + 4 - base, address - (fde_at + 8), 0x200) + b"\0" + program)
    return struct.pack("<II", 1, at) + struct.pack("<ii", address, fde_at) + cie + fde + b"\0\0\0\0"


PLT = bytes([0x77, 8, 0x80, 0, 0x3F, 0x1A, 0x3B, 0x2A, 0x33, 0x24, 0x22])
SEEDS = {
    "push": table(b"\x41\x0e\x10\x86\x02\x43\x0d\x06\x50\x0c\x07\x08"),
    "advances": table(b"\x02\x01\x0e\x20\x03\x01\x00\x0e\x30\x04\x01\x00\x00\x00\x0e\x40", at=0x1100),
    "states": table(b"\x41\x0a\x0e\x10\x0a\x0e\x20\x0b\x0b\x0a\x41\x0b\xc6"),
    "plt": table(b"\x0e\x10\x46\x0e\x18\x4a\x0f\x0b" + PLT, at=0x101B),
    "expression": table(b"\x0f\x03\x76\x78\x06\x10\x06\x02\x76\x00\x16\x07\x02\x77\x08"),
    "undefined": table(b"\x07\x10"),
    "signal": table(b"", augmentation=b"zRS"),
    "personality": table(b"\x41\x0e\x10", augmentation=b"zPLR", aug_data=b"\x9b\1\2\3\4\x1b\x1b"),
    "extended": table(b"\x05\x06\x02\x11\x06\x7e\x2f\x06\x02\x12\x07\x7f\x13\x7e\x06\x06\x08\x06\x09\x06\x03\x14\x06\x01\x15\x06\x7f\x2e\x10\x2d"),
    "set_loc": table(b"\x01\x10\x00\x00\x00\x0e\x20"),
    "version3": table(b"\x41\x0e\x10", version=3),
    "restore_nothing": table(b"\x0b"),
    "remember_forever": table(b"\x0a" * 40),
    "no_augmentation": table(b"\x0e\x10", augmentation=b"", aug_data=b""),
    "unknown_opcode": table(b"\x3f\x01"),
    "endless_leb": table(b"\x0e" + b"\xff" * 64),
    "long_expression": table(b"\x0f\xff\xff\xff\xff\x0f"),
}

if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, data in SEEDS.items():
        with open(os.path.join(sys.argv[1], name), "wb") as file:
            file.write(data)
    cut = SEEDS["push"]
    for n in (9, 16, 21, 30, 44, 50):
        with open(os.path.join(sys.argv[1], f"cut_{n}"), "wb") as file:
            file.write(cut[:n])
