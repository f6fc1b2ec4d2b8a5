"""Topology and links that amd-smi prints."""

import pytest

import fabricast as fc

GPUS = ["0000:05:00.0", "0000:26:00.0", "0000:46:00.0", "0000:65:00.0"]


def table(title, cell):
    """Return a table of `amd-smi topology` with the cell of each pair."""
    rows = "".join(f"{one} {'  '.join(cell(a, b) for b in range(4))}\n" for a, one in enumerate(GPUS))
    return f"{title} TABLE:\n             {' '.join(GPUS)}\n{rows}"


def topology(kind="XGMI", access="ENABLED"):
    links = table("LINK TYPE", lambda a, b: "SELF" if a == b else kind)
    return table("ACCESS", lambda a, b: "ENABLED" if a == b else access) + links + table("HOPS", lambda a, b: "1")


def links(cells=None, ports="U  U  U  X", rate=512):
    """Return output of `amd-smi xgmi`: states of pairs, ports of GPU 2, and the rate of GPU 3."""
    cells = cells or {}
    metric = "".join(
        f"GPU{n}   {gpu} 32 Gb/s  {rate if n == 3 else 512} Gb/s      XGMI\n Read      N/A\n"
        for n, gpu in enumerate(GPUS)
    )
    port = "".join(f"GPU{n}   {gpu}  {ports if n == 2 else 'U  U  U  X'}\n" for n, gpu in enumerate(GPUS))
    pair = "".join(
        f"GPU{a}\t{gpu}   {'  '.join('SELF' if a == b else cells.get(frozenset((a, b)), 'U') for b in range(4))}\n"
        for a, gpu in enumerate(GPUS)
    )
    return f"LINK METRIC TABLE:\n{metric}\nGPU LINK PORT STATUS:\n{port}\nXGMI LINK STATUS:\n{pair}"


def diagnosed(tmp_path, text, **options):
    path = tmp_path / "amd.txt"
    path.write_text(text)
    return fc.diagnose([path], **options)


def test_the_topology_of_amd_smi_is_read(tmp_path):
    path = tmp_path / "topology.txt"
    path.write_text(topology())
    tree = fc.load_machine(path, gpu="MI300X").tree
    assert {link.kind for link in tree.peer_links} == {"xGMI"} and len(tree.peer_links) == 6
    without = str(diagnosed(tmp_path, topology("PCIE", "DISABLED")))
    assert "12 of 12 pairs of GPUs have no access to each other (disabled)" in without and "GeForce" not in without
    rows = topology().splitlines(keepends=True)
    with pytest.raises(fc.InputError, match="has 3 rows of link types, expected 4"):
        path.write_text("".join(line for n, line in enumerate(rows) if n != 8))
        fc.load_machine(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (links({frozenset((1, 3)): "D"}), "GPU 1 (0000:26:00.0): its xGMI link to GPU 3 is down"),
        (
            links({frozenset((2, other)): "D" for other in (0, 1, 3)}),
            "GPU 2 (0000:46:00.0): all its xGMI links are down",
        ),
        (links(ports="U  U  D  X"), "GPU 2 (0000:46:00.0): 2 xGMI links work, 3 on other GPUs"),
        # The row of one GPU, and a later call without the fault.
        (
            "XGMI LINK STATUS:\nGPU3\t0000:65:00.0   U  U  D  SELF\n",
            "GPU 3 (0000:65:00.0): its xGMI link to GPU 2 is down",
        ),
        (f"{links({frozenset((1, 3)): 'D'})}{links()}", "GPU 1 (0000:26:00.0): its xGMI link to GPU 3 is down"),
        (links(rate=256), "GPU 3 (0000:65:00.0): its xGMI links have up to 256 Gb/s, those of other GPUs 512 Gb/s"),
    ],
)
def test_links_that_are_down_or_slow_are_faults(tmp_path, text, expected):
    found = diagnosed(tmp_path, text)
    assert [one.text for one in found.findings] == [expected]
    assert found.findings[0].remedy.startswith("reset the GPUs together ('rocm-smi --gpureset')")


def test_links_that_are_equal_or_unknown_are_no_fault(tmp_path):
    healthy = diagnosed(tmp_path, links())
    assert not healthy.findings
    assert any("xGMI links of 4 GPUs, up to 512 Gb/s each, none of them down" in line for line in healthy.statements)
    # Links that are down on all GPUs may have no partner; old versions state all links of virtual machines as down.
    older = "XGMI LINK STATUS:\n     bdf           link_status\n"
    equal = older + "".join(f"GPU{n}   {gpu}  U  U  D  X\n" for n, gpu in enumerate(GPUS))
    assert not diagnosed(tmp_path, equal).findings
    (statement,) = (line for line in diagnosed(tmp_path, equal).statements if "xGMI links" in line)
    assert "these may have no partner" in statement
    # GPUs of one board have different numbers of partners.
    assert not diagnosed(tmp_path, links(ports="U  U  X  X")).findings
    virtual = diagnosed(tmp_path, equal.replace("U  U  D", "D  D  D"))
    assert not virtual.findings and any("their state is unknown" in line for line in virtual.statements)
    none = "LINK METRIC TABLE:\nGPU0   0000:03:00.0  65535 Gb/s4294967295 Gb/sN/A\n"
    assert any("no GPU has xGMI links" in line for line in diagnosed(tmp_path, none).statements)


def test_a_table_of_links_that_is_cut_is_no_healthy_one(tmp_path):
    with pytest.raises(fc.InputError, match="has no row of a GPU, expected output of 'amd-smi xgmi'"):
        diagnosed(tmp_path, "XGMI LINK STATUS:\nGPU0 0000:05:00.0")


def copies(slow):
    """Return output of rocm_bandwidth_test with two processors, and 20 GB/s for the pairs of GPUs that are slow."""
    processors = "".join(f"Device: {n},  AMD EPYC 9654 96-Core Processor\n" for n in range(2))
    gpus = "".join(f"Device: {n + 2},  AMD Instinct MI300X,  GPU-{n},  {gpu[5:]}\n" for n, gpu in enumerate(GPUS))
    rows = ""
    for one in range(6):
        cells = [rate(one, other, slow) for other in range(6)]
        rows += f"{one}  {'  '.join(cells)}\n\n"
    title = "Unidirectional copy peak bandwidth GB/s\n\nD/D  0  1  2  3  4  5"
    return f"RocmBandwidthTest Version: 2.6.0\n\n{processors}{gpus}\n{title}\n\n{rows}"


def rate(one, other, slow):
    """Return the rate between two devices; devices 0 and 1 are processors."""
    if one == other or max(one, other) < 2:
        return "N/A"
    if min(one, other) < 2:
        return "55.0"
    return "20.0" if (one - 2, other - 2) in slow else "48.0"


def test_copies_of_host_memory_need_numa_nodes_and_others_do_not(tmp_path):
    (tmp_path / "topology.txt").write_text(topology())
    (tmp_path / "copies.txt").write_text(copies({(1, 2), (2, 1)}))
    found = fc.diagnose([tmp_path / "topology.txt", tmp_path / "copies.txt"])
    assert "direct copies 1>2, 2>1 reach 20 GB/s" in found.findings[0].text
    assert any("16 copies of host memory are not compared" in one.text for one in found.warnings)


def test_a_gpu_that_sends_slowly_over_its_links_is_named_with_a_topology(tmp_path):
    (tmp_path / "topology.txt").write_text(topology())
    (tmp_path / "copies.txt").write_text(copies({(2, other) for other in range(4)}))
    (finding,) = fc.diagnose([tmp_path / "topology.txt", tmp_path / "copies.txt"]).findings
    assert finding.text.startswith("GPU 2 sends 20 GB/s in all its direct copies, the other 9 at least 48 GB/s")
    assert "amd-smi xgmi" in finding.remedy


def of_rocm_smi(model="AMD Instinct MI300X OAM", device="0x74a1", replays=0, series="Card series"):
    lines = []
    for number in range(4):
        lines += [
            f"GPU[{number}]\t\t: PCIe Replay Count: {replays}",
            f"GPU[{number}]\t\t: PCI Bus: 0000:{number + 1}5:00.0",
            f"GPU[{number}]\t\t: {series}: \t\t{model}",
            f"GPU[{number}]\t\t: Card model: \t\t{device}",
        ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "arguments",
    [{}, {"series": "Card Series"}, {"model": "0x74a1", "device": "0xc34"}, {"model": "0x1234"}],
    ids=["name", "capital", "device as series", "device as model"],
)
def test_rocm_smi_names_the_gpus_of_a_machine(tmp_path, arguments):
    (tmp_path / "topo.txt").write_text(topology())
    (tmp_path / "all.txt").write_text(of_rocm_smi(**arguments))
    machine = fc.load_machine([tmp_path / "topo.txt", tmp_path / "all.txt"])
    assert {link.bytes_per_s for link in machine.tree.peer_links} == {64e9}


def test_many_replays_of_a_link_are_a_fault_and_few_are_not(tmp_path):
    few, many = (diagnosed(tmp_path, of_rocm_smi(replays=count)) for count in (7, 5123))
    assert not few.findings
    assert "5123 PCIe replays" in many.findings[0].text
