"""Tree of a machine from all descriptions in its files: the most detailed one, completed by the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fabricast.core.errors import InputError, NoAcceleratorError
from fabricast.core.facts import Block, Content, Fact, Facts, Quantity
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.machine.descriptions import Described, contradictions
from fabricast.machine.options import MachineOptions
from fabricast.machine.sockets import with_sockets
from fabricast.pcie.topology.devices import DeviceForest, tree_of_devices
from fabricast.pcie.topology.path_classes import ClassMatrix, tree_of_classes
from fabricast.pcie.topology.tree import PcieTree

#: Programs in the order in which they describe a machine: the first one determines the tree.
_PROGRAMS = (
    "YAML",
    "built-in topology",
    "hwloc XML",
    "NCCL topology XML",
    "lspci -vv",
    "lspci -tv",
    "NCCL log",
    "nvidia-smi topo -m",  # and -mp
    "rocm-smi --showtopo",
    "amd-smi topology",
)
_COMMANDS = "'nvidia-smi topo -m', 'rocm-smi --showtopo', 'amd-smi topology' or 'lspci -vv'"
_NCCL_COMMAND = "NCCL prints it with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,GRAPH"
#: Warnings of a description that also hold if another one determines the tree.
_KEPT_WARNINGS = (WarningCode.ACCESS_CONTROL, WarningCode.DOWNGRADED_LINK, WarningCode.CARD_ON_OTHER_SOCKET)
_DISPLAY_NOTE = CodedWarning(
    WarningCode.TOPOLOGY_NOTE,
    "the machine has no accelerator but graphics cards: all cards of NVIDIA and AMD are GPUs (--include-display)",
)


def described_tree(facts: Facts, options: MachineOptions) -> tuple[PcieTree, list[Described]]:
    """Return the tree of a machine, and the descriptions that agree with it in the number of GPUs."""
    described, refused = _descriptions(facts, options)
    if not described:
        if refused:
            raise refused[0]
        raise _no_topology(facts)
    described.sort(key=lambda one: (not one.has_bridges, _rank(one.program)))
    first, *others = described
    warnings = [CodedWarning(WarningCode.PART_UNREADABLE, f"{error}; the description is left out") for error in refused]
    warnings += [
        CodedWarning(WarningCode.FILES_CONTRADICT, text) for other in others for text in contradictions(first, other)
    ]
    count = len(first.tree.accelerator_names)
    others = [other for other in others if len(other.tree.accelerator_names) == count]
    tree = first.tree
    if not first.has_sockets:
        by_socket = next((one.tree for one in others if one.has_sockets), None)
        tree = tree if by_socket is None else with_sockets(tree, by_socket)
    more = [warning for one in others for warning in one.tree.warnings if warning.code in _KEPT_WARNINGS]
    peers = next((one.tree.peer_links for one in (first, *others) if one.tree.peer_links), ())
    unique = tuple(dict.fromkeys([*tree.warnings, *more, *warnings]))
    return replace(tree, warnings=unique, peer_links=peers), [first, *others]


def _no_topology(facts: Facts) -> InputError:
    """Return the problem of a damaged description, or what the files have instead of a topology."""
    damaged = next((problem for block in facts.blocks_of(Content.TOPOLOGY) for problem in block.problems), None)
    if damaged is not None:
        return damaged
    contents = {
        file.path: " and ".join(dict.fromkeys(f"{block.content}{block.hint}" for block in file.blocks if block.facts))
        for file in facts.files
    }
    known = {path: text for path, text in contents.items() if text}
    found = f" beside {next(iter(known.values()))}" if len(contents) == 1 and known else ""
    wanted = f"has no topology{found}, expected one too ({_COMMANDS}"
    wanted += f"; {_NCCL_COMMAND})" if facts.blocks_of(Content.NCCL_LOG) else ")"
    if len(contents) == 1:
        return InputError(wanted, path=next(iter(contents)))
    listed = "; ".join(f"{path} has {text}" for path, text in known.items())
    return InputError(f"{wanted.replace('has', 'have', 1)}: {listed}", argument="files")


def _rank(program: str) -> int:
    return next((place for place, name in enumerate(_PROGRAMS) if program.startswith(name)), len(_PROGRAMS))


def _descriptions(facts: Facts, options: MachineOptions) -> tuple[list[Described], list[InputError]]:
    """Return the trees of all descriptions, and why others have none."""
    described: list[Described] = []
    refused: list[InputError] = []
    # Of several hosts, the first one is the machine; `unequal_topologies` compares the others with it.
    hosts = [fact.host for fact in facts.of(Quantity.TOPOLOGY) if fact.host]
    for block in facts.blocks:
        for fact in block.of(Quantity.TOPOLOGY):
            if fact.host and fact.host != hosts[0]:
                continue
            try:
                described.append(_described(block, fact, options))
            except InputError as error:
                refused.append(error)
    return described, refused


def _described(block: Block, fact: Fact, options: MachineOptions) -> Described:
    value, path = fact.value, fact.place.path
    if isinstance(value, PcieTree):
        return Described(fact.program, fact.place, _with_cards_noted(value))
    if isinstance(value, ClassMatrix):
        tree = tree_of_classes(value, path, network_cards=options.network_cards)
        return Described(fact.program, fact.place, _with_cards_noted(tree), value.has_sockets, value.has_switches)
    tree = _tree_of_forest(value, path, options)
    # lspci can print GPUs only ('-d 10de:'); all other programs print the bridges above them.
    has_bridges = not value.program.startswith("lspci") or any(
        one.children or one.bridges_above for socket in value.sockets for one in socket.children
    )
    return Described(fact.program, fact.place, _with_cards_noted(tree), value.has_sockets, has_bridges, has_bridges)


def _tree_of_forest(forest: DeviceForest, path: Path | str, options: MachineOptions) -> PcieTree:
    """Return the tree of a file of devices.

    lspci lists GeForce cards as display controllers: they are the accelerators of a machine without other ones.
    """
    try:
        return tree_of_devices(
            forest, path, include_display=options.include_display, network_cards=options.network_cards
        )
    except NoAcceleratorError:
        if options.include_display or not forest.program.startswith("lspci"):
            raise
    tree = tree_of_devices(forest, path, include_display=True, network_cards=options.network_cards)
    return replace(tree, warnings=(*tree.warnings, _DISPLAY_NOTE))


def _with_cards_noted(tree: PcieTree) -> PcieTree:
    """Return a tree with a warning about GPUs whose network cards are all on another NUMA node."""
    cards = [name for name in tree.endpoint_names if tree.vertex(name).network_card]
    far = [
        gpu for gpu in tree.accelerator_names if cards and all(tree.path_class(gpu, card) == "SYS" for card in cards)
    ]
    if not far:
        return tree
    near = [gpu for gpu in tree.accelerator_names if gpu not in far]
    reach = f"GPU {far[0]} reaches" if len(far) == 1 else f"GPUs {', '.join(far)} reach"
    text = f"{reach} every network card only through another NUMA node"
    # Where no GPU has a near card, NUMA nodes within a socket (GH200, NPS settings) may be the reason.
    code = WarningCode.CARD_ON_OTHER_SOCKET if near else WarningCode.TOPOLOGY_NOTE
    others = f"GPU {near[0]} has" if len(near) == 1 else f"GPUs {', '.join(near)} have"
    warning = CodedWarning(code, f"{text}; {others} one nearer" if near else text)
    # A topology file that an import wrote already has the warning.
    return replace(tree, warnings=tuple(dict.fromkeys([*tree.warnings, warning])))
