"""Reader of ``lsmod``: whether the modules are loaded by which network cards reach the memory of GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Quantity
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "lsmod"
_HEADER = re.compile(r"^Module\s+Size\s+Used by\b")
_ROW = re.compile(r"^(\w{2,60})\s+\d{3,12}\s+\d{1,6}(?:\s+[\w,-]{1,2000})?\s*$")
#: Modules of GPUs, of network cards, and those that give cards access to the memory of GPUs.
_OF_NVIDIA, _OF_CARDS, PEER_MODULES = "nvidia", ("ib_uverbs", "mlx5_ib"), ("nvidia_peermem", "nv_peer_mem")
#: Modules that a user searches for ("lsmod | grep nvidia").
_KNOWN = (_OF_NVIDIA, "nvidia_uvm", "nouveau", "amdgpu", *_OF_CARDS, *PEER_MODULES, "gdrdrv", "nvidia_fs", "ib_core")


def _modules(text: Text) -> dict[str, int]:
    return {match[1]: number for number, line in text.lines() if (match := _ROW.match(line)) is not None}


def _is_list(text: Text) -> bool:
    """Return whether a text has the header, or rows of modules of GPUs or network cards."""
    if not any(name in text.raw for name in _KNOWN):
        return False
    found = _modules(text)
    has_header = "Used by" in text.raw and any(_HEADER.match(line) for _, line in text.lines())
    return bool(found) and (has_header or any(name in found for name in _KNOWN))


def _read(text: Text) -> Iterator[Reading]:
    modules = _modules(text)
    first = min(modules.values())
    peer = next((name for name in PEER_MODULES if name in modules), None)
    # Only the whole list proves that a module is not loaded: the header stands in no output of grep.
    is_whole = any(_HEADER.match(line) for _, line in text.lines())
    facts = []
    if peer is not None:
        words = f"the module {peer} is loaded, by which network cards reach the memory of GPUs"
        facts.append(text.fact(Quantity.PEER_MODULE, True, modules[peer], _PROGRAM))
        facts.append(text.fact(Quantity.NOTE, words, modules[peer], _PROGRAM))
    elif is_whole and _OF_NVIDIA in modules and any(name in modules for name in _OF_CARDS):
        words = (
            "the module nvidia_peermem is not loaded: network cards reach the memory of GPUs only by DMA-BUF (Linux "
            "5.12, the open kernel modules of NVIDIA)"
        )
        facts.append(text.fact(Quantity.PEER_MODULE, False, first, _PROGRAM))
        facts.append(text.fact(Quantity.NOTE, words, first, _PROGRAM))
    else:
        known = [name for name in _KNOWN if name in modules]
        among = f", among them {', '.join(known)}" if known else ""
        words = f"{len(modules)} modules of the kernel{among}"
        facts.append(text.fact(Quantity.NOTE, words, first, _PROGRAM))
    yield Reading(facts)


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "lsmod > modules.txt",
    "nvidia_peermem         16384  0",
    _is_list,
    _read,
    "lsmod.txt",
    versions="whether nvidia_peermem is loaded, which GPUDirect RDMA may need",
    is_per_host=True,
)
