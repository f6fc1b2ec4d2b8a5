"""The same machine and the same rates in every format that can hold them: equal answers, or a range that holds them."""

import itertools

import numpy as np
import pytest

import fabricast as fc
from fabricast.core.warnings import WarningCode
from tests.unit.pcie.topology.test_listings import groups, matrix

YAML = """name: machine
link_bytes_per_s: 31.5e9
vertices:
  - {name: SYS, kind: system}
  - {name: RC0, kind: root_complex, parent: SYS, capacity: 1.0}
  - {name: RC1, kind: root_complex, parent: SYS, capacity: 1.0}
  - {name: S0, kind: switch, parent: RC0}
  - {name: "0", kind: endpoint, parent: S0}
  - {name: "1", kind: endpoint, parent: S0}
  - {name: "2", kind: endpoint, parent: RC1}
  - {name: "3", kind: endpoint, parent: RC1}
"""
GPUS = range(4)
PAIRS = list(itertools.permutations(GPUS, 2))
GRAPHS = [
    *([pair] for pair in PAIRS),
    [(0, 1), (1, 0)],
    [(0, 2), (2, 0)],
    [(0, 2), (1, 2)],
    [(0, 2), (0, 3)],
    [(0, 2), (1, 3)],
    [(0, 1), (2, 3)],
    PAIRS,
]


def p2p(one, both):
    def matrix(title, rates):
        rows = [f"{i:6} " + " ".join("700.00" if i == j else f"{rates[i, j]:.2f}" for j in GPUS) for i in GPUS]
        return "\n".join([title, "   D\\D     0      1      2      3", *rows, ""])

    return (
        "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n"
        + matrix("Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)", one)
        + matrix("Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)", both)
    )


def nvbandwidth(one, both):
    def matrix(arrow, kind, rates):
        rows = [f" {i} " + " ".join("N/A" if i == j else f"{rates[i, j]:.2f}" for j in GPUS) for i in GPUS]
        return [f"memcpy CE GPU(row) {arrow} GPU(column) {kind}bandwidth (GB/s)", "   0   1   2   3", *rows, ""]

    def total(name, rates):
        return f"SUM {name} {sum(rates[pair] for pair in PAIRS):.2f}"

    way, ways = "device_to_device_memcpy_write_ce", "device_to_device_bidirectional_memcpy_write_ce"
    half = both / 2
    lines = ["nvbandwidth Version: v0.8", f"Running {way}.", *matrix("->", "", one), total(way, one), ""]
    lines += [f"Running {ways}."]
    lines += [*matrix("<->", "Write1 ", half), total(f"{ways}_write1", half), ""]
    lines += [*matrix("<->", "Write2 ", half), total(f"{ways}_write2", half), ""]
    lines += [*matrix("<->", "Total ", both), total(f"{ways}_total", both), ""]
    return "\n".join(lines)


def pairs(one, both):
    rows = [f"{i},{j},one_way,{one[i, j]:.2f},GB/s" for i, j in PAIRS]
    rows += [f"{i},{j},both_ways,{both[i, j]:.2f},GB/s" for i, j in PAIRS if i < j]
    return "\n".join(["source,target,kind,value,unit", *rows, ""])


def copies(one, both):
    rows = [f"one{i}{j},{i}>{j},independent,{one[i, j]:.2f}" for i, j in PAIRS]
    rows += [f"both{i}{j},{i}>{j} {j}>{i},independent,{both[i, j]:.2f}" for i, j in PAIRS if i < j]
    return "\n".join(["graph,communications,program,total_gb_per_s", *rows, ""])


WRITERS = {"p2p.txt": p2p, "nvbandwidth.txt": nvbandwidth, "pairs.csv": pairs, "copies.csv": copies}


def answers(machine, **options):
    """Return time and range of the copies of all graphs."""
    tables = [fc.predict(machine, [(str(a), str(b)) for a, b in graph], size="64 MiB", **options) for graph in GRAPHS]
    return [np.concatenate([table[name] for table in tables]) for name in ("elapsed_s", "earliest_s", "latest_s")]


@pytest.mark.parametrize("seed", range(3))
def test_equal_rates_give_equal_forecasts_in_every_format(tmp_path, seed):
    random = np.random.default_rng(seed)
    one = np.round(random.uniform(18, 26, (4, 4)), 2)
    both = np.round(np.maximum(one, one.T) * random.uniform(1.2, 1.9, (4, 4)), 2)
    both = np.triu(both) + np.triu(both).T
    (tmp_path / "machine.yaml").write_text(YAML)
    found = {}
    for name, write in WRITERS.items():
        (tmp_path / name).write_text(write(one, both))
        found[name] = answers(tmp_path / "machine.yaml", measurements=tmp_path / name)
    for name, values in found.items():
        for value, first in zip(values, found["p2p.txt"], strict=True):
            np.testing.assert_allclose(value, first, rtol=1e-3, err_msg=name)


def nccl_xml():
    def socket(node, buses):
        gpus = "".join(
            f'<pci busid="0000:{bus}:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">'
            f'<gpu dev="{number}" sm="80"/></pci>\n'
            for bus, number in buses
        )
        return f'<cpu numaid="{node}" host_hash="0x1" arch="x86_64" vendor="AuthenticAMD">\n{gpus}</cpu>\n'

    return (
        '<system version="1">\n' + socket(0, (("01", 0), ("02", 1))) + socket(1, (("81", 2), ("82", 3))) + "</system>\n"
    )


def lspci_tree():
    gpu = "NVIDIA Corporation GA100 3D controller"
    return (
        f"-+-[0000:80]-+-01.1-[81]----00.0  {gpu}\n"
        f" |           \\-02.1-[82]----00.0  {gpu}\n"
        f" \\-[0000:00]-+-01.1-[01]----00.0  {gpu}\n"
        f"             \\-02.1-[02]----00.0  {gpu}\n"
    )


def lspci_verbose():
    link = "\tLnkCap: Port #0, Speed 16GT/s, Width x16, ASPM L1\n\tLnkSta: Speed 16GT/s, Width x16\n\n"
    ports = "".join(
        f"{root}:{device}.1 PCI bridge: AMD Root Port\n\tBus: primary={root}, secondary={bus}, subordinate={bus}\n"
        f"\tCapabilities: [58] Express (v2) Root Port (Slot+), MSI 00\n{link}"
        for root, device, bus in (("00", "01", "01"), ("00", "02", "02"), ("80", "01", "81"), ("80", "02", "82"))
    )
    gpus = "".join(
        f"{bus}:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB]\n\tNUMA node: {node}\n"
        f"\tCapabilities: [58] Express (v2) Endpoint, MSI 00\n{link}"
        for bus, node in (("01", 0), ("02", 0), ("81", 1), ("82", 1))
    )
    return ports + gpus


def topo():
    rows = [
        f"GPU{i} " + " ".join("X" if i == j else "PHB" if i // 2 == j // 2 else "SYS" for j in GPUS) + f" 0-15 {i // 2}"
        for i in GPUS
    ]
    return "\n".join(["      GPU0 GPU1 GPU2 GPU3 CPU Affinity NUMA Affinity", *rows, ""])


def rocm():
    rows = [f"GPU{i} " + " ".join("0" if i == j else "PCIE" for j in GPUS) for i in GPUS]
    nodes = [f"GPU[{i}]\t\t: (Topology) Numa Node: {i // 2}" for i in GPUS]
    title, end = "==== Link Type between two GPUs ====", "==== Numa Nodes ===="
    return "\n".join([title, "  GPU0 GPU1 GPU2 GPU3", *rows, "", end, *nodes, ""])


DESCRIPTIONS = {
    "nccl.xml": nccl_xml,
    "lspci_vv.txt": lspci_verbose,
    "topo.txt": topo,
    "rocm.txt": rocm,
    "lspci_tv.txt": lspci_tree,
}


def test_equal_machines_give_equal_forecasts_or_ranges_that_hold_them(tmp_path):
    """A fact that a format cannot state, here the sockets of lspci -tv, becomes a range."""
    found = {}
    for name, write in DESCRIPTIONS.items():
        (tmp_path / name).write_text(write())
        machine = fc.load_machine([tmp_path / name], link="gen4x16")
        found[name] = answers(machine)
        unknown = WarningCode.SOCKETS_UNKNOWN in {one.code for one in machine.tree.warnings}
        assert unknown == (name == "lspci_tv.txt")
    expected, _, _ = found["nccl.xml"]
    for name, (elapsed, earliest, latest) in found.items():
        if name != "lspci_tv.txt":
            np.testing.assert_allclose(elapsed, expected, rtol=1e-6, err_msg=name)
        assert (expected >= earliest * 0.999).all(), name
        assert (expected <= latest * 1.001).all(), name


def test_a_matrix_adds_the_sockets_that_a_tree_lacks(tmp_path):
    for name in ("lspci_tv.txt", "topo.txt"):
        (tmp_path / name).write_text(DESCRIPTIONS[name]())
    machine = fc.load_machine([tmp_path / "lspci_tv.txt", tmp_path / "topo.txt"], link="gen4x16")
    assert WarningCode.SOCKETS_UNKNOWN not in {one.code for one in machine.tree.warnings}


def test_host_bridges_of_a_socket_are_no_pcie_link(tmp_path):
    """As in trees of lspci and hwloc, the connection within a processor limits no copies."""
    (tmp_path / "topo.txt").write_text(matrix(groups((2, "PHB"), (2, "NODE")), numa=[0] * 4))
    machine = fc.load_machine(tmp_path / "topo.txt", gpu="L40S")
    times = fc.predict(machine, "0>2 1>3", size="1 GiB")
    assert times["slowdown"].tolist() == pytest.approx([1, 1], rel=1e-3)
    assert any("host bridges of a socket is unknown" in one.text for one in machine.warnings)
