"""Reader of the lines of vLLM and SGLang about copies between GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "vLLM"
_NCCL = re.compile(r"(?:vLLM|sglang) is using nccl==([\d.]{3,12})")
#: Notes by words of a line: what a program does, and why.
_NOTES = {
    "not supported on more than two PCIe-only GPUs": (
        "the program uses NCCL for all_reduce, as usual for more than two GPUs without NVLink: its kernel "
        "(custom allreduce) needs NVLink there"
    ),
    "your platform lacks GPU P2P capability or P2P test failed": (
        "the program uses NCCL for all_reduce, since its test of direct copies failed: p2pBandwidthLatencyTest and "
        "'nvidia-smi topo -p2p r' state whether GPUs copy directly, which drivers for GeForce cards do not permit"
    ),
}
_DISABLED = re.compile(r"[Cc]ustom all_?reduce is disabled because (.{1,200}?)(?:\. To silence|$)")
_WAITS = re.compile(r"No available shared memory broadcast block \w{5} in (\d{1,5}) ?s")
#: Number of such lines of a worker, one a minute, from which another one hangs rather than compiles.
_HANGS = 3
#: Worker at the beginning of a line, and lines of a program that works.
_WORKER, _WORKS = re.compile(r"\([^)]{1,60}\)"), re.compile(r"[Ss]tartup complete|\b200 OK\b")


def _is_log(text: Text) -> bool:
    words = ("is using nccl==", "ustom allreduce is disabled", "ustom all_reduce is disabled", "memory broadcast block")
    return any(word in text.raw for word in words)


def _read(text: Text) -> Iterator[Reading]:
    facts = dict[str, Fact]()
    by_worker: dict[str, list[int]] = {}
    for number, line in text.lines(lambda line: "all" in line or "startup" in line or "200 OK" in line):
        if _WAITS.search(line) is not None:
            worker = _WORKER.match(line)
            by_worker.setdefault("" if worker is None else worker[0], []).append(number)
        elif _WORKS.search(line) is not None:
            # What it waited for came.
            by_worker.clear()
    waits = max(by_worker.values(), key=len, default=[])
    if len(waits) >= _HANGS:
        words = f"a worker states {len(waits)} times that another one does not read its data: it hangs, or is busy"
        facts[words] = text.fact(Quantity.CAUSE, words, waits[0], _PROGRAM, subject=("waiting_worker",))
    for number, line in text.lines(lambda line: "nccl" in line or "all" in line):
        if (match := _NCCL.search(line)) is not None:
            words = f"NCCL {match[1]}"
        elif (match := _DISABLED.search(line)) is not None:
            words = next((note for part, note in _NOTES.items() if part in match[1]), "")
            words = words or f"the program uses NCCL for all_reduce: its kernel is disabled because {match[1]}"
        elif len(waits) < _HANGS and (match := _WAITS.search(line)) is not None:
            words = f"a worker waits for more than {match[1]} s for another one, which may be compiling, or hang"
        else:
            continue
        facts.setdefault(words, text.fact(Quantity.NOTE, words, number, _PROGRAM))
    yield Reading(list(facts.values()))


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "vllm serve MODEL > vllm.log 2>&1",
    "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs.",
    _is_log,
    _read,
    "vllm.log",
    versions="lines about custom allreduce, its test of direct copies, and the version of NCCL; also of SGLang",
)
