"""Cluster of equal nodes from the facts about one node."""

from __future__ import annotations

from collections import Counter

from fabricast.collectives.clusters.cluster import BRIDGES, PCIE, Cluster
from fabricast.core.errors import InputError
from fabricast.inputs.gpus import gpu_model
from fabricast.machine.direct_links import links_without_switch
from fabricast.machine.machine import Machine
from fabricast.nccl.system import PathType
from fabricast.pcie.topology.builtin import are_dies, node_named
from fabricast.pcie.topology.tree import PcieTree

#: Built-in node of eight dies.
_DIES = "mi250x"
#: Path classes of a GPU and its network card; NODE is a path over host bridges of one NUMA node.
_ATTACH = {"PIX": PathType.PIX, "PXB": PathType.PXB, "PHB": PathType.PHB, "NODE": PathType.PHB, "SYS": PathType.SYS}


def cluster_of_machine(machine: Machine, gpu: str | None = None, *, is_one_of_several: bool = False) -> Cluster:
    """Return one node as a machine describes it, with its network cards but without their rate.

    One of several nodes may have no direct links.
    """
    tree, gpu = machine.tree, machine.gpu or gpu
    if not (tree.peer_links or is_one_of_several):
        raise InputError(f"'{tree.name}' has no direct links between its GPUs: expected NVLink, NVSwitch or xGMI")
    if gpu is None:
        raise InputError(f"'{tree.name}' does not name the model of its GPUs; specify gpu (--gpu)")
    fabric, links = PCIE, 0
    if tree.peer_links:
        fabric, links = _fabric(tree, gpu)
        _check_links(gpu, fabric, links)
    cards = [name for name in tree.endpoint_names if tree.vertex(name).network_card]
    attach, per_switch = _attach(tree, cards)
    return Cluster(
        tree.name,
        gpu,
        len(tree.accelerator_names),
        fabric,
        links,
        cards=len(cards),
        attach=attach,
        per_switch=per_switch,
        cpu=machine.options.cpu or "",
    )


def _check_links(gpu: str, fabric: str, links: int) -> None:
    """Raise an error if GPUs of a model cannot have such links."""
    model = gpu_model(gpu)
    is_amd = model.capability is None
    most = model.most_nvlinks
    if is_amd != (fabric == "xGMI") or (not is_amd and not 0 < links <= most):
        found = "xGMI" if fabric == "xGMI" else f"{links} NVLinks of a GPU"
        raise InputError(f"the topology has {found}, which {gpu} does not have; specify another gpu")


def _fabric(tree: PcieTree, gpu: str) -> tuple[str, int]:
    """Return the kind of direct links and the number of links of a GPU."""
    links = [one for link in tree.peer_links for one in links_without_switch(link, gpu)]
    kinds = Counter(link.kind for link in links)
    gpus = tree.accelerator_names
    if are_dies(gpus, {gpu}):
        # Their pairs have the rate of the widest path, not links of their own.
        return "xGMI", node_named(_DIES).links
    kind = kinds.most_common(1)[0][0]
    counts = dict.fromkeys(gpus, 0)
    pairs = set()
    of_pair = []
    for link in links:
        others = len(link.endpoints) - 1
        # Programs of AMD print no number: each pair has one link.
        of_one = link.links or (1 if kind == "xGMI" else 0)
        for end in link.endpoints:
            counts[end] = counts.get(end, 0) + of_one * (1 if kind == "NVSwitch" else others)
        pairs |= {frozenset((a, b)) for a in link.endpoints for b in link.endpoints if a != b}
        of_pair.append(link.links)
    fewest = min(counts[name] for name in gpus)
    if kind in ("xGMI", "NVSwitch"):
        return kind, fewest
    is_complete = len(pairs) == len(gpus) * (len(gpus) - 1) // 2 and len(set(of_pair)) == 1
    if is_complete:
        return "mesh", fewest
    # A bridge connects each GPU with one other.
    is_bridged = 2 * len(pairs) == len(gpus) and len(set(of_pair)) == 1
    return (BRIDGES if is_bridged else "cube mesh"), fewest


def _attach(tree: PcieTree, cards: list[str]) -> tuple[PathType, int]:
    """Return the path of a GPU to its nearest card, and the GPUs at one card by this path."""
    if not cards:
        return PathType.PIX, 1
    nearest = {}
    for gpu in tree.accelerator_names:
        paths = {card: _ATTACH.get(tree.path_class(gpu, card), PathType.SYS) for card in cards}
        least = min(paths.values())
        nearest[gpu] = (least, next(card for card, path in paths.items() if path == least))
    farthest = max(path for path, _ in nearest.values())
    shared = Counter(card for path, card in nearest.values() if path <= PathType.PXB)
    return farthest, max(shared.values(), default=1)
