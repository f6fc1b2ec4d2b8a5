"""The fewest concurrent copies that tell the parameters of a machine and test its tree."""

from __future__ import annotations

import csv
import io
import itertools
from dataclasses import dataclass

from fabricast.pcie.topology.memory import HOST, root_complex_of
from fabricast.pcie.topology.paths import apart, child_above, narrowest_link, way_of
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["Probe", "probe_csv", "proposed_probes"]


_WRITES, _READS = "unordered_writes", "unordered_reads"
_SWITCH = "NVSwitch"
#: Share of the usual size at which pauses between copies would show.
_SMALL = 1 / 16
#: Pairs between root complexes up to which every number is tried.
_MOST_PAIRS = 4


@dataclass(frozen=True)
class Probe:
    """Copies to run together.

    Parameters
    ----------
    graph : str
        Name.
    flows : tuple of (str, str)
        Source and target; H is host memory.
    role : str
        ``calibration`` if parameters come from it, ``test`` if it tests the tree or the program.
    purpose : str
        What it tells.
    program : str, default 'unordered_writes'
        How its copies are executed (`fabricast.pcie.graphs.programs.PROGRAMS`).
    size_share : float, default 1
        Size of its copies as a share of that of the others.
    """

    graph: str
    flows: tuple[tuple[str, str], ...]
    role: str
    purpose: str
    program: str = _WRITES
    size_share: float = 1.0


def proposed_probes(tree: PcieTree) -> list[Probe]:
    """Propose probes, leaving out what the machine has not.

    Parameters
    ----------
    tree : PcieTree
        The machine.

    Returns
    -------
    list of Probe
        Each class of path, written and read and in both directions, then pairs that share an uplink or do not, one
        GPU with a near and a far one, all-to-all below one switch at two sizes, copies over direct links alone and
        together, pairs side by side across a root complex, copies of host memory to one, two and all GPUs of each
        root complex, copies between root complexes, and copies of memory of another socket.

    Examples
    --------
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> [probe.graph for probe in proposed_probes(regular_tree("flat4x2", (2, 4)))][:3]
    ['alone PIX', 'both ways PIX', 'back PIX']
    """
    names = list(tree.accelerator_names)
    pairs = [(s, t) for s in names for t in names if s != t and tree.peer_link(s, t) is None]
    first: dict[str, tuple[str, str]] = {}
    for source, target in pairs:
        kind = tree.path_class(source, target)
        # Over a narrow link a copy alone tells nothing of wider ones.
        if kind not in first or _width(tree, source, target) > _width(tree, *first[kind]):
            first[kind] = source, target
    found = []
    for kind, (source, target) in first.items():
        found.append(
            Probe(
                f"alone {kind}", ((source, target),), "calibration", f"rate of a copy alone on a path of class {kind}"
            )
        )
        found.append(
            Probe(f"both ways {kind}", ((source, target), (target, source)), "calibration",
                  "what one direction costs the other")
        )  # fmt: skip
        found += [
            Probe(f"back {kind}", ((target, source),), "test", "whether the other direction is as fast"),
            Probe(f"read {kind}", ((source, target),), "test", "whether reads are as fast as writes", _READS),
        ]
    found += _shared(tree, names, pairs, list(first))
    found += _engines(tree, names, list(first.values()))
    found += _across_root_complex(tree, pairs)
    return found + _direct(tree) + _host(tree, names) + _sockets(tree, pairs) + _remote_memory(tree, names)


def _width(tree: PcieTree, source: str, target: str) -> float:
    return narrowest_link(tree, [(tree.endpoint_number[source], tree.endpoint_number[target])])


def _direct(tree: PcieTree) -> list[Probe]:
    """Propose copies alone over direct links, as many as have own rates, and the least that tests how they share."""
    found = []
    for number, link in enumerate(tree.peer_links):
        kind = link.kind if len(tree.peer_links) == 1 else f"{link.kind} {number + 1}"
        pairs = list(itertools.combinations(link.endpoints, 2))
        # Through a switch, and where the topology tells a rate, one pair stands for all.
        alone = pairs[:1] if link.kind == _SWITCH or link.bytes_per_s is not None else pairs
        found += [
            Probe(f"alone {kind} {source} {target}", ((source, target),), "calibration",
                  f"rate of a copy alone over {link.kind}")
            for source, target in alone
        ]  # fmt: skip
        if link.kind in [before.kind for before in tree.peer_links[:number]]:
            continue
        found.append(
            Probe(f"both ways {kind}", _both_ways(pairs[:1]), "test", f"what directions of {link.kind} cost each other")
        )
        first, *others = link.endpoints
        if len(others) > 1:
            found += [
                Probe(f"one to all {kind}", tuple((first, other) for other in others), "test",
                      "what one GPU writes to all others"),
                Probe(f"all to one {kind}", tuple((other, first) for other in others), "test",
                      "what one GPU takes from all others"),
                Probe(f"one reads all {kind}", tuple((other, first) for other in others), "test",
                      "what one GPU reads of all others", _READS),
            ]  # fmt: skip
    return found


def _groups(tree: PcieTree, names: list[str]) -> list[list[str]]:
    """Endpoints by the vertex above them, those with several only."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(str(tree.vertex(name).parent), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _uplinks(tree: PcieTree, names: list[str]) -> list[list[str]]:
    """Endpoints by the uplink of the vertex above them, those with several only."""
    groups: dict[tuple[str, int], list[str]] = {}
    for name in names:
        above = tree.vertex(str(tree.vertex(name).parent))
        port = next((port for port, group in enumerate(above.uplink_groups) if name in group), 0)
        groups.setdefault((above.name, port), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _shared(tree: PcieTree, names: list[str], pairs: list[tuple[str, str]], kinds: list[str]) -> list[Probe]:
    """Two copies over one uplink, and over two."""
    groups = _uplinks(tree, names)
    # Below one switch copies take no uplink.
    far = [group for group in groups[1:] if tree.vertex(group[0]).parent != tree.vertex(groups[0][0]).parent]
    if not far or len(kinds) < 2:
        return []
    (a, b), (c, d) = groups[0][:2], far[0][:2]
    if (a, c) not in pairs:
        return []
    found = [
        Probe("two over one uplink", ((a, c), (b, d)), "test", "whether both copies share one uplink as the tree says")
    ]
    third = far[1][0] if len(far) > 1 else None
    if third is not None:
        found.append(
            Probe("one uplink to two switches", ((a, c), (b, third)), "test",
                  "whether writes of one uplink to two root ports collapse")
        )  # fmt: skip
        found.append(
            Probe("two uplinks", ((a, c), (d, third)), "test", "whether different uplinks share anything above")
        )
    return found


def _across_root_complex(tree: PcieTree, pairs: list[tuple[str, str]]) -> list[Probe]:
    """Propose pairs side by side across the root complex that share no link, where it has ports for several."""
    pairs_of: dict[str, list[tuple[str, str]]] = {}
    number = tree.endpoint_number
    for source, target in pairs:
        if way_of(tree, number[source], number[target]) != "crossing":
            continue
        own = pairs_of.setdefault(tree.turn(source, target), [])
        beside = [*own, (source, target)]
        alone = not {source, target} & {end for pair in own for end in pair}
        if alone and apart(tree, [(number[s], number[t]) for s, t in beside]):
            own.append((source, target))
    largest = max(pairs_of.values(), key=len, default=[])
    if len(largest) < 2:
        return []
    return [
        Probe("across the root complex", tuple(largest), "calibration",
              "what the root complex carries of several copies between GPUs"),
        Probe("across the root complex both ways", _both_ways(largest), "calibration",
              "what the root complex carries of several copies between GPUs both ways"),
    ]  # fmt: skip


def _engines(tree: PcieTree, names: list[str], first: list[tuple[str, str]]) -> list[Probe]:
    """One source to a near and a far destination, and all-to-all below one switch."""
    found = []
    source = first[0][0] if first else ""
    targets = {tree.path_class(source, t): t for t in reversed(names) if t != source and source} if source else {}
    if len(targets) > 1:
        near, far = list(targets.values())[-1], next(iter(targets.values()))
        found.append(
            Probe("near and far", ((source, far), (source, near)), "test",
                  "whether a GPU executes one copy at a time: the total is then the harmonic mean of both rates")
        )  # fmt: skip
        found.append(
            Probe("near and far, read", ((far, source), (near, source)), "test",
                  "whether a GPU that reads executes one copy at a time", _READS)
        )  # fmt: skip
    groups = _groups(tree, names)
    if groups:
        group = max(groups, key=len)
        flows = tuple((s, t) for s in group for t in group if s != t and tree.peer_link(s, t) is None)
        if len(flows) > 2:
            found.append(
                Probe("all-to-all below a switch", flows, "test", "order and barriers of the measuring program")
            )
            found.append(
                Probe("small all-to-all below a switch", flows, "test",
                      "whether pauses between copies tell at a sixteenth of the size", size_share=_SMALL)
            )  # fmt: skip
    return found


def _host(tree: PcieTree, names: list[str]) -> list[Probe]:
    """Host memory to one, and to all GPUs of a root complex, each way."""
    found = []
    roots: dict[str, list[str]] = {}
    for name in names:
        roots.setdefault(root_complex_of(tree, name), []).append(name)
    first = names[0] if names else None
    if first is not None:
        found += [
            Probe("host to one", ((HOST, first),), "calibration", "rate of a copy from host memory alone"),
            Probe("one to host", ((first, HOST),), "calibration", "rate of a copy to host memory alone"),
            Probe("host and one both ways", _both_ways([(HOST, first)]), "calibration",
                  "what a GPU reads and writes of host memory at once"),
        ]  # fmt: skip
    # The root complex whose ports carry most asks most of memory.
    ports = {root: {child_above(tree, root, name) for name in members} for root, members in roots.items()}
    largest = max(roots, key=lambda root: (len(ports[root]), len(roots[root])), default="")
    for root, members in roots.items():
        if len(members) > 1:
            found += _below_root_complex(root, members, is_first=root == largest)
    if len(roots) > 1:
        found.append(
            Probe("host to all", tuple((HOST, name) for name in names), "test",
                  "whether root complexes hold each other back")
        )  # fmt: skip
    return found + _nodes(tree, roots)


def _below_root_complex(root: str, members: list[str], *, is_first: bool) -> list[Probe]:
    """Host memory and all GPUs of a root complex: the first tells the limits, others whether theirs are the same."""
    role = "calibration" if is_first else "test"
    found = [
        Probe(f"host to all below {root}", tuple((HOST, name) for name in members), role,
              "what root complex and memory serve to all its GPUs"),
        Probe(f"all below {root} to host", tuple((name, HOST) for name in members), role,
              "what root complex and memory take from all its GPUs"),
        Probe(f"all below {root} and host both ways",
              _both_ways([(HOST, name) for name in members]), role,
              "what root complex and memory carry for all its GPUs both ways at once"),
    ]  # fmt: skip
    if is_first and len(members) > 2:
        found.append(
            Probe(f"host to two below {root}", tuple((HOST, name) for name in members[:2]), "test",
                  "whether two GPUs already get less than each alone")
        )  # fmt: skip
    return found


def _nodes(tree: PcieTree, roots: dict[str, list[str]]) -> list[Probe]:
    """Memory of each NUMA node, where a root complex has several, to a GPU below it."""
    found = []
    for root, members in roots.items():
        nodes = [node.name for node in tree.memory_nodes if node.parent == root]
        if len(nodes) > 1:
            found += [
                Probe(f"{node} to {member}", ((node, member),), "test", f"whether {node} is next to {member}")
                for member in members
                for node in nodes
            ]
    return found


def _sockets(tree: PcieTree, pairs: list[tuple[str, str]]) -> list[Probe]:
    """Propose copies of as many pairs as there are between two root complexes, one way and both ways."""
    across = [pair for pair in pairs if tree.path_class(*pair) == "SYS"]
    if not across:
        return []
    from_root, to_root = (root_complex_of(tree, end) for end in across[0])
    sources = dict.fromkeys(s for s, t in across if root_complex_of(tree, s) == from_root)
    targets = dict.fromkeys(t for s, t in across if root_complex_of(tree, t) == to_root)
    ways = [pair for pair in zip(sources, targets, strict=False) if pair in across]
    if len(ways) < 2:
        return []
    fewer = [
        Probe(f"{count} pairs between root complexes", tuple(ways[:count]), "test",
              "from how many copies on the link between two root complexes is full")
        for count in range(2, min(len(ways), _MOST_PAIRS))
    ]  # fmt: skip
    return [
        *fewer,
        Probe("between root complexes", tuple(ways), "calibration",
              "what the link between two root complexes carries one way"),
        Probe("between root complexes both ways", _both_ways(ways), "calibration",
              "what the link between two root complexes carries both ways"),
    ]  # fmt: skip


def _remote_memory(tree: PcieTree, names: list[str]) -> list[Probe]:
    """Propose copies of memory of another socket: alone each way, and to and from all its GPUs."""
    nodes: dict[str, str] = {}
    for known in tree.memory_nodes:
        nodes.setdefault(known.parent, known.name)
    far = next(
        ((nodes[root], [name for name in names if root_complex_of(tree, name) == other])
         for root in nodes for other in nodes
         if root != other and any(root_complex_of(tree, name) == other for name in names)),
        None,
    )  # fmt: skip
    if far is None:
        return []
    node, members = far
    found = [
        Probe(f"{node} to {members[0]} on another socket", ((node, members[0]),), "calibration",
              "rate of a copy alone from memory of another socket"),
        Probe(f"{members[0]} to {node} on another socket", ((members[0], node),), "calibration",
              "rate of a copy alone to memory of another socket"),
    ]  # fmt: skip
    if len(members) > 1:
        found += [
            Probe(f"{node} to all on another socket", tuple((node, member) for member in members), "calibration",
                  "what the link between sockets carries of memory that is read"),
            Probe(f"all on another socket to {node}", tuple((member, node) for member in members), "test",
                  "whether memory of another socket is written as fast as it is read"),
            Probe(f"{node} and all on another socket both ways", _both_ways([(node, member) for member in members]),
                  "calibration", "what the link between sockets carries of memory both ways"),
        ]  # fmt: skip
    return found


def _both_ways(flows: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(flow for source, target in flows for flow in ((source, target), (target, source)))


def probe_csv(probes: list[Probe]) -> str:
    """Return probes as CSV to be filled in; ``fabricast validate`` reads it then."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["graph", "communications", "program", "role", "note", "total_gb_per_s"])
    for probe in probes:
        arcs = " ".join(f"{source}>{target}" for source, target in probe.flows)
        writer.writerow([probe.graph, arcs, probe.program, probe.role, probe.purpose, ""])
    return text.getvalue()
