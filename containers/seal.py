#!/usr/bin/env python3
"""seal.py FOLDER OUT.sif: turn a sandbox into an image whose bytes depend on its content only.

Apptainer writes a random identifier and dates into every image; here both come from the content
and from SOURCE_DATE_EPOCH.
"""

import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

EMPTIED = ("var/log", "var/cache", "var/lib/apt/lists", "tmp", "var/tmp", "root/.cache")
BLANK = ("etc/resolv.conf", "etc/hostname", "etc/machine-id")


def clean(box: Path) -> None:
    """Remove what differs between equal builds."""
    for name in EMPTIED:
        for entry in (box / name).iterdir() if (box / name).is_dir() else ():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    for name in BLANK:
        (box / name).unlink(missing_ok=True)
        (box / name).write_text("")
    labels = box / ".singularity.d" / "labels.json"
    kept = {k: v for k, v in json.loads(labels.read_text()).items() if "build-date" not in k and "deffile" not in k}
    labels.write_text(json.dumps(kept, sort_keys=True, indent=1))
    for name in ("Apptainer", "Singularity"):
        (box / ".singularity.d" / name).unlink(missing_ok=True)


def pack(box: Path, out: Path) -> bytes:
    """Write the image and return the digest of its file system."""
    with tempfile.TemporaryDirectory() as folder:
        squashed = Path(folder) / "root.squashfs"
        options = os.environ.get("MKSQUASHFS_ARGS", "-comp gzip").split()
        fixed = ["-noappend", "-no-progress", "-quiet", "-reproducible", "-processors", "2", "-no-xattrs"]
        subprocess.run(["mksquashfs", box, squashed, *fixed, *options], check=True, stdout=subprocess.DEVNULL)
        with squashed.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").digest()
        out.unlink(missing_ok=True)
        subprocess.run(["apptainer", "sif", "new", out], check=True)
        parts = ["--datatype", "4", "--parttype", "2", "--partfs", "1", "--partarch", "2", "--groupid", "1"]
        subprocess.run(["apptainer", "sif", "add", *parts, out, squashed], check=True)
    return digest


def fix_header(out: Path, digest: bytes, epoch: int) -> None:
    """Set identifier, times and names: header with launch[32] magic[10] ... id[16] times, descriptors after it."""
    with out.open("r+b") as file:
        header = bytearray(file.read(128))
        if header[32:41] != b"SIF_MAGIC":
            sys.exit(f"{out} is no SIF image")
        header[48:64] = uuid.UUID(bytes=digest[:16], version=4).bytes
        struct.pack_into("<qq", header, 64, epoch, epoch)
        file.seek(0)
        file.write(header)
        _, total, offset, size = struct.unpack_from("<qqqq", header, 80)
        for number in range(total):
            place = offset + number * (size // total)
            file.seek(place)
            entry = bytearray(file.read(size // total))
            if entry[4]:
                # type i4, used b, id, group, link u4, offset, size, padded size q, then two times, user, group, name
                struct.pack_into("<qq", entry, 41, epoch, epoch)
                entry[73:201] = b"root.squashfs".ljust(128, b"\0")
                file.seek(place)
                file.write(entry)


def main() -> None:
    """Clean, pack, fix, and print the digest."""
    box, out = Path(sys.argv[1]), Path(sys.argv[2])
    clean(box)
    digest = pack(box, out)
    fix_header(out, digest, int(os.environ["SOURCE_DATE_EPOCH"]))
    with out.open("rb") as stream:
        print(hashlib.file_digest(stream, "sha256").hexdigest(), out)


if __name__ == "__main__":
    main()
