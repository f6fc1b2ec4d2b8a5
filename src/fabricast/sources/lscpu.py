"""Reader of ``lscpu``: the processor of a host, by which NCCL chooses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Quantity
from fabricast.nccl.settings import cpu_of
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "lscpu"
_FIELD = re.compile(r"^\s*(Model name|Socket\(s\)|NUMA node\(s\)):\s+(\S.{0,120}?)\s*$")


def _fields(text: Text) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    for number, line in text.lines():
        if (match := _FIELD.match(line)) is not None:
            found.setdefault(match[1], (match[2], number))
    return found


def _is_report(text: Text) -> bool:
    return "Model name:" in text.raw and "(s):" in text.raw and _fields(text).get("Model name", ("-", 0))[0] != "-"


def _count(number: str, what: str) -> str:
    """Return a number of parts as words; nothing if it is not stated."""
    return f", {number} {what}{'' if number == '1' else 's'}" if number.isdigit() else ""


def _read(text: Text) -> Iterator[Reading]:
    fields = _fields(text)
    name, line = fields["Model name"]
    sockets, nodes = (fields.get(key, ("", 0))[0] for key in ("Socket(s)", "NUMA node(s)"))
    words = f"processor {name}{_count(sockets, 'socket')}{_count(nodes, 'NUMA node')}"
    facts = [text.fact(Quantity.NOTE, words, line, _PROGRAM)]
    with suppress(InputError):
        # NCCL does not distinguish other processors.
        facts.append(text.fact(Quantity.PROCESSOR, cpu_of(name).value, line, _PROGRAM))
    yield Reading(facts)


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "lscpu > lscpu.txt",
    "Model name:          AMD EPYC 7763 64-Core Processor",
    _is_report,
    _read,
    "lscpu.txt",
    versions="the processor, by which NCCL chooses",
    is_per_host=True,
)
