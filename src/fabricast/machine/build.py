"""Construction of a machine from the facts of all files and the options of the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Facts, Place, Quantity, SourceFile
from fabricast.core.units import HEADER_BYTES, PAYLOAD_BYTES, PROTOCOL_EFFICIENCY
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.inputs.pair_rates import pcie_share
from fabricast.machine.access import with_peer_access
from fabricast.machine.descriptions import Described
from fabricast.machine.direct_links import with_direct_links_checked
from fabricast.machine.gpus import with_gpus
from fabricast.machine.machine import Machine
from fabricast.machine.measurements import measurements_of
from fabricast.machine.options import MachineOptions
from fabricast.machine.topology import described_tree
from fabricast.pcie.models.parameters import link_generation
from fabricast.pcie.topology.tree import PcieTree
from fabricast.sources.reading import read, unknown_text

#: Contents that describe or measure a machine.
MACHINE_CONTENTS = (
    Content.TOPOLOGY,
    Content.GPUS,
    Content.PEER_ACCESS,
    Content.COPIES,
    Content.COLLECTIVES,
    Content.NCCL_LOG,
    Content.STATES,
    Content.RUN_ERRORS,
)


def load_facts(paths: Sequence[Path | str], *contents: Content) -> Facts:
    """Read files of which each must have one of some contents."""
    if not paths:
        raise InputError("is empty, expected at least one file", argument="files")
    facts = read(paths)
    check_usable(facts, *contents)
    return facts


def check_usable(facts: Facts, *contents: Content) -> None:
    """Raise an error about the first file without usable content."""
    for file in facts.files:
        problem = _problem(file, contents)
        if problem is not None:
            raise problem


def _problem(file: SourceFile, contents: Sequence[Content]) -> InputError | None:
    """Return the reason why nothing of a file can be used; None if something can."""
    if file.problem is not None or file.is_empty:
        return file.problem or InputError("is empty", path=file.path)
    if not file.blocks:
        return InputError(f"{unknown_text(*contents)}{file.hint}", path=file.path)
    wanted = [block for block in file.blocks if block.content in contents or block.content is Content.NETWORK]
    if not wanted:
        block = file.blocks[0]
        expected = f"{', '.join(contents[:-1])} or {contents[-1]}" if len(contents) > 1 else contents[0]
        what = block.text or f"{block.content} ({block.program})"
        text = f"has {what}{block.hint}; expected {expected}"
        return InputError(text, path=file.path)
    damaged = [problem for block in wanted for problem in block.problems]
    return damaged[0] if damaged and not any(block.facts for block in wanted) else None


def machine_from(facts: Facts, options: MachineOptions | None = None) -> Machine:
    """Return the machine that files describe."""
    options = MachineOptions() if options is None else options
    return _machine(*described_tree(facts, options), facts, options)


def machine_of_tree(tree: PcieTree, facts: Facts | None = None, options: MachineOptions | None = None) -> Machine:
    """Return the machine of a topology that was read before, with the facts of further files."""
    facts = Facts() if facts is None else facts
    options = MachineOptions() if options is None else options
    return _machine(tree, [Described("topology", Place(tree.name), tree)], facts, options)


def _machine(tree: PcieTree, described: Sequence[Described], facts: Facts, options: MachineOptions) -> Machine:
    """Return the machine of a tree, completed by the statements of all files about its GPUs and their copies."""
    tree, models = with_gpus(tree, described, facts, options)
    tree = with_direct_links_checked(tree, described, models, options)
    tree = with_peer_access(tree, facts, models)
    tree = _with_payload(tree, facts)
    notes = [*_unread(facts), *_networks(facts)]
    tree = replace(tree, warnings=tuple(dict.fromkeys([*tree.warnings, *notes])))
    return Machine(tree, measurements_of(tree, facts, options), models, options, facts)


def _with_payload(tree: PcieTree, facts: Facts) -> PcieTree:
    """Return a topology whose copies have the payload share of the packets that lspci printed."""
    payload = min((int(fact.value) for fact in facts.of(Quantity.PAYLOAD)), default=PAYLOAD_BYTES)
    if payload == PAYLOAD_BYTES or tree.link_bytes_per_s is None:
        return tree
    share = payload / (payload + HEADER_BYTES)
    text = f"MaxPayload of the GPUs is {payload} bytes: payload is {share:.1%} of a packet"
    code = WarningCode.SMALL_PAYLOAD if payload < PAYLOAD_BYTES else WarningCode.TOPOLOGY_NOTE
    warnings = (*tree.warnings, CodedWarning(code, text))
    # Public machines have the usual payload.
    usual = pcie_share(link_generation(tree)).median / PROTOCOL_EFFICIENCY
    return replace(tree, bandwidth_bytes_per_s=tree.link_bytes_per_s * share * usual, warnings=warnings)


def _unread(facts: Facts) -> list[CodedWarning]:
    """Return a warning for each part of a file that cannot be read."""
    return [CodedWarning(WarningCode.PART_UNREADABLE, f"{problem}; it is left out") for problem in facts.problems]


def _networks(facts: Facts) -> list[CodedWarning]:
    """Return a note for each file about the network between hosts."""
    return [
        CodedWarning(
            WarningCode.TOPOLOGY_NOTE,
            f"{block.place.path} describes the network between hosts, no part of this topology; "
            "'fabricast map --network' reads it",
        )
        for block in facts.blocks_of(Content.NETWORK)
    ]
