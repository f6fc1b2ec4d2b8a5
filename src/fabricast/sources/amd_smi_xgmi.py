"""Reader of ``amd-smi xgmi``: rates and states of the xGMI links of GPUs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

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


def _tables(text: Text) -> tuple[_Rows, _Rows, dict[str, tuple[int, int]]]:
    """Return line and letters of ports, line and cells of pairs, and line and largest rate in Gb/s, by GPU."""
    ports, pairs = _Rows(), _Rows()
    rates: dict[str, tuple[int, int]] = {}
    title = ""
    for number, line in text.lines():
        title = next((one for one in _TITLES if one in line), title)
        if (match := _ROW.match(line)) is None:
            continue
        gpu, cells = match["gpu"], match["rest"].split()
        if title == _METRIC and (rate := _RATE.match(match["rest"])) is not None:
            rates[gpu] = (number, int(rate[2]))
        # Versions before 7 print the ports below the title that later ones have for pairs.
        elif title == _PAIRS and "SELF" in cells:
            pairs[gpu] = (number, cells)
        elif title in (_PORTS, _PAIRS) and set(cells) <= {"U", "D", "X"}:
            ports[gpu] = (number, cells)
    return ports, pairs, rates


def _read(text: Text) -> Iterator[Reading]:
    ports, pairs, rates = _tables(text)
    if not (ports or pairs or rates):
        yield Reading([text.fact(Quantity.NOTE, f"no GPU has xGMI links ({_PROGRAM})", 0, _PROGRAM)])
        return
    letters = Counter(cell for _, cells in (*ports.values(), *pairs.values()) for cell in cells)
    facts = [*_slow(text, rates)]
    if letters["U"]:
        of_pairs = list(_down(text, pairs))
        # A link that is down between two GPUs is also one of the ports.
        facts += of_pairs or _fewer(text, ports)
    elif letters["D"]:
        words = f"{_PROGRAM} states all links as down, as old versions do on virtual machines: their state is unknown"
        facts.append(text.fact(Quantity.NOTE, words, 0, _PROGRAM))
    if not facts:
        rate = f", up to {max(one for _, one in rates.values())} Gb/s each" if rates else ""
        state = ", none of them down" if letters["U"] else ""
        words = f"xGMI links of {len(ports or pairs or rates)} GPUs{rate}{state} ({_PROGRAM})"
        facts.append(text.fact(Quantity.NOTE, words, 0, _PROGRAM))
    yield Reading([*facts, *_addresses(text)])


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
        if gpu in broken:
            yield text.fact(Quantity.GPU_STATE, "all its xGMI links are down", number, _PROGRAM, subject=(gpu,))
        elif named := [other for other in down if int(other) > int(gpu) and other not in broken]:
            state = f"its xGMI link to GPU {', '.join(named)} is down"
            yield text.fact(Quantity.GPU_STATE, state, number, _PROGRAM, subject=(gpu,))


def _fewer(text: Text, ports: _Rows) -> Iterator[Fact]:
    """Yield GPUs with fewer links that work than the others: links that are down on all may have no partner."""
    most = max((cells.count("U") for _, cells in ports.values()), default=0)
    for gpu, (number, cells) in ports.items():
        up = cells.count("U")
        if up < most:
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
