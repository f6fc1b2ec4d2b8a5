"""Import of hwloc and NCCL topology XML."""

import re
import subprocess
from dataclasses import replace

import pytest

from fabricast.api.predictions import predict
from fabricast.core.errors import InputError
from fabricast.core.units import pcie_bytes_per_s
from fabricast.core.warnings import WarningCode
from fabricast.pcie.topology.builtin import load_tree
from fabricast.pcie.topology.memory import with_host_memory
from fabricast.pcie.topology.parts import MemoryNode
from fabricast.pcie.topology.symmetry import automorphism_count
from tests.conftest import require_tool
from tests.machines import import_xml
from tests.unit.pcie.topology.xml_files import bridge, device, host, hwloc_xml, package, shape, write_xml, written


def codes(tree):
    """Return the codes of the warnings of a tree."""
    return [warning.code for warning in tree.warnings]


def board(number, **keywords):
    ports = "".join(bridge(f"{number}:{i}", device(f"{number}:{i}.0", **keywords)) for i in range(2))
    return bridge(f"{number}p", bridge(f"{number}u", ports))


def _merged(vertex):
    """Return a vertex of a socket whose host bridges are one root complex."""
    if vertex.kind == "socket":
        return replace(vertex, kind="root_complex")
    return replace(vertex, parent="SOCKET0") if vertex.parent in ("RC0", "RC1") else vertex


def test_hwloc_host_bridges_of_a_package_are_root_complexes_of_a_socket(tmp_path):
    root_port = [bridge(f"r{i}", bridge(f"u{i}", board(2 * i) + board(2 * i + 1))) for i in range(2)]
    text = hwloc_xml(package(host(root_port[0]), host(root_port[1])) + package(host(device("nic", "0200"))))
    tree = import_xml(write_xml(tmp_path, text))
    assert shape(tree) == [[half] for half in shape(load_tree("storm8"))]
    assert automorphism_count(tree) == 128
    assert tree.link_bytes_per_s == pytest.approx(15.75e9)
    assert [tree.vertex(name).kind for name in ("SOCKET0", "RC0", "RC1")] == ["socket", "root_complex", "root_complex"]
    assert {tree.path_class("0", other) for other in tree.accelerator_names[1:]} == {"PIX", "PXB", "NODE"}
    assert any("capacity between host bridges of a socket is unknown" in one.text for one in tree.warnings)
    # Copies without contention at the root have the same times as with one root complex.
    merged = replace(tree, vertices=tuple(_merged(one) for one in tree.vertices if one.kind != "root_complex"))
    copies = [(0, 1), (2, 6), (5, 4), (7, 3)]
    times = [predict(one, copies)["elapsed_s"].tolist() for one in (tree, merged)]
    assert times[0] == pytest.approx(times[1])


def test_idle_links_of_hwloc_are_named_with_their_generation(tmp_path):
    # Gen1 x16 is 3.94 times slower than Gen3 x16, because their lines are coded differently.
    text = hwloc_xml(package(host(device("a", "0302", speed="15.753846") + device("b", "0302", speed="4.0"))))
    (slow,) = [one.text for one in import_xml(write_xml(tmp_path, text)).warnings if one.code == WarningCode.SLOW_LINKS]
    assert "(b: 4 GB/s, as Gen1 x16 or Gen2 x8" in slow
    assert "idle GPUs reduce their link speed: compare with a file written under load" in slow


def test_numa_nodes_of_groups_belong_to_their_host_bridges(tmp_path):
    def group(number, *parts):
        return f'<object type="Group"><object type="NUMANode" os_index="{number}"/>\n{"".join(parts)}</object>\n'

    text = hwloc_xml(
        package(group(0, host(board(0))), group(1, host(board(1)))) + package(group(2, host(board(2)), host(board(3))))
    )
    tree = import_xml(write_xml(tmp_path, text))
    assert [(node.name, node.parent) for node in tree.memory_nodes] == [("NUMA0", "RC0"), ("NUMA1", "RC1")]
    assert WarningCode.NUMA_NODES_MERGED not in {warning.code for warning in tree.warnings}
    # Two host bridges of one NUMA node: neither is known to be nearer to its memory.
    assert with_host_memory(tree).endpoint_names[-2:] == ("H@RC2", "H@RC3")


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
    (text,) = [one.text for one in tree.warnings if one.code is WarningCode.LINK_SPEED_MISSING]
    assert text == f"1 of 4 links have no recorded speed ({tree.vertex('0').label}); assumed 15.75 GB/s"


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


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (("cuda1", "cuda0"), ["1:00.0", "0:00.0"]),
        (("nvml1", "nvml0"), ["1:00.0", "0:00.0"]),
        (("rsmi1", "rsmi0"), ["1:00.0", "0:00.0"]),
        (("cuda0", "nvml0"), ["0:00.0", "1:00.0"]),
        (("cuda0", "cuda0"), ["0:00.0", "1:00.0"]),
        (("card1", "card0"), ["0:00.0", "1:00.0"]),
    ],
)
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
    "": "is empty",
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
        "0001",
        "0002",
        "0003",
        "0004",
        "000b",
        "000c",
        "000d",
        "000e",
    ]
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


@pytest.mark.parametrize(
    ("board", "model", "is_reported"),
    [
        ("1db1", "POWER9, altivec supported", True),
        ("1db1", "Intel(R) Xeon(R) Platinum 8168", True),
        ("1db4", "POWER9", False),
    ],
)
def test_boards_with_nvlink_in_a_file_without_it_are_reported(tmp_path, board, model, is_reported):
    gpu = '<object type="PCIDev" pci_busid="{}" pci_type="0302 [10de:{}] [10de:1212] a1" pci_link_speed="15.75"/>\n'
    info = f'<info name="CPUModel" value="{model}"/>'
    text = hwloc_xml(package(info, host("".join(gpu.format(bus, board) for bus in "ab"))))
    found = [
        one.text for one in import_xml(write_xml(tmp_path, text)).warnings if one.code == WarningCode.PEER_LINKS_UNKNOWN
    ]
    assert bool(found) is is_reported
    if is_reported:
        assert ("POWER9 processors" in found[0]) is ("POWER9" in model)
        assert "forecast over PCIe, several times slower" in found[0]
