"""Machines with GeForce cards: tables without a topology, slots, address spaces and misspelt models."""

import pytest

import fabricast as fc
from fabricast.core.facts import Quantity
from fabricast.sources.reading import facts_of_text
from tests.unit.diagnosis.pasted import nccl_tests, peer_test

LSPCI = (
    "00:01.1 PCI bridge: AMD Starship/Matisse GPP Bridge (prog-if 00 [Normal decode])\n"
    "\tBus: primary=00, secondary=01, subordinate=01, sec-latency=0\n"
    "\tCapabilities: [58] Express (v2) Root Port (Slot+), MSI 00\n"
    "\t\tLnkCap:\tPort #0, Speed {port}GT/s, Width x16\n\t\tLnkSta:\tSpeed 8GT/s, Width x16\n\n"
    "01:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1)\n"
    "\tCapabilities: [78] Express (v2) Legacy Endpoint, MSI 00\n"
    "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n\t\tLnkSta:\tSpeed 8GT/s, Width x16\n"
)
QUERY = (
    "==============NVSMI LOG==============\n\nGPU 00000000:01:00.0\n    Product Name                          : {}\n"
    "    FB Memory Usage\n        Total                             : 24564 MiB\n"
    "    BAR1 Memory Usage\n        Total                             : {} MiB\n"
)


def table(gb_per_s, gpu="NVIDIA GeForce RTX 4090"):
    """Return a table of all_reduce with 4 GPUs and a bus bandwidth."""
    return nccl_tests("all_reduce", 4, {2**29: 1.5 * 2**29 / gb_per_s / 1e3}, gpu=gpu)


def test_a_table_without_topology_is_compared_with_public_machines_of_the_model(first):
    found = first(table(11.5))
    assert "nothing could be judged" in str(found.verdict)
    (note,) = [note for note in found.notes if "public machines with this GPU over PCIe" in note]
    assert "reaches 11.5 GB/s" in note and "copies through host memory" in note and "direct copies" in note
    slow = first(table(3.0))
    assert str(slow.verdict).startswith("possibly slower than expected: all_reduce of 512 MiB reaches 3 GB/s")
    assert not any("public machines" in note for note in first(table(3.0, gpu="NVIDIA T4")).notes)


@pytest.mark.parametrize(("speed", "is_named"), [(8, True), (16, False), (32, False)])
def test_ports_of_an_older_generation_than_their_gpus_are_named(speed, is_named):
    notes = facts_of_text(LSPCI.format(port=speed)).values(Quantity.NOTE)
    assert any("0000:01:00.0 of PCIe Gen4 is below a port of Gen3" in note for note in notes) == is_named


@pytest.mark.parametrize(
    ("gpu", "size", "is_named"),
    [("NVIDIA GeForce RTX 4090", 256, True), ("NVIDIA GeForce RTX 4090", 32768, False), ("NVIDIA T4", 256, False)],
)
def test_small_address_spaces_of_geforce_cards_are_notes(gpu, size, is_named):
    notes = facts_of_text(QUERY.format(gpu, size)).values(Quantity.NOTE)
    assert any("BAR1 of a GPU has 256 MiB" in note for note in notes) == is_named


def test_a_misspelt_model_has_similar_names(tmp_path):
    (tmp_path / "table.log").write_text(table(11.5))
    with pytest.raises(fc.InputError, match=r"gpu 'RTX 4099' is unknown \(did you mean 'RTX 4090' or") as error:
        fc.diagnose(tmp_path / "table.log", gpu="RTX 4099")
    assert len(str(error.value)) < 120


def test_a_text_of_copies_is_a_graph():
    graph = fc.graph("0>1 2>1, H>3", tree=fc.load_topology("storm8"))
    assert graph.source.size == 3
    with pytest.raises(fc.InputError, match="contains '01', expected copies such as"):
        fc.graph("01 2>1")


NVLINK = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-63\nGPU1\tNV4\t X \t0-63\n"
STAGED = (
    "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n"
    "Device: 0, NVIDIA GeForce RTX 3090, pciBusID: 21, pciDeviceID: 0, pciDomainID:0\n"
    "Device: 1, NVIDIA GeForce RTX 3090, pciBusID: 41, pciDeviceID: 0, pciDomainID:0\n"
    "Device=0 {0} Access Peer Device=1\nDevice=1 {0} Access Peer Device=0\n"
    "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1\n     0 835.00 {1}\n     1 {1} 836.00\n"
    "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1\n     0 835.00 {2}\n     1 {2} 836.00\n"
)


def test_a_bridge_without_peer_access_is_the_cause_of_copies_through_host_memory(first):
    found = first(NVLINK, STAGED.format("CANNOT", 10.9, 10.9))
    assert str(found.verdict).startswith("slower than expected: GPUs 0 and 1 have NVLink, but no peer access")
    assert not any(one.cause == "unused_links" for one in first(NVLINK, STAGED.format("CAN", 10.9, 50.1)).findings)


@pytest.mark.parametrize(
    "fault",
    [
        "DMAR: [DMA Write] Request device [41:00.0] fault addr 387fe0000000 [fault reason 05] PTE Write access is not set",
        "DMAR: [DMA Write NO_PASID] Request device [0000:41:00.0] fault addr 0x3f [fault reason 0x05] PTE Write access",
    ],
)
def test_faults_of_the_iommu_of_intel_are_causes(first, fault):
    found = first(f"[    0.1] Linux version 6\n[   12.3] {fault}\n")
    assert found.findings[0].text.startswith("0000:41:00.0: the IOMMU refuses accesses (DMAR fault")


def test_errors_of_nccl_in_a_traceback_end_the_run(first):
    text = "(VllmWorker rank=1 pid=813) ERROR 10-14 10:12:45 [x.py:470] RuntimeError: NCCL error: unhandled cuda error (run)\n"
    assert str(first(text).verdict).startswith("the run failed: a CUDA call failed")


def test_a_cut_report_and_missing_gpus_are_named(first):
    block = "GPU 00000000:{}:00.0\n    Product Name                          : NVIDIA L4\n" + 20 * "    Field : N/A\n"
    head = "==============NVSMI LOG==============\nAttached GPUs                             : 4\n"
    whole = head + "".join(block.format(bus) for bus in ("01", "21", "41"))
    found = first(whole)
    assert not found.damaged and any("reports of 3 of the 4 attached GPUs" in one for one in found.statements)
    assert first(whole + "GPU 00000000:61:00.0\n    Product Name                          : NVIDIA L4\n    D").damaged


def test_slow_links_of_lspci_are_notes(first):
    notes = facts_of_text(LSPCI.format(port=16)).values(Quantity.NOTE)
    assert any("0000:01:00.0 runs at Gen3 of Gen4 (LnkSta), as with a setting of the BIOS" in note for note in notes)
    idle = LSPCI.format(port=16).replace("LnkSta:\tSpeed 8GT/s", "LnkSta:\tSpeed 2.5GT/s")
    assert not any("LnkSta" in note for note in facts_of_text(idle).values(Quantity.NOTE))


def test_the_narrow_link_of_a_slow_gpu_precedes_it_without_a_topology(first):
    rates = [[0, 10.9, 21.0], [10.9, 0, 10.9], [21.0, 10.9, 0]]
    head = "".join(
        f"Device: {gpu}, NVIDIA L4, pciBusID: {bus}, pciDeviceID: 0, pciDomainID:0\n"
        for gpu, bus in enumerate(("1", "41", "61"))
    )
    query = (
        "index, name, pci.bus_id, pcie.link.width.current, pcie.link.width.max\n1, NVIDIA L4, 00000000:41:00.0, 8, 16\n"
    )
    found = first(head + peer_test(rates), query)
    assert [one.cause for one in found.findings][:2] == ["downgraded_link", "slow_endpoint"]
    assert found.table["device"].tolist()[:2] == ["0000:41:00.0", "GPU 1"]


NVBANDWIDTH = (
    "nvbandwidth Version: v0.5\n\nDevice 0: NVIDIA L40S\nDevice 1: NVIDIA L40S\nDevice 2: NVIDIA L40S\n"
    "Device 3: NVIDIA L40S\n\nRunning device_to_host_memcpy_ce.\nmemcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)\n"
    "           0         1         2         3\n 0     {}\n\nSUM device_to_host_memcpy_ce 80.2\n"
)
NODES = (
    "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNODE\tSYS\tSYS\t0-15\t0\nGPU1\tNODE\t X \tSYS\tSYS\t0-15\t0\n"
    "GPU2\tSYS\tSYS\t X \tNODE\t16-31\t1\nGPU3\tSYS\tSYS\tNODE\t X \t16-31\t1\n"
)


def test_slow_host_copies_of_all_gpus_of_a_node_are_those_of_the_memory(first):
    rates = NVBANDWIDTH.format("26.3   26.2   13.9   13.8")
    (found,) = [one for one in first(rates, NODES).findings if one.cause == "slow_endpoint"]
    assert found.text.startswith("GPUs 2, 3 of NUMA node 1 copy 13.8 to 13.9 GB/s to host memory, those of other nodes")
    assert "26.2 GB/s" in found.text and "numactl -N 1 -m 1" in found.remedy
    # GPUs of both nodes, and a file without nodes.
    for texts in ((NVBANDWIDTH.format("26.3   13.9   26.2   13.8"), NODES), (rates,)):
        found = [one.text for one in first(*texts).findings if one.cause == "slow_endpoint"]
        assert len(found) == 2 and all("other GPUs 26.2 GB/s" in text for text in found)


def test_a_gpu_that_is_slow_in_one_way_is_named(first):
    rates = {(one, other): 3.1 if one == 2 else 20.5 for one in range(4) for other in range(4) if one != other}
    rows = "".join(
        f"     {one} " + " ".join(f"{900.0 if one == other else rates[one, other]:6.2f}" for other in range(4)) + "\n"
        for one in range(4)
    )
    text = (
        "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n"
        + "".join(
            f"Device: {gpu}, NVIDIA L40S, pciBusID: {gpu + 1}, pciDeviceID: 0, pciDomainID:0\n" for gpu in range(4)
        )
        + "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1      2      3 \n"
        + rows
    )
    found = first(text).findings[0]
    assert found.cause == "slow_endpoint" and found.text.startswith(
        "GPU 2 (0000:03:00.0) sends 3.1 GB/s in all its copies"
    )
    (found,) = [one for one in first(text.replace("3.10", "20.5", 2)).findings if "path is slow" in one.text]
    assert found.cause == "slow_pair"


def test_half_links_of_a_written_topology_are_compared_with_half_the_rate(tmp_path, first):
    topology = (
        "name: board\ntag: assumed\nsource: mine\nlink_bytes_per_s: 31507692307.69231\nstaged: all\nvertices:\n"
        "  - {name: RC, kind: root_complex}\n"
    ) + "".join(
        f'  - {{name: "{gpu}", kind: endpoint, parent: RC, generation: 4, width: 8, capacity: 0.5}}\n'
        for gpu in range(4)
    )
    (tmp_path / "board.yaml").write_text(topology)
    (tmp_path / "p2p.txt").write_text(peer_test([[900.0 if a == b else 12.3 for a in range(4)] for b in range(4)]))
    found = fc.diagnose([tmp_path / "board.yaml", tmp_path / "p2p.txt"])
    assert not found.findings and "8.35 to 14 GB/s expected from" in str(found.verdict)


def test_access_control_of_root_ports_is_stated(first):
    port = (
        "{0}0:01.1 PCI bridge: AMD Starship GPP Bridge\n\tBus: primary={0}0, secondary={0}1, subordinate={0}1\n"
        "\tCapabilities: [58] Express (v2) Root Port (Slot+), MSI 00\n"
        "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir{1} CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n\n"
        "{0}1:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1)\n"
        "\tCapabilities: [78] Express (v2) Legacy Endpoint, MSI 00\n\n"
    )
    words = "access control (ACSCtl ReqRedir+) is on at the root ports"
    for sign, is_stated in (("+", True), ("-", False)):
        found = first("".join(port.format(bus, sign) for bus in (0, 2)))
        assert any(words in note for note in found.statements) == is_stated and not found.findings


def test_the_narrowest_of_several_links_comes_first(first):
    head = "index, name, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, pcie.link.width.max\n"
    widths = (8, 8, 4, 4)
    rows = "".join(f"{gpu}, NVIDIA GeForce RTX 4090, 4, 4, {width}, 16\n" for gpu, width in enumerate(widths))
    texts = [one.text for one in first(head + rows).findings]
    assert [text.split(":")[0] for text in texts] == [
        "each link of GPU 2, GPU 3 uses x4 of x16",
        "each link of GPU 0, GPU 1 uses x8 of x16",
    ]
    assert "bifurcation" in first(head + rows).findings[0].remedy


def test_a_closed_ring_of_one_host_is_within_the_host(first):
    lines = ["NCCL_SHM_DISABLE set by environment to 1.", "Using network Socket"]
    hops = [
        f"Channel 00/0 : {rank}[{rank}] -> {(rank + 1) % 4}[{(rank + 1) % 4}] [send] via NET/Socket/0"
        for rank in range(4)
    ]
    log = "".join(f"box:1:1 [0] NCCL INFO {line}\n" for line in [*lines, *hops])
    assert [one.cause for one in first(log).findings] == ["network_in_host"]
    # The ring of one of several hosts is open.
    log = "".join(f"box:1:1 [0] NCCL INFO {line}\n" for line in [*lines, *hops[:3]])
    assert [one.cause for one in first(log).findings] == ["tcp_between_nodes"]


def test_direct_copies_that_a_framework_needs_itself_have_its_remedy(first):
    text = "[1,0] custom_all_reduce.py\nRuntimeError: CUDART error: peer access is not supported between these two devices\n"
    assert first(text).findings[0].remedy.startswith("--disable-custom-all-reduce")
