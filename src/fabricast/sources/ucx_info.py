"""Reader of ``ucx_info -d``: transports and devices by which UCX can send messages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.short_text import listed
from fabricast.sources.text import Format, Reading, Text

_PROGRAM, _BUILD = "ucx_info -d", "ucx_info -v"
_BUILT = "install or build UCX --with-verbs (rdma-core), with Spack ucx+verbs+rc+ud+dc; 'ucx_info -d' then lists rc"
_TRANSPORT = re.compile(r"^#\s+Transport: (\w{2,20})\s*$")
#: Options with which UCX was built; without its sign (#), they need options that no other program has.
_CONFIGURED = re.compile(
    r"^\s*(?:#\s*[Cc]onfigured with:|[Cc]onfigured with:.{1,2000}--with(?:out)?-(?:ib-hw-tm|mlx5-dv)\b)"
)
_WITHOUT_VERBS = re.compile(r"--without-verbs(?![-\w])")
_DEVICE = re.compile(r"^#\s+Device: (\S{1,60})\s*$")
#: Transports of network cards, and those of the memory of GPUs; cma copies memory within a host.
_OF_CARDS = re.compile(r"(?:rc|dc|ud|srd|ugni|gaudi)(?:_\w+)?|cm")
_OF_GPUS = ("cuda_copy", "rocm_copy", "ze_copy")
_FAILED = "< failed to open interface >"
_LOOPBACK = "lo"
_MOST_LISTED = 8
_REMEDY = (
    "where the hosts have InfiniBand or RoCE cards: check 'ibstat' (Active), /dev/infiniband in the container, and "
    "that UCX is built with verbs ('ucx_info -b', configure --with-verbs; in packages ucx-ib)"
)


def _transports(text: Text) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Return the devices of each transport that UCX can open, and its first line."""
    devices: dict[str, list[str]] = {}
    lines: dict[str, int] = {}
    name = last = ""
    for number, line in text.lines():
        if (match := _TRANSPORT.match(line)) is not None:
            name = last = match[1]
            devices.setdefault(name, [])
            lines.setdefault(name, number)
        elif name and (match := _DEVICE.match(line)) is not None:
            devices[name].append(match[1])
            name = ""
        elif last and _FAILED in line:
            devices[last] = devices[last][:-1]
    return devices, lines


def _of_build(text: Text) -> Iterator[Fact]:
    """Yield that UCX was built without network cards, and without GPUs."""
    for number, line in text.lines(lambda line: "onfigured with" in line):
        if _CONFIGURED.match(line) is None:
            continue
        if _WITHOUT_VERBS.search(line) is not None:
            words = "UCX was built without network cards (--without-verbs): it sends between hosts over TCP"
            yield text.fact(Quantity.CAUSE, words, number, _BUILD, subject=("no_card_transport", _BUILT))
        if "--without-cuda" in line and "--without-rocm" in line:
            note = "UCX was built without the memory of GPUs (--without-cuda, --without-rocm)"
            yield text.fact(Quantity.NOTE, note, number, _BUILD)


def _read(text: Text) -> Iterator[Reading]:
    of_build = list(_of_build(text))
    if of_build:
        yield Reading(of_build, program=_BUILD)
    devices, lines = _transports(text)
    if not devices:
        return
    first = min(lines.values())
    of_cards = {name: found for name, found in devices.items() if _OF_CARDS.fullmatch(name) and found}
    closed = [name for name, found in devices.items() if _OF_CARDS.fullmatch(name) and not found]
    interfaces = [one for one in devices.get("tcp", []) if one != _LOOPBACK]
    # The output of grep has no transport within the process ("self"), which is always there.
    is_whole = "self" in devices
    facts = []
    if closed and not of_cards and _FAILED in text.raw:
        words = f"UCX cannot open the network cards: {', '.join(closed)} failed"
        subject = ("closed_cards", "the error above these lines names the reason; often ulimit -l (locked memory)")
        facts.append(text.fact(Quantity.CAUSE, words, lines[closed[0]], _PROGRAM, subject=subject))
    elif of_cards:
        cards = list(dict.fromkeys(one for found in of_cards.values() for one in found))
        words = (
            f"UCX sends between hosts by {', '.join(of_cards)}{f' over {listed(cards, _MOST_LISTED)}' if cards else ''}"
        )
        words += f"; {', '.join(closed)} cannot be opened" if closed and _FAILED in text.raw else ""
        facts.append(text.fact(Quantity.NOTE, words, first, _PROGRAM))
    elif is_whole and "tcp" in devices:
        over = f" ({listed(interfaces, _MOST_LISTED)})" if interfaces else ""
        words = f"UCX can send between hosts over TCP only{over}: it lists no transport of a network card (rc, dc, ud)"
        facts.append(text.fact(Quantity.CAUSE, words, lines["tcp"], _PROGRAM, subject=("no_card_transport", _REMEDY)))
    if is_whole and not any(name in devices for name in _OF_GPUS):
        words = "this UCX has no transport for the memory of GPUs (cuda_copy or rocm_copy)"
        facts.append(text.fact(Quantity.NOTE, words, first, _PROGRAM))
    elif not facts:
        facts.append(text.fact(Quantity.NOTE, f"UCX lists the transports {', '.join(devices)}", first, _PROGRAM))
    yield Reading(facts)


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "ucx_info -d > ucx.txt",
    "#      Transport: rc_mlx5",
    lambda text: (
        ("Transport: " in text.raw and any(_TRANSPORT.match(line) for _, line in text.lines())) or any(_of_build(text))
    ),
    _read,
    "ucx_info.txt",
    versions="transports of UCX: whether it uses network cards or only TCP, and the memory of GPUs",
    is_per_host=True,
)
