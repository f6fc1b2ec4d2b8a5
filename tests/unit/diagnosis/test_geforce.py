"""Machines with GeForce cards: tables without a topology, slots, address spaces and misspelt models."""

import pytest

import fabricast as fc
from fabricast.core.facts import Quantity
from fabricast.sources.reading import facts_of_text
from tests.unit.diagnosis.pasted import nccl_tests

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
