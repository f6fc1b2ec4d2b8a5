"""Reader of ``mlxlink`` and ``perfquery``: rates of a port, and counters of its errors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.short_text import listed
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "mlxlink"
_FIELD = re.compile(r"^\s{0,8}([A-Z][\w /-]{2,50}?)\s*:\s+(\S.{0,200}?)\s*$")
#: Names of the speeds of InfiniBand, the slowest first.
_SPEEDS = ("SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR")
_HEALTHY = ("No issue was observed", "N/A")
#: Counters of perfquery, with the count from which they are no accident; 65535 is the end of a counter.
_COUNTER = re.compile(r"^(\w{4,40}):\.{2,60}(\d{1,20})\s*$")
_MOST_COUNTS = {
    "SymbolErrorCounter": 1000,
    "LinkErrorRecoveryCounter": 10,
    "LinkDownedCounter": 3,
    "PortRcvErrors": 1000,
    "LocalLinkIntegrityErrors": 1,
    "ExcessiveBufferOverrunErrors": 1,
    "PortXmitDiscards": 1000,
}
#: Count that no counter reaches, for those that are no errors.
_NEVER = 1 << 80
_PORT = re.compile(r"# Port (?:extended )?counters: Lid (\d{1,6}) port (\d{1,3})")


def _is_mlxlink(text: Text) -> bool:
    return "Enabled Link Speed" in text.raw and "Physical state" in text.raw


def _read(text: Text) -> Iterator[Reading]:
    facts = [*_of_link(text), *_of_counters(text)]
    note = text.fact(Quantity.NOTE, "no fault of a port in mlxlink and perfquery", 0, _PROGRAM)
    yield Reading(facts or [note])


def _of_link(text: Text) -> Iterator[Fact]:
    """Yield a port that is down, slower than it may be, or whose program recommends something."""
    fields: dict[str, tuple[str, int]] = {}
    for number, line in text.lines():
        if (match := _FIELD.match(line)) is not None:
            fields.setdefault(match[1], (match[2], number))
    if not _is_mlxlink(text) or "Enabled Link Speed" not in fields:
        return
    nothing = ("", 0)
    speed, enabled = fields.get("Speed", nothing), fields["Enabled Link Speed"][0]
    names = re.findall(r"\b[A-Z]{2,3}R(?:10)?\b", enabled.partition("(")[2])
    best = max((name for name in names if name in _SPEEDS), key=_SPEEDS.index, default="")
    now = next((name for name in reversed(_SPEEDS) if speed[0].removeprefix("IB-").startswith(name)), "")
    state, physical = fields.get("State", nothing), fields.get("Physical state", nothing)[0]
    if state[0] not in ("Active", "N/A", ""):
        words = f"is {state[0]}{f' ({physical})' if physical else ''}"
        yield text.fact(Quantity.CARD_STATE, words, state[1], _PROGRAM, subject=("a port",))
    elif now and best and _SPEEDS.index(now) < _SPEEDS.index(best):
        words = f"runs at {now}, {best} is enabled"
        yield text.fact(Quantity.CARD_STATE, words, speed[1], _PROGRAM, subject=("a port",))
    advice = fields.get("Recommendation", nothing)
    if advice[0] and not advice[0].startswith(_HEALTHY):
        yield text.fact(Quantity.NOTE, f'mlxlink recommends: "{advice[0]}"', advice[1], _PROGRAM)


def _of_counters(text: Text) -> Iterator[Fact]:
    """Yield ports whose counters of errors are high, with these counters."""
    port, first = "a port", 0
    high: list[str] = []
    for number, line in text.lines():
        if (match := _PORT.match(line)) is not None:
            yield from _counted(text, port, high, first)
            port, high = f"port {match[2]} of LID {match[1]}", []
        elif (match := _COUNTER.match(line)) is not None and int(match[2]) >= _MOST_COUNTS.get(match[1], _NEVER):
            first = first if high else number
            high.append(f"{match[1]} {int(match[2]):,}")
    yield from _counted(text, port, high, first)


def _counted(text: Text, port: str, high: list[str], line: int) -> Iterator[Fact]:
    if high:
        state = f"has counted errors since its counters were cleared: {listed(high, len(_MOST_COUNTS))}"
        yield text.fact(Quantity.CARD_STATE, state, line, "perfquery", subject=(port,))


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "sudo mlxlink -d mlx5_0 > mlxlink.txt; perfquery >> mlxlink.txt",
    "Enabled Link Speed                 : 0x000000c1 (NDR,HDR,SDR)",
    lambda text: _is_mlxlink(text) or any(_COUNTER.match(line) for _, line in text.lines()),
    _read,
    "mlxlink.txt",
    versions="also `perfquery`: ports that are slower than enabled, and counters of errors that are high",
)
