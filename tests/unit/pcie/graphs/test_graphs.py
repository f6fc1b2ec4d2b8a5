"""Congestion graphs: expected counts, canonical forms and input files."""

import itertools
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricast.api.predictions import predict
from fabricast.core.errors import InputError
from fabricast.core.warnings import WarningCode
from fabricast.pcie.graphs.congestion_graphs import all_to_all, from_pairs
from fabricast.pcie.graphs.divided_writes import divided_writes
from fabricast.pcie.graphs.files import read_graphs
from fabricast.pcie.graphs.sets import exhaustive_graphs, random_graphs, stress_set, validation_set
from fabricast.pcie.graphs.symmetry import canonical_form, count_graphs, subset_orbits
from fabricast.pcie.topology.builtin import load_tree
from fabricast.pcie.topology.regular import regular_tree
from fabricast.pcie.topology.symmetry import automorphisms


def test_graph_counts_up_to_symmetry(storm8, flat4x2):
    assert [count_graphs(storm8, k) for k in range(1, 7)] == [3, 43, 406, 4187, 36772, 287470]
    assert [count_graphs(flat4x2, k) for k in range(1, 7)] == [2, 18, 116, 869, 6002, 40539]


def test_subset_counts_up_to_symmetry(storm8, flat4x2):
    assert [len(subset_orbits(storm8, k)) for k in range(2, 6)] == [3, 3, 5, 3]
    assert [len(subset_orbits(flat4x2, k)) for k in range(2, 6)] == [2, 2, 3, 2]


def orbits_under_the_stabiliser(tree, subset):
    """Count nonempty graphs on a subset up to symmetries that preserve it."""
    pairs = all_to_all(subset)
    images = {tuple(row[list(subset)]) for row in automorphisms(tree) if set(row[list(subset)]) == set(subset)}
    total = 0
    for image in images:
        move = dict(zip(subset, image, strict=True))
        left, cycles = set(pairs), 0
        while left:
            start = pair = left.pop()
            cycles += 1
            while (pair := (move[pair[0]], move[pair[1]])) != start:
                left.discard(pair)
        total += 2**cycles
    return total // len(images) - 1


@pytest.mark.parametrize(
    ("name", "every", "all_used"),
    [("storm8", (6, 105, 4921, 666501), (6, 90, 4627)), ("flat4x2", (4, 50, 1537, 136374), (4, 43, 1440))],
)
def test_exhaustive_graph_counts(name, every, all_used):
    tree = load_tree(name)
    for size, expected in zip((2, 3, 4, 5), every, strict=True):
        assert sum(orbits_under_the_stabiliser(tree, s) for s in subset_orbits(tree, size)) == expected
    for size, expected in zip((2, 3, 4), all_used, strict=True):
        assert sum(len(exhaustive_graphs(tree, s)) for s in subset_orbits(tree, size)) == expected


def test_exhaustive_graphs_on_four_endpoints_of_storm8(storm8):
    counts = {subset: orbits_under_the_stabiliser(storm8, subset) for subset in subset_orbits(storm8, 4)}
    assert counts == {(0, 1, 2, 3): 569, (0, 1, 2, 4): 2111, (0, 1, 4, 5): 569, (0, 1, 4, 6): 1103, (0, 2, 4, 6): 569}
    used = [pairs for subset in counts for pairs in exhaustive_graphs(storm8, subset)]
    assert sum(map(len, used)) == 28626


def count_directed_graphs(graphs):
    """Count the graphs that no renaming of vertices makes equal, whatever their places in the tree."""
    listed = set()
    for pairs in graphs:
        degrees = {x: (sum(s == x for s, _ in pairs), sum(t == x for _, t in pairs)) for pair in pairs for x in pair}
        place = {x: i for i, x in enumerate(sorted(degrees, key=degrees.get))}
        listed.add(tuple(sorted((place[s], place[t]) for s, t in pairs)))
    classes = {}
    for pairs in listed:
        graph = nx.DiGraph(pairs)
        alike = classes.setdefault(tuple(sorted(graph.degree(x) * 100 + graph.in_degree(x) for x in graph)), [])
        if not any(nx.is_isomorphic(graph, other) for other in alike):
            alike.append(graph)
    return sum(map(len, classes.values()))


@pytest.mark.slow
def test_validation_set_has_the_published_size(storm8):
    graphs = validation_set(storm8, 22259)
    families = [family for family, _ in graphs]
    assert len(graphs) == 22259
    assert sum(len(pairs) for _, pairs in graphs) == 112802
    assert families.count("random") == 13675
    assert len({tuple(pairs) for _, pairs in graphs}) == 22259
    assert all(canonical_form(storm8, pairs) == pairs for _, pairs in graphs[::500])
    assert graphs == validation_set(storm8, 22259)
    assert graphs != validation_set(storm8, 22259, seed=1)
    assert count_directed_graphs([pairs for _, pairs in graphs]) == 605


@pytest.mark.slow
def test_validation_set_of_flat4x2_has_the_published_size(flat4x2):
    graphs = validation_set(flat4x2, 22259)
    assert len({tuple(pairs) for _, pairs in graphs}) == 22259


def test_stress_set_has_6_to_16_copies_per_graph(storm8):
    sizes = [len(pairs) for _, pairs in stress_set(storm8, 300)]
    assert set(sizes) == set(range(6, 17))


@pytest.mark.slow
@given(st.sets(st.sampled_from(all_to_all(range(8))), min_size=1, max_size=9), st.integers(0, 127))
def test_canonical_form_is_invariant_under_symmetries(pairs, number):
    storm8 = load_tree("storm8")
    image = automorphisms(storm8)[number]
    moved = [(int(image[s]), int(image[t])) for s, t in pairs]
    assert canonical_form(storm8, pairs) == canonical_form(storm8, moved)
    assert len(canonical_form(storm8, pairs)) == len(pairs)


def test_canonical_forms_require_at_most_8_endpoints():
    storm16 = load_tree("storm16")
    assert len(random_graphs(storm16, 5, seed=1)) == 5
    with pytest.raises(InputError, match="at most 8"):
        canonical_form(storm16, [(0, 1)])


@pytest.mark.slow
def test_requesting_too_many_random_graphs_is_an_error():
    with pytest.raises(InputError, match="distinct graphs"):
        random_graphs(load_tree("quad4"), 1000, seed=1)


def test_copies_of_a_graph_keep_file_order(storm8, tmp_path):
    path = tmp_path / "graphs.csv"
    path.write_text("start_s,graph,target,source,size_bytes\n0,a,1,0,10\n0.5,b,2,0,20\n1,a,3,2,30\n")
    graphs = read_graphs(path, storm8, size_bytes=1.0)
    assert graphs.names == ("a", "b")
    assert graphs.pairs(0) == [(0, 1), (2, 3)]
    assert graphs.size_bytes.tolist() == [10, 30, 20]
    assert graphs.start_s.tolist() == [0, 1, 0.5]


BAD_FILES = {
    "": ("1:", "is empty"),
    "graph,source,target\n": ("1:", "contains no rows"),
    "graph,source,source,target\n": ("1:", "'source' is a duplicate"),
    "graph,source\n": ("1:", "'target' is missing"),
    "graph,source,target,size\n": ("1:", "'size' is unknown"),
    "graph,source,target\na,0,8\n": ("2:", "target is '8'"),
    "graph,source,target\na,0,1\na,gpu,1\n": ("3:", "source is 'gpu'"),
    "graph,source,target\na,3,3\n": ("2:", "both '3'"),
    "graph,source,target\n,0,1\n": ("2:", "graph is empty"),
    "graph,source,target\na,0\n": ("2:", "has 2 fields, expected 3"),
    "graph,source,target,size_bytes\na,0,1,-5\n": ("2:", "size_bytes is -5"),
    "graph,source,target,size_bytes\na,0,1,0\n": ("2:", "size_bytes is 0"),
    "graph,source,target,size_bytes\na,0,1,nan\n": ("2:", "size_bytes is 'nan'"),
    "graph,source,target,size_bytes\na,0,1,inf\n": ("2:", "size_bytes is 'inf'"),
    "graph,source,target,size_bytes\na,0,1,many\n": ("2:", "size_bytes is 'many'"),
    "graph,source,target,start_s\na,0,1,-1\n": ("2:", "start_s is -1"),
    'graph,source,target\n"a,0,1\n': ("", "is not CSV"),
}


@pytest.mark.parametrize("text", BAD_FILES)
def test_invalid_files_are_rejected_in_one_line(storm8, tmp_path, text):
    path = tmp_path / "graphs.csv"
    path.write_text(text)
    place, message = BAD_FILES[text]
    with pytest.raises(InputError) as caught:
        read_graphs(path, storm8, size_bytes=1.0)
    assert str(caught.value).startswith(f"{path}:{place}")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_encodings_other_than_utf8_are_rejected(storm8, tmp_path):
    path = tmp_path / "graphs.csv"
    path.write_bytes("graph,source,target\nü,0,1\n".encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8"):
        read_graphs(path, storm8, size_bytes=1.0)


def test_all_to_all_contains_all_ordered_pairs():
    assert sorted(all_to_all(range(8))) == sorted(itertools.permutations(range(8), 2))


def test_writes_from_one_uplink_to_several_root_ports_cause_a_warning():
    tree = load_tree("flat4x4")
    divided, one_port, disjoint = [(0, 4), (1, 8)], [(0, 4), (1, 5)], [(0, 4), (8, 12)]

    def warned(*pairs):
        prediction = predict(tree, from_pairs(list(pairs), size_bytes=2**20), bandwidth="11 GiB/s")
        return [one.text for one in prediction.attrs["warnings"] if one.code == WarningCode.DIVIDED_WRITES]

    (note,) = warned(one_port, divided, disjoint)
    assert note.startswith("writes from one uplink to destinations behind different root ports")
    assert note.endswith("affects '1'")
    assert warned(one_port, disjoint) == []


def test_divided_writes_are_detected_below_several_root_complexes():
    """Detect writes of GPUs 0 and 1, which share an uplink, to several root ports.

    GPUs 2 and 3 share another port of their root complex; GPUs 4 and 6 use two ports of the other root complex.
    """
    tree = load_tree("pcie5_four_switches")
    graphs = [[(0, 2), (1, 4)], [(0, 4), (1, 6)], [(0, 2), (1, 3)], [(0, 4), (2, 6)], [(0, 4), (1, 5)]]
    number = np.repeat(np.arange(len(graphs)), 2)
    source, target = np.array(graphs).reshape(-1, 2).T
    assert divided_writes(tree, number, source, target).tolist() == [0, 1]


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 15), st.integers(1, 15)), max_size=30))
def test_divided_writes_agree_with_a_reference_implementation(copies):
    tree = load_tree("flat4x4")
    copies = sorted((graph, source, (source + step) % 16) for graph, source, step in copies)
    ports = {}
    for graph, source, target in copies:
        # Each switch has four endpoints and a separate root port.
        if source // 4 != target // 4:
            ports.setdefault((graph, source // 4), set()).add(target // 4)
    number, source, target = np.array(copies, dtype=np.int64).reshape(-1, 3).T
    expected = sorted({graph for (graph, _), reached in ports.items() if len(reached) > 1})
    assert divided_writes(tree, number, source, target).tolist() == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": np.array([0, 1])}, "have 2, 3, 3, 3 elements"),
        ({"offset": np.array([0, 5, 3])}, "do not delimit 3 copies"),
        ({"offset": np.array([0, 1, 2])}, "do not delimit 3 copies"),
        ({"names": ("a",)}, "do not delimit 3 copies"),
        ({"programs": ("torch",)}, "do not delimit 3 copies"),
        ({"source": np.array([0, -1, 2])}, "graph '1' has a copy from -1 to 3"),
        ({"target": np.array([1, 3, 2])}, "graph '1' has a copy from 2 to 2"),
        ({"size_bytes": np.array([1.0, np.nan, 1.0])}, "size_bytes nan"),
        ({"size_bytes": np.array([1e300, 1.0, 1.0])}, "size_bytes 1e\\+300"),
        ({"start_s": np.array([0.0, 0.0, -1.0])}, "start_s -1"),
        ({"start_s": np.array([0.0, 0.0, np.inf])}, "start_s inf"),
    ],
)
def test_graphs_are_checked_when_they_are_built(change, message):
    """Files, functions and `dataclasses.replace` build graphs: kernels rely on the check."""
    graphs = from_pairs([[(0, 1)], [(1, 3), (2, 4)]], size_bytes=1.0)
    with pytest.raises(InputError, match=message):
        replace(graphs, **change)


def test_a_tree_of_four_endpoints_has_few_distinct_graphs():
    """All of them are the set: 217 directed graphs of 4 vertices up to symmetry (OEIS A000273, without the empty one)."""
    four = regular_tree("four", (4,))
    graphs = [tuple(pairs) for _, pairs in validation_set(four, 300)]
    assert len(set(graphs)) == len(graphs) == 217
    assert len(validation_set(four, 20)) == 20
