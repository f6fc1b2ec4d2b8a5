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
    assert any("0000:01:00.0 runs at Gen3 of Gen4 (LnkSta), as idle GPUs do" in note for note in notes)
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
