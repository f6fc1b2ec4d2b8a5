"""Link rate of the packet simulator, from the topology or from calibrated parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fabricast.core.errors import InputError, UnknownSpeedError
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.pcie.models.parameters import read_machine_parameters
from fabricast.pcie.packets.hardware import PacketHardware
from fabricast.pcie.topology.tree import PcieTree

#: Relative tolerance, because topology files round link rates.
_RATE_TOLERANCE = 0.02


def hardware_on(
    tree: PcieTree,
    hardware: PacketHardware,
    *,
    generation: int | None = None,
    width: int | None = None,
    parameters: Path | str | None = None,
) -> tuple[PacketHardware, list[CodedWarning]]:
    """Return hardware with the link rate of a topology or of calibrated parameters."""
    if parameters is not None:
        if generation is not None or width is not None:
            raise InputError("excludes generation and width: both specify the link rate", argument="parameters")
        measured = read_machine_parameters(parameters, tree.name)
        if "bandwidth" not in measured:
            raise InputError("contains no bandwidth, which the simulator requires", path=parameters)
        bandwidth = measured["bandwidth"].value
        required_rate = bandwidth * hardware.packet_bytes[0] / hardware.payload_bytes
        if tree.link_bytes_per_s is not None and required_rate > tree.link_bytes_per_s * (1 + _RATE_TOLERANCE):
            raise InputError(
                f"bandwidth is {bandwidth / 1e9:.2f} GB/s and requires links of {required_rate / 1e9:.2f} GB/s with "
                f"packets of {hardware.payload_bytes} bytes, expected at most {tree.link_bytes_per_s / 1e9:.2f} GB/s "
                f"on '{tree.name}'",
                path=parameters,
            )
        warnings = [
            CodedWarning(
                WarningCode.LINK_RATE_DERIVED,
                f"links of {required_rate / 1e9:.2f} GB/s are assumed: an isolated copy then reaches the bandwidth in "
                f"{parameters}",
            )
        ]
        unused = [name for name in ("tau", "crossing_cost") if name in measured]
        if unused:
            warnings.append(
                CodedWarning(
                    WarningCode.PARAMETER_UNUSED,
                    f"the simulator ignores {' and '.join(unused)}, and uses its hardware settings instead",
                )
            )
        return replace(hardware, link_bytes_per_s=required_rate), warnings
    specified = replace(
        hardware,
        generation=hardware.generation if generation is None else generation,
        width=hardware.width if width is None else width,
    )
    link_rate = tree.link_bytes_per_s
    if generation is None and width is None:
        if link_rate is None:
            raise UnknownSpeedError(f"topology '{tree.name}' does not specify a link speed")
        chosen = hardware.on(tree)
        isolated = chosen.raw_bytes_per_s * chosen.payload_bytes / chosen.packet_bytes[0]
        measured_rate = tree.bandwidth_bytes_per_s
        if measured_rate is not None and abs(isolated / measured_rate - 1) > _RATE_TOLERANCE:
            text = (
                f"an isolated copy reaches {isolated / 1e9:.2f} GB/s on these links, but {measured_rate / 1e9:.2f} "
                f"GB/s were measured on '{tree.name}': the simulator models packets, but no other limits of that "
                "machine"
            )
            return chosen, [CodedWarning(WarningCode.LINK_RATE_DERIVED, text)]
        return chosen, []
    if link_rate is not None and abs(specified.raw_bytes_per_s / link_rate - 1) > _RATE_TOLERANCE:
        raise InputError(
            f"and width specify {specified.raw_bytes_per_s / 1e9:.2f} GB/s, expected {link_rate / 1e9:.2f} GB/s, "
            f"the link rate of topology '{tree.name}'",
            argument="generation",
        )
    return specified, []
