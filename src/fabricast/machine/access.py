"""Peer access of the pairs of GPUs: pairs without it copy through host memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fabricast.core.facts import Block, Fact, Facts, Kind, Quantity
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.machine.addresses import endpoints_of_block
from fabricast.pcie.topology.parts import pairs_without_link
from fabricast.pcie.topology.tree import PcieTree

_Pair = tuple[str, str]


def with_peer_access(tree: PcieTree, facts: Facts, models: Mapping[str, str]) -> PcieTree:
    """Return a tree with the pairs whose copies pass through host memory, as measurements, files or models state.

    Pairs with direct links need no peer access over PCIe.
    """
    possible = pairs_without_link(tree.accelerator_names, tree.peer_links)
    warnings: list[CodedWarning] = []
    stated = _stated(tree, facts, warnings)
    refused = {pair: fact for pair, fact in stated.items() if fact.value and pair in set(possible)}
    without = _models_without_access(models)
    unstated = [pair for pair in possible if pair not in stated and tree.transport(*pair) != "staged"]
    assumed = [pair for pair in unstated if not without.keys().isdisjoint(pair)]
    kept = [pair for pair in tree.staged_pairs if pair not in stated]
    chosen = set(refused) | set(assumed) | set(kept)
    staged = tuple(pair for pair in possible if pair in chosen)
    if refused:
        warnings.append(_refused_text(refused, len(possible)))
    granted = [pair for pair in possible if pair in stated and not stated[pair].value]
    if any(not without.keys().isdisjoint(pair) for pair in granted):
        warnings.append(_granted_text(granted, stated))
    if assumed:
        model = next(without[name] for pair in assumed for name in pair if name in without)
        text = (
            f"the unmodified driver of {model} permits no direct copies: copies between GPUs pass through host "
            "memory; 'nvidia-smi topo -p2p r' states whether it does (transport p2p forecasts direct copies)"
        )
        warnings.append(CodedWarning(WarningCode.PEER_ACCESS_ASSUMED, text))
    known = [one for one in tree.warnings if one.code is not WarningCode.PEER_ACCESS_ASSUMED or not stated]
    return replace(tree, staged_pairs=staged, warnings=tuple(dict.fromkeys([*known, *warnings])))


def _stated(tree: PcieTree, facts: Facts, warnings: list[CodedWarning]) -> dict[_Pair, Fact]:
    """Return the statement about each pair: what was tried, before what the driver states."""
    stated: dict[_Pair, Fact] = {}
    conflicts: list[tuple[_Pair, Fact, Fact]] = []
    of_blocks = [(pair, fact) for block in facts.blocks for pair, fact in _of_block(tree, block, warnings)]
    for pair, fact in sorted(of_blocks, key=lambda one: one[1].kind):
        before = stated.setdefault(pair, fact)
        if bool(before.value) != bool(fact.value):
            conflicts.append((pair, before, fact))
    if conflicts:
        pair, first, other = conflicts[0]
        others = len({one for one, *_ in conflicts}) - 1
        more = f" and {others} more pairs" if others else ""
        text = (
            f"{first.place} states that GPU {'>'.join(pair)}{more} {_has(first)} peer access, but {other.place} that "
            f"it {_has(other)}: the files contradict each other; the former is used"
        )
        warnings.append(CodedWarning(WarningCode.FILES_CONTRADICT, text))
    return stated


def _has(fact: Fact) -> str:
    return f"has no ({fact.value})" if fact.value else "has"


def _of_block(tree: PcieTree, block: Block, warnings: list[CodedWarning]) -> Iterator[tuple[_Pair, Fact]]:
    """Yield the pairs of endpoints of a block; pairs that the topology lacks are left out with a warning."""
    access = block.of(Quantity.PEER_ACCESS)
    if not access:
        return
    by_address, names = endpoints_of_block(tree, block), tree.accelerator_names
    unknown: list[str] = []
    for fact in access:
        ends = [_endpoint(number, by_address, names) for number in fact.subject]
        if ends[0] is not None and ends[1] is not None:
            yield (ends[0], ends[1]), fact
        else:
            unknown += [number for number, end in zip(fact.subject, ends, strict=True) if end is None]
    count = len({number for fact in access for number in fact.subject})
    if unknown:
        text = f"{block.place.path} has GPU{unknown[0]}, expected {len(names)} GPUs as in the topology"
        warnings.append(CodedWarning(WarningCode.FILES_CONTRADICT, text))
    elif access[0].kind is Kind.STATED and count < len(names):
        text = f"{block.place.path} states the peer access of {count} GPUs, expected {len(names)} as in the topology"
        warnings.append(CodedWarning(WarningCode.FILES_CONTRADICT, text))


def _endpoint(number: str, by_address: Mapping[str, str], names: Sequence[str]) -> str | None:
    """Return the endpoint of a GPU number: by address, by its name, or in the order of the GPUs."""
    if number in by_address:
        return by_address[number]
    if number in names:
        return number
    return names[int(number)] if int(number) < len(names) and not by_address else None


def _models_without_access(models: Mapping[str, str]) -> dict[str, str]:
    """Return the GPUs whose unmodified driver permits no direct copies, with their models."""
    known = {name: text for name, text in models.items() if is_known_gpu(text)}
    return {name: text for name, text in known.items() if not gpu_model(text).has_stock_peer_access}


def _refused_text(refused: Mapping[_Pair, Fact], possible: int) -> CodedWarning:
    reasons = ", ".join(dict.fromkeys(str(fact.value) for fact in refused.values()))
    fact = next(iter(refused.values()))
    where = fact.place.path if fact.kind is Kind.STATED else str(fact.place)
    text = (
        f"{len(refused)} of {possible} pairs have no peer access ({reasons}; {where}), for example "
        f"{'>'.join(min(refused))}: their copies pass through host memory"
    )
    return CodedWarning(WarningCode.NO_PEER_ACCESS, text)


def _granted_text(granted: Sequence[_Pair], stated: Mapping[_Pair, Fact]) -> CodedWarning:
    fact = stated[granted[0]]
    text = (
        f"{len(granted)} pairs have peer access ({fact.place.path}), unlike with the unmodified driver of their model"
    )
    return CodedWarning(WarningCode.TOPOLOGY_NOTE, text)


def refused_links(tree: PcieTree, facts: Facts) -> dict[_Pair, Fact]:
    """Return the pairs of GPUs that direct links connect, and that have no peer access as a file states."""
    stated = _stated(tree, facts, [])
    return {pair: fact for pair, fact in stated.items() if fact.value and tree.peer_link(*pair) is not None}
