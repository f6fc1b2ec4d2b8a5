"""DMA rate of a single device by transfer size: payload, headers and a gap per packet."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabricast.core.errors import InputError
from fabricast.pcie.packets.hardware import PacketHardware

__all__ = ["COMPLETION_HEADER_BYTES", "dma_bytes_per_s", "effective_rate_bytes_per_s", "packet_gap_s"]

#: Framing (8 bytes) and header (12 bytes) of a completion. A write with a 64-bit address has 4 bytes more.
COMPLETION_HEADER_BYTES = 20
#: PCIe 3.0 x8: raw 62.96 Gbit/s, 57.88 Gbit/s after 8 to 10 % link-layer packets (Neugebauer et al., section 3).
_LINK_LAYER_SHARE = 57.88 / 62.96
_DWORD_BYTES = 4


def dma_bytes_per_s(
    size_bytes: ArrayLike, hardware: PacketHardware, *, header_bytes: int, gap_s: float = 0.0
) -> NDArray[np.float64]:
    """Return the rate of back-to-back DMAs of one size over one link.

    Each transfer is split into packets of at most the payload size. The time of a packet is its bytes on the wire,
    including the header, divided by the raw link rate, plus the gap.

    Parameters
    ----------
    size_bytes : array_like of int, shape (sizes,)
        Size of each transfer in bytes.
    hardware : PacketHardware
        Payload and link.
    header_bytes : int
        Header and framing of a packet in bytes: 24 for writes, 20 for read completions.
    gap_s : float, default 0
        Additional time of each packet in s.

    Returns
    -------
    ndarray of float64, shape (sizes,)
        Payload rate of each transfer size in bytes/s.

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
        raise InputError(f"size_bytes is {size.min():g}, expected at least 1")
    packets = np.ceil(size / hardware.payload_bytes)
    on_wire = np.ceil(size / _DWORD_BYTES) * _DWORD_BYTES + packets * header_bytes
    return np.asarray(size / (on_wire / hardware.raw_bytes_per_s + packets * gap_s))


def packet_gap_s(size_bytes: ArrayLike, bytes_per_s: ArrayLike, hardware: PacketHardware, header_bytes: int) -> float:
    """Return the gap after each packet, estimated from measured rates.

    The gap is the median over transfers that are whole packets. It is the inverse of `dma_bytes_per_s`.

    Parameters
    ----------
    size_bytes, bytes_per_s : array_like, shape (sizes,)
        Transfer sizes in bytes and measured rates in bytes/s. Transfers that are not whole packets are ignored.
    hardware : PacketHardware
        Payload and link.
    header_bytes : int
        Header and framing of a packet in bytes.

    Returns
    -------
    float
        Gap in s; negative if packets are faster than the link rate allows.

    Raises
    ------
    InputError
        If no transfer consists of whole packets.

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
        raise InputError(f"size_bytes contains no multiple of {hardware.payload_bytes}, expected at least one")
    period_s = hardware.payload_bytes / rate[whole]
    return float(np.median(period_s)) - (hardware.payload_bytes + header_bytes) / hardware.raw_bytes_per_s


def effective_rate_bytes_per_s(
    size_bytes: ArrayLike, hardware: PacketHardware, *, header_bytes: int
) -> NDArray[np.float64]:
    """Return the DMA rate of the published formula, with a fixed link-layer overhead.

    Parameters
    ----------
    size_bytes : array_like of int, shape (sizes,)
        Size of each transfer in bytes.
    hardware : PacketHardware
        Payload and link.
    header_bytes : int
        Header and framing of a packet in bytes.

    Returns
    -------
    ndarray of float64, shape (sizes,)
        Payload rate of each transfer size in bytes/s.

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
