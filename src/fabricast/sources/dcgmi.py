"""Reader of the states that dcgmi prints: NVLinks of GPUs, and failures of health checks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "dcgmi"
_TITLE = "NvLink Link Status"
_GPU = re.compile(r"^\s*gpuId (\d{1,3}):\s*([UDX_ ]*)$")
_LINKS = re.compile(r"^\s*((?:[UDX_] ?)+)\s*$")
#: Lines of health checks, in a table or alone.
_HEALTH = re.compile(r"GPU (\d{1,3})'s NvLink link (\d{1,2}) is currently down")


def _is_output(text: Text) -> bool:
    return _TITLE in text.raw or _HEALTH.search(text.raw) is not None


def _read(text: Text) -> Iterator[Reading]:
    facts = [*_of_status(text), *_of_health(text)]
    yield Reading(facts or [text.fact(Quantity.NOTE, "no NVLink of dcgmi is down", 0, _PROGRAM)])


def _of_status(text: Text) -> Iterator[Fact]:
    """Yield GPUs with links that are down, from the letters of 'dcgmi nvlink --link-status'."""
    links: dict[str, tuple[int, str]] = {}
    gpu = ""
    for number, line in text.lines():
        if (match := _GPU.match(line)) is not None:
            gpu = match[1]
            if match[2].strip():
                links[gpu] = (number, match[2])
        elif gpu and (match := _LINKS.match(line)) is not None:
            links.setdefault(gpu, (number, match[1]))
        elif line.strip():
            gpu = ""
    for gpu, (number, letters) in links.items():
        down, up = letters.count("D"), letters.count("U")
        if down and up:
            state = f"{down} NVLinks are down, {up} of {down + up} links work"
            yield text.fact(Quantity.GPU_STATE, state, number, _PROGRAM, subject=(gpu,))
    none = [gpu for gpu, (_, letters) in links.items() if "D" in letters and "U" not in letters]
    if none:
        yield _all_down(text, none, links[none[0]][0])


def _of_health(text: Text) -> Iterator[Fact]:
    """Yield the links that health checks call down; that of all links may mean that there is no bridge."""
    down: dict[str, set[str]] = {}
    lines: dict[str, int] = {}
    for number, line in text.lines(lambda line: "NvLink" in line):
        if (match := _HEALTH.search(line)) is not None:
            down.setdefault(match[1], set()).add(match[2])
            lines.setdefault(match[1], number)
    if down:
        yield _all_down(text, list(down), next(iter(lines.values())))


def _all_down(text: Text, gpus: list[str], line: int) -> Fact:
    """Return the note that links are down: without links, as cards without a bridge, nothing is wrong."""
    words = (
        f"dcgmi states NVLinks of GPU {', '.join(gpus)} as down: normal for cards without an NVLink bridge; otherwise "
        "check the fabric manager, 'nvidia-smi nvlink -s' and 'dmesg | grep Xid'"
    )
    return text.fact(Quantity.NOTE, words, line, _PROGRAM)


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "dcgmi nvlink --link-status > dcgmi.txt",
    "gpuId 0: U U U U U U U U U U U U U U U U U U",
    _is_output,
    _read,
    "dcgmi.txt",
    versions="`nvlink --link-status`, and NVLinks of `health`",
)
