"""Reader of ``nixlbench``: rates of transfers between the memories of two processes by NIXL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fabricast.core.errors import InputError
from fabricast.core.facts import Content
from fabricast.maxrate.message_times import MessageTime
from fabricast.sources.messages import message_reading
from fabricast.sources.text import Format, Reading, Text

_HEADER = re.compile(r"^\s*Block Size \(B\)\s{2,}Batch Size\s{2,}.*\bB/W \(GB/Sec\)")
_COLUMNS = re.compile(r"\s{2,}")
_RATE, _BATCH = "B/W (GB/Sec)", "Batch Size"
_ROW = re.compile(r"^\s*\d{1,15}\s+\d{1,9}(?:\s+[\d.]{1,20}(?:e[-+]\d{1,3})?){2,12}\s*$")
#: Backend, memory of both sides and direction of the configuration, with the options in brackets.
_SETTING = re.compile(r"^(Backend|Initiator seg type|Target seg type|Op type) \(--.{1,160}\)\s*:\s+(\w{2,20})")
#: Backends of files and objects, whose rates are those of disks.
_OF_STORAGE = ("GDS", "GDS_MT", "POSIX", "HF3FS", "OBJ", "GUSLI")
_MEMORIES = {"VRAM": "D", "DRAM": "H"}


def _times(lines: Sequence[str]) -> Iterator[MessageTime]:
    """Parse rows: the blocks of a batch are sent together."""
    settings: dict[str, str] = {}
    columns: list[str] = []
    for number, line in enumerate(lines, start=1):
        if (setting := _SETTING.match(line)) is not None:
            settings[setting[1]] = setting[2]
        elif _HEADER.match(line):
            columns = _COLUMNS.split(line.strip())
        elif columns and _ROW.match(line):
            if settings.get("Backend") in _OF_STORAGE:
                raise InputError(f"is of storage ({settings['Backend']}), expected a backend of a network", line=number)
            row = dict(zip(columns, map(float, line.split()), strict=False))
            if row.get(_RATE, 0.0) > 0.0:
                size = row["Block Size (B)"]
                memories = [_MEMORIES.get(settings.get(f"{side} seg type", ""), "") for side in ("Initiator", "Target")]
                kind = "".join(f"_{settings[name].lower()}" for name in ("Backend", "Op type") if name in settings)
                yield MessageTime(
                    number,
                    f"nixlbench{kind}_batch_{row[_BATCH]:.0f}",
                    1,
                    size,
                    size / row[_RATE] * 1e-9,
                    "windowed",
                    buffers=" ".join(memories) if all(memories) else "",
                )


def _read(text: Text) -> Iterator[Reading]:
    yield message_reading(text, "nixlbench", _times(text.clean_lines))


FORMAT = Format(
    "nixlbench",
    Content.MESSAGES,
    "nixlbench --backend UCX --initiator_seg_type VRAM --target_seg_type VRAM > nixl.out",
    "Block Size (B)      Batch Size     B/W (GB/Sec)   Avg Lat. (us)  Avg Prep (us)",
    lambda text: "B/W (GB/Sec)" in text.raw and any(_HEADER.match(line) for line in text.clean_lines),
    _read,
    "nixlbench.out",
    "fabricast fit",
    _HEADER,
    versions="tables with rates in GB/s, by backend, direction and batch",
    is_per_host=True,
)
