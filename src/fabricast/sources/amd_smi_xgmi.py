"""Reader of ``amd-smi xgmi``: rates and states of the xGMI links of GPUs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "amd-smi xgmi"
_METRIC, _PORTS, _PAIRS = "LINK METRIC TABLE:", "GPU LINK PORT STATUS:", "XGMI LINK STATUS:"
_TITLES = (_METRIC, _PORTS, _PAIRS)
_ROW = re.compile(
    r"^\s*GPU(?P<gpu>\d{1,3})\s+(?P<address>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s+(?P<rest>\S.*)$",
    re.IGNORECASE,
)
_RATE = re.compile(r"^(\d{1,3}) Gb/s\s+(\d{1,4}) Gb/s\s+XGMI\b")
_Rows = dict[str, tuple[int, list[str]]]


@dataclass
class _Output:
    """Tables of one call: line and letters of ports, line and cells of pairs, line and largest rate in Gb/s, by GPU."""

    titles: set[str] = field(default_factory=set)
    ports: _Rows = field(default_factory=dict)
    pairs: _Rows = field(default_factory=dict)
    rates: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, title: str, number: int, gpu: str, rest: str) -> None:
        """Add the row of a GPU below a title."""
        cells = rest.split()
        if title == _METRIC and (rate := _RATE.match(rest)) is not None:
            self.rates[gpu] = (number, int(rate[2]))
        # Versions before 7 print the ports below the title that later ones have for pairs.
        elif title == _PAIRS and "SELF" in cells:
            self.pairs[gpu] = (number, cells)
        elif title in (_PORTS, _PAIRS) and set(cells) <= {"U", "D", "X"}:
            self.ports[gpu] = (number, cells)


def _outputs(text: Text) -> Iterator[_Output]:
    """Yield the tables of each call: a file may have those of several."""
    output, title = _Output(), ""
    for number, line in text.lines():
        found = next((one for one in _TITLES if one in line), "")
        if found in output.titles:
            yield output
            output = _Output()
        if found:
            title = found
            output.titles.add(title)
        elif (match := _ROW.match(line)) is not None:
            output.add(title, number, match["gpu"], match["rest"])
    yield output


def _read(text: Text) -> Iterator[Reading]:
    addresses = list(_addresses(text))
    if not addresses:
        raise text.error(f"has no row of a GPU, expected output of '{_PROGRAM}'")
    facts = [fact for output in _outputs(text) for fact in _of_output(text, output)]
    states = [fact for fact in facts if fact.quantity is not Quantity.NOTE]
    # A call without a fault says nothing beside one with a fault.
    notes = {} if states else {fact.value: fact for fact in facts}
    yield Reading([*states, *notes.values(), *addresses])


def _of_output(text: Text, output: _Output) -> Iterator[Fact]:
    """Yield the faults that the tables of a call state, or a note that there are none."""
    ports, pairs, rates = output.ports, output.pairs, output.rates
    if not (ports or pairs or rates):
        yield text.fact(Quantity.NOTE, f"no GPU has xGMI links ({_PROGRAM})", 0, _PROGRAM)
        return
    letters = Counter(cell for _, cells in (*ports.values(), *pairs.values()) for cell in cells)
    facts = list(_slow(text, rates))
    if letters["U"]:
        # A link that is down between two GPUs is also one of the ports.
        facts += list(_down(text, pairs)) or _fewer(text, ports)
    elif letters["D"]:
        words = f"{_PROGRAM} states all links as down, as old versions do on virtual machines: their state is unknown"
        facts.append(text.fact(Quantity.NOTE, words, 0, _PROGRAM))
    yield from facts or [_note(text, output, letters)]


def _note(text: Text, output: _Output, letters: Counter[str]) -> Fact:
    """Return the note about links without a fault."""
    rate = f", up to {max(one for _, one in output.rates.values())} Gb/s each" if output.rates else ""
    state = ""
    if letters["U"]:
        state = ", with as many down on each: these may have no partner" if letters["D"] else ", none of them down"
    count = len(output.ports or output.pairs or output.rates)
    words = f"xGMI links of {'one GPU' if count == 1 else f'{count} GPUs'}{rate}{state} ({_PROGRAM})"
    return text.fact(Quantity.NOTE, words, 0, _PROGRAM)


def _addresses(text: Text) -> Iterator[Fact]:
    """Yield the address of each GPU."""
    rows = {match["gpu"]: (number, match["address"]) for number, line in text.lines() if (match := _ROW.match(line))}
    for gpu, (number, address) in rows.items():
        yield text.fact(Quantity.GPU_ADDRESS, address.lower(), number, _PROGRAM, subject=(gpu,))


def _slow(text: Text, rates: dict[str, tuple[int, int]]) -> Iterator[Fact]:
    """Yield GPUs whose links have a lower rate than those of the others."""
    most = max((rate for _, rate in rates.values()), default=0)
    for gpu, (number, rate) in rates.items():
        if rate < most:
            state = f"its xGMI links have up to {rate} Gb/s, those of other GPUs {most} Gb/s"
            yield text.fact(Quantity.GPU_STATE, state, number, _PROGRAM, subject=(gpu,))


def _down(text: Text, pairs: _Rows) -> Iterator[Fact]:
    """Yield links between two GPUs that are down; both rows name them, the first one is their place."""
    broken = {gpu for gpu, (_, cells) in pairs.items() if "U" not in cells and "D" in cells}
    for gpu, (number, cells) in pairs.items():
        down = [str(other) for other, cell in enumerate(cells) if cell == "D"]
        # The row of the other GPU is the place of a link if it comes first.
        named = [other for other in down if other not in broken and not (other in pairs and int(other) < int(gpu))]
        if gpu in broken:
            yield text.fact(Quantity.GPU_STATE, "all its xGMI links are down", number, _PROGRAM, subject=(gpu,))
        elif named:
            state = f"its xGMI link to GPU {', '.join(named)} is down"
            yield text.fact(Quantity.GPU_STATE, state, number, _PROGRAM, subject=(gpu,))


def _fewer(text: Text, ports: _Rows) -> Iterator[Fact]:
    """Yield GPUs with fewer links that work than the others; links that are down on all may have no partner.

    Disabled links (X) are no fault: GPUs of one board have different numbers of partners.
    """
    most = max((cells.count("U") for _, cells in ports.values()), default=0)
    for gpu, (number, cells) in ports.items():
        up = cells.count("U")
        if up < most and "D" in cells:
            state = f"{up} xGMI links work, {most} on other GPUs"
            yield text.fact(Quantity.GPU_STATE, state, number, _PROGRAM, subject=(gpu,))


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "amd-smi xgmi > xgmi.txt",
    "GPU0   0000:0c:00.0   U  U  U  U  U  U  U  X",
    lambda text: any(title in text.raw for title in _TITLES),
    _read,
    "amd_smi_xgmi.txt",
    versions="rates and states of links",
    is_per_host=True,
)
