"""What measurements and files do not tell of copies is said, and no rate of one kind stands for another unsaid."""

import numpy as np
import pytest

import fabricast as fc
from fabricast.core.errors import InputError
from fabricast.pcie.calibration import _interval
from fabricast.pcie.copies_of_machine import address_doubt, copies_of_machine
from fabricast.pcie.host_memory import with_host_memory
from fabricast.pcie.machine_calibration import calibrate_machine
from fabricast.pcie.topology_files import load_tree

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


def machine(tmp_path, *, told=True):
    """A tree of two GPUs on root ports of one root complex, as NCCL writes it."""
    inside = [f'<gpu dev="{number}" sm="80"/>' if told else "" for number in range(2)]
    gpus = "".join(GPU.format(bus=bus, inside=own) for bus, own in zip(("3b", "5e"), inside, strict=True))
    path = tmp_path / "machine.xml"
    path.write_text(f'<system version="1"><cpu numaid="0">{gpus}</cpu></system>')
    return load_tree(path)


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_slow_peers_without_a_switch_do_not_slow_host_copies(tmp_path):
    tree = with_host_memory(machine(tmp_path))
    measured = copies_of_machine(tree, written(tmp_path, "measured.csv", HOST_FASTER))
    found = calibrate_machine(tree, measured, one_way_bytes_per_s=28e9)
    assert found.rates.one_way_bytes_per_s == pytest.approx(22.2e9)
    assert found.rates.of_way("crossing") == pytest.approx(9.9e9)
    assert found.rates.of_way("host_in") is None
    assert "from and to host memory" in found.source["one_way"]
    assert found.measured_ways == {"crossing", "host_in", "host_out"}


def test_copies_of_a_kind_that_nobody_measured_are_named(tmp_path):
    tree = machine(tmp_path)
    peers = written(tmp_path, "peers.csv", PEERS_ONLY)
    graphs = fc.graph([(0, 1)], size="1 GB")
    notes = fc.predict(tree, graphs, model="endpoint_engines", measurements=peers).attrs["notes"]
    assert not any("of this kind was measured" in note for note in notes)
    host = written(
        tmp_path, "host.csv", HOST_FASTER.replace("peer,0>1,calibration,9.9\nback,1>0,calibration,9.9\n", "")
    )
    notes = fc.predict(tree, graphs, model="endpoint_engines", measurements=host).attrs["notes"]
    assert any("of this kind was measured" in note for note in notes)


def test_pairs_without_peer_access_tell_no_rate_of_links(tmp_path):
    tree = machine(tmp_path)
    addresses = {"first": "3b", "second": "5e"}
    with_access = written(tmp_path, "a.txt", NO_ACCESS.format(refused="", **addresses))
    assert len(copies_of_machine(tree, with_access)) == 2
    one = written(tmp_path, "b.txt", NO_ACCESS.format(refused="Device=0 CANNOT Access Peer Device=1", **addresses))
    assert [graph.flows for graph in copies_of_machine(tree, one)] == [(("1", "0"),)]
    refused = "Device=0 CANNOT Access Peer Device=1\nDevice=1 CANNOT Access Peer Device=0"
    with pytest.raises(InputError, match="no GPU of it has peer access"):
        copies_of_machine(tree, written(tmp_path, "c.txt", NO_ACCESS.format(refused=refused, **addresses)))


def test_measurements_of_other_addresses_are_doubted(tmp_path):
    tree = machine(tmp_path)
    own = written(tmp_path, "own.txt", NO_ACCESS.format(first="3b", second="5e", refused=""))
    other = written(tmp_path, "other.txt", NO_ACCESS.format(first="1", second="21", refused=""))
    assert address_doubt(tree, own) is None
    assert "no GPU of the measurements" in address_doubt(tree, other)
    notes = fc.predict(tree, fc.graph([(0, 1)], size="1 GB"), model="endpoint_engines", measurements=other).attrs[
        "notes"
    ]
    assert any("no GPU of the measurements" in note for note in notes)


def test_files_that_cannot_show_direct_links_say_so(tmp_path):
    assert not any("NVLink" in note for note in machine(tmp_path).notes)
    assert any("NVLink and xGMI cannot be seen" in note for note in machine(tmp_path, told=False).notes)


def test_small_copies_are_said_to_be_start_up():
    tree = fc.load_topology("storm8")
    small, large = (fc.predict(tree, fc.graph([(0, 1)], size=size)) for size in ("4 KiB", "300 MiB"))
    assert any("start-up" in note for note in small.attrs["notes"])
    assert not any("start-up" in note for note in large.attrs["notes"])


def test_intervals_of_two_runs_are_those_of_student():
    rates = np.array([12.987, 13.004])
    generator = np.random.default_rng(0)
    draws = [float(rates[generator.integers(0, 2, 2)].mean()) for _ in range(4000)]
    low, high = _interval(float(rates.mean()), draws, 2)
    half = 12.7062 * rates.std(ddof=1) / np.sqrt(2)
    assert high - rates.mean() == pytest.approx(half, rel=0.05)
    assert rates.mean() - low == pytest.approx(half, rel=0.05)
    assert _interval(13.0, [13.0], 1) == (13.0, 13.0)
