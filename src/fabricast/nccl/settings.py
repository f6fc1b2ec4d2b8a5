"""Settings that determine the choices of NCCL: processor, GPUs, version and environment variables."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from fabricast.core.errors import InputError, near_names, unknown_name
from fabricast.core.units import parse_bytes
from fabricast.nccl.costs import Algorithm, Protocol
from fabricast.nccl.system import NEWEST, Cpu, PathType, Version

_LEVELS = {
    "LOC": PathType.LOC,
    "NVL": PathType.NVB,
    "PIX": PathType.PIX,
    "PXB": PathType.PXB,
    "PHB": PathType.PHB,
    "SYS": PathType.SYS,
    "0": PathType.LOC,
    "1": PathType.PIX,
    "2": PathType.PXB,
    "3": PathType.PHB,
    "4": PathType.SYS,
    "5": PathType.SYS,
}
#: Algorithms that NCCL_ALGO can name.
ALGORITHMS = (Algorithm.RING, Algorithm.TREE, Algorithm.NVLS, Algorithm.NVLS_TREE)
#: Variables that change a forecast. Others are listed in a warning.
_KNOWN = (
    "NCCL_P2P_LEVEL",
    "NCCL_P2P_DISABLE",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_BUFFSIZE",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS",
)
_MOST_CHANNELS = 32
#: Similarity from which a name is a misspelt one: NCCL_MIN_CHANNELS, and not NCCL_MIN_P2P_NCHANNELS.
_MISSPELT = 0.92
#: Words in the name of a processor, in the order in which they are searched.
_CPU_WORDS = (
    ("epyc", Cpu.AMD),
    ("threadripper", Cpu.AMD),
    ("ryzen", Cpu.AMD),
    ("amd", Cpu.AMD),
    ("emerald", Cpu.INTEL_EMERALD_RAPIDS),
    ("sapphire", Cpu.INTEL_SAPPHIRE_RAPIDS),
    ("broadwell", Cpu.INTEL_BROADWELL),
    ("e5-", Cpu.INTEL_BROADWELL),
    ("xeon", Cpu.INTEL_SKYLAKE),
    ("intel", Cpu.INTEL_SKYLAKE),
    ("power9", Cpu.POWER9),
    ("yongfeng", Cpu.YONGFENG),
    ("zhaoxin", Cpu.ZHAOXIN),
    ("arm", Cpu.ARM),
    ("grace", Cpu.ARM),
    ("ampere altra", Cpu.ARM),
)
#: Model of a Xeon Scalable processor; its second digit is the generation: 4 Sapphire Rapids, 5 Emerald Rapids.
_XEON = re.compile(r"\b[3-9]([1-6])\d\d(?!\d)")
#: Model of a Granite Rapids processor, which NCCL counts as Sapphire Rapids.
_XEON_6 = re.compile(r"\b6[3579]\d\dP", re.IGNORECASE)


def cpu_of(name: str) -> Cpu:
    """Return the processor family of a product name or of NCCL's name.

    >>> cpu_of("2x AMD EPYC 9575F").value, cpu_of("Intel Xeon Platinum 8480C").value
    ('amd', 'intel_sapphire_rapids')
    """
    text = name.lower().replace("-", "_").replace(" ", "_")
    if text in set(Cpu):
        return Cpu(text)
    for words, cpu in _CPU_WORDS:
        if words in name.lower():
            model = _XEON.search(name)
            if cpu is Cpu.INTEL_SKYLAKE and _XEON_6.search(name):
                return Cpu.INTEL_SAPPHIRE_RAPIDS
            if cpu is Cpu.INTEL_SKYLAKE and model is not None:
                return {"4": Cpu.INTEL_SAPPHIRE_RAPIDS, "5": Cpu.INTEL_EMERALD_RAPIDS}.get(model[1], cpu)
            return cpu
    raise unknown_name("cpu", name, list(Cpu))


@dataclass(frozen=True)
class NcclSettings:
    """Properties of a host and settings that NCCL uses for its choices."""

    cpu: Cpu = Cpu.UNKNOWN  # Processor family
    capability: float = 8.0  # Lowest CUDA compute capability of the GPUs
    version: Version = NEWEST  # Version of NCCL
    #: NUMA node of each rank; by default one per socket, or one per root complex.
    numa_nodes: tuple[int, ...] | None = None
    has_peer_access: bool = True  # Whether GPUs can copy directly
    p2p_level: PathType | None = None  # Farthest path of direct copies; by default that of the version
    #: Permitted algorithms and protocols; by default all, except LL128.
    algorithms: frozenset[Algorithm] | None = None
    protocols: frozenset[Protocol] | None = None
    buffer_size: int | None = None  # Buffer of the protocol Simple in bytes (NCCL_BUFFSIZE)
    #: Bounds on the number of channels.
    least_channels: int | None = None
    most_channels: int | None = None
    ignored: tuple[str, ...] = field(default=())  # Environment variables without effect on the forecast
    disabled_by: str = ""  # Variable with its value that switches direct copies off; empty if none does

    @property
    def pairs(self) -> frozenset[tuple[Algorithm, Protocol]]:
        """Permitted pairs of algorithm and protocol."""
        algorithms = self.algorithms or frozenset(ALGORITHMS)
        protocols = self.protocols or frozenset({Protocol.LL, Protocol.SIMPLE})
        return frozenset((algorithm, protocol) for algorithm in algorithms for protocol in protocols)


def with_environment(settings: NcclSettings, environment: Mapping[str, str]) -> NcclSettings:
    """Return settings changed by environment variables of NCCL.

    >>> with_environment(NcclSettings(), {"NCCL_P2P_LEVEL": "SYS"}).p2p_level.name
    'SYS'
    """
    changes: dict[str, object] = {}
    ignored = []
    for name, text in environment.items():
        if not name.startswith("NCCL_"):
            raise InputError(f"contains '{name}', expected variables of NCCL such as NCCL_P2P_LEVEL", argument="env")
        if name not in _KNOWN:
            ignored.append(f"{name}{_suggestion(name)}")
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
            changes["disabled_by"] = "" if text == "0" else f"{name}={text}"
        elif name == "NCCL_ALGO":
            changes["algorithms"] = _names(name, text, ALGORITHMS)
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


def _suggestion(name: str) -> str:
    """Return the variable that a misspelt name probably means, as a question; empty for other variables."""
    longer = [known for known in _KNOWN if name.startswith(known)]
    near = longer or difflib.get_close_matches(name, _KNOWN, n=1, cutoff=_MISSPELT)
    return f" (did you mean {near[0]}?)" if near else ""


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
