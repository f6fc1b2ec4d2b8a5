"""Several descriptions of one machine: what each adds, and contradictions between them."""

import re
from dataclasses import replace

import pytest

import fabricast as fc
from fabricast.core.errors import InputError
from fabricast.core.units import PROTOCOL_EFFICIENCY
from fabricast.core.warnings import WarningCode
from fabricast.diagnosis.source_texts import source_texts
from fabricast.inputs.pair_rates import pcie_share
from fabricast.sources.reading import read
from tests.machines import import_machine
from tests.unit.pcie.topology.test_listings import contradictions_of, groups, lspci, matrix


def test_several_files_are_compared_and_merged(tmp_path):
    (tmp_path / "topo.txt").write_text(matrix([["X", "PIX", "NODE"], ["PIX", "X", "NODE"], ["NODE", "NODE", "X"]]))
    (tmp_path / "lspci.txt").write_text(lspci())
    tree = import_machine([tmp_path / "topo.txt", tmp_path / "lspci.txt"])
    assert tree.source == "imported from lspci -vv"
    (tmp_path / "topo.txt").write_text(matrix([["X", "SYS", "NODE"], ["SYS", "X", "SYS"], ["NODE", "SYS", "X"]]))
    text, *_ = contradictions_of(import_machine([tmp_path / "topo.txt", tmp_path / "lspci.txt"]))
    assert "topo.txt" in text and "lspci.txt" in text and "contradict each other" in text
    (tmp_path / "topo.txt").write_text(matrix(groups((2, "PIX"))))
    (text,) = contradictions_of(import_machine([tmp_path / "topo.txt", tmp_path / "lspci.txt"]))
    assert "has 2 GPUs, expected 3" in text


def test_numa_nodes_of_several_files_are_compared(tmp_path):
    (tmp_path / "0.txt").write_text(lspci())
    (tmp_path / "1.txt").write_text(lspci().replace("NUMA node: 0", "NUMA node: 1"))
    assert import_machine([tmp_path / "0.txt", tmp_path / "0.txt"]).memory_nodes
    text, *_ = contradictions_of(import_machine([tmp_path / "0.txt", tmp_path / "1.txt"]))
    assert re.search("1.txt: GPU 0 is at NUMA1, expected NUMA0 as in .*0.txt", text)


def test_small_packets_reduce_the_payload_share(tmp_path):
    (tmp_path / "lspci.txt").write_text(lspci().replace("MaxPayload 256", "MaxPayload 128"))
    (tmp_path / "topo.txt").write_text(matrix([["X", "PIX", "NODE"], ["PIX", "X", "NODE"], ["NODE", "NODE", "X"]]))
    for files in (["lspci.txt"], ["topo.txt", "lspci.txt"]):
        tree = import_machine([tmp_path / name for name in files])
        assert tree.bandwidth_bytes_per_s == pytest.approx(
            tree.link_bytes_per_s * pcie_share(4).median * (128 / 152) / PROTOCOL_EFFICIENCY
        )
        assert any("MaxPayload of the GPUs is 128 bytes" in warning.text for warning in tree.warnings)
        assert fc.predict(tree, [(0, 1)], size=1e9)["elapsed_s"][0] == pytest.approx(1e9 / tree.bandwidth_bytes_per_s)
    (tmp_path / "lspci.txt").write_text(lspci())
    assert import_machine([tmp_path / "lspci.txt"]).bandwidth_bytes_per_s is None


PASTED = """user@node:~$ cat topo.xml
<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:03:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="0"/></pci>
      <pci busid="0000:04:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="1"/></pci>
    </pci>
    <pci busid="0000:05:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="2"/></pci>
  </cpu>
</system>
user@node:~$ nvidia-smi topo -m
"""


def test_xml_between_other_lines_is_read(tmp_path):
    """A pasted terminal with XML and a matrix of classes: both are read, and a contradiction names both programs."""
    path = tmp_path / "terminal.txt"
    path.write_text(PASTED + matrix([["X", "PIX", "PHB"], ["PIX", "X", "PHB"], ["PHB", "PHB", "X"]]))
    assert fc.load_topology(path).path_class("0", "1") == "PIX"
    assert source_texts(read([path]).files)[0].startswith(f"{path}: topology of ")
    path.write_text(PASTED + matrix(groups((3, "SYS"))))
    text, *_ = contradictions_of(import_machine([path]))
    assert re.search(r"class SYS .*, expected PIX .* as in .*\(NCCL topology XML\)", text)
    # Lines of errors are those of the file.
    path.write_text(PASTED.replace("</pci>\n  </cpu>", "<pci>\n  </cpu>"))
    with pytest.raises(InputError, match="is not XML: mismatched tag") as error:
        import_machine([path])
    assert error.value.line == 9


def test_network_cards_without_an_address_are_named(tmp_path):
    text = PASTED.partition("\n")[2].replace("  </cpu>", '    <nic><net name="mlx5_0+mlx5_1" dev="0"/></nic>\n  </cpu>')
    (tmp_path / "topo.xml").write_text(text.replace("user@node:~$ nvidia-smi topo -m\n", ""))
    warnings = import_machine([tmp_path / "topo.xml"], network_cards=True).warnings
    assert any("network cards mlx5_0+mlx5_1 have no PCI address" in one.text for one in warnings)


@pytest.mark.slow
def test_copies_over_direct_links_divide_no_writes():
    warnings = fc.predict("hgx_a100", fc.all_to_all(fc.load_topology("hgx_a100"))).attrs["warnings"]
    assert WarningCode.DIVIDED_WRITES not in {one.code for one in warnings}


@pytest.mark.parametrize(("numa", "expected"), [([0, 1, 1, 1], True), ([0, 0, 1, 1], False)])
def test_gpus_of_one_host_bridge_at_different_numa_nodes_are_named(tmp_path, numa, expected):
    (tmp_path / "topo.txt").write_text(matrix(groups((2, "PIX"), (2, "SYS")), numa=numa))
    texts = [one.text for one in import_machine([tmp_path / "topo.txt"]).warnings]
    is_named = any("GPU0 and GPU1 are below one host bridge, but at NUMA nodes 0 and 1" in text for text in texts)
    assert is_named is expected


def test_the_network_between_hosts_is_named_beside_the_machine(tmp_path):
    (tmp_path / "topo.txt").write_text(matrix(groups((2, "PHB"))))
    (tmp_path / "topology.conf").write_text("SwitchName=s1 Nodes=node[0-3]\n")
    tree = import_machine([tmp_path / "topo.txt", tmp_path / "topology.conf"])
    (note,) = [one.text for one in tree.warnings if "network between hosts" in one.text]
    assert note.startswith(f"{tmp_path}/topology.conf") and "'fabricast map --network' reads it" in note
    assert replace(tree, warnings=()) == replace(import_machine([tmp_path / "topo.txt"]), warnings=())
    with pytest.raises(
        InputError, match=r"has no topology beside network between hosts: 'fabricast map --network' reads it"
    ):
        import_machine([tmp_path / "topology.conf"])
