"""Settings that determine the choices of NCCL: processor, GPUs, version and environment variables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from fabricast.core.errors import InputError, near_names, unknown_name
from fabricast.core.units import parse_bytes
from fabricast.nccl.costs import Algorithm, Protocol
from fabricast.nccl.system import NEWEST, Cpu, PathType, Version

__all__ = ["GPU_CAPABILITIES", "NcclSettings", "capability_of", "with_environment"]

#: CUDA compute capability by words of a product name, from NVIDIA's table of CUDA GPUs; the first match counts.
GPU_CAPABILITIES = {
    "rtx pro 6000": 12.0, "5090": 12.0, "5080": 12.0, "b200": 10.0, "b300": 10.3, "h100": 9.0, "h200": 9.0,
    "h800": 9.0, "h20": 9.0, "4090": 8.9, "4080": 8.9, "l40": 8.9, "l4": 8.9, "l20": 8.9, "ada": 8.9, "3090": 8.6,
    "3080": 8.6, "a40": 8.6, "a10": 8.6, "a6000": 8.6, "a5000": 8.6, "a16": 8.6, "a100": 8.0, "a30": 8.0, "a800": 8.0,
    "2080": 7.5, "t4": 7.5, "titan rtx": 7.5, "rtx 6000": 7.5, "rtx 8000": 7.5, "v100": 7.0, "p100": 6.0, "1080": 6.1,
}  # fmt: skip
#: GPUs whose driver refuses direct copies between GPUs unless it is modified.
_WITHOUT_PEER_ACCESS = ("5090", "5080", "4090", "4080", "2080 ti", "2080ti", "3080", "1080")
_LEVELS = {
    "LOC": PathType.LOC, "NVL": PathType.NVB, "PIX": PathType.PIX, "PXB": PathType.PXB, "PHB": PathType.PHB,
    "SYS": PathType.SYS, "0": PathType.LOC, "1": PathType.PIX, "2": PathType.PXB, "3": PathType.PHB,
    "4": PathType.SYS, "5": PathType.SYS,
}  # fmt: skip
#: Variables that change a forecast. Others are listed in a warning.
_KNOWN = (
    "NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE", "NCCL_ALGO", "NCCL_PROTO", "NCCL_BUFFSIZE", "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS",
)  # fmt: skip
_MOST_CHANNELS = 32


def capability_of(gpu: str) -> float:
    """Return the CUDA compute capability of a product name.

    Raises
    ------
    InputError
        If the product is unknown.

    Examples
    --------
    >>> capability_of("NVIDIA GeForce RTX 4090"), capability_of("NVIDIA A100-PCIE-40GB")
    (8.9, 8.0)
    """
    name = gpu.lower()
    for words, capability in GPU_CAPABILITIES.items():
        if words in name:
            return capability
    raise unknown_name("gpu", gpu, GPU_CAPABILITIES)


def has_stock_peer_access(gpu: str) -> bool:
    """Return whether the unmodified driver permits direct copies between GPUs of a product name."""
    return not any(words in gpu.lower() for words in _WITHOUT_PEER_ACCESS)


@dataclass(frozen=True)
class NcclSettings:
    """Properties of a host and settings that NCCL uses for its choices.

    Parameters
    ----------
    cpu : Cpu
        Processor family.
    capability : float
        Lowest CUDA compute capability of the GPUs.
    version : Version
        Version of NCCL.
    numa_nodes : tuple of int, optional
        NUMA node of each rank; by default one per socket, or one per root complex.
    has_peer_access : bool
        Whether GPUs can copy directly.
    p2p_level : PathType, optional
        Farthest path of direct copies; by default that of the version.
    algorithms, protocols : frozenset, optional
        Permitted algorithms and protocols; by default all, except LL128.
    buffer_size : int, optional
        Buffer of the protocol Simple in bytes (NCCL_BUFFSIZE).
    least_channels, most_channels : int, optional
        Bounds on the number of channels.
    ignored : tuple of str
        Environment variables without effect on the forecast.
    """

    cpu: Cpu = Cpu.UNKNOWN
    capability: float = 8.0
    version: Version = NEWEST
    numa_nodes: tuple[int, ...] | None = None
    has_peer_access: bool = True
    p2p_level: PathType | None = None
    algorithms: frozenset[Algorithm] | None = None
    protocols: frozenset[Protocol] | None = None
    buffer_size: int | None = None
    least_channels: int | None = None
    most_channels: int | None = None
    ignored: tuple[str, ...] = field(default=())

    @property
    def pairs(self) -> frozenset[tuple[Algorithm, Protocol]]:
        """Permitted pairs of algorithm and protocol."""
        algorithms = self.algorithms or frozenset({Algorithm.RING, Algorithm.TREE})
        protocols = self.protocols or frozenset({Protocol.LL, Protocol.SIMPLE})
        return frozenset((algorithm, protocol) for algorithm in algorithms for protocol in protocols)


def with_environment(settings: NcclSettings, environment: Mapping[str, str]) -> NcclSettings:
    """Return settings changed by environment variables of NCCL.

    Parameters
    ----------
    settings : NcclSettings
        Settings of the machine.
    environment : mapping of str to str
        Variables such as ``{"NCCL_P2P_LEVEL": "SYS"}``.

    Raises
    ------
    InputError
        If a value is invalid, or two variables contradict each other.

    Examples
    --------
    >>> with_environment(NcclSettings(), {"NCCL_P2P_LEVEL": "SYS"}).p2p_level.name
    'SYS'
    """
    changes: dict[str, object] = {}
    ignored = []
    for name, text in environment.items():
        if not name.startswith("NCCL_"):
            raise InputError(f"contains '{name}', expected variables of NCCL such as NCCL_P2P_LEVEL", argument="env")
        if name not in _KNOWN:
            ignored.append(name)
        elif name == "NCCL_P2P_LEVEL":
            if text.upper() not in _LEVELS:
                raise InputError(f"sets {name} to '{text}', expected one of {', '.join(_LEVELS)}", argument="env")
            changes["p2p_level"] = _LEVELS[text.upper()]
        elif name == "NCCL_P2P_DISABLE":
            if _integer(name, text, 0, 1) and environment.get("NCCL_P2P_LEVEL", "LOC").upper() not in ("LOC", "0"):
                raise InputError(
                    f"sets NCCL_P2P_DISABLE to 1 and NCCL_P2P_LEVEL to {environment['NCCL_P2P_LEVEL']}, expected one "
                    "of them",
                    argument="env",
                )
            changes["has_peer_access"] = settings.has_peer_access and text == "0"
        elif name == "NCCL_ALGO":
            changes["algorithms"] = _names(name, text, (Algorithm.RING, Algorithm.TREE))
        elif name == "NCCL_PROTO":
            changes["protocols"] = _names(name, text, tuple(Protocol))
        elif name == "NCCL_BUFFSIZE":
            changes["buffer_size"] = _bytes(name, text)
        else:
            bound = "least_channels" if "MIN" in name else "most_channels"
            changes[bound] = _integer(name, text, 1, _MOST_CHANNELS)
    found = replace(settings, **changes, ignored=tuple(ignored))  # type: ignore[arg-type]
    least, most = found.least_channels, found.most_channels
    if least is not None and most is not None and least > most:
        raise InputError(f"sets at least {least} and at most {most} channels, expected an ordered pair", argument="env")
    return found


def _integer(name: str, text: str, low: int, high: int) -> int:
    if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
        raise InputError(f"sets {name} to '{text}', expected {low} to {high}", argument="env")
    return int(text)


def _bytes(name: str, text: str) -> int:
    size = parse_bytes(text, name)
    if not 65536 <= size <= 2**30:
        raise InputError(f"sets {name} to '{text}', expected 64 KiB to 1 GiB", argument="env")
    return int(size)


def _names(name: str, text: str, known: Collection[Algorithm | Protocol]) -> frozenset[Algorithm | Protocol]:
    """Return the permitted names of a comma-separated list; ``^`` in front excludes the names."""
    excluded, names = text.startswith("^"), text.removeprefix("^").lower().split(",")
    by_name = {str(one): one for one in known}
    for one in names:
        if one.strip() not in by_name:
            near = near_names(one, by_name)
            raise InputError(f"sets {name} to '{text}', expected {' or '.join(by_name)}{near}", argument="env")
    chosen = frozenset(by_name[one.strip()] for one in names)
    return frozenset(known) - chosen if excluded else chosen
