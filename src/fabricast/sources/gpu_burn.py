"""Reader of gpu_burn: GPUs that compute wrong results or stop under load."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "gpu_burn"
_SUMMARY = re.compile(r"^\s{0,20}GPU (\d{1,3}): (FAULTY|OK)\s*$")
_PROGRESS = re.compile(r"\d% {1,4}proc'd: .{1,4000}? errors: (.{1,4000}?) temps:")
_RATE = re.compile(r"\((\d{1,9}) Gflop/s\)")
#: Share of the rate of the fastest GPU below which a GPU of the same kind is slow under the same load.
_SLOW = 0.8
_WORDS = {"DIED!": "stopped", "WARNING!": "computes wrong results"}
#: Tests that do not start, with the reason where it is printed, and programs that the GPU or driver does not fit.
_NO_START = re.compile(r"Couldn't init a GPU test: ?(.{0,200})")
_NO_DEVICE = "No CUDA devices"
_OF_BUILD = re.compile(r"load module|PTX|toolchain|compute capab")
_BUILD = (
    "build gpu_burn for these GPUs and this driver (make COMPUTE=75 for 7.5; the CUDA of the build not newer than that "
    "of 'nvidia-smi'): nothing was tested"
)
_DRIVER = (
    "check driver and GPUs ('nvidia-smi', 'sudo dmesg', CUDA_VISIBLE_DEVICES, --gpus all of containers): nothing was "
    "tested"
)
_FIRST = re.compile(r"Initialized device (\d{1,3}) with ")


def _is_output(text: Text) -> bool:
    if "proc'd: " in text.raw or "Couldn't init a GPU test" in text.raw:
        return True
    if _NO_DEVICE in text.raw and "gpu_burn" in text.raw:
        return True
    return "Tested " in text.raw and any(_SUMMARY.match(line) for _, line in text.lines())


def _read(text: Text) -> Iterator[Reading]:
    states: dict[str, tuple[str, int]] = {}
    tested: set[str] = set()
    rates: tuple[int, list[float]] = 0, []
    devices = [match[1] for _, line in text.lines() if (match := _FIRST.search(line)) is not None]
    no_start = next(_unstarted(text), None)
    for number, line in text.lines(lambda line: "proc'd" in line or "GPU " in line):
        if (match := _SUMMARY.match(line)) is not None:
            tested.add(match[1])
            if match[2] == "FAULTY":
                states.setdefault(match[1], ("computes wrong results", number))
        elif (match := _PROGRESS.search(line)) is not None:
            of_gpus = re.split(r"(?<=[\d)])\s*- ", match[1])
            # Option -i tests one device, whose number is that of its first line.
            names = devices if len(devices) == len(of_gpus) else [str(gpu) for gpu in range(len(of_gpus))]
            rates = number, [float(rate) for rate in _RATE.findall(line)]
            tested |= {name for name, rate in zip(names, rates[1], strict=False) if rate > 0.0}
            for name, errors in zip(names, of_gpus, strict=True):
                words = next((words for mark, words in _WORDS.items() if mark in errors), "")
                if words and no_start is None:
                    states[name] = (words, number)
    number, speeds = rates
    for gpu, rate in enumerate(speeds):
        if 0.0 < rate < _SLOW * max(speeds):
            states.setdefault(str(gpu), (f"computes {rate:,.0f} Gflop/s, another one {max(speeds):,.0f}", number))
    facts = [
        text.fact(Quantity.GPU_STATE, f"{words} (gpu_burn)", number, _PROGRAM, subject=(gpu,))
        for gpu, (words, number) in sorted(states.items(), key=lambda item: int(item[0]))
    ]
    if no_start is not None:
        facts.append(no_start)
    if not facts:
        facts = [text.fact(Quantity.NOTE, f"no errors of {len(tested)} GPUs in gpu_burn", 0, _PROGRAM)]
    yield Reading(facts)


def _unstarted(text: Text) -> Iterator[Fact]:
    """Yield that a test did not start."""
    for number, line in text.lines():
        match = _NO_START.search(line)
        if match is None and line.strip() != _NO_DEVICE:
            continue
        reason = _NO_DEVICE if match is None else match[1].strip() or "without a reason"
        is_of_build = _OF_BUILD.search(reason) is not None
        remedy = _BUILD if is_of_build else _DRIVER
        words = f'gpu_burn did not start its test: "{reason}"'
        yield text.fact(Quantity.CAUSE, words, number, _PROGRAM, subject=("gpu_burn_start", remedy))


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "gpu_burn 60 > burn.txt",
    "100.0%  proc'd: 18000 (6311 Gflop/s) - 12600 (6440 Gflop/s)   errors: 0 - 0   temps: 51 C - 45 C",
    _is_output,
    _read,
    "gpu_burn.txt",
    versions="GPUs that stop (`DIED!`), have errors (`WARNING!`) or are `FAULTY`",
    is_per_host=True,
)
