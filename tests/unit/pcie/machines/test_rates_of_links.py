"""Default rates of direct links and of NVLink-C2C: what public machines reach, without a measurement."""

import numpy as np
import pytest

import fabricast as fc
from fabricast.inputs.pair_rates import (
    BOTH_WAYS,
    direct_link_share,
    host_link_share,
    nominal_bytes_per_s,
    pair_rows,
    pcie_share,
)
from fabricast.pcie.topology.parts import PeerLink, direct_rates

GIB = 2.0**30
#: Rates in GB/s of hipMemcpyPeer from die 0 of four MI250X to the others (public: KTH-ScaLab/multi-gpu-comm).
MEASURED_OF_DIE_0 = [50.3, 37.61, 37.44, 37.34, 37.11, 50.36, 49.67]


def rocm_smi(gpus):
    numbers = range(gpus)
    rows = [f"GPU{one}  " + "  ".join("0" if one == other else "XGMI" for other in numbers) for one in numbers]
    nodes = [f"GPU[{one}]: (Topology) Numa Node: 0" for one in numbers]
    head = "  " + "  ".join(f"GPU{one}" for one in numbers)
    return "\n".join(["=== Link Type between two GPUs ===", head, *rows, "=== Numa Nodes ===", *nodes, ""])


def rate(times):
    return (times["size_bytes"] / times["elapsed_s"]).tolist()


def test_superchips_copy_host_memory_over_c2c(tmp_path):
    topology = tmp_path / "topo.txt"
    topology.write_text("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-71\t0\n")
    # Two GPUs of GB200 share the link of one Grace.
    share = host_link_share().median
    machines = ("gh200x4", 450e9), ("gb200_nvl72", 225e9), (fc.load_machine(topology, gpu="GH200"), 450e9)
    for machine, link in machines:
        times = fc.predict(machine, [("H", 0)])
        assert rate(times) == pytest.approx([link * share])
        assert (times["earliest_s"] < times["latest_s"]).all()
        assert any(
            "over NVLink-C2C with the nearest host memory: median" in one.text for one in times.attrs["warnings"]
        )
    # The network cards of these nodes are PCIe devices.
    tree = fc.load_topology("gh200x4")
    assert tree.vertex("nic0").capacity * tree.link_bytes_per_s * host_link_share().median == pytest.approx(
        63e9 * pcie_share(5).median, rel=1e-2
    )


@pytest.mark.parametrize("has_file", [False, True])
def test_dies_of_mi250x_have_the_links_of_their_widest_path(tmp_path, has_file):
    machine = "mi250x"
    if has_file:
        path = tmp_path / "topo.txt"
        path.write_text(rocm_smi(8))
        machine = fc.load_machine(path, gpu="MI250X")
    forecast = [rate(fc.predict(machine, [(0, other)], size=GIB))[0] / 1e9 for other in range(1, 8)]
    assert np.abs(np.array(forecast) / MEASURED_OF_DIE_0 - 1).max() < 0.03


def test_copies_both_ways_have_the_range_of_such_copies():
    for node, kind in (("hgx_a100", "NVSwitch"), ("mi300x", "xGMI")):
        both = fc.predict(node, [(0, 1), (1, 0)], size=GIB)
        (link, *_) = [link for link in fc.load_topology(node).peer_links if "0" in link.endpoints]
        least = 2 * GIB / both["latest_s"].max()
        assert least == pytest.approx(direct_link_share(kind, BOTH_WAYS).lowest * link.bytes_per_s)
        one_way = fc.predict(node, [(0, 1)], size=GIB)
        assert (both["latest_s"] / both["elapsed_s"]).max() > (one_way["latest_s"] / one_way["elapsed_s"]).max()


def test_a_copy_uses_one_of_several_xgmi_links():
    links = [
        PeerLink("xGMI", ("0", "1"), 200e9, 4),
        PeerLink("NVLink", ("1", "2"), 200e9, 4),
        PeerLink("xGMI", ("0", "2"), 64e9),
    ]
    assert direct_rates(links, of_one_copy=True)["0", "1"] == 50e9
    assert direct_rates(links, of_one_copy=True)["2", "1"] == direct_rates(links)["1", "2"] == 200e9
    assert direct_rates(links, of_one_copy=True)["0", "2"] == 64e9


def test_the_nominal_rate_of_several_links_is_their_sum():
    rates = {row["path_class"]: nominal_bytes_per_s(row) for row in pair_rows() if row["nvlink_nominal"] == "25 a link"}
    assert rates["NV1"] == 25e9 and rates["NV2"] == 50e9 and rates["PIX"] is None
    # Pairs of a machine with bridges that PCIe connects are none over NVLink.
    assert direct_link_share("NVLink", BOTH_WAYS).lowest > 1.5


def test_measured_copies_of_dies_are_within_the_range(tmp_path):
    path = tmp_path / "p2p.txt"
    cells = [[0.0 if one == other else MEASURED_OF_DIE_0[(one ^ other) - 1] for other in range(8)] for one in range(8)]
    rows = "\n".join(f"{one} " + " ".join(map(str, row)) for one, row in enumerate(cells))
    head = " ".join(map(str, range(8)))
    path.write_text(f"Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D {head}\n{rows}\n")
    found = fc.diagnose("mi250x", path)
    assert not found.findings and "copies over xGMI reach 37.6 GB/s" in str(found.verdict)


def test_slow_links_that_a_description_shows_are_links(tmp_path):
    (tmp_path / "topo.txt").write_text(rocm_smi(4))
    count = 4
    cells = [[1000.0 if one == other else 48.0 for other in range(count)] for one in range(count)]
    cells[1][0] = 9.0
    rows = "\n".join(f"{one} " + " ".join(map(str, row)) for one, row in enumerate(cells))
    head = " ".join(map(str, range(count)))
    text = f"Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D {head}\n{rows}\n"
    (tmp_path / "p2p.txt").write_text(text)
    (finding,) = fc.diagnose(tmp_path / "topo.txt", tmp_path / "p2p.txt").findings
    assert "1>0 reach 9 GB/s" in finding.text and "direct link is slow" in finding.text
    (tmp_path / "p2p.txt").write_text(text.replace(" 9.0", " 47.0"))
    even = fc.diagnose(tmp_path / "topo.txt", tmp_path / "p2p.txt")
    assert not even.findings and "no single copy was measured" not in str(even.verdict)
