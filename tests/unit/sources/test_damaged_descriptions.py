"""Damaged descriptions of a machine: refused, equal, or with a word about what differs; never another machine in silence."""

import pytest

from fabricast.core.errors import InputError
from fabricast.core.facts import Content
from fabricast.machine.build import MACHINE_CONTENTS, load_facts, machine_from
from fabricast.sources.formats import FORMATS
from tests.conftest import REPOSITORY
from tests.fuzz import doors
from tests.unit.pcie.topology.test_gpu_reports import FULL, query
from tests.unit.pcie.topology.test_listings import ROCM, TREE, lspci

FOLDER = REPOSITORY / "src" / "fabricast" / "sources" / "examples"
#: Formats without redundancy: a line of a table that is lost is a smaller machine.
_FREE = ("YAML topology",)
EXAMPLES = {
    f"{one.program} (example)": (FOLDER / one.example).read_text(encoding="utf-8")
    for one in FORMATS
    if one.content is Content.TOPOLOGY and one.program not in _FREE
}
SAMPLES = EXAMPLES | {
    "lspci -vv": lspci(),
    "lspci -tv": TREE,
    "rocm-smi": ROCM,
    "topo -m": doors.CLASSES,
    "topo -m and -p2p": doors.CLASSES + doors.ACCESS,
    "topo -m and -q": doors.CLASSES + query(FULL, FULL),
    "NCCL log": doors.NCCL_LOG,
    "NCCL XML": doors.NCCL,
    "hwloc XML": doors.HWLOC,
}


def answer(path, text):
    """Return what a command would know: tree, warnings and number of GPUs, or None if the text is refused."""
    path.write_text(text)
    try:
        tree = machine_from(load_facts([path], *MACHINE_CONTENTS)).tree
    except InputError:
        return None
    vertices = tuple((one.name, one.kind, one.parent, one.capacity) for one in tree.vertices)
    facts = (vertices, tree.link_bytes_per_s, tree.peer_links, tree.staged_pairs, tree.memory_nodes)
    return repr(facts), {one.text for one in tree.warnings}, len(tree.accelerator_names)


def damages(lines):
    """Yield the text without each line, with each line twice, and cut before and within each line."""
    for number, line in enumerate(lines):
        yield f"without line {number + 1}", lines[:number] + lines[number + 1 :]
        yield f"line {number + 1} twice", lines[: number + 1] + lines[number:]
        yield f"cut before line {number + 1}", lines[:number]
        yield f"cut in line {number + 1}", [*lines[:number], line[: len(line) // 2]]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_damaged_description_is_no_other_machine_in_silence(name, tmp_path):
    lines = SAMPLES[name].splitlines()
    whole = answer(tmp_path / "whole.txt", SAMPLES[name])
    assert whole is not None
    silent, refused = [], 0
    for what, damaged in damages(lines):
        found = answer(tmp_path / "damaged.txt", "\n".join(damaged) + "\n")
        refused += found is None
        # XML without a whole element is a smaller machine, which nothing disproves.
        is_smaller = "XML" in name and what.startswith("without") and found is not None and found[2] < whole[2]
        # Without its rows, nothing shows that peer access was printed.
        is_smaller |= "CNS" in SAMPLES[name] and "CNS" not in "".join(damaged)
        if found is not None and found[0] != whole[0] and found[1] <= whole[1] and not is_smaller:
            silent.append(what)
    assert silent == []
    assert refused > 0


@pytest.mark.parametrize(
    "name, old, new, message",
    [
        ("lspci -tv", "-01.0-[84]", "-01.0-[99]", "bridge 0000:82:01.0 leads to bus 99"),
        ("rocm-smi", "GPU1   XGMI         0", "GPU1   PCIE         0", "expected 'PCIE' as in row GPU1"),
        ("rocm-smi", "GPU0   0 ", "GPU0   XGMI ", "cell GPU0 GPU0 is 'XGMI', expected 0"),
        ("NCCL log", "CPU/0-1 (1/2/3)", "CPX/0-1 (1/2/3)", "links to CPU 1, which the machine does not list"),
        ("NCCL log", "- GPU/0-17000 (1)", "- GPX/0-17000 (1)", "has the paths of GPU 17000"),
        ("hwloc XML", 'nbobjs="2"', 'nbobjs="3"', "names 2 devices, expected 3"),
        ("hwloc XML", "0000:03:00.0", "0000:02:00.0", "describes 0000:02:00.0 a second time"),
    ],
)
def test_proofs_of_damage_are_named(name, old, new, message, tmp_path):
    assert old in SAMPLES[name]
    path = tmp_path / "damaged.txt"
    path.write_text(SAMPLES[name].replace(old, new, 1))
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        machine_from(load_facts([path], *MACHINE_CONTENTS))


def test_unknown_numa_nodes_are_no_node(tmp_path):
    path = tmp_path / "rocm.txt"
    path.write_text(ROCM.replace("Numa Node: 1", "Numa Node: -1").replace("Numa Node: 0", "Numa Node: -1"))
    tree = machine_from(load_facts([path], *MACHINE_CONTENTS)).tree
    assert "-1" not in " ".join(vertex.name for vertex in tree.vertices)
    assert "-1" not in " ".join(node.name for node in tree.memory_nodes)


def test_a_tree_that_is_printed_twice_is_one_machine(tmp_path):
    once = answer(tmp_path / "tree.txt", TREE)
    assert once is not None
    assert answer(tmp_path / "tree.txt", TREE + TREE) == once


def test_bridges_in_a_loop_and_two_bridges_of_one_bus_are_refused(tmp_path):
    def listing(*bridges):
        return "".join(
            f"{address} PCI bridge: X\n\tBus: primary=00, secondary={bus}, subordinate=ff, sec-latency=0\n"
            f"\tLnkCap: Port #0, Speed 16GT/s, Width x16, ASPM L1\n"
            for address, bus in bridges
        )

    gpu = "05:00.0 3D controller: NVIDIA Corporation GA100\n\tCapabilities: [58] Express (v2) Endpoint, MSI 00\n"
    path = tmp_path / "lspci.txt"
    for bridges, message in (
        ((("01:00.0", "02"), ("02:00.0", "01")), "form a loop"),
        ((("00:01.0", "05"), ("00:02.0", "05")), "expected one bridge for each bus"),
    ):
        path.write_text(listing(*bridges) + gpu)
        with pytest.raises(InputError, match=message):
            load_facts([path], *MACHINE_CONTENTS)


def test_addresses_and_numbers_of_other_files_are_compared(tmp_path):
    machine, report, access = tmp_path / "lspci.txt", tmp_path / "gpus.txt", tmp_path / "access.txt"
    machine.write_text(lspci())
    count = len(machine_from(load_facts([machine], *MACHINE_CONTENTS)).tree.accelerator_names)
    report.write_text(query(*[FULL] * count).replace("00000000:", "00000009:"))
    access.write_text("        GPU0    GPU1\n GPU0   X       OK\n GPU1   OK      X\n")
    texts = [one.text for one in machine_from(load_facts([machine, report, access], *MACHINE_CONTENTS)).tree.warnings]
    assert any("has a GPU at 0009:" in text and "it is not used" in text for text in texts)
    assert any(f"peer access of 2 GPUs, expected {count}" in text for text in texts)


def test_subsystems_and_domains_of_real_listings_are_no_damage(tmp_path):
    """A subsystem may be named after a port, and domains of VMD controllers have five digits."""
    path = tmp_path / "lspci.txt"
    text = lspci().replace(
        "\tLnkCap:",
        "\tCapabilities: [90] Subsystem: Intel Corporation Sunrise Point-LP PCI Express Root Port\n\tLnkCap:",
    )
    path.write_text(text)
    assert answer(path, text) == answer(path, lspci())
    vmd = "-+-[10000:e0]-+-02.0-[e1]----00.0  Intel Corporation NVMe\n |            \\-1f.0  Intel Corporation Device\n"
    whole = answer(path, TREE)
    assert answer(path, vmd + TREE.replace("-+-[0000:80]", " +-[0000:80]", 1)) == whole


def test_a_tree_for_each_domain_is_one_machine(tmp_path):
    """pciutils 3.10 and newer print one tree per PCI domain."""
    gpu = "---01.0-[01]----00.0  NVIDIA Corporation GA100 [A100 PCIe 40GB]\n"
    found = answer(tmp_path / "tree.txt", f"-[0000:00]{gpu}\n-[0001:00]{gpu}")
    assert found is not None and found[2] == 2
