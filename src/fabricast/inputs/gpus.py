"""Table of GPU models: compute capability, PCIe link, NVLink rate, direct copies."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from fabricast.core.errors import unknown_name
from fabricast.core.resources import published
from fabricast.inputs.csv_files import read_csv

_COLUMNS = [
    "words",
    "capability",
    "pcie_generation",
    "pcie_width",
    "nvlink_gb_per_s",
    "peer_access",
    "always_linked",
    "c2c_gb_per_s",
    "source",
]
#: NVLinks of a GPU by generation: Pascal, Volta, Ampere, Hopper, Blackwell.
_NVLINKS = {6: 4, 7: 6, 8: 12, 9: 18, 10: 18}
#: Series of GeForce cards, which some write together with their number.
_SERIES = re.compile(r"\b(rtx|gtx)(?=\d)")
_WORD = re.compile(r"[a-z0-9]+")
#: Pattern of the word of a series before a number, and that of words next to a short name such as L4.
_OF_SERIES = (
    r"(?i:\b(?:RTX|GTX|GeForce|Quadro|Radeon|RX)[ -]{{0,2}}(?:RTX |GTX )?{0}(?:s|[ -]?Ti)?\b)|\b{0}(?:s|[ -]?Ti)\b"
)
_OF_GPUS = r"\b(?:NVIDIA|Tesla|AMD|Instinct|GPUs?:?|\d{{1,2}} ?[x×*]) ?{0}s?\b|\b{0}s? GPUs?\b|\b{0}s\b"
#: Letters up to which a name may be a word of another trade.
_SHORT = 2
#: Plural of a name whose letter s is no part of it, as that of L40S is.
_PLURAL = re.compile(r"(?<=[0-9]00)s\b|(?<=0[6-9]0)s\b|(?<=MI[0-9]0)s\b|(?<=L40S)s\b|(?<=\b[ALT][24])s\b")


class GpuModel(NamedTuple):
    """Properties of a GPU model."""

    words: str  # Words of the product name
    capability: float | None  # CUDA compute capability; None for GPUs of AMD
    #: PCIe link.
    generation: int
    width: int
    nvlink_bytes_per_s: float | None  # Rate of one NVLink in one direction in bytes/s; None without NVLink
    has_stock_peer_access: bool  # Whether the unmodified driver permits direct copies between GPUs
    is_always_linked: bool  # Whether all GPUs of this model in one machine are connected directly (NVLink, xGMI)
    #: Rate of the link to the host in one direction in bytes/s if it is no PCIe link (NVLink-C2C).
    host_bytes_per_s: float | None
    source: str  # Origin of the numbers

    @property
    def most_nvlinks(self) -> int:
        """Number of NVLinks of a GPU of this generation; 0 without NVLink."""
        generation = int(self.capability or 0)
        return 0 if self.nvlink_bytes_per_s is None else _NVLINKS.get(generation, _NVLINKS[10])


@lru_cache(maxsize=1)
def _models() -> tuple[GpuModel, ...]:
    return tuple(
        GpuModel(
            row["words"],
            row.number("capability") if row["capability"] else None,
            int(row.number("pcie_generation")),
            int(row.number("pcie_width")),
            row.number("nvlink_gb_per_s") * 1e9 if row["nvlink_gb_per_s"] else None,
            row["peer_access"] == "yes",
            row["always_linked"] == "yes",
            row.number("c2c_gb_per_s") * 1e9 if row["c2c_gb_per_s"] else None,
            row["source"],
        )
        for row in read_csv(published() / "gpus.csv", _COLUMNS)
    )


@lru_cache(maxsize=1)
def _devices() -> dict[tuple[str, str], str]:
    rows = read_csv(published() / "pci_devices.csv", ("vendor", "device", "name"))
    return {(row["vendor"], row["device"]): row["name"] for row in rows}


def gpu_of_device(vendor: str, device: str) -> str | None:
    """Return the name of a GPU by the numbers of its PCI device; None if the table of GPU models has none.

    >>> gpu_of_device("0x10de", "0x2684"), gpu_of_device("0x15b3", "0x1021")
    ('GeForce RTX 4090', None)
    """
    return _devices().get((vendor.lower().removeprefix("0x"), device.lower().removeprefix("0x")))


def is_known_gpu(name: str) -> bool:
    """Return whether the table has the model of a product name.

    >>> is_known_gpu("NVIDIA L40S"), is_known_gpu("AMD Instinct MI300X"), is_known_gpu("NVIDIA L40X")
    (True, True, False)
    """
    return _model_of(name) is not None


def gpus_named_in(sentence: str) -> set[str]:
    """Return the models that a sentence names, as products are written; numbers need a series, short names a GPU.

    >>> sorted(gpus_named_in("two A6000 and an H100 PCIe")), gpus_named_in("port 5090 of gateway a10")
    (['a6000', 'h100 pcie'], set())
    >>> gpus_named_in("4x RTX 5090s")
    {'5090'}
    >>> gpus_named_in("the L2 cache, in rack L4, as 4090 packets of GeForce NOW"), gpus_named_in("4x L4")
    (set(), {'l4'})
    """
    words = f" {_words(_PLURAL.sub('', sentence))} "
    found = set()
    for model in _models():
        name = model.words
        if f" {name} " not in words:
            continue
        # A longer name has the words of a shorter one.
        words = words.replace(f" {name} ", "  ")
        first = name.split()[0]
        pattern = _OF_SERIES if first.isdigit() else _OF_GPUS if len(first) <= _SHORT else r"\b{0}(?:S|s)?\b"
        is_written = re.search(pattern.format(first.upper()), sentence)
        if is_written or not any(letter.isdigit() for letter in first):
            found.add(name)
    return found


def _model_of(name: str) -> GpuModel | None:
    words = f" {_words(name)} "
    return next((model for model in _models() if f" {model.words} " in words), None)


def _words(name: str) -> str:
    """Return the words of a name or sentence in small letters, with series and number as two words."""
    return " ".join(_WORD.findall(_SERIES.sub(r"\1 ", name.lower())))


def is_gpu_in_short(name: str, product: str) -> bool:
    """Return whether a name is a product name with fewer words, or another name of the same module (SXM).

    >>> is_gpu_in_short("H100", "NVIDIA H100 80GB HBM3"), is_gpu_in_short("H200 NVL", "NVIDIA H200")
    (True, False)
    """
    short, whole = _model_of(name), _model_of(product)
    if short is None or whole is None:
        return False
    words, more = short.words.split(), whole.words.split()
    is_module = words[0] == more[0] and words[1:2] != [] and words[1].startswith("sxm")
    same_properties = short._replace(words="", source="") == whole._replace(words="", source="")
    return words == more[: len(words)] or (is_module and same_properties)


def gpu_model(name: str, argument: str = "gpu") -> GpuModel:
    """Return the model of a product name.

    >>> gpu_model("NVIDIA GeForce RTX 4090").capability, gpu_model("NVIDIA A100-PCIE-40GB").generation
    (8.9, 4)
    """
    model = _model_of(name)
    if model is None:
        # Cards of the GeForce and Ada series are listed by their number.
        names = (f"rtx {one.words}" if one.words[0].isdigit() else one.words for one in _models())
        raise unknown_name(argument, name, [one.upper() for one in names])
    return model
