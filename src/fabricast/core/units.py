"""Unit conversion and PCIe data rates; all quantities inside the package are in SI units."""

from __future__ import annotations

import math
import re

from fabricast.core.errors import InputError

MIB = float(1 << 20)
GIB = float(1 << 30)
#: Default payload and header of a PCIe packet in bytes. [assumed]
PAYLOAD_BYTES, HEADER_BYTES = 256, 24
#: Payload fraction of the raw rate of a link. [assumed]
PROTOCOL_EFFICIENCY = PAYLOAD_BYTES / (PAYLOAD_BYTES + HEADER_BYTES)
#: Link widths that PCIe defines, in lanes.
PCIE_WIDTHS = (1, 2, 4, 8, 12, 16, 32)
#: Without B, units are binary, as in nccl-tests.
_BYTE_UNITS = {"": 1.0, "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 1024.0, "mib": MIB, "gib": GIB}
_BYTE_UNITS |= {"k": 1024.0, "m": MIB, "g": GIB}

# Efficiency of the line code by transfer rate in GT/s: 8b/10b, 128b/130b, then PCIe 6 flits (242 of 256 B).
_LINE_CODE = {2.5: 0.8, 5.0: 0.8, 8.0: 128 / 130, 16.0: 128 / 130, 32.0: 128 / 130, 64.0: 242 / 256}


def pcie_bytes_per_s(transfer_rate_gt_per_s: float, width: int) -> float:
    """Return the raw data rate of one direction of a PCIe link.

    Neugebauer et al., "Understanding PCIe performance for end host networking", SIGCOMM 2018.

    >>> round(pcie_bytes_per_s(8, 16) / 1e9, 3)
    15.754
    """
    if transfer_rate_gt_per_s not in _LINE_CODE:
        valid_rates = ", ".join(f"{rate:g}" for rate in _LINE_CODE)
        raise ValueError(f"transfer rate is {transfer_rate_gt_per_s:g} GT/s, expected one of {valid_rates}")
    if width not in PCIE_WIDTHS:
        raise ValueError(f"link width is {width}, expected one of {', '.join(map(str, PCIE_WIDTHS))} lanes")
    return transfer_rate_gt_per_s * 1e9 * _LINE_CODE[transfer_rate_gt_per_s] * width / 8


def pcie_link_bytes_per_s(generation: int, width: int) -> float:
    """Return the raw data rate of one direction of a link of a PCIe generation.

    >>> round(pcie_link_bytes_per_s(5, 16) / 1e9, 2)
    63.02
    """
    if not 1 <= generation <= len(_LINE_CODE):
        raise ValueError(f"PCIe generation is {generation}, expected 1 to {len(_LINE_CODE)}")
    return pcie_bytes_per_s(list(_LINE_CODE)[generation - 1], width)


def pcie_generation(transfer_rate_gt_per_s: float) -> int:
    """Return the PCIe generation of a transfer rate in GT/s.

    >>> pcie_generation(16)
    4
    """
    return list(_LINE_CODE).index(transfer_rate_gt_per_s) + 1


def parse_bytes(text: str, name: str = "size") -> float:
    """Return a size in bytes from text such as ``512KiB``, ``4 MB`` or ``64``.

    >>> parse_bytes("512KiB"), parse_bytes("4 MB"), parse_bytes("8G")
    (524288.0, 4000000.0, 8589934592.0)
    """
    match = re.fullmatch(r"\s*([0-9.eE+-]+)\s*([A-Za-z]*)\s*", text)
    scale = _BYTE_UNITS.get(match[2].lower()) if match else None
    try:
        value = float(match[1]) * scale if match and scale else math.nan
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f"{name} is '{text}', expected a size such as 64, 512KiB or 4MB")
    return value


def time_text(time_s: float) -> str:
    """Format a time for display, with four decimal places.

    >>> time_text(0.0842), time_text(8.42e-6), time_text(8.42e-9)
    ('84.2000 ms', '8.4200 us', '8.4200 ns')
    """
    for unit, scale in (("ms", 1e3), ("us", 1e6)):
        if time_s * scale >= 0.01:
            return f"{time_s * scale:.4f} {unit}"
    return f"{time_s * 1e9:.4f} ns"
