"""Reader of ``rocm-smi -a``, and of its part ``--showproductname``: models, addresses and replays of GPUs of AMD."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.inputs.gpus import gpu_of_device
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "rocm-smi -a"
#: "GPU[0] : Card series: AMD Instinct MI300X", with a capital letter in newer versions.
_LINE = re.compile(
    r"GPU\[(\d{1,3})\]\s*:\s*(Card [Ss]eries|Card [Mm]odel|PCI Bus|PCIe Replay Count):\s*(\S.{0,80}?)\s*$"
)
_AMD = "1002"
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{4}")
#: Replays of PCIe packets from which a link is not only disturbed once, as for GPUs of NVIDIA.
_MANY_REPLAYS = 100


def _is_output(text: Text) -> bool:
    raw = text.raw
    return "GPU[" in raw and ("Card " in raw or "PCI Bus:" in raw) and any(_rows(text))


def _rows(text: Text) -> Iterator[tuple[int, str, str, str]]:
    """Yield line, number of the GPU, name of the value in small letters, and value."""
    for number, line in text.lines(lambda line: "GPU[" in line):
        if (match := _LINE.search(line)) is not None:
            yield number, match[1], match[2].lower(), match[3]


def _read(text: Text) -> Iterator[Reading]:
    facts: list[Fact] = []
    named: set[str] = set()
    for number, gpu, name, value in _rows(text):
        subject = (gpu,)
        if name == "pci bus":
            facts.append(text.fact(Quantity.GPU_ADDRESS, value.lower(), number, _PROGRAM, subject=subject))
        elif name == "pcie replay count":
            if value.isdigit() and int(value) >= _MANY_REPLAYS:
                words = f"{int(value)} PCIe replays since the start of the driver"
                facts.append(text.fact(Quantity.GPU_STATE, words, number, _PROGRAM, subject=subject))
        elif gpu not in named:
            # Old versions print the numbers of the PCI device instead of names.
            model = gpu_of_device(_AMD, value) if _HEXADECIMAL.fullmatch(value) else value
            if model is not None and (name == "card series" or model != value):
                named.add(gpu)
                facts.append(text.fact(Quantity.GPU_MODEL, model, number, _PROGRAM, subject=subject))
    yield Reading(facts)


FORMAT = Format(
    _PROGRAM,
    Content.GPUS,
    "rocm-smi -a > rocm_smi_all.txt",
    "GPU[0]\t\t: Card series: \t\tAMD Instinct MI300X OAM",
    _is_output,
    _read,
    "rocm_smi_all.txt",
    versions="models, addresses and PCIe replays, also of `--showproductname` and `--showbus`",
    is_per_host=True,
)
