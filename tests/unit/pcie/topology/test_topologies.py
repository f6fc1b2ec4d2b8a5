"""PCIe trees: shapes, symmetries, path classes, importers and invalid input."""

import itertools
import math
from dataclasses import replace

import pytest
import yaml

from fabricast.api.graphs import all_to_all, collective_step, halo_exchange, network_card_copies
from fabricast.api.predictions import predict
from fabricast.core.errors import InputError
from fabricast.pcie.graphs.collectives import card_pairs
from fabricast.pcie.graphs.congestion_graphs import from_pairs
from fabricast.pcie.measurements.probes import proposed_probes
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import factors
from fabricast.pcie.topology.builtin import builtin_names, load_tree
from fabricast.pcie.topology.files import tree_yaml, write_tree
from fabricast.pcie.topology.parts import RouteRule, Vertex
from fabricast.pcie.topology.regular import regular_tree
from fabricast.pcie.topology.symmetry import automorphism_count, automorphisms
from fabricast.pcie.topology.tree import PcieTree
from tests.machines import import_xml
from tests.unit.pcie.topology.xml_files import bridge, device, host, hwloc_xml, package, shape, write_xml, written

AUTOMORPHISMS = {
    "storm8": 128,
    "flat4x2": 1152,
    "boards4": 384,
    "direct8": 40320,
    "cascade8": 1152,
    "single4x2": 1152,
    "dual4x2": 1152,
    "dgx1": 128,
    "quad4": 8,
    "cascade4": 8,
    "storm16": 32768,
    "flat4x4": math.factorial(4) ** 5,
}


@pytest.mark.parametrize("name", AUTOMORPHISMS)
def test_number_of_symmetries(name):
    tree = load_tree(name)
    assert automorphism_count(tree) == AUTOMORPHISMS[name]
    if AUTOMORPHISMS[name] < 2000:
        assert len({tuple(row) for row in automorphisms(tree).tolist()}) == AUTOMORPHISMS[name]


def test_all_named_topologies_are_built_in():
    assert set(AUTOMORPHISMS) <= set(builtin_names())


def test_regular_trees_have_the_shapes_of_built_in_trees():
    for name, branching in {"storm8": (2, 2, 2), "flat4x2": (2, 4), "boards4": (4, 2), "direct8": (8,)}.items():
        assert shape(regular_tree(name, branching)) == shape(load_tree(name))


def test_path_classes():
    storm16 = load_tree("storm16")
    assert [storm16.path_class("0", t) for t in ("1", "2", "3", "4", "7", "8")] == [
        "PIX",
        "PXB",
        "PXB",
        "PHB",
        "PHB",
        "SYS",
    ]
    assert load_tree("direct8").path_class("0", "1") == "PHB"


def test_link_numbers_of_routes_ascend(storm8):
    for source in storm8.endpoint_names:
        for target in storm8.endpoint_names:
            if source != target:
                route = storm8.route(source, target)
                assert route == sorted(route)
                assert storm8.link_names[route[0]][0] == source
                assert storm8.link_names[route[-1]][1] == target


def test_uplink_groups_assign_endpoints_to_parallel_uplinks():
    tree = load_tree("paired_virtual_switches")
    crossing = [(0, 4), (2, 6)]
    assert factors(tree, crossing, MODELS["congestion_factor"], tau=0).tolist() == [1.0, 1.0]
    assert factors(tree, [(0, 4), (1, 5)], MODELS["congestion_factor"], tau=0).tolist() == [0.5, 0.5]


def test_slow_links_limit_the_rate_of_a_copy():
    vertices = (Vertex("RC", "root_complex", None), Vertex("a", "endpoint", "RC", 0.5), Vertex("b", "endpoint", "RC"))
    tree = PcieTree("unequal", vertices)
    for model in ("congestion_factor", "max_min", "busiest_link", "no_contention"):
        assert factors(tree, [(0, 1)], MODELS[model], tau=0).tolist() == [0.5], model


@pytest.mark.parametrize("name", sorted(AUTOMORPHISMS))
def test_yaml_round_trip(name, tmp_path):
    write_tree(load_tree(name), tmp_path / "copy.yaml")
    assert load_tree(tmp_path / "copy.yaml") == load_tree(name)


GOOD = yaml.safe_load(tree_yaml(regular_tree("pair", (2,))))


def yaml_with(**changes):
    """Return YAML of the tree `pair` with changed attributes of the last vertex."""
    entry = GOOD | {"vertices": [*GOOD["vertices"][:-1], GOOD["vertices"][-1] | changes]}
    lines = [f"{key}: {value}" for key, value in entry.items() if key != "vertices"]
    return "\n".join([*lines, "vertices:", *(f"  - {vertex}" for vertex in entry["vertices"])])


BAD_YAML = {
    yaml_with(capacity=0): (7, "capacity"),
    yaml_with(capacity=float("nan")).replace("nan", ".nan"): (7, "capacity"),
    yaml_with(parent="nowhere"): (7, "unknown parent 'nowhere'"),
    yaml_with(parent="0"): (7, "endpoint '0' has the child '1'"),
    yaml_with(name="0"): (7, "is a duplicate"),
    yaml_with(kind="gpu"): (7, "kind"),
    yaml_with(colour="red"): (7, "unknown"),
    yaml_with(name="S", kind="switch"): (7, "no child"),
    yaml_with(name="S", kind="switch", network_card=True): (7, "expected an endpoint"),
    yaml_with() + "\nroutes:\n  - {source: '*', target: '*', turn: RC}\n  - {source: '0', target: '1', turn: '0'}\n": (
        10,
        "turns at '0', expected a switch",
    ),
    yaml_with() + "\nmemory_nodes:\n  - {name: N0, parent: RC}\n  - {name: N0, parent: RC}\n": (
        10,
        "'N0' is a duplicate",
    ),
    yaml_with() + "\nmemory_nodes:\n  - {name: N0, parent: RC}\n  - {name: N1, parent: '0'}\n": (
        10,
        "expected a root complex",
    ),
    yaml_with() + "\nmemory_nodes:\n  - {name: N0, parent: RC, capacity: 1000}\n": (9, "to below 1000"),
    "name: x\nvertices:\n  - {name: a, kind: switch, parent: b}\n  - {name: b, kind: switch, parent: a}\n": (
        2,
        "roots",
    ),
    "name: x\nvertices:\n  - {name: r, kind: root_complex}\n  - {name: g, kind: endpoint, parent: r}\n"
    "  - {name: a, kind: switch, parent: b}\n  - {name: b, kind: switch, parent: a}\n": (5, "cycle"),
    "name: x\nname: y\n": (2, "is a duplicate"),
    "name: x\nvertices: &v []\ntag: *v\n": (3, "alias"),
    "name: [": (1, "YAML"),
    "": (None, ""),
    "vertices: []\n": (None, "name"),
}


@pytest.mark.parametrize("text", BAD_YAML, ids=range(len(BAD_YAML)))
def test_invalid_yaml_is_rejected_with_its_line(tmp_path, text):
    path = tmp_path / "tree.yaml"
    path.write_text(text)
    line, message = BAD_YAML[text]
    with pytest.raises(InputError) as caught:
        load_tree(path)
    found = str(caught.value)
    assert found.startswith(str(path))
    assert message in found
    assert "\n" not in found
    if line is not None:
        assert found.startswith(f"{path}:{line}:"), found


def test_unknown_names_suggest_built_in_topologies():
    with pytest.raises(InputError, match="storm8"):
        load_tree("storm9")


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_dgx2_has_the_shape_of_two_storm8_trees(shared_data, version):
    tree = import_xml(shared_data / "hwloc" / f"nvidiaDGX2.{version}.xml")
    # Each half of storm8 is below a host bridge of its own.
    assert shape(tree) == [[[half] for half in shape(load_tree("storm8"))]] * 2
    assert {tree.path_class("0", other) for other in tree.accelerator_names[1:]} == {"PIX", "PXB", "NODE", "SYS"}
    assert tree.link_bytes_per_s == pytest.approx(15.753846e9)


def test_servers_with_eight_vector_engines_or_gpus_have_the_shape_of_flat4x2(shared_data):
    (path,) = (shared_data / "hwloc").glob("32intel64*.xml")
    assert shape(import_xml(path)) == [[part] for part in shape(load_tree("flat4x2"))]
    # NCCL XML has no host bridges.
    assert shape(import_xml(shared_data / "nccl" / "topo_8p_pcie.xml")) == shape(load_tree("flat4x2"))


ALL_BY_THE_ROOT = RouteRule("*", "*", "RC")


def test_route_rules_move_the_turn_towards_the_root(tmp_path):
    """Access control services route copies below one switch over its uplink."""
    plain = load_tree("flat4x2")
    controlled = replace(plain, route_rules=(ALL_BY_THE_ROOT,))
    assert [plain.link_names[link][:2] for link in plain.route("0", "1")] == [("0", "S0"), ("S0", "1")]
    over = [controlled.link_names[link][:2] for link in controlled.route("0", "1")]
    assert over == [("0", "S0"), ("S0", "RC"), ("RC", "S0"), ("S0", "1")]
    assert controlled.route("0", "4") == plain.route("0", "4")
    assert controlled.is_crossing("0", "1")
    assert not plain.is_crossing("0", "1")
    assert controlled.path_class("0", "1") == "PIX", "the path class does not depend on route rules"
    graphs = from_pairs([[(0, 1), (2, 3)]], size_bytes=2**30)
    ends = [
        predict(tree, graphs, model="max_min", bandwidth="10 GB/s", tau=0)["elapsed_s"].to_numpy()
        for tree in (plain, controlled)
    ]
    assert ends[1] == pytest.approx(2 * ends[0])
    assert load_tree(written(tmp_path, controlled)) == controlled


def test_routes_with_rules_ascend_and_connect_their_endpoints():
    tree = replace(
        load_tree("storm8"), route_rules=(ALL_BY_THE_ROOT, RouteRule("2", "*", "S0"), RouteRule("5", "4", "S3"))
    )
    for source in tree.endpoint_names:
        for target in set(tree.endpoint_names) - {source}:
            links = tree.route(source, target)
            names = [tree.link_names[link] for link in links]
            assert links == sorted(links)
            assert names[0][0] == source
            assert names[-1][1] == target
            assert all(hop[1] == next_hop[0] for hop, next_hop in itertools.pairwise(names))
    assert (tree.turn("0", "1"), tree.turn("2", "3"), tree.turn("5", "4"), tree.turn("4", "5")) == (
        "RC",
        "S0",
        "S3",
        "RC",
    )


def test_route_rules_reduce_the_symmetries():
    tree = load_tree("flat4x2")
    assert automorphism_count(replace(tree, route_rules=(ALL_BY_THE_ROOT,))) == automorphism_count(tree)
    half = replace(tree, route_rules=(RouteRule("*", "*", "S0"),))
    assert automorphism_count(half) == automorphism_count(tree) // 2, "a rule for one switch distinguishes the switches"
    one = replace(tree, route_rules=(RouteRule("0", "1", "RC"),))
    assert automorphism_count(one) == 2 * math.factorial(4)
    assert {int(image[0]) for image in automorphisms(one)} == {0}


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (RouteRule("9", "1", "RC"), "the endpoint '9', expected two different endpoints"),
        (RouteRule("1", "1", "RC"), "the endpoint '1', expected two different endpoints"),
        (RouteRule("0", "1", "X"), "turns at 'X', expected a switch"),
        (RouteRule("0", "1", "2"), "turns at '2', expected a switch"),
        (RouteRule("0", "4", "S0"), "turns at 'S0', expected a vertex above '4'"),
    ],
)
def test_route_rules_without_matching_routes_are_rejected(rule, message):
    with pytest.raises(InputError, match=message):
        replace(load_tree("flat4x2"), route_rules=(rule,))


def test_gpus_copy_to_the_nearest_network_card(tmp_path):
    """GPUs use the card below their switch; a single card serves all GPUs."""

    def switch(number, card):
        ports = bridge(f"{number}:0", device(f"{number}:0.0")) + bridge(f"{number}:1", device(f"{number}:1.0"))
        nic = bridge(f"{number}:2", device(f"{number}:2.0", "0207", "15b3")) if card else ""
        return bridge(f"{number}p", bridge(f"{number}u", ports + nic))

    def imported(*cards):
        body = package(host("".join(switch(number, card) for number, card in enumerate(cards))))
        return import_xml(write_xml(tmp_path, hwloc_xml(body)), network_cards=True)

    both = imported(True, True)
    assert both.accelerator_names == ("0", "1", "2", "3")
    assert both.endpoint_names == (*both.accelerator_names, "NIC0", "NIC1")
    named = [(both.endpoint_names[s], both.endpoint_names[t]) for s, t in card_pairs(both)]
    assert named == [("0", "NIC0"), ("1", "NIC0"), ("2", "NIC1"), ("3", "NIC1")]
    assert load_tree(written(tmp_path, both)) == both
    assert {target for _, target in card_pairs(imported(True, False))} == {4}
    back = network_card_copies(both, from_cards=True)
    assert back.source.tolist() == [4, 4, 5, 5]
    assert back.target.tolist() == [0, 1, 2, 3]
    assert collective_step(both, "ring").target.tolist() == [1, 2, 3, 0], "network cards are not ranks"
    assert all_to_all(both).source.size == 12
    assert set(halo_exchange(imported(False, True), (2, 2)).source.tolist()) == {0, 1, 2, 3}
    assert not [probe for probe in proposed_probes(both) if any("NIC" in end for flow in probe.flows for end in flow)]
    assert automorphism_count(both) == 2**3, "network cards and GPUs are not equivalent"
    with pytest.raises(InputError, match="has no network card"):
        card_pairs(load_tree("storm8"))


@pytest.mark.parametrize("staged", ["true", "some", "[1, 2]", "{0: 1}"])
def test_staged_pairs_of_another_kind_are_refused_in_words(tmp_path, staged):
    path = tmp_path / "machine.yaml"
    path.write_text(f"{tree_yaml(load_tree('storm8'))}staged: {staged}\n")
    with pytest.raises(InputError, match=r"machine.yaml:\d+: key 'staged'.*: expected all, or a list of pairs"):
        load_tree(str(path))
