# SPDX-License-Identifier: MIT
"""Writes the seeds of fuzz_object into the directory named: small files as the loader maps them, whole or wrong in one place."""
import os
import struct
import sys

from seed_cfi import table

LOAD, NOTE, EH_FRAME = 1, 4, 0x6474E550
ID = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0" + bytes(range(20))
OTHER_NOTE = b"\x05\0\0\0\x03\0\0\0\x01\0\0\0else\0\0\0\0abc\0"


def header(kind, at, n_bytes, flags=4, align=4):
    return struct.pack("<IIQQQQQQ", kind, flags, at, at, at, n_bytes, n_bytes, align)


def file(note=OTHER_NOTE + ID, headers=None, phoff=64, phnum=None, encodings=b"\x01\x1b\x03\x3b", n_fdes=None, hdr_at=None):
    cfi = table(b"\x41\x0e\x10\x86\x02\x43\x0d\x06")
    note_at, hdr = 512, 1024
    # the table's one entry, then the records: what lies before them is the header that fuzz_cfi leaves out
    body = encodings + struct.pack("<iI", 12 + 8 - 4, 1 if n_fdes is None else n_fdes) + cfi[8:]
    image = bytearray(hdr + len(body))
    phdrs = headers or [header(LOAD, 0, len(image), 5, 4096), header(NOTE, note_at, len(note)), header(EH_FRAME, hdr, 20)]
    image[:64] = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, phoff, 0, 0, 64, 56,
                                                                len(phdrs) if phnum is None else phnum, 0, 0, 0)
    image[64:64 + 56 * len(phdrs)] = b"".join(phdrs)
    image[note_at:note_at + len(note)] = note
    image[hdr:] = body
    return struct.pack("<II", hdr if hdr_at is None else hdr_at, 0x1004 + hdr + 12) + bytes(image)


SEEDS = {
    "whole": file(),
    "no_note": file(note=b""),
    "note_cut": file(note=ID[:18]),
    "note_huge_name": file(note=b"\xff\xff\xff\xff" + ID[4:]),
    "note_huge_id": file(note=ID[:4] + b"\xff\xff\xff\xff" + ID[8:]),
    "notes_forever": file(note=b"\0" * 400),
    "no_load": file(headers=[header(NOTE, 512, 36), header(EH_FRAME, 1024, 20)]),
    "load_beyond": file(headers=[header(LOAD, 0, 1 << 40, 5), header(NOTE, 512, 36), header(EH_FRAME, 1024, 20)]),
    "load_wraps": file(headers=[header(LOAD, 1 << 63, 1 << 63, 5), header(NOTE, 512, 36), header(EH_FRAME, 1024, 20)]),
    "load_not_readable": file(headers=[header(LOAD, 0, 1200, 1), header(NOTE, 512, 36), header(EH_FRAME, 1024, 20)]),
    "table_beyond": file(headers=[header(LOAD, 0, 1100, 5), header(EH_FRAME, 1024, 1 << 33)], n_fdes=1 << 29),
    "many_entries": file(n_fdes=1 << 31),
    "other_encoding": file(encodings=b"\x01\x1b\x03\x1b"),
    "no_table": file(encodings=b"\x01\xff\xff\xff"),
    "elsewhere": file(hdr_at=1028),
    "phoff_odd": file(phoff=65),
    "phoff_far": file(phoff=4096),
    "many_headers": file(phnum=128),
    "not_elf": b"\0" * 2000,
    "short": file()[:40],
}

os.makedirs(sys.argv[1], exist_ok=True)
for name, data in SEEDS.items():
    with open(os.path.join(sys.argv[1], name), "wb") as out:
        out.write(data)
