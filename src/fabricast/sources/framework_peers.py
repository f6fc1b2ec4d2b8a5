"""Reader of logs of TensorFlow, TensorRT-LLM and MXNet: which pairs of GPUs may copy directly."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Kind, Quantity
from fabricast.sources.text import Format, Reading, Text

_TENSORFLOW, _MXNET, _TENSORRT = "TensorFlow", "MXNet", "TensorRT-LLM"
#: Rows of TensorFlow, "gpu_init.cc:136] 0:   Y N", and its lines about pairs.
_ROW = re.compile(r"gpu\w{0,20}\.cc:\d{1,5}\] (\d{1,3}):((?:\s+[YN]){1,64})\s*$")
_PAIR = re.compile(
    r"(?:cannot enable peer access from device ordinal (?=\d{1,3} to )|\[TensorRT-LLM\]\[WARNING\] Device "
    r"|cudaDeviceCanAccessPeer failed for device: )(\d{1,3}) "
    r"(?:to device ordinal|peer access Device|peerDevice:) (\d{1,3})\b"
    r"(?! (?:is|was) (?!not\b))"
)
#: Rows of MXNet, "comm.h:752: .vv."; the line before them counts the pairs.
_DOTS = re.compile(r"comm\.h:\d{1,5}: ([.v]{2,64})\s*$")
_COUNT = re.compile(r"only (\d{1,4}) out of (\d{1,4}) GPU pairs are enabled direct access")
_REFUSED = "the driver refuses it"


def _is_log(text: Text) -> bool:
    words = (
        "peer access Device",
        "cudaDeviceCanAccessPeer failed",
        "peer access from device ordinal",
        "DMA:",
        "pairs are enabled direct access",
        "comm.h:",
    )
    starts = (_ROW, _PAIR, _DOTS, _COUNT)
    return any(word in text.raw for word in words) and any(
        start.search(line) for _, line in text.lines() for start in starts
    )


def _read(text: Text) -> Iterator[Reading]:
    facts: dict[tuple[str, str], Fact] = {}
    counts, dots, program = list[tuple[int, str]](), 0, _TENSORFLOW
    for number, line in text.lines():
        pairs: list[tuple[str, str, bool]] = []
        if (match := _ROW.search(line)) is not None:
            pairs = [(match[1], str(other), cell == "Y") for other, cell in enumerate(match[2].split())]
        elif (match := _PAIR.search(line)) is not None:
            pairs = [(match[1], match[2], False)]
            program = _TENSORRT if _TENSORRT in line else program
        elif (match := _COUNT.search(line)) is not None:
            dots, program = 0, _MXNET
            counts.append((number, f"{match[1]} of {match[2]} pairs of GPUs may copy directly"))
        elif (match := _DOTS.search(line)) is not None:
            pairs = [(str(dots), str(other), cell == "v") for other, cell in enumerate(match[1])]
            dots, program = dots + 1, _MXNET
        for source, target, is_granted in pairs:
            if source != target:
                reason = "" if is_granted else _REFUSED
                facts[source, target] = text.fact(
                    Quantity.PEER_ACCESS, reason, number, program, subject=(source, target), kind=Kind.MEASURED
                )
    notes = [text.fact(Quantity.NOTE, words, number, program) for number, words in counts]
    yield Reading([*facts.values(), *notes], program=program)


FORMAT = Format(
    _TENSORFLOW,
    Content.PEER_ACCESS,
    "python train.py > train.log",
    "I tensorflow/core/common_runtime/gpu/gpu_init.cc:136] 0:   Y N",
    _is_log,
    _read,
    "framework_peers.log",
    versions="TensorFlow 1 and MXNet: pairs of GPUs without peer access",
)
