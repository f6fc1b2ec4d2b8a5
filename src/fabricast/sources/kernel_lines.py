"""Lines of the kernel log, and the states of GPUs that they name."""

from __future__ import annotations

import re

from fabricast.core.facts import Fact, Quantity
from fabricast.sources.text import Text

PROGRAM = "dmesg"
#: Beginning of the first message of a boot.
BOOT = "Linux version "
#: Address of a device on PCIe; domains of volume management devices (VMD) have five digits.
DEVICE = r"(?<![0-9a-f])([0-9a-f]{4,5}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
#: Number and text of the lines of a log.
Lines = list[tuple[int, str]]
#: Drivers of GPUs with the device that they use.
_GPU_DRIVER = re.compile(rf"\b(?:nvidia|nouveau|amdgpu) {DEVICE}:")
#: GPU of NVIDIA or AMD by vendor and class, as the kernel states them when it finds the device.
_GPU_CLASS = re.compile(rf"\bpci {DEVICE}: \[(?:10de|1002):[0-9a-f]{{4}}\] type 00 class 0x(?:030[02]|0380|1200)")


def gpus_of(lines: Lines) -> set[str]:
    """Return the addresses of the GPUs that a log names."""
    patterns = (_GPU_DRIVER, _GPU_CLASS)
    return {match[1] for _, line in lines for one in patterns if (match := one.search(line)) is not None}


def gpu_state(text: Text, device: str, state: str, line: int) -> Fact:
    """Return the state of a GPU, or of another device on PCIe."""
    return text.fact(Quantity.GPU_STATE, state, line, PROGRAM, subject=(device,))
