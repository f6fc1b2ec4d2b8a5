"""Minimal set of concurrent copies that calibrate a machine and test its topology."""

from __future__ import annotations

import csv
import io
import itertools
from dataclasses import dataclass

from fabricast.pcie.topology.memory import HOST, root_complex_of
from fabricast.pcie.topology.paths import are_disjoint, child_above, copy_class_of, narrowest_link
from fabricast.pcie.topology.tree import PcieTree

_WRITES, _READS = "unordered_writes", "unordered_reads"
_SWITCH = "NVSwitch"
#: Share of the usual copy size at which pauses between copies would be visible.
_SMALL = 1 / 16
#: Probes between root complexes use each number of pairs below this, and all pairs.
_MOST_PAIRS = 4


@dataclass(frozen=True)
class Probe:
    """Concurrent copies to measure."""

    graph: str  # Name of the probe
    flows: tuple[tuple[str, str], ...]  # Source and target of each copy; H is host memory
    #: ``calibration`` if the probe calibrates parameters, ``test`` if it tests the topology or the copy program.
    role: str
    purpose: str  # Description of the quantity or assumption that the probe measures
    program: str = _WRITES  # Name of the copy program (`fabricast.pcie.graphs.programs.PROGRAMS`)
    size_share: float = 1.0  # Size of the copies relative to the copies of other probes


def proposed_probes(tree: PcieTree) -> list[Probe]:
    """Propose calibration and test probes that apply to a machine.

    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> [probe.graph for probe in proposed_probes(regular_tree("flat4x2", (2, 4)))][:3]
    ['alone PIX', 'both ways PIX', 'back PIX']
    """
    names = list(tree.accelerator_names)
    pairs = [(s, t) for s in names for t in names if s != t and tree.peer_link(s, t) is None]
    first: dict[str, tuple[str, str]] = {}
    for source, target in pairs:
        kind = tree.path_class(source, target)
        # A copy over a narrow link does not measure wider links, so the widest pair is probed.
        if kind not in first or _width(tree, source, target) > _width(tree, *first[kind]):
            first[kind] = source, target
    probes = []
    for kind, (source, target) in first.items():
        probes.append(
            Probe(
                f"alone {kind}",
                ((source, target),),
                "calibration",
                f"rate of an isolated copy on a path of class {kind}",
            )
        )
        probes.append(
            Probe(
                f"both ways {kind}",
                ((source, target), (target, source)),
                "calibration",
                "rate of each direction if both directions are busy",
            )
        )
        probes += [
            Probe(f"back {kind}", ((target, source),), "test", "check whether the reverse direction is as fast"),
            Probe(f"read {kind}", ((source, target),), "test", "check whether reads are as fast as writes", _READS),
        ]
    probes += _shared(tree, names, pairs, list(first))
    probes += _engines(tree, names, list(first.values()))
    probes += _across_root_complex(tree, pairs)
    return probes + _direct(tree) + _host(tree, names) + _sockets(tree, pairs) + _remote_memory(tree, names)


def _width(tree: PcieTree, source: str, target: str) -> float:
    return narrowest_link(tree, [(tree.endpoint_number[source], tree.endpoint_number[target])])


def _direct(tree: PcieTree) -> list[Probe]:
    """Propose isolated copies over direct links, and tests of how copies share them."""
    probes = []
    for number, link in enumerate(tree.peer_links):
        kind = link.kind if len(tree.peer_links) == 1 else f"{link.kind} {number + 1}"
        pairs = list(itertools.combinations(link.endpoints, 2))
        # One pair represents all pairs of a switch, and of links whose rate the topology specifies.
        isolated = pairs[:1] if link.kind == _SWITCH or link.bytes_per_s is not None else pairs
        probes += [
            Probe(
                f"alone {kind} {source} {target}",
                ((source, target),),
                "calibration",
                f"rate of an isolated copy over {link.kind}",
            )
            for source, target in isolated
        ]
        if link.kind in [before.kind for before in tree.peer_links[:number]]:
            continue
        probes.append(
            Probe(
                f"both ways {kind}",
                _both_ways(pairs[:1]),
                "test",
                f"rate of each direction of {link.kind} if both are busy",
            )
        )
        first, *others = link.endpoints
        if len(others) > 1:
            probes += [
                Probe(
                    f"one to all {kind}",
                    tuple((first, other) for other in others),
                    "test",
                    "total rate of one GPU that writes to all others",
                ),
                Probe(
                    f"all to one {kind}",
                    tuple((other, first) for other in others),
                    "test",
                    "total rate of all other GPUs that write to one",
                ),
                Probe(
                    f"one reads all {kind}",
                    tuple((other, first) for other in others),
                    "test",
                    "total rate of one GPU that reads from all others",
                    _READS,
                ),
            ]
    return probes


def _groups(tree: PcieTree, names: list[str]) -> list[list[str]]:
    """Return the groups of several endpoints with a common parent."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(str(tree.vertex(name).parent), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _uplinks(tree: PcieTree, names: list[str]) -> list[list[str]]:
    """Return the groups of several endpoints that share an uplink of their parent."""
    groups: dict[tuple[str, int], list[str]] = {}
    for name in names:
        above = tree.vertex(str(tree.vertex(name).parent))
        port = next((port for port, group in enumerate(above.uplink_groups) if name in group), 0)
        groups.setdefault((above.name, port), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _shared(tree: PcieTree, names: list[str], pairs: list[tuple[str, str]], kinds: list[str]) -> list[Probe]:
    """Propose two copies over one uplink and over two uplinks."""
    groups = _uplinks(tree, names)
    # Copies below one switch use no uplink.
    far = [group for group in groups[1:] if tree.vertex(group[0]).parent != tree.vertex(groups[0][0]).parent]
    if not far or len(kinds) < 2:
        return []
    (a, b), (c, d) = groups[0][:2], far[0][:2]
    if (a, c) not in pairs:
        return []
    probes = [
        Probe(
            "two over one uplink",
            ((a, c), (b, d)),
            "test",
            "check whether both copies share one uplink, as in the topology",
        )
    ]
    third = far[1][0] if len(far) > 1 else None
    if third is not None:
        probes.append(
            Probe(
                "one uplink to two switches",
                ((a, c), (b, third)),
                "test",
                "check whether writes from one uplink to two root ports collapse",
            )
        )
        probes.append(
            Probe(
                "two uplinks",
                ((a, c), (d, third)),
                "test",
                "check whether different uplinks share a bottleneck above them",
            )
        )
    return probes


def _across_root_complex(tree: PcieTree, pairs: list[tuple[str, str]]) -> list[Probe]:
    """Propose disjoint pairs across a root complex that has ports for several pairs."""
    pairs_of: dict[str, list[tuple[str, str]]] = {}
    number = tree.endpoint_number
    for source, target in pairs:
        if copy_class_of(tree, number[source], number[target]) != "crossing":
            continue
        disjoint = pairs_of.setdefault(tree.turn(source, target), [])
        candidate = [*disjoint, (source, target)]
        is_new = not {source, target} & {end for pair in disjoint for end in pair}
        if is_new and are_disjoint(tree, [(number[s], number[t]) for s, t in candidate]):
            disjoint.append((source, target))
    largest = max(pairs_of.values(), key=len, default=[])
    if len(largest) < 2:
        return []
    return [
        Probe(
            "across the root complex",
            tuple(largest),
            "calibration",
            "capacity of the root complex for several copies between GPUs",
        ),
        Probe(
            "across the root complex both ways",
            _both_ways(largest),
            "calibration",
            "capacity of the root complex for several bidirectional copies between GPUs",
        ),
    ]


def _engines(tree: PcieTree, names: list[str], first: list[tuple[str, str]]) -> list[Probe]:
    """Propose copies of one GPU with a near and a far GPU, and all-to-all below a switch."""
    probes = []
    source = first[0][0] if first else ""
    targets = {tree.path_class(source, t): t for t in reversed(names) if t != source and source} if source else {}
    if len(targets) > 1:
        near, far = list(targets.values())[-1], next(iter(targets.values()))
        probes.append(
            Probe(
                "near and far",
                ((source, far), (source, near)),
                "test",
                "check whether a GPU executes one copy at a time: the total is then the harmonic mean of both rates",
            )
        )
        probes.append(
            Probe(
                "near and far, read",
                ((far, source), (near, source)),
                "test",
                "check whether a GPU that reads executes one copy at a time",
                _READS,
            )
        )
    groups = _groups(tree, names)
    if groups:
        group = max(groups, key=len)
        flows = tuple((s, t) for s in group for t in group if s != t and tree.peer_link(s, t) is None)
        if len(flows) > 2:
            probes.append(
                Probe("all-to-all below a switch", flows, "test", "copy order and barriers of the measuring program")
            )
            probes.append(
                Probe(
                    "small all-to-all below a switch",
                    flows,
                    "test",
                    "check whether pauses between copies lower the rate at 1/16 of the size",
                    size_share=_SMALL,
                )
            )
    return probes


def _host(tree: PcieTree, names: list[str]) -> list[Probe]:
    """Propose copies between host memory and one GPU, or all GPUs of a root complex."""
    probes = []
    roots: dict[str, list[str]] = {}
    for name in names:
        roots.setdefault(root_complex_of(tree, name), []).append(name)
    first = names[0] if names else None
    if first is not None:
        probes += [
            Probe("host to one", ((HOST, first),), "calibration", "rate of an isolated copy from host memory"),
            Probe("one to host", ((first, HOST),), "calibration", "rate of an isolated copy to host memory"),
            Probe(
                "host and one both ways",
                _both_ways([(HOST, first)]),
                "calibration",
                "total rate of one GPU that reads and writes host memory at once",
            ),
        ]
    # The root complex with the most ports puts the highest load on its memory.
    ports = {root: {child_above(tree, root, name) for name in members} for root, members in roots.items()}
    largest = max(roots, key=lambda root: (len(ports[root]), len(roots[root])), default="")
    for root, members in roots.items():
        if len(members) > 1:
            probes += _below_root_complex(root, members, is_first=root == largest)
    if len(roots) > 1:
        probes.append(
            Probe(
                "host to all",
                tuple((HOST, name) for name in names),
                "test",
                "check whether root complexes limit each other",
            )
        )
    return probes + _nodes(tree, roots)


def _below_root_complex(root: str, members: list[str], *, is_first: bool) -> list[Probe]:
    """Propose copies between host memory and all GPUs of a root complex.

    The first root complex calibrates the limits. The probes of others test whether their limits are the same.
    """
    role = "calibration" if is_first else "test"
    probes = [
        Probe(
            f"host to all below {root}",
            tuple((HOST, name) for name in members),
            role,
            "capacity of root complex and memory for reads by all its GPUs",
        ),
        Probe(
            f"all below {root} to host",
            tuple((name, HOST) for name in members),
            role,
            "capacity of root complex and memory for writes by all its GPUs",
        ),
        Probe(
            f"all below {root} and host both ways",
            _both_ways([(HOST, name) for name in members]),
            role,
            "capacity of root complex and memory for simultaneous reads and writes by all its GPUs",
        ),
    ]
    if is_first and len(members) > 2:
        probes.append(
            Probe(
                f"host to two below {root}",
                tuple((HOST, name) for name in members[:2]),
                "test",
                "check whether two GPUs already get less than isolated copies",
            )
        )
    return probes


def _nodes(tree: PcieTree, roots: dict[str, list[str]]) -> list[Probe]:
    """Propose copies from each NUMA node of root complexes with several nodes."""
    probes = []
    for root, members in roots.items():
        nodes = [node.name for node in tree.memory_nodes if node.parent == root]
        if len(nodes) > 1:
            probes += [
                Probe(f"{node} to {member}", ((node, member),), "test", f"check whether {node} is next to {member}")
                for member in members
                for node in nodes
            ]
    return probes


def _sockets(tree: PcieTree, pairs: list[tuple[str, str]]) -> list[Probe]:
    """Propose concurrent pairs between two root complexes, in one and both directions."""
    across = [pair for pair in pairs if tree.path_class(*pair) == "SYS"]
    if not across:
        return []
    from_root, to_root = (root_complex_of(tree, end) for end in across[0])
    sources = dict.fromkeys(s for s, t in across if root_complex_of(tree, s) == from_root)
    targets = dict.fromkeys(t for s, t in across if root_complex_of(tree, t) == to_root)
    disjoint = [pair for pair in zip(sources, targets, strict=False) if pair in across]
    if len(disjoint) < 2:
        return []
    fewer = [
        Probe(
            f"{count} pairs between root complexes",
            tuple(disjoint[:count]),
            "test",
            "number of copies that saturate the link between two root complexes",
        )
        for count in range(2, min(len(disjoint), _MOST_PAIRS))
    ]
    return [
        *fewer,
        Probe(
            "between root complexes",
            tuple(disjoint),
            "calibration",
            "capacity of the link between two root complexes in one direction",
        ),
        Probe(
            "between root complexes both ways",
            _both_ways(disjoint),
            "calibration",
            "capacity of the link between two root complexes for both directions together",
        ),
    ]


def _remote_memory(tree: PcieTree, names: list[str]) -> list[Probe]:
    """Propose copies of memory of another socket, isolated and with all GPUs.

    Memory and GPUs are below different root complexes.
    """
    nodes: dict[str, str] = {}
    for memory_node in tree.memory_nodes:
        nodes.setdefault(memory_node.parent, memory_node.name)
    far = next(
        (
            (nodes[root], [name for name in names if root_complex_of(tree, name) == other_root])
            for root in nodes
            for other_root in nodes
            if root != other_root and any(root_complex_of(tree, name) == other_root for name in names)
        ),
        None,
    )
    if far is None:
        return []
    node, members = far
    probes = [
        Probe(
            f"{node} to {members[0]} on another socket",
            ((node, members[0]),),
            "calibration",
            "rate of an isolated copy from memory of another socket",
        ),
        Probe(
            f"{members[0]} to {node} on another socket",
            ((members[0], node),),
            "calibration",
            "rate of an isolated copy to memory of another socket",
        ),
    ]
    if len(members) > 1:
        probes += [
            Probe(
                f"{node} to all on another socket",
                tuple((node, member) for member in members),
                "calibration",
                "capacity of the link between sockets for reads of memory",
            ),
            Probe(
                f"all on another socket to {node}",
                tuple((member, node) for member in members),
                "test",
                "check whether memory of another socket is written as fast as it is read",
            ),
            Probe(
                f"{node} and all on another socket both ways",
                _both_ways([(node, member) for member in members]),
                "calibration",
                "capacity of the link between sockets for simultaneous reads and writes of memory",
            ),
        ]
    return probes


def _both_ways(flows: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(flow for source, target in flows for flow in ((source, target), (target, source)))


def probe_csv(probes: list[Probe]) -> str:
    """Return probes as CSV with an empty column for the measured total rates.

    ``fabricast validate`` reads the completed file.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["graph", "communications", "program", "role", "note", "total_gb_per_s"])
    for probe in probes:
        pairs = " ".join(f"{source}>{target}" for source, target in probe.flows)
        writer.writerow([probe.graph, pairs, probe.program, probe.role, probe.purpose, ""])
    return text.getvalue()
