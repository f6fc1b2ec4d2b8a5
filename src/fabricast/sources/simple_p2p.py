"""Reader of simpleP2P of the CUDA samples: peer access, the rate of a copy, and copies with wrong data."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Kind, Quantity
from fabricast.pcie.measurements.measured_graph import CALIBRATION, MeasuredGraph
from fabricast.sources.copies import check_end, rate_facts
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "simpleP2P"
#: HIP prints no name of the GPUs.
_ACCESS = re.compile(
    r"^(?:> )?Peer access from (.{0,60}?) ?\(GPU(\d{1,3})\) -> .{0,60}? ?\(GPU(\d{1,3})\) : (Yes|No)\b"
)
_RATE = re.compile(
    r"(?:cuda|hip)MemcpyPeer / (?:cuda|hip)Memcpy between GPU(\d{1,3}) and GPU(\d{1,3}): (\d{1,6}(?:\.\d{1,4})?)GB/s"
)
_NO_PAIR = "Two or more GPUs with Peer-to-Peer access capability are required"
_COUNT = re.compile(r"(?:CUDA|HIP)-capable device count: (\d{1,3})")
_WRONG = "Verification error @ element"


def _is_output(text: Text) -> bool:
    return (
        "Peer access from " in text.raw
        or "cudaMemcpyPeer / cudaMemcpy" in text.raw
        or "hipMemcpyPeer / hipMemcpy" in text.raw
        or _WRONG in text.raw
        or _NO_PAIR in text.raw
    )


def _read(text: Text) -> Iterator[Reading]:
    check_end(text)
    facts: list[Fact] = []
    models: dict[str, str] = {}
    for number, line in text.lines():
        if (match := _ACCESS.match(line)) is not None:
            models.setdefault(match[2], match[1].strip())
            reason = "" if match[4] == "Yes" else "no peer access in simpleP2P"
            facts.append(
                text.fact(
                    Quantity.PEER_ACCESS, reason, number, _PROGRAM, subject=(match[2], match[3]), kind=Kind.MEASURED
                )
            )
        elif (match := _RATE.search(line)) is not None:
            graph = MeasuredGraph(
                f"{_PROGRAM} {match[1]}>{match[2]}",
                ((match[1], match[2]),),
                float(match[3]) * 1e9,
                "independent",
                CALIBRATION,
                line=number,
            )
            facts += rate_facts(text, _PROGRAM, [graph])
        elif _WRONG in line and not any(fact.quantity is Quantity.WRONG_RESULTS for fact in facts):
            words = "copies of simpleP2P arrive with wrong data"
            facts.append(text.fact(Quantity.WRONG_RESULTS, words, number, _PROGRAM))
    if _NO_PAIR in text.raw:
        facts.append(_no_pair(text))
    for gpu, name in models.items() if any(models.values()) else ():
        facts.append(text.fact(Quantity.GPU_MODEL, name, 0, _PROGRAM, subject=(gpu,)))
    if not facts:
        raise text.error("has no line about peer access, expected output of 'simpleP2P'")
    yield Reading(facts, program=_PROGRAM)


def _no_pair(text: Text) -> Fact:
    """Return the note that the program finds no pair of GPUs to test."""
    numbered = list(text.lines())
    line = next(number for number, line in numbered if _NO_PAIR in line)
    count = next((int(match[1]) for _, line in numbered if (match := _COUNT.search(line)) is not None), 0)
    among = "" if not count else " among the GPUs that it sees" if count > 1 else ": it sees one GPU"
    return text.fact(Quantity.NOTE, f"{_PROGRAM} finds no pair of GPUs that may copy directly{among}", line, _PROGRAM)


FORMAT = Format(
    _PROGRAM,
    Content.COPIES,
    "simpleP2P > simple_p2p.txt",
    "> Peer access from NVIDIA A100 (GPU0) -> NVIDIA A100 (GPU1) : Yes",
    _is_output,
    _read,
    "simple_p2p.txt",
    versions="CUDA samples: peer access of pairs, the rate of a copy, wrong data",
)
