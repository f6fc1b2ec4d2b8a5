"""Direct links (NVLink, xGMI) that the GPU models have and the files of a machine do not show, or show unequal."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fabricast.core.errors import InputError
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.machine.descriptions import Described
from fabricast.machine.options import MachineOptions
from fabricast.pcie.topology.parts import PeerLink
from fabricast.pcie.topology.tree import PcieTree

#: Links of a pair from which they cannot be those of a bridge between few cards.
_SWITCHED_LINKS = 13
#: Models whose meshes have pairs with one and with two links.
MESHES = ("v100 sxm2", "v100 sxm3", "p100 sxm2", "v100", "p100")


#: Links of a bridge between two cards, by words of the model. NVIDIA, data sheets of the models.
_MOST_LINKS = 18
_BRIDGE_LINKS = {"a6000": 4, "a40": 4, "3090 ti": 4, "3090": 4}


class MissingLinksError(InputError):
    """Error about GPUs that always have direct links, although a file shows none."""


def links_without_switch(link: PeerLink, model: str = "") -> tuple[PeerLink, ...]:
    """Return the links of pairs if a GPU has enough NVLinks for equal ones to all others; otherwise the link itself.

    `nvidia-smi topo -m` prints the same matrix for both: NV6 of four H100 with 18 links each needs no NVSwitch.

    >>> link = PeerLink("NVSwitch", ("0", "1", "2", "3"), links=6)
    >>> [len(links_without_switch(link, model)) for model in ("H100 SXM5", "V100-SXM3", "")]
    [6, 1, 6]
    """
    if link.kind != "NVSwitch" or link.links is None or (model and not is_known_gpu(model)):
        return (link,)
    # Without a model, those of the GPUs with the most links, of which boards with four and without a switch exist.
    most = gpu_model(model).most_nvlinks if model else _MOST_LINKS
    if link.links * (len(link.endpoints) - 1) > most:
        return (link,)
    return tuple(replace(link, kind="NVLink", endpoints=pair) for pair in itertools.combinations(link.endpoints, 2))


def with_direct_links_checked(
    tree: PcieTree, described: Sequence[Described], models: Mapping[str, str], options: MachineOptions
) -> PcieTree:
    """Return a tree with warnings about GPUs that have fewer direct links than the others."""
    if options.pcie_only:
        return tree
    warnings = tuple(_unequal(tree, models) if tree.peer_links else _omitted(described, models))
    return replace(tree, warnings=tuple(dict.fromkeys([*tree.warnings, *warnings]))) if warnings else tree


def _omitted(described: Sequence[Described], models: Mapping[str, str]) -> Iterator[CodedWarning]:
    """Raise an error if a program that prints direct links shows none between GPUs that have them, or warn."""
    first = described[0]
    known = {name: gpu_model(text) for name, text in models.items() if is_known_gpu(text)}
    linked = [name for name, model in known.items() if model.is_always_linked]
    is_short = any(one.program == "nvidia-smi topo -mp" for one in described)
    if len(linked) < 2:
        return
    kind = "xGMI" if known[linked[0]].capability is None else "NVLink"
    if kind == "xGMI" and first.program.startswith("nvidia-smi"):
        return
    command = "'nvidia-smi topo -m'" if kind == "NVLink" else "'rocm-smi --showtopo'"
    text = f"shows no {kind} between GPUs, but those of {models[linked[0]]} have it"
    if is_short:
        reason = f"; 'nvidia-smi topo -mp' omits {kind}: expected {command}"
    elif first.program.startswith("nvidia-smi"):
        reason = (
            f"; 'nvidia-smi topo -mp' omits it: expected {command}, and if that shows none either, the links are down "
            "(fabric manager, Xid messages, 'nvidia-smi nvlink -s')"
        )
    else:
        text = f"{first.place.path} {text}; {first.program} does not print it, so that copies are predicted over PCIe: "
        yield CodedWarning(WarningCode.PEER_LINKS_UNKNOWN, f"{text}add {command}")
        return
    raise MissingLinksError(text + reason, path=first.place.path, line=first.place.line or None)


def _unequal(tree: PcieTree, models: Mapping[str, str]) -> Iterator[CodedWarning]:
    """Yield the GPUs with fewer links of a pair, or links to fewer GPUs, than the others."""
    gpus = tree.accelerator_names
    counts: dict[str, list[int]] = {gpu: [] for gpu in gpus}
    for link in tree.peer_links:
        if link.kind == "xGMI" or link.links is None:
            return
        for end in link.endpoints:
            if end in counts:
                # Each GPU has all its links to an NVSwitch for every partner.
                counts[end] += [link.links] * (len(link.endpoints) - 1)
    totals = {gpu: sum(found) for gpu, found in counts.items()}
    most = max(totals.values())
    fewer = [gpu for gpu in gpus if totals[gpu] < most]
    if not fewer:
        yield from _incomplete_bridges(tree, models)
        return
    full = [gpu for gpu in gpus if totals[gpu] == most]
    usual = Counter(counts[full[0]]).most_common(1)[0][0]
    parts = []
    for own in sorted({totals[gpu] for gpu in fewer}):
        same = [gpu for gpu in fewer if totals[gpu] == own]
        named = [f"{gpu} ({tree.vertex(gpu).label})" if _has_address(tree, gpu) else gpu for gpu in same]
        most_common = Counter(counts[same[0]]).most_common(1)[0][0] if own else 0
        links = "no NVLink" if not own else f"NV{most_common}" if most_common != usual else "fewer NVLinks"
        parts.append(f"GPU {', '.join(named)} {'has' if len(same) == 1 else 'have'} {links}")
    text = f"{', '.join(parts)}, the others have NV{usual}"
    is_fault = usual >= _SWITCHED_LINKS or any(
        is_known_gpu(text) and gpu_model(text).is_always_linked and gpu_model(text).words not in MESHES
        for text in models.values()
    )
    if is_fault:
        yield CodedWarning(WarningCode.UNEQUAL_DIRECT_LINKS, text)
    else:
        yield CodedWarning(WarningCode.TOPOLOGY_NOTE, f"{text}; bridges and meshes of this kind can be unequal")


def _incomplete_bridges(tree: PcieTree, models: Mapping[str, str]) -> Iterator[CodedWarning]:
    """Yield pairs whose bridge has fewer links than its cards."""
    for link in tree.peer_links:
        known = {gpu_model(models[end]) for end in link.endpoints if is_known_gpu(models.get(end, ""))}
        whole = {_BRIDGE_LINKS.get(model.words) for model in known}
        most = whole.pop() if len(whole) == 1 else None
        if most is not None and link.links is not None and link.links < most:
            text = f"GPUs {' and '.join(link.endpoints)} use {link.links} of the {most} links of their bridge"
            yield CodedWarning(WarningCode.UNEQUAL_DIRECT_LINKS, f"{text}: it may not be fully inserted")


def _has_address(tree: PcieTree, gpu: str) -> bool:
    return ":" in tree.vertex(gpu).label
