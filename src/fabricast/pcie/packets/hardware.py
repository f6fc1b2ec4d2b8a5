"""Hardware of the packet-level simulator: packets, links, buffers, root complex, clock."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.core.units import PCIE_WIDTHS, pcie_link_bytes_per_s
from fabricast.inputs.parameters import Parameter, Tag
from fabricast.pcie.topology.checks import FASTEST_BYTES_PER_S, SLOWEST_BYTES_PER_S
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["CREDIT_BYTES", "HARDWARE", "Clock", "PacketHardware", "hardware_parameters", "split_hops", "tick_clock"]

CREDIT_BYTES = 16
#: Largest number of ticks per byte time.
_FINEST_SCALE = 100_000
#: One 8-byte link-layer packet is sent in the reverse direction for this many bytes of data, by payload
#: (pcie-bench/pcie-model; Intel and PLX flow-control limits).
_LINK_LAYER_BYTES = 8
_LINK_LAYER_INTERVAL_BYTES = {64: 144, 128: 144, 256: 168, 512: 168}


@dataclass(frozen=True)
class PacketHardware:
    """Packets, links, buffers and root complex of the simulated machine.

    Parameters
    ----------
    payload_bytes : {128, 256, 512}, default 256
        Maximum payload of a packet in bytes.
    header_bytes : int, default 24
        Overhead of a packet in bytes: framing, sequence number, header with 64-bit address, and checksum.
    generation : {1, 2, 3, 4, 5, 6}, default 3
        PCIe generation of a link of capacity 1.
    width : int, default 16
        Number of lanes of a link of capacity 1.
    link_bytes_per_s : float, optional
        Raw rate of a link of capacity 1 in bytes/s. Replaces generation and width.
    split_bytes : int or None, default None
        Payload in bytes of the smaller packets into which a root complex splits peer-to-peer writes; None if it does
        not split them.
    piece_cost_ns : float, default 0
        Additional time of the root complex for each of the smaller packets in ns.
    buffering : {'fifo', 'virtual_output_queues'}
        Whether a blocked packet blocks all packets behind it, or only packets to the same output port.
    switching : {'store_and_forward', 'cut_through'}
        Whether a switch forwards a packet after its tail or after its header has arrived.
    hop_latency_ns : float, default 0
        Latency of a packet, and of a returned credit, on each link in ns.
    header_credits : int, default 64
        Posted-header credits of each input buffer (Xeon C5500: 64).
    data_credits : int, default 320
        Posted-data credits of 16 bytes of each input buffer (Xeon C5500: 320).
    link_layer_packets : bool, default False
        Whether acknowledgements and credit updates use bandwidth of links with bidirectional traffic.
    link_layer_share : float, optional
        Relative increase of a transmission time by link-layer packets. By default, it follows from the flow-control
        limits.

    Raises
    ------
    InputError
        If a value is outside the range that PCIe allows.

    Examples
    --------
    >>> round(PacketHardware().raw_bytes_per_s / 1e9, 3)
    15.754
    >>> PacketHardware(payload_bytes=300)
    Traceback (most recent call last):
    fabricast.core.errors.InputError: payload_bytes is 300, expected 128, 256 or 512
    """

    payload_bytes: int = 256
    header_bytes: int = 24
    generation: int = 3
    width: int = 16
    split_bytes: int | None = None
    piece_cost_ns: float = 0.0
    buffering: Literal["fifo", "virtual_output_queues"] = "fifo"
    switching: Literal["store_and_forward", "cut_through"] = "store_and_forward"
    hop_latency_ns: float = 0.0
    header_credits: int = 64
    data_credits: int = 320
    link_layer_packets: bool = False
    link_bytes_per_s: float | None = None
    link_layer_share: float | None = None

    def __post_init__(self) -> None:
        def refuse(name: str, expected: str) -> None:
            raise InputError(f"{name} is {getattr(self, name)}, expected {expected}")

        if self.payload_bytes not in (128, 256, 512):
            refuse("payload_bytes", "128, 256 or 512")
        if self.split_bytes is not None and (
            self.split_bytes not in (64, 128, 256) or self.split_bytes >= self.payload_bytes
        ):
            refuse("split_bytes", f"64, 128 or 256, and less than payload_bytes ({self.payload_bytes})")
        if not 1 <= self.generation <= 6:
            refuse("generation", "1 to 6")
        if self.width not in PCIE_WIDTHS:
            refuse("width", f"one of {', '.join(map(str, PCIE_WIDTHS))}")
        if (
            self.link_bytes_per_s is not None
            and not SLOWEST_BYTES_PER_S <= self.link_bytes_per_s <= FASTEST_BYTES_PER_S
        ):
            refuse("link_bytes_per_s", f"{SLOWEST_BYTES_PER_S:g} to {FASTEST_BYTES_PER_S:g}")
        for name in ("header_bytes", "header_credits"):
            if not 1 <= getattr(self, name) <= 4096:
                refuse(name, "1 to 4096")
        if self.data_credits > 1 << 20:
            refuse("data_credits", f"at most {1 << 20:,}")
        if self.data_credits * CREDIT_BYTES < self.payload_bytes:
            refuse("data_credits", f"at least {self.payload_bytes // CREDIT_BYTES}, one whole packet")
        for name in ("piece_cost_ns", "hop_latency_ns"):
            if not 0 <= getattr(self, name) < 1e6:
                refuse(name, "at least 0 and below 1,000,000")
        if self.link_layer_share is not None and not 0 <= self.link_layer_share <= 1:
            refuse("link_layer_share", "a fraction from 0 to 1")
        if self.buffering not in ("fifo", "virtual_output_queues"):
            refuse("buffering", "fifo or virtual_output_queues")
        if self.switching not in ("store_and_forward", "cut_through"):
            refuse("switching", "store_and_forward or cut_through")

    @property
    def raw_bytes_per_s(self) -> float:
        """Raw rate of a link of capacity 1 in bytes/s, including headers."""
        return self.link_bytes_per_s or pcie_link_bytes_per_s(self.generation, self.width)

    def on(self, tree: PcieTree) -> PacketHardware:
        """Return this hardware with the link rate of a topology, if the topology specifies one."""
        return self if tree.link_bytes_per_s is None else replace(self, link_bytes_per_s=tree.link_bytes_per_s)

    @property
    def packet_bytes(self) -> tuple[int, int]:
        """Bytes on the wire of a whole packet and of a smaller packet behind the root complex."""
        return self.payload_bytes + self.header_bytes, (self.split_bytes or self.payload_bytes) + self.header_bytes

    @property
    def pieces(self) -> int:
        """Number of smaller packets into which the root complex splits a packet."""
        return self.payload_bytes // (self.split_bytes or self.payload_bytes)


#: Hardware settings for the validation of the models. The report discusses the constants.
HARDWARE = {
    "no_split": PacketHardware(),
    "split_256_128": PacketHardware(split_bytes=128),
    "split_128_64": PacketHardware(payload_bytes=128, split_bytes=64),
    "split_256_64": PacketHardware(split_bytes=64),
}

#: Unit, tag and source of the constants of a setting.
_CONSTANTS: dict[str, tuple[str, Tag, str]] = {
    "payload_bytes": ("bytes", "assumed", "the payload of the paper's machine is unknown; 256 is common"),
    "split_bytes": (
        "bytes",
        "assumed",
        "packet splitting in its root complex is unknown; 64 according to NCCL's source code",
    ),
    "header_bytes": ("bytes", "derived", "framing 8, header 4 and 64-bit address 12 bytes; pcie-bench/pcie-model"),
    "raw_bytes_per_s": ("bytes/s", "derived", "PCIe 3.0 x16, 8 GT/s, 128b/130b"),
    "header_credits": ("1", "assumed", "value of a Xeon C5500; the value of the paper's machine is unknown"),
    "data_credits": ("16 bytes", "assumed", "value of a Xeon C5500; the value of the paper's machine is unknown"),
    "hop_latency_ns": ("ns", "assumed", "none: negligible for long messages"),
    "piece_cost_ns": ("ns", "assumed", "none"),
}


def hardware_parameters() -> list[Parameter]:
    """Return the constants of all simulator settings as parameters.

    Returns
    -------
    list of Parameter
        Constants in a fixed order. A setting without packet splitting has no ``split_bytes``.

    Examples
    --------
    >>> next(one.value for one in hardware_parameters() if one.name == "header_credits")
    64.0
    """
    return [
        Parameter("pcie", f"simulator.{setting}", name, float(value), unit, tag, source)
        for setting, hardware in HARDWARE.items()
        for name, (unit, tag, source) in _CONSTANTS.items()
        if (value := getattr(hardware, name)) is not None
    ]


@dataclass(frozen=True)
class Clock:
    """Durations of the simulation in ticks.

    A tick is the greatest common divisor of all durations, so integer arithmetic is exact.

    Parameters
    ----------
    tick_s : float
        Duration of a tick in s.
    wire_ticks : ndarray of int64, shape (2, links)
        Transmission time of a whole packet (row 0) and a smaller packet (row 1) on each link.
    piece_cost : int
        Additional time of the root complex for each smaller packet.
    latency : int
        Latency of a packet or a credit on a link.
    header : int
        Transmission time of a header on a link of capacity 1 for cut-through switching; -1 for store-and-forward.
    link_layer : ndarray of int64, shape (2, links)
        Increase of a transmission time by link-layer packets for reverse traffic.
    """

    tick_s: float
    wire_ticks: NDArray[np.int64]
    piece_cost: int
    latency: int
    header: int
    link_layer: NDArray[np.int64]


def tick_clock(tree: PcieTree, hardware: PacketHardware) -> Clock:
    """Return all durations of a hardware on a tree in ticks."""
    return _clock_of(tuple(tree.routes.capacity.tolist()), hardware)


@lru_cache(maxsize=64)
def _clock_of(link_capacities: tuple[float, ...], hardware: PacketHardware) -> Clock:
    capacities = [Fraction(capacity).limit_denominator(1000) for capacity in link_capacities]
    services = [[size / capacity for capacity in capacities] for size in hardware.packet_bytes]
    flat = [service for row in services for service in row]
    # Capacities with a large common denominator are rounded to 1/100,000 of a byte time.
    scale = min(math.lcm(*(service.denominator for service in flat)), _FINEST_SCALE)
    unit = Fraction(math.gcd(*(round(service * scale) for service in flat)), scale)
    extras = (hardware.hop_latency_ns, hardware.piece_cost_ns, hardware.link_layer_packets)
    if any(extras) or hardware.switching == "cut_through":
        # Durations that do not derive from bytes are rounded to at most one byte time (63 ps on PCIe 3.0 x16).
        unit = Fraction(math.gcd(int(unit * scale), scale), scale)
    byte_s = 1 / hardware.raw_bytes_per_s

    def ticks(duration_bytes: float | Fraction) -> int:
        return round(Fraction(duration_bytes) / unit)

    def longer(payload: int) -> Fraction:
        if not hardware.link_layer_packets:
            return Fraction(0)
        if hardware.link_layer_share is not None:
            return Fraction(hardware.link_layer_share)
        return Fraction(_LINK_LAYER_BYTES, _LINK_LAYER_INTERVAL_BYTES[payload])

    link_layer = [
        [ticks(size / capacity * longer(payload)) for capacity in capacities]
        for size, payload in zip(
            hardware.packet_bytes, (hardware.payload_bytes, hardware.split_bytes or hardware.payload_bytes), strict=True
        )
    ]
    return Clock(
        tick_s=float(unit) * byte_s,
        wire_ticks=np.array([[ticks(service) for service in row] for row in services], dtype=np.int64),
        piece_cost=ticks(hardware.piece_cost_ns * 1e-9 / byte_s),
        latency=ticks(hardware.hop_latency_ns * 1e-9 / byte_s),
        header=max(1, ticks(hardware.header_bytes)) if hardware.switching == "cut_through" else -1,
        link_layer=np.array(link_layer, dtype=np.int64),
    )


def split_hops(tree: PcieTree, hardware: PacketHardware) -> NDArray[np.int64]:
    """Return the hop of each route from which on packets are split.

    This is the first hop that leaves a root complex, or 2**31 without splitting. Pairs are numbered
    source * endpoints + target.
    """
    names = tree.endpoint_names
    hops = np.full(len(names) ** 2, 2**31, dtype=np.int64)
    if hardware.split_bytes is None:
        return hops
    for pair in range(hops.size):
        source, target = names[pair // len(names)], names[pair % len(names)]
        if source == target:
            continue
        for hop, link in enumerate(tree.route(source, target)):
            if tree.vertex(tree.link_names[link][0]).kind == "root_complex":
                hops[pair] = hop
                break
    return hops
