"""Warnings about rates that measurements and files leave unknown."""

import numpy as np
import pytest

import fabricast as fc
from fabricast.core.errors import InputError
from fabricast.core.warnings import WarningCode
from fabricast.pcie.machines.calibrate import calibrate_machine
from fabricast.pcie.models.calibration import _interval
from fabricast.pcie.topology.memory import with_host_memory
from tests.machines import measured

GPU = """<pci busid="0000:{bus}:00.0" class="0x030200" vendor="0x10de" link_speed="16.0 GT/s PCIe" link_width="16">
{inside}</pci>"""
HOST_FASTER = """graph,communications,role,total_gb_per_s
peer,0>1,calibration,9.9
back,1>0,calibration,9.9
in,H>0,calibration,22.2
out,0>H,calibration,22.2
"""
PEERS_ONLY = """graph,communications,role,total_gb_per_s
peer,0>1,calibration,9.9
"""
NO_ACCESS = """[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, NVIDIA GeForce RTX 4090, pciBusID: {first}, pciDeviceID: 0, pciDomainID:0
Device: 1, NVIDIA GeForce RTX 4090, pciBusID: {second}, pciDeviceID: 0, pciDomainID:0
{refused}
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0 910.02  20.66
     1  20.95 922.58
"""


def codes(warnings):
    """Return the codes of warnings."""
    return [warning.code for warning in warnings]


def machine(tmp_path, *, has_gpu_elements=True):
    """Return a tree of two GPUs on root ports of one root complex, read from NCCL XML."""
    inside = [f'<gpu dev="{number}" sm="80"/>' if has_gpu_elements else "" for number in range(2)]
    gpus = "".join(GPU.format(bus=bus, inside=device) for bus, device in zip(("3b", "5e"), inside, strict=True))
    path = tmp_path / "machine.xml"
    path.write_text(f'<system version="1"><cpu numaid="0">{gpus}</cpu></system>')
    return fc.load_topology(path)


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_slow_peers_without_a_switch_do_not_slow_host_copies(tmp_path):
    tree = with_host_memory(machine(tmp_path))
    graphs = measured(tree, written(tmp_path, "measured.csv", HOST_FASTER)).graphs
    calibration = calibrate_machine(tree, graphs, one_way_bytes_per_s=28e9)
    assert calibration.one_way_bytes_per_s == pytest.approx(22.2e9)
    assert calibration.of_class("crossing") == pytest.approx(9.9e9)
    assert calibration.of_class("host_in") is None
    assert "from and to host memory" in calibration.rate_sources["one_way"]
    assert calibration.measured_classes == {"crossing", "host_in", "host_out"}


def test_unmeasured_path_classes_are_reported(tmp_path):
    tree = machine(tmp_path)
    peers = written(tmp_path, "peers.csv", PEERS_ONLY)
    graphs = fc.graph([(0, 1)], size="1 GB")
    notes = fc.predict(tree, graphs, model="endpoint_engines", measurements=peers).attrs["warnings"]
    assert WarningCode.PATH_CLASS_UNMEASURED not in codes(notes)
    host = written(
        tmp_path, "host.csv", HOST_FASTER.replace("peer,0>1,calibration,9.9\nback,1>0,calibration,9.9\n", "")
    )
    notes = fc.predict(tree, graphs, model="endpoint_engines", measurements=host).attrs["warnings"]
    assert WarningCode.PATH_CLASS_UNMEASURED in codes(notes)


def test_pairs_without_peer_access_do_not_calibrate_links(tmp_path):
    tree = machine(tmp_path)
    addresses = {"first": "3b", "second": "5e"}
    with_access = written(tmp_path, "a.txt", NO_ACCESS.format(refused="", **addresses))
    assert len(measured(tree, with_access).graphs) == 2
    one = written(tmp_path, "b.txt", NO_ACCESS.format(refused="Device=0 CANNOT Access Peer Device=1", **addresses))
    assert [graph.flows for graph in measured(tree, one).graphs] == [(("1", "0"),)]
    refused = "Device=0 CANNOT Access Peer Device=1\nDevice=1 CANNOT Access Peer Device=0"
    none = written(tmp_path, "c.txt", NO_ACCESS.format(refused=refused, **addresses))
    assert measured(tree, none).graphs == []
    with pytest.raises(InputError, match="no GPU has peer access"):
        fc.validate_machine(tree, none)


def test_measurements_with_other_pci_addresses_are_reported(tmp_path):
    tree = machine(tmp_path)
    matching = written(tmp_path, "own.txt", NO_ACCESS.format(first="3b", second="5e", refused=""))
    other = written(tmp_path, "other.txt", NO_ACCESS.format(first="1", second="21", refused=""))
    assert measured(tree, matching).warnings == []
    (warning,) = measured(tree, other).warnings
    assert warning.code == WarningCode.ADDRESSES_DIFFER
    assert warning in fc.validate_machine(tree, other).warnings
    assert warning not in fc.validate_machine(tree, matching).warnings
    notes = fc.predict(tree, fc.graph([(0, 1)], size="1 GB"), model="endpoint_engines", measurements=other).attrs[
        "warnings"
    ]
    assert WarningCode.ADDRESSES_DIFFER in codes(notes)


def test_files_without_direct_link_information_are_reported(tmp_path):
    assert WarningCode.PEER_LINKS_UNKNOWN not in codes(machine(tmp_path).warnings)
    assert WarningCode.PEER_LINKS_UNKNOWN in codes(machine(tmp_path, has_gpu_elements=False).warnings)


def test_small_copies_warn_of_startup_time():
    tree = fc.load_topology("storm8")
    small, large = (fc.predict(tree, fc.graph([(0, 1)], size=size)) for size in ("4 KiB", "300 MiB"))
    assert WarningCode.SMALL_COPIES in codes(small.attrs["warnings"])
    assert WarningCode.SMALL_COPIES not in codes(large.attrs["warnings"])


def test_intervals_of_two_runs_use_student_t():
    rates = np.array([12.987, 13.004])
    generator = np.random.default_rng(0)
    draws = [float(rates[generator.integers(0, 2, 2)].mean()) for _ in range(4000)]
    low, high = _interval(float(rates.mean()), draws, 2)
    half = 12.7062 * rates.std(ddof=1) / np.sqrt(2)
    assert high - rates.mean() == pytest.approx(half, rel=0.05)
    assert rates.mean() - low == pytest.approx(half, rel=0.05)
    assert _interval(13.0, [13.0], 1) == (13.0, 13.0)


def hwloc_machine(tmp_path, ends, carried, *, kind="NVLinkBandwidth", gpus=2):
    """Return a tree from hwloc XML: GPUs below one PCIe switch, and a matrix of direct links."""
    devices = "".join(
        f'<object type="PCIDev" gp_index="{10 + n}" pci_busid="0004:0{n + 4}:00.0" '
        f'pci_type="0302 [10de:1db1] [10de:1212] a1" pci_link_speed="7.876923">'
        f'<object type="OSDev" gp_index="{50 + n}" name="nvml{n}" osdev_type="5"/></object>'
        for n in range(gpus)
    )
    bridge = '<object type="Bridge" gp_index="{0}" bridge_type="{1}-1" depth="{1}" bridge_pci="0004:[00-09]"{2}>'
    switch = ' pci_busid="0004:00:00.0" pci_type="0604 [1014:04c1]" pci_link_speed="7.876923"'
    values = " ".join(str(value) for row in carried for value in row)
    matrix = (
        f'<distances2hetero nbobjs="{len(ends)}" kind="25" name="{kind}"><indexes>{" ".join(ends)}</indexes>'
        f"<u64values>{values}</u64values></distances2hetero>"
    )
    path = tmp_path / "machine.xml"
    path.write_text(
        '<topology version="2.0"><object type="Machine" gp_index="1"><object type="Package" gp_index="2">'
        f"{bridge.format(3, 0, '')}{bridge.format(4, 1, switch)}{devices}</object></object></object></object>"
        f"{matrix}</topology>"
    )
    return fc.load_topology(path)


def test_links_of_gpus_with_nvlink_to_processor_have_its_rate(tmp_path):
    ends = ("OSDev:50", "OSDev:51", "Package:2")
    tree = hwloc_machine(tmp_path, ends, [[0, 75000, 75000], [75000, 0, 75000], [75000, 75000, 0]])
    assert tree.link_bytes_per_s == 75e9
    assert {tree.vertex(name).parent for name in tree.accelerator_names} == {"RC"}
    assert any("NVLink joins 2 GPUs to their processor at 75 GB/s" in str(one) for one in tree.warnings)
    without = hwloc_machine(tmp_path, ends[:2], [[0, 75000], [75000, 0]])
    assert without.link_bytes_per_s == pytest.approx(7.876923e9)
    assert WarningCode.NVLINK_TO_PROCESSOR not in codes(without.warnings)


def test_indirect_xgmi_pairs_are_reported(tmp_path):
    ends = ("OSDev:50", "OSDev:51", "OSDev:52")
    chain = [[0, 50000, 0], [50000, 0, 50000], [0, 50000, 0]]
    mesh = [[0, 50000, 50000], [50000, 0, 50000], [50000, 50000, 0]]
    notes = hwloc_machine(tmp_path, ends, chain, kind="XGMIBandwidth", gpus=3).warnings
    assert any("xGMI joins 1 pair of GPUs, such as 0 and 2," in str(one) for one in notes)
    notes = hwloc_machine(tmp_path, ends, mesh, kind="XGMIBandwidth", gpus=3).warnings
    assert WarningCode.XGMI_FORWARDING not in codes(notes)


def test_direct_links_slower_than_specified_are_reported(tmp_path):
    tree = hwloc_machine(tmp_path, ("OSDev:50", "OSDev:51"), [[0, 75000], [75000, 0]])
    rows = "graph,communications,role,total_gb_per_s\none,0>1,calibration,{}\n"
    slow, fast = (written(tmp_path, f"{rate}.csv", rows.format(rate)) for rate in (5.2, 68))
    (text,) = [str(one) for one in fc.validate_machine(tree, slow).warnings if one.code == WarningCode.SLOW_DIRECT_LINK]
    assert "5.2 GB/s, which is 6.9%" in text
    assert WarningCode.SLOW_DIRECT_LINK not in codes(fc.validate_machine(tree, fast).warnings)


def test_copies_faster_than_recorded_links_are_reported(tmp_path):
    path = tmp_path / "idle.xml"
    gpus = "".join(GPU.format(bus=bus, inside=f'<gpu dev="{n}" sm="80"/>') for n, bus in enumerate(("3b", "5e")))
    path.write_text(f'<system version="1"><cpu numaid="0">{gpus}</cpu></system>'.replace("16.0 GT/s", "2.5 GT/s"))
    tree = fc.load_topology(path)
    rows = "graph,communications,role,total_gb_per_s\none,0>1,calibration,24\nback,1>0,calibration,24.5\n"
    report = fc.validate_machine(tree, written(tmp_path, "m.csv", rows))
    assert "2 single-copy measurements exceed the link rates" in report.calibration.sources["one_way"]
    assert "no single copy was measured" not in report.calibration.sources["one_way"]
    assert codes(report.warnings).count(WarningCode.RATE_BEYOND_LINKS) == 1
    assert any("rates are in Gbit/s" in str(one) for one in report.warnings)


def test_network_card_ports_limit_capacity_and_are_reported(tmp_path):
    path = tmp_path / "cards.xml"
    net = '<net name="mlx5_{}" dev="{}" speed="{}" port="1"/>'
    gpu = GPU.format(bus="3b", inside='<gpu dev="0" sm="80"/>')
    card = GPU.replace("{bus}", "5e").replace("0x030200", "0x020700").replace("10de", "15b3")

    def tree(*speeds):
        nets = "".join(net.format(n, n, speed) for n, speed in enumerate(speeds))
        inside = card.format(inside=f"<nic>{nets}</nic>")
        path.write_text(f'<system version="1"><cpu numaid="0">{gpu}{inside}</cpu></system>')
        return fc.load_topology(path, network_cards=True)

    slow = tree(100000)
    assert slow.vertex("mlx5_0").capacity * slow.link_bytes_per_s * 256 / 280 == pytest.approx(12.5e9)
    assert any("carries 12.5 GB/s to the network" in str(one) for one in slow.warnings)
    assert tree(400000).vertex("mlx5_0").capacity == 1.0
    assert any("has 2 ports (mlx5_0, mlx5_1)" in str(one) for one in tree(100000, 100000).warnings)
    with pytest.raises(InputError, match="speed is 'fast', expected Mbit/s"):
        tree("fast")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('dev="1"', 'dev="0"'), "GPU dev '0' is a duplicate, expected unique numbers"),
        (("16.0 GT/s", "16.0 Gb/s"), "link_speed is '16.0 Gb/s"),
    ],
)
def test_inconsistent_nccl_files_are_rejected(tmp_path, change, message):
    path = tmp_path / "machine.xml"
    gpus = "".join(GPU.format(bus=bus, inside=f'<gpu dev="{n}" sm="80"/>') for n, bus in enumerate(("3b", "5e")))
    text = f'<system version="1"><cpu numaid="0">{gpus}</cpu></system>'
    path.write_text(text)
    assert fc.load_topology(path).accelerator_names == ("0", "1")
    path.write_text(text.replace(*change))
    with pytest.raises(InputError, match=message):
        fc.load_topology(path)
