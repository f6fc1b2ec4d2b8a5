"""Rates of one device's DMA by transfer size: packets, headers, and what a device adds to each packet."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabricast.core.errors import InputError
from fabricast.pcie.packets.hardware import PacketHardware

__all__ = ["COMPLETION_HEADER_BYTES", "dma_bytes_per_s", "effective_rate_bytes_per_s", "packet_gap_s"]

#: Framing 8 and header 12 bytes of a completion; a write has 4 bytes of address more, and 4 for 64 bits.
COMPLETION_HEADER_BYTES = 20
#: Raw 62.96 Gbit/s of PCIe 3.0 x8 less 8 to 10 % for link-layer packets: 57.88 (Neugebauer et al., section 3).
_LINK_LAYER_SHARE = 57.88 / 62.96
_DWORD_BYTES = 4


def dma_bytes_per_s(
    size_bytes: ArrayLike, hardware: PacketHardware, *, header_bytes: int, gap_s: float = 0.0
) -> NDArray[np.float64]:
    """Return the rate of back-to-back DMAs of one size over one link.

    A transfer of n bytes is cut into packets of at most the payload; each takes its bytes on the wire, header
    included, and the gap.

    Parameters
    ----------
    size_bytes : array_like of int, shape (sizes,)
        Bytes of each transfer.
    hardware : PacketHardware
        Payload and link.
    header_bytes : int
        Header and framing: 24 of writes, 20 of the completions of reads.
    gap_s : float, default 0
        Time that each packet takes beyond its bytes.

    Returns
    -------
    ndarray of float64, shape (sizes,)
        Payload bytes per second.

    Raises
    ------
    InputError
        If a size is below 1.

    References
    ----------
    Neugebauer et al., "Understanding PCIe performance for end host networking", SIGCOMM 2018, section 3.

    Examples
    --------
    >>> link = PacketHardware(generation=3, width=8)
    >>> [round(float(rate) * 8e-9, 2) for rate in dma_bytes_per_s([512, 513], link, header_bytes=24)]
    [57.61, 54.98]
    """
    size = np.asarray(size_bytes, dtype=np.float64)
    if (size < 1).any():
        raise InputError(f"a transfer has {size.min():g} bytes, expected at least 1")
    packets = np.ceil(size / hardware.payload_bytes)
    on_wire = np.ceil(size / _DWORD_BYTES) * _DWORD_BYTES + packets * header_bytes
    return np.asarray(size / (on_wire / hardware.raw_bytes_per_s + packets * gap_s))


def packet_gap_s(size_bytes: ArrayLike, bytes_per_s: ArrayLike, hardware: PacketHardware, header_bytes: int) -> float:
    """Return the gap after each packet that measured rates of whole packets show: the median.

    Parameters
    ----------
    size_bytes, bytes_per_s : array_like, shape (sizes,)
        Transfers and their rates; only whole packets say what a packet takes.
    hardware : PacketHardware
        Payload and link.
    header_bytes : int
        Header and framing of a packet.

    Returns
    -------
    float
        Seconds; negative if packets are faster than the link.

    Raises
    ------
    InputError
        If no transfer is of whole packets.

    Examples
    --------
    >>> link = PacketHardware(generation=3, width=8)
    >>> rate = dma_bytes_per_s([512, 1024], link, header_bytes=24, gap_s=2e-9)
    >>> round(packet_gap_s([512, 1024], rate, link, 24) * 1e9, 6)
    2.0
    """
    size, rate = np.asarray(size_bytes, dtype=np.float64), np.asarray(bytes_per_s, dtype=np.float64)
    whole = size % hardware.payload_bytes == 0
    if not whole.any():
        raise InputError(f"no transfer is a multiple of {hardware.payload_bytes} bytes, expected one")
    period_s = hardware.payload_bytes / rate[whole]
    return float(np.median(period_s)) - (hardware.payload_bytes + header_bytes) / hardware.raw_bytes_per_s


def effective_rate_bytes_per_s(
    size_bytes: ArrayLike, hardware: PacketHardware, *, header_bytes: int
) -> NDArray[np.float64]:
    """Return the rates of the published formula: a fixed share of the link goes to link-layer packets.

    Parameters
    ----------
    size_bytes : array_like of int, shape (sizes,)
        Bytes of each transfer.
    hardware : PacketHardware
        Payload and link.
    header_bytes : int
        Header and framing of a packet.

    Returns
    -------
    ndarray of float64, shape (sizes,)
        Payload bytes per second.

    References
    ----------
    Neugebauer et al., SIGCOMM 2018, section 3; their file bw_calc.dat.

    Examples
    --------
    >>> link = PacketHardware(generation=3, width=8)
    >>> round(float(effective_rate_bytes_per_s([512], link, header_bytes=24)[0]) * 8e-9, 1)
    53.0
    """
    return dma_bytes_per_s(size_bytes, hardware, header_bytes=header_bytes) * _LINK_LAYER_SHARE
