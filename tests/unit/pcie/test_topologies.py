"""PCIe trees: shapes, symmetries, path classes, importers and invalid input."""

import itertools
import math
import re
import subprocess
from dataclasses import replace

import pytest
import yaml

from fabricast.api.graphs import all_to_all, collective, halo_exchange, network_card_copies
from fabricast.api.predictions import predict
from fabricast.core.errors import InputError
from fabricast.core.units import pcie_bytes_per_s
from fabricast.core.warnings import WarningCode
from fabricast.pcie.graphs.collectives import card_arcs
from fabricast.pcie.graphs.congestion_graphs import from_arcs
from fabricast.pcie.measurements.probes import proposed_probes
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import factors
from fabricast.pcie.topology.files import builtin_names, load_tree, tree_yaml, write_tree
from fabricast.pcie.topology.parts import MemoryNode, RouteRule, Vertex
from fabricast.pcie.topology.regular import regular_tree
from fabricast.pcie.topology.symmetry import automorphism_count, automorphisms
from fabricast.pcie.topology.tree import PcieTree
from fabricast.pcie.topology.xml_import import import_xml
from tests.conftest import require_tool

AUTOMORPHISMS = {
    "storm8": 128, "flat4x2": 1152, "boards4": 384, "direct8": 40320, "cascade8": 1152, "single4x2": 1152,
    "dual4x2": 1152, "dgx1": 128, "quad4": 8, "cascade4": 8, "storm16": 32768, "flat4x4": math.factorial(4) ** 5,
}  # fmt: skip


def codes(tree):
    """Return the codes of the warnings of a tree."""
    return [warning.code for warning in tree.warnings]


def shape(tree, name=None):
    """Return the nested counts of endpoints below each vertex."""
    name = name or tree.root
    children = tree.children(name)
    if all(tree.is_endpoint(child) for child in children):
        return len(children)
    return [1 if tree.is_endpoint(child) else shape(tree, child) for child in children]


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


def hwloc_xml(body, version="2.0"):
    return (
        f'<?xml version="1.0"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="{version}">\n'
        f'<object type="Machine">\n{body}</object></topology>\n'
    )


def bridge(bus, children, speed="15.75", kind="1-1"):
    return f'<object type="Bridge" bridge_type="{kind}" pci_busid="{bus}" pci_type="0604 [8086:2030]" pci_link_speed="{speed}">\n{children}</object>\n'


def host(children):
    return f'<object type="Bridge" bridge_type="0-1" depth="0">\n{children}</object>\n'


def device(bus, pci_class="0302", vendor="10de", speed="15.75"):
    return (
        f'<object type="PCIDev" pci_busid="{bus}" pci_type="{pci_class} [{vendor}:1db8]" pci_link_speed="{speed}"/>\n'
    )


def package(*hosts):
    return '<object type="Package">\n' + "".join(hosts) + "</object>\n"


def board(number, **keywords):
    ports = "".join(bridge(f"{number}:{i}", device(f"{number}:{i}.0", **keywords)) for i in range(2))
    return bridge(f"{number}p", bridge(f"{number}u", ports))


def written(tmp_path, tree):
    path = tmp_path / "written.yaml"
    write_tree(tree, path)
    return path


def write_xml(tmp_path, text):
    path = tmp_path / "machine.xml"
    path.write_text(text)
    return path


def test_hwloc_host_bridges_of_a_package_form_one_root_complex(tmp_path):
    root_port = [bridge(f"r{i}", bridge(f"u{i}", board(2 * i) + board(2 * i + 1))) for i in range(2)]
    text = hwloc_xml(package(host(root_port[0]), host(root_port[1])) + package(host(device("nic", "0200"))))
    tree = import_xml(write_xml(tmp_path, text))
    assert shape(tree) == shape(load_tree("storm8"))
    assert automorphism_count(tree) == 128
    assert tree.link_bytes_per_s == pytest.approx(15.75e9)


def test_numa_nodes_of_sockets_are_imported(tmp_path):
    def node(number):
        return f'<object type="NUMANode" os_index="{number}"/>\n'

    two = hwloc_xml(package(node(0), host(board(0))) + package(node(1), host(board(1))))
    tree = import_xml(write_xml(tmp_path, two))
    assert [tree.vertex(name).label for name in ("RC0", "RC1")] == ["NUMA node 0", "NUMA node 1"]
    assert WarningCode.NUMA_NODES_MERGED not in codes(tree)
    divided = import_xml(write_xml(tmp_path, hwloc_xml(package(node(0), node(1), host(board(0))))))
    assert divided.vertex("RC").label == "NUMA nodes 0, 1"
    assert WarningCode.NUMA_NODES_MERGED in codes(divided)
    assert tree.memory_nodes == (MemoryNode("NUMA0", "RC0"), MemoryNode("NUMA1", "RC1"))
    assert divided.memory_nodes == (MemoryNode("NUMA0", "RC"), MemoryNode("NUMA1", "RC"))
    assert load_tree(written(tmp_path, divided)) == divided


def test_hwloc_version_3_with_two_sockets_is_imported(tmp_path):
    text = hwloc_xml(package(host(board(0))) + package(host(board(1))), version="3.0")
    tree = import_xml(write_xml(tmp_path, text))
    assert tree.path_class("0", "2") == "SYS"
    assert WarningCode.INTER_SOCKET_CAPACITY_ASSUMED in codes(tree)


def test_missing_and_slow_link_speeds_in_hwloc_files(tmp_path):
    text = hwloc_xml(package(host(device("a", speed="0") + device("b") + device("c") + device("d", speed="7.875"))))
    tree = import_xml(write_xml(tmp_path, text))
    assert [tree.vertex(name).capacity for name in tree.endpoint_names] == [1.0, 1.0, 1.0, 0.5]
    assert tree.warnings[0].text.startswith("1 of 4 links have no recorded speed; assumed 15.75 GB/s")


def test_graphics_cards_require_include_display(tmp_path):
    path = write_xml(tmp_path, hwloc_xml(package(host(device("a", "0300") + device("m", "0300", "102b")))))
    with pytest.raises(InputError, match="no accelerator .* but 2 other PCI devices"):
        import_xml(path)
    assert import_xml(path, include_display=True).endpoint_names == ("0",)


NCCL = """<system version="1">
  <cpu numaid="0" arch="x86_64">
    <pci busid="0000:18:00.0" class="0x060400" link_speed="8 GT/s" link_width="16">
      <pci busid="0000:1d:00.0" class="0x038000" link_speed="8 GT/s" link_width="16"><gpu dev="1"/></pci>
      <pci busid="0000:20:00.0" class="0x038000" link_speed="8.0 GT/s PCIe" link_width="8"><gpu dev="0"/></pci>
      <pci busid="0000:21:00.0" class="0x020700" link_speed="8 GT/s" link_width="16"/>
    </pci>
  </cpu>
</system>
"""


def test_nccl_device_numbers_become_endpoint_numbers(tmp_path):
    tree = import_xml(write_xml(tmp_path, NCCL))
    assert [tree.vertex(name).label for name in tree.endpoint_names] == ["0000:20:00.0", "0000:1d:00.0"]
    assert tree.path_class("0", "1") == "PIX"
    fast = pcie_bytes_per_s(8, 16)
    assert tree.link_bytes_per_s == pytest.approx(fast)
    assert [tree.vertex(name).capacity for name in tree.endpoint_names] == [0.5, 1.0]


def test_gpus_without_numbers_are_numbered_by_bus_id(tmp_path):
    """Number GPUs as nvidia-smi and CUDA do.

    The topology file of Azure lists 0003:00:00.0 first, but GPU 0 is 0001:00:00.0.
    """
    text = re.sub("<gpu[^>]*/>", "", NCCL).replace("0000:1d", "0000:9d")
    tree = import_xml(write_xml(tmp_path, text))
    assert [tree.vertex(name).label for name in tree.endpoint_names] == ["0000:20:00.0", "0000:9d:00.0"]
    assert WarningCode.GPU_NUMBERS_ASSUMED in codes(tree)
    assert WarningCode.GPU_NUMBERS_ASSUMED not in codes(import_xml(write_xml(tmp_path, NCCL)))
    # If a bus id is not a PCI address, the file order applies.
    unordered = import_xml(write_xml(tmp_path, text.replace("0000:20:00.0", "unknown")))
    assert [unordered.vertex(name).label for name in unordered.endpoint_names] == ["0000:9d:00.0", "unknown"]


@pytest.mark.parametrize(("names", "labels"), [
    (("cuda1", "cuda0"), ["1:00.0", "0:00.0"]),
    (("nvml1", "nvml0"), ["1:00.0", "0:00.0"]),
    (("rsmi1", "rsmi0"), ["1:00.0", "0:00.0"]),
    (("cuda0", "nvml0"), ["0:00.0", "1:00.0"]),
    (("cuda0", "cuda0"), ["0:00.0", "1:00.0"]),
    (("card1", "card0"), ["0:00.0", "1:00.0"]),
])  # fmt: skip
def test_hwloc_gpu_numbers_are_those_of_cuda_nvml_or_rocm(tmp_path, names, labels):
    gpus = [
        device(f"{bus}:00.0").replace("/>", f'><object type="OSDev" name="{name}" osdev_type="5"/></object>')
        for bus, name in enumerate(names)
    ]
    tree = import_xml(write_xml(tmp_path, hwloc_xml(package(host("".join(gpus))))))
    assert [tree.vertex(name).label for name in tree.endpoint_names] == labels
    assert (WarningCode.GPU_NUMBERS_ASSUMED in codes(tree)) == (labels[0] == "0:00.0")


def test_network_cards_become_endpoints_on_request(tmp_path):
    card = '<nic><net name="{}"/><net name="other"/></nic>'
    text = NCCL.replace(
        '0x020700" link_speed="8 GT/s" link_width="16"/>', '0x020700" link_speed="8 GT/s" link_width="4">'
    )
    text = text.replace('link_width="4">', 'link_width="4">' + card.format("mlx5_0") + "</pci>")
    path = write_xml(tmp_path, text)
    assert import_xml(path).endpoint_names == ("0", "1")
    tree = import_xml(path, network_cards=True)
    # Network cards do not change the accelerator numbers or the reference rate, and are not reported as slow links.
    assert tree.endpoint_names == ("0", "1", "mlx5_0")
    assert tree.vertex("mlx5_0").capacity == 0.25
    assert not {WarningCode.SLOW_LINKS, WarningCode.IDLE_LINKS} & set(codes(tree))
    assert tree.path_class("1", "mlx5_0") == "PIX"
    names = '<object type="OSDev" name="ib0" osdev_type="2"/><object type="OSDev" name="mlx5_1" osdev_type="{}"/>'
    for kind in ("3", "OpenFabrics"):
        nic = device("e", "0207", "15b3").replace("/>", ">") + names.format(kind) + "</object>"
        same = device("f", "0200", "15b3").replace("/>", ">") + names.format(kind) + "</object>"
        text = hwloc_xml(package(host(device("a") + nic + same + device("g", "0200"))))
        assert import_xml(write_xml(tmp_path, text), network_cards=True).endpoint_names == (
            "0",
            "mlx5_1",
            "NIC1",
            "NIC2",
        )
    # A file with network cards but without accelerators is rejected.
    path = write_xml(tmp_path, hwloc_xml(package(host(device("e", "0200")))))
    with pytest.raises(InputError, match="no accelerator"):
        import_xml(path, network_cards=True)


LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">'
    '<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><topology>&c;</topology>'
)
BAD_XML = {
    LAUGHS: "entities",
    '<!DOCTYPE t [<!ENTITY e SYSTEM "file:///etc/passwd">]><topology>&e;</topology>': "entities",
    "": ":1: is not XML",
    "<topology>": ":1: is not XML",
    "<html/>": "root element <html>",
    "<system/>": "no <cpu> element",
    hwloc_xml(package(host(device("a", speed="fast")))): ":7: pci_link_speed is 'fast'",
    NCCL.replace('"8 GT/s" link_width="16"', '"9 GT/s" link_width="16"'): ":3: link_speed is '9 GT/s'",
    "<topology>" + '<object type="Group">' * 5000 + "</object>" * 5000 + "</topology>": "nest deeper",
}


@pytest.mark.parametrize("text", BAD_XML, ids=range(len(BAD_XML)))
def test_invalid_xml_is_rejected(tmp_path, text):
    with pytest.raises(InputError) as caught:
        import_xml(write_xml(tmp_path, text))
    assert BAD_XML[text] in str(caught.value)
    assert "\n" not in str(caught.value)


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
    yaml_with() + "\nmemory_nodes:\n  - {name: N0, parent: RC}\n  - {name: N0, parent: RC}\n": (10, "'N0' is a duplicate"),
    yaml_with() + "\nmemory_nodes:\n  - {name: N0, parent: RC}\n  - {name: N1, parent: '0'}\n": (
        10,
        "expected a root complex",
    ),
    yaml_with() + "\nmemory_nodes:\n  - {name: N0, parent: RC, capacity: 1000}\n": (9, "to below 1000"),
    "name: x\nvertices:\n  - {name: a, kind: switch, parent: b}\n  - {name: b, kind: switch, parent: a}\n": (2, "roots"),
    "name: x\nvertices:\n  - {name: r, kind: root_complex}\n  - {name: g, kind: endpoint, parent: r}\n"
    "  - {name: a, kind: switch, parent: b}\n  - {name: b, kind: switch, parent: a}\n": (5, "cycle"),
    "name: x\nname: y\n": (2, "is a duplicate"),
    "name: x\nvertices: &v []\ntag: *v\n": (3, "alias"),
    "name: [": (1, "YAML"),
    "": (None, ""),
    "vertices: []\n": (None, "name"),
}  # fmt: skip


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
    assert shape(tree) == [shape(load_tree("storm8"))] * 2
    assert tree.link_bytes_per_s == pytest.approx(15.753846e9)


def test_servers_with_eight_vector_engines_or_gpus_have_the_shape_of_flat4x2(shared_data):
    (path,) = (shared_data / "hwloc").glob("32intel64*.xml")
    assert shape(import_xml(path)) == shape(load_tree("flat4x2"))
    assert shape(import_xml(shared_data / "nccl" / "topo_8p_pcie.xml")) == shape(load_tree("flat4x2"))


def test_recorded_files_of_other_machines_are_imported(shared_data):
    with pytest.raises(InputError, match="no accelerator .* but 18 other"):
        import_xml(shared_data / "hwloc" / "16intel64-manyVFs.xml")
    old = import_xml(shared_data / "hwloc" / "32em64t-2n8c2t-pci-wholeio.xml")
    assert "3 of 3 links have no recorded speed" in old.warnings[0].text
    assert shape(import_xml(shared_data / "nccl" / "topo_8p_rome_pcie.xml")) == [4, 4]
    assert shape(import_xml(shared_data / "nccl" / "topo_3p_pcie.xml")) == [1, 2]
    azure = import_xml(shared_data / "nccl" / "ndv4-topo.xml")
    assert shape(azure) == [[2]] * 4
    # According to nvidia-smi on this machine, GPUs 0 and 1 are nearest to NUMA node 1, GPUs 4 and 5 to node 3.
    assert [azure.vertex(name).label[:4] for name in azure.endpoint_names] == [
        "0001", "0002", "0003", "0004", "000b", "000c", "000d", "000e"
    ]  # fmt: skip
    assert [azure.vertex(gpu).parent for gpu in ("0", "2", "4", "6")] == ["S1", "S0", "S3", "S2"]
    cards = import_xml(shared_data / "nccl" / "ndv4-topo.xml", network_cards=True)
    assert [cards.vertex(f"NIC{number}").parent for number in (0, 2, 4, 6)] == ["S1", "S0", "S3", "S2"]
    assert [azure.vertex(gpu).parent for gpu in ("0", "2", "4", "6")] == [
        load_tree("hgx_a100").vertex(gpu).parent for gpu in ("0", "2", "4", "6")
    ]


def test_local_machine_is_imported_or_has_no_accelerator(tmp_path):
    lstopo = require_tool("lstopo-no-graphics")
    path = tmp_path / "here.xml"
    subprocess.run([lstopo, "--whole-io", str(path)], check=True, capture_output=True)
    try:
        assert import_xml(path).endpoint_names
    except InputError as error:
        assert "holds no accelerator" in str(error)


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
    graphs = from_arcs([[(0, 1), (2, 3)]], size_bytes=2**30)
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


@pytest.mark.parametrize(("rule", "message"), [
    (RouteRule("9", "1", "RC"), "the endpoint '9', expected two different endpoints"),
    (RouteRule("1", "1", "RC"), "the endpoint '1', expected two different endpoints"),
    (RouteRule("0", "1", "X"), "turns at 'X', expected a switch"),
    (RouteRule("0", "1", "2"), "turns at '2', expected a switch"),
    (RouteRule("0", "4", "S0"), "turns at 'S0', expected a vertex above '4'"),
])  # fmt: skip
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
    named = [(both.endpoint_names[s], both.endpoint_names[t]) for s, t in card_arcs(both)]
    assert named == [("0", "NIC0"), ("1", "NIC0"), ("2", "NIC1"), ("3", "NIC1")]
    assert load_tree(written(tmp_path, both)) == both
    assert {target for _, target in card_arcs(imported(True, False))} == {4}
    back = network_card_copies(both, from_cards=True)
    assert back.source.tolist() == [4, 4, 5, 5]
    assert back.target.tolist() == [0, 1, 2, 3]
    assert collective(both, "ring").target.tolist() == [1, 2, 3, 0], "network cards are not ranks"
    assert all_to_all(both).source.size == 12
    assert set(halo_exchange(imported(False, True), (2, 2)).source.tolist()) == {0, 1, 2, 3}
    assert not [probe for probe in proposed_probes(both) if any("NIC" in end for flow in probe.flows for end in flow)]
    assert automorphism_count(both) == 2**3, "network cards and GPUs are not equivalent"
    with pytest.raises(InputError, match="has no network card"):
        card_arcs(load_tree("storm8"))
