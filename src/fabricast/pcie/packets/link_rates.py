"""How fast the links of a simulated machine are: from its topology, or from what was measured on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fabricast.core.errors import InputError, UnknownSpeedError
from fabricast.pcie.models.parameters import read_machine_parameters
from fabricast.pcie.packets.hardware import PacketHardware
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["hardware_on"]

#: Rates of links are rounded in files.
_RATE_TOLERANCE = 0.02


def hardware_on(
    tree: PcieTree,
    hardware: PacketHardware,
    *,
    generation: int | None = None,
    width: int | None = None,
    parameters: Path | str | None = None,
) -> tuple[PacketHardware, list[str]]:
    """Return hardware with the rate of the topology's links, or of what was measured on them.

    Parameters
    ----------
    tree : PcieTree
        The topology.
    hardware : PacketHardware
        Packets, buffers and root complex.
    generation, width : int, optional
        Link of capacity 1, for topologies that record no speed.
    parameters : Path or str, optional
        What `calibrate` wrote of this machine: links are then as fast as the bandwidth of one
        copy alone asks for.

    Returns
    -------
    (PacketHardware, list of str)
        Hardware, and what the user should know of it.

    Raises
    ------
    InputError
        If nothing tells the rate, or generation and width contradict the topology.
    """
    if parameters is not None:
        if generation is not None or width is not None:
            raise InputError("excludes generation and width: both tell the rate of links", argument="parameters")
        measured = read_machine_parameters(parameters, tree.name)
        if "bandwidth" not in measured:
            raise InputError("holds no bandwidth, which the simulator needs", path=parameters)
        bandwidth = measured["bandwidth"].value
        rate = bandwidth * hardware.packet_bytes[0] / hardware.payload_bytes
        if tree.link_bytes_per_s is not None and rate > tree.link_bytes_per_s * (1 + _RATE_TOLERANCE):
            raise InputError(
                f"bandwidth {bandwidth / 1e9:.2f} GB/s asks for links of {rate / 1e9:.2f} GB/s with packets of "
                f"{hardware.payload_bytes} bytes, expected at most {tree.link_bytes_per_s / 1e9:.2f} on '{tree.name}'",
                path=parameters,
            )
        notes = [f"links of {rate / 1e9:.2f} GB/s: one copy alone then reaches the bandwidth of {parameters}"]
        unused = [name for name in ("tau", "crossing_cost") if name in measured]
        if unused:
            notes.append(f"{' and '.join(unused)} belong to the models; here the hardware setting decides")
        return replace(hardware, link_bytes_per_s=rate), notes
    given = replace(hardware, generation=generation or hardware.generation, width=width or hardware.width)
    known = tree.link_bytes_per_s
    if generation is None and width is None:
        if known is None:
            raise UnknownSpeedError(f"topology '{tree.name}' records no speed of its links")
        chosen = hardware.on(tree)
        alone = chosen.raw_bytes_per_s * chosen.payload_bytes / chosen.packet_bytes[0]
        told = tree.bandwidth_bytes_per_s
        if told is not None and abs(alone / told - 1) > _RATE_TOLERANCE:
            note = (
                f"one copy alone reaches {alone / 1e9:.2f} GB/s on these links, {told / 1e9:.2f} GB/s were measured on "
                f"'{tree.name}': the simulator knows packets, not what else held that machine back"
            )
            return chosen, [note]
        return chosen, []
    if known is not None and abs(given.raw_bytes_per_s / known - 1) > _RATE_TOLERANCE:
        raise InputError(
            f"and width give {given.raw_bytes_per_s / 1e9:.2f} GB/s, expected the {known / 1e9:.2f} "
            f"GB/s of the links of '{tree.name}'",
            argument="generation",
        )
    return given, []
