"""Reader of rates between pairs of hosts, one pair to a line: the host that all slow pairs have is slow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.number_text import span_text
from fabricast.core.short_text import listed
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "rates of pairs of hosts"
#: Two names of hosts, which have letters and digits, a rate, and its unit.
_PAIR = re.compile(
    r"^\s*([a-zA-Z][\w.-]{0,60}\d[\w.-]{0,20})\s?(?:,|\s|<?-+>|:)\s?([a-zA-Z][\w.-]{0,60}\d[\w.-]{0,20})\s?[:,=\s]\s*"
    r"(\d{1,6}(?:\.\d{1,6})?)\s*(?:[GM]i?[Bb](?:it)?(?:/s|ps)?|#.*)?\s*$"
)
#: Units of rates, or names of what measures them, in the text; a time is no rate.
_MEASURES_RATES = re.compile(
    r"\b(?:[GM]i?B/s|[GM]b(?:it)?(?:/s|ps)|\w*bw|bandwidth|nccl[-_]\w+|iperf\d?|all_?reduce)\b", re.IGNORECASE
)
_MEASURES_OTHERS = re.compile(
    r"\b(?:usec|latency|latencies|hops?)\b|[(\[](?:us|ms)[)\]]|\d\s?(?:us|ms)\s*$", re.IGNORECASE | re.MULTILINE
)
#: Names of parts of a host or a network, and of what programs count.
_NO_HOST = re.compile(
    r"(?:(?:gpu|nic|cpu|core|rank|socket|numa)\d{1,2}|mlx\d_\d+"
    r"|(?:epoch|step|iter[a-z]*|user|job|leaf|spine|switch|port)[-_]?\d+)$",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+")
#: Fewest pairs that show a host, and share of the fastest rate below which a pair is slow.
_FEWEST, _SLOW = 4, 0.75
_FEWEST_SLOW, _MOST_NAMES = 2, 4
_REMEDY = (
    "exchange it for another host in these pairs; on it, check 'ibstat', cables, 'nvidia-smi -q', PCIe links and "
    "'dmesg'"
)


class _Pair(NamedTuple):
    line: int
    hosts: tuple[str, str]
    rate: float


def _pairs(text: Text) -> list[_Pair]:
    """Return the pairs of a text; a table of other programs has more columns, or more than one row of a pair."""
    found = [
        _Pair(number, (match[1], match[2]), float(match[3]))
        for number, line in text.lines()
        if (match := _PAIR.match(line)) is not None and match[1] != match[2]
    ]
    hosts = {host for pair in found for host in pair.hosts}
    is_table = len({pair.hosts for pair in found}) == len(found) >= _FEWEST and len(hosts) >= _FEWEST
    # Hosts of a cluster are numbered: their names differ in digits.
    is_of_hosts = len({_DIGITS.sub("#", host) for host in hosts}) == 1 and _NO_HOST.match(found[0].hosts[0]) is None
    is_rate = is_table and _MEASURES_RATES.search(text.raw) is not None and _MEASURES_OTHERS.search(text.raw) is None
    return found if is_table and is_of_hosts and is_rate else []


def _read(text: Text) -> Iterator[Reading]:
    pairs = _pairs(text)
    best = max(pair.rate for pair in pairs)
    slow = [pair for pair in pairs if pair.rate < _SLOW * best]
    fast = [pair for pair in pairs if pair.rate >= _SLOW * best]
    rates = np.array([pair.rate for pair in pairs])
    words = f"{len(pairs)} pairs of hosts, {rates.min():g} to {rates.max():g} (median {float(np.median(rates)):g})"
    yield Reading([text.fact(Quantity.NOTE, words, pairs[0].line, _PROGRAM), *_slow_hosts(text, slow, fast)])


def _slow_hosts(text: Text, slow: list[_Pair], fast: list[_Pair]) -> Iterator[Fact]:
    """Yield the hosts that explain slow pairs: those in no fast pair; the one of the most slow pairs comes first."""
    in_fast = {host for pair in fast for host in pair.hosts}
    of_hosts: dict[str, set[_Pair]] = {}
    for pair in slow:
        for host in set(pair.hosts) - in_fast:
            of_hosts.setdefault(host, set()).add(pair)
    left = set(slow)
    while of_hosts and fast:
        host = max(of_hosts, key=lambda one: (len(of_hosts[one]), one))
        of_host = sorted(of_hosts.pop(host))
        if len(of_host) < _FEWEST_SLOW:
            break
        left.difference_update(of_host)
        for pair in of_host:
            for other in set(pair.hosts) & of_hosts.keys():
                of_hosts[other].discard(pair)
        words = f"every pair with {host} is slow ({_range(of_host)}), pairs of other hosts reach {_range(fast)}"
        yield text.fact(Quantity.CAUSE, words, of_host[0].line, _PROGRAM, subject=("slow_host", _REMEDY))
    if left and fast:
        rest = sorted(left)
        names = listed([" and ".join(pair.hosts) for pair in rest], _MOST_NAMES, "; ")
        words = f"pairs that no slow host explains: {names}: test their hosts in other pairs"
        yield text.fact(Quantity.NOTE, words, rest[0].line, _PROGRAM)


def _range(pairs: list[_Pair]) -> str:
    return span_text(*(f"{choose(pair.rate for pair in pairs):g}" for choose in (min, max)))


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "a line 'HOST HOST RATE GB/s' for each pair",
    "node01,node02     49.36 GB/s",
    lambda text: bool(_pairs(text)),
    _read,
    "host_pairs.txt",
    versions="the host that is in every slow pair, of any test that measures two hosts",
)
