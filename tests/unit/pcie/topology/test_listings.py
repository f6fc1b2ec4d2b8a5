"""Topologies from nvidia-smi, rocm-smi, lspci and NCCL logs."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.core.errors import InputError
from fabricast.core.warnings import WarningCode
from fabricast.inputs.log_lines import clean_text
from tests.conftest import REPOSITORY
from tests.machines import import_machine

DATA = REPOSITORY / "tests" / "data" / "collectives"
SYSTEM = """<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="0000:01:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="0"/></pci>
    <pci busid="0000:02:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="1"/></pci>
  </cpu>
</system>
"""
RANKS = ("PIX", "PXB", "PHB", "NODE", "SYS")


def matrix(classes, *, numa=None, cards=()):
    """Return output of nvidia-smi topo -m for the classes of each pair."""
    count = len(classes)
    names = [f"GPU{number}" for number in range(count - len(cards))] + list(cards)
    lines = ["\t" + "\t".join(names) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
    for number, row in enumerate(classes):
        cells = [" X " if place == number else cell for place, cell in enumerate(row)]
        node = "" if numa is None or number >= len(numa) else f"0-31,64-95\t{numa[number]}\t\tN/A"
        lines.append(names[number] + "\t" + "\t".join(cells) + "\t" + node)
    return "\n".join(lines) + "\n\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n"


def groups(*sizes_and_classes):
    """Return classes of GPUs in nested groups: ((2, PIX), (2, PHB), (2, SYS)) are pairs, in fours, in eights."""
    count = 1
    steps = []
    for size, name in sizes_and_classes:
        steps.append((count, name))
        count *= size
    return [
        [next((name for size, name in reversed(steps) if one // size != other // size), "X") for other in range(count)]
        for one in range(count)
    ]


def classes_of(tree):
    names = tree.accelerator_names
    return [["X" if one == other else tree.path_class(one, other) for other in names] for one in names]


SHAPES = {
    "one socket with switches": (groups((2, "PIX"), (2, "PXB"), (2, "PHB")), None),
    "two sockets direct": (groups((4, "NODE"), (2, "SYS")), [0, 0, 0, 0, 1, 1, 1, 1]),
    "four switches on two sockets": (groups((2, "PIX"), (2, "NODE"), (2, "SYS")), [0, 0, 0, 0, 1, 1, 1, 1]),
    "two root ports": (groups((4, "PHB")), [0] * 4),
    "one switch": (groups((4, "PIX")), None),
    "eight below two switches": (groups((4, "PIX"), (2, "NODE")), [0] * 8),
    "virtual machine with a flat bus": (groups((8, "PHB")), None),
    "one numa node per gpu": (groups((8, "SYS")), list(range(8))),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_tree_has_the_path_classes_of_the_matrix(tmp_path, name):
    classes, numa = SHAPES[name]
    (tmp_path / "topo.txt").write_text(matrix(classes, numa=numa))
    tree = import_machine([tmp_path / "topo.txt"], gpu="RTX 4090")
    assert classes_of(tree) == classes
    assert tree.link_bytes_per_s == pytest.approx(31.508e9, rel=1e-3)
    assert fc.predict(tree, [(0, 1)])["elapsed_s"][0] > 0


@given(st.lists(st.integers(1, 3), min_size=5, max_size=5), st.booleans())
def test_every_nested_matrix_has_its_tree(tmp_path_factory, sizes, escaped):
    classes = groups(*zip(sizes, RANKS, strict=True))
    if len(classes) < 2 or len(classes) > 24:
        return
    path = tmp_path_factory.mktemp("topo") / "topo.txt"
    text = matrix(classes)
    path.write_text(re.sub(r"GPU(\d+)\t", "\x1b[4mGPU\\1\x1b[0m\t", text) if escaped else text.replace("\n", "\r\n"))
    assert classes_of(import_machine([path])) == classes


def test_network_cards_are_part_of_the_tree_on_request(tmp_path):
    classes = [["X", "SYS", "PIX"], ["SYS", "X", "SYS"], ["PIX", "SYS", "X"]]
    path = tmp_path / "topo.txt"
    path.write_text(matrix(classes, cards=["NIC0"]) + "\nNIC Legend:\n\n  NIC0: mlx5_0\n")
    without, with_cards = import_machine([path]), import_machine([path], network_cards=True)
    assert without.endpoint_names == ("0", "1")
    assert without.vertex("0").switches_above == 1, "the switch of the card is part of the link"
    assert with_cards.endpoint_names == ("0", "1", "mlx5_0")
    assert with_cards.path_class("0", "mlx5_0") == "PIX"


def test_nvlink_pairs_and_switches_are_direct_links(tmp_path):
    pairs = [
        ["X", "NV4", "SYS", "SYS"],
        ["NV4", "X", "SYS", "SYS"],
        ["SYS", "SYS", "X", "NV4"],
        ["SYS", "SYS", "NV4", "X"],
    ]
    path = tmp_path / "topo.txt"
    path.write_text(matrix(pairs, numa=[0, 0, 1, 1]))
    tree = import_machine([path], gpu="RTX A6000")
    assert [(link.kind, link.endpoints, link.bytes_per_s) for link in tree.peer_links] == [
        ("NVLink", ("0", "1"), 4 * 14.0625e9),
        ("NVLink", ("2", "3"), 4 * 14.0625e9),
    ]
    assert tree.path_class("0", "1") == "NODE", "assumed from the NUMA nodes"
    assert any("direct links" in warning.text for warning in tree.warnings)
    hgx = [["X" if one == other else "NV12" for other in range(8)] for one in range(8)]
    path.write_text(matrix(hgx, numa=[0] * 4 + [1] * 4))
    tree = import_machine([path], gpu="A100-SXM4-80GB")
    assert [(link.kind, len(link.endpoints), link.bytes_per_s) for link in tree.peer_links] == [("NVSwitch", 8, 300e9)]
    with pytest.raises(InputError, match="connected only by PCIe"):
        fc.collective(tree)


def test_what_the_matrix_leaves_open_is_a_warning(tmp_path):
    (tmp_path / "topo.txt").write_text(matrix(groups((2, "PIX"), (2, "PXB"))))
    tree = import_machine([tmp_path / "topo.txt"])
    texts = {warning.code: warning.text for warning in tree.warnings}
    assert "lspci -vv" in texts[WarningCode.LINK_SPEED_MISSING]
    assert "number of switches" in texts[WarningCode.TOPOLOGY_NOTE]
    assert tree.link_bytes_per_s is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("GPU1\tPIX", "GPU1\tSYS", 1), "not symmetric"),
        (lambda text: text.replace("GPU1\tPIX", "GPU1\tPIY", 1), "cell GPU1 GPU0 is 'PIY'"),
        (lambda text: text.replace("GPU0\t X ", "GPU0\tPIX", 1), "expected X"),
        (lambda text: text[: text.rindex("GPU2\t")] + "\n", "no row of GPU2"),
        (lambda text: re.sub(r"(GPU3\t\S+)\t.*", r"\1", text, count=1), "has 1 cells"),
        (lambda text: "", "is empty"),
        (lambda text: "hello world\n", "no known program"),
    ],
)
def test_other_matrices_are_rejected(tmp_path, change, message):
    text = matrix(groups((2, "PIX"), (2, "PHB")))
    (tmp_path / "topo.txt").write_text(change(text))
    with pytest.raises(InputError, match=message):
        import_machine([tmp_path / "topo.txt"])


def test_contradictory_classes_are_rejected(tmp_path):
    classes = [["X", "PIX", "SYS"], ["PIX", "X", "PIX"], ["SYS", "PIX", "X"]]
    (tmp_path / "topo.txt").write_text(matrix(classes))
    with pytest.raises(InputError, match="GPU0 and GPU2 have class SYS, expected at most PIX"):
        import_machine([tmp_path / "topo.txt"])


ROCM = """
=============================== Link Type between two GPUs ===============================
       GPU0         GPU1         GPU2         GPU3
GPU0   0            XGMI         PCIE         PCIE
GPU1   XGMI         0            PCIE         PCIE
GPU2   PCIE         PCIE         0            XGMI
GPU3   PCIE         PCIE         XGMI         0

======================================= Numa Nodes =======================================
GPU[0]		: (Topology) Numa Node: 0
GPU[0]		: (Topology) Numa Affinity: 0
GPU[1]		: (Topology) Numa Node: 0
GPU[2]		: (Topology) Numa Node: 1
GPU[3]		: (Topology) Numa Node: 1
"""


def test_rocm_smi_is_read(tmp_path):
    (tmp_path / "rocm.txt").write_text(ROCM)
    tree = import_machine([tmp_path / "rocm.txt"], link="gen4x16")
    assert classes_of(tree)[0] == ["X", "PHB", "SYS", "SYS"]
    assert [link.kind for link in tree.peer_links] == ["xGMI", "xGMI"]


TREE = r"""-+-[0000:80]-+-01.1-[81-85]----00.0-[82-85]--+-00.0-[83]----00.0  NVIDIA Corporation GA100 3D controller
 |           |                               \-01.0-[84]----00.0  NVIDIA Corporation GA100 3D controller
 |           \-02.0  Advanced Micro Devices, Inc. [AMD] Device 149f
 \-[0000:00]-+-00.0  Advanced Micro Devices, Inc. [AMD] Device 14a4
             +-01.1-[01]----00.0  NVIDIA Corporation GA100 3D controller
             \-03.1-[02]----00.0  Mellanox Technologies Ethernet controller
"""


def test_the_tree_of_lspci_is_read(tmp_path):
    (tmp_path / "lspci.txt").write_text(TREE)
    tree = import_machine([tmp_path / "lspci.txt"], link="gen4x16")
    assert [tree.vertex(name).label for name in tree.accelerator_names] == [
        "0000:01:00.0",
        "0000:83:00.0",
        "0000:84:00.0",
    ]
    assert tree.path_class("1", "2") == "PIX"
    # Each root bus is a host bridge.
    assert tree.path_class("0", "1") == "NODE"


def lspci(*, gpu_status="Speed 16GT/s, Width x16", redirect="-", port_speed="16GT/s"):
    """Return output of lspci -vv: two GPUs below one switch on root port 00:01.1, one GPU on root port 00:03.1."""

    def device(address, text, lines):
        return f"{address} {text}\n" + "".join(f"\t{line}\n" for line in lines) + "\n"

    def link(speed, status, kind):
        return [
            f"Capabilities: [58] Express (v2) {kind}, MSI 00",
            "DevCtl: MaxPayload 256 bytes, MaxReadReq 512 bytes",
            f"LnkCap: Port #0, Speed {speed}, Width x16, ASPM L1",
            f"LnkSta: {status}",
        ]

    full = f"Speed {port_speed}, Width x16"
    return (
        device(
            "00:01.1",
            "PCI bridge: AMD Root Port",
            [
                "NUMA node: 0",
                "Bus: primary=00, secondary=01, subordinate=04, sec-latency=0",
                *link(port_speed, full, "Root Port (Slot+)"),
            ],
        )
        + device(
            "00:03.1",
            "PCI bridge: AMD Root Port",
            [
                "NUMA node: 0",
                "Bus: primary=00, secondary=05, subordinate=05, sec-latency=0",
                *link(port_speed, full, "Root Port (Slot+)"),
            ],
        )
        + device(
            "01:00.0",
            "PCI bridge: Broadcom PEX",
            [
                "NUMA node: 0",
                "Bus: primary=01, secondary=02, subordinate=04, sec-latency=0",
                *link(port_speed, full, "Upstream Port"),
            ],
        )
        + device(
            "02:00.0",
            "PCI bridge: Broadcom PEX",
            [
                "NUMA node: 0",
                "Bus: primary=02, secondary=03, subordinate=03, sec-latency=0",
                *link("16GT/s", "Speed 16GT/s, Width x16", "Downstream Port (Slot+)"),
                f"ACSCtl: SrcValid- ReqRedir{redirect} CmpltRedir-",
            ],
        )
        + device(
            "02:01.0",
            "PCI bridge: Broadcom PEX",
            [
                "NUMA node: 0",
                "Bus: primary=02, secondary=04, subordinate=04, sec-latency=0",
                *link("16GT/s", "Speed 16GT/s, Width x16", "Downstream Port (Slot+)"),
            ],
        )
        + device(
            "03:00.0",
            "3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)",
            ["NUMA node: 0", *link("16GT/s", gpu_status, "Endpoint")],
        )
        + device(
            "04:00.0",
            "3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)",
            ["NUMA node: 0", *link("16GT/s", "Speed 2.5GT/s (downgraded), Width x16", "Endpoint")],
        )
        + device(
            "05:00.0",
            "3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)",
            ["NUMA node: 0", *link("16GT/s", "Speed 16GT/s, Width x16", "Endpoint")],
        )
        + device("06:00.0", "Audio device: NVIDIA Corporation", [])
    )


def test_verbose_lspci_has_tree_and_links(tmp_path):
    (tmp_path / "lspci.txt").write_text(lspci())
    tree = import_machine([tmp_path / "lspci.txt"])
    assert classes_of(tree) == [["X", "PIX", "PHB"], ["PIX", "X", "PHB"], ["PHB", "PHB", "X"]]
    assert tree.link_bytes_per_s == pytest.approx(31.508e9, rel=1e-3), "an idle GPU reduces its speed, which is ignored"
    assert {warning.code for warning in tree.warnings} == {WarningCode.GPU_NUMBERS_ASSUMED}
    assert [node.name for node in tree.memory_nodes] == ["NUMA0"]


def test_the_tree_of_lspci_without_its_database_has_gpus(tmp_path):
    text = TREE.replace("NVIDIA Corporation GA100 3D controller", "Device 10de:2330")
    (tmp_path / "lspci.txt").write_text(text)
    assert classes_of(import_machine([tmp_path / "lspci.txt"])) == classes_of(imported(tmp_path, tv=TREE))


def test_peer_access_of_one_gpu_is_read(tmp_path):
    one = "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-15\t0\n"
    tree = imported(tmp_path, topo=one, p2p="\t\x1b[4mGPU0\t\x1b[0m\n GPU0\tX\t\n\nLegend:\n\n  X    = Self\n")
    assert tree.accelerator_names == ("0",) and tree.staged_pairs == ()


@pytest.mark.parametrize("printed", ["Class [0302]: Device [10de:2330] (rev a1)", "0302: 10de:2330 (rev a1)"])
def test_numbers_of_lspci_without_its_database_are_read(tmp_path, printed):
    text = lspci().replace("3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)", printed)
    text += f"07:00.0 {printed.replace('0302', '0200').replace('10de', '15b3')}\n\tNUMA node: 0\n"
    (tmp_path / "lspci.txt").write_text(text.replace("Audio device: NVIDIA Corporation", "0403: 10de:22bc"))
    tree = import_machine([tmp_path / "lspci.txt"], network_cards=True)
    assert len(tree.accelerator_names) == 3 and len(tree.endpoint_names) == 4


def test_a_narrow_link_is_a_warning_in_every_forecast(tmp_path):
    (tmp_path / "lspci.txt").write_text(lspci(gpu_status="Speed 16GT/s, Width x4 (downgraded)"))
    tree = import_machine([tmp_path / "lspci.txt"])
    assert tree.vertex("0").capacity == 0.25
    table = fc.predict(tree, [(0, 2), (1, 2)])
    assert WarningCode.DOWNGRADED_LINK in {warning.code for warning in table.attrs["warnings"]}
    isolated = fc.predict(tree, [(0, 2)])["elapsed_s"][0]
    assert isolated == pytest.approx(4 * fc.predict(tree, [(1, 2)])["elapsed_s"][0], rel=0.01)


def test_access_control_is_a_warning(tmp_path):
    (tmp_path / "lspci.txt").write_text(lspci(redirect="+"))
    texts = {warning.code: warning.text for warning in import_machine([tmp_path / "lspci.txt"]).warnings}
    assert "0000:02:00.0" in texts[WarningCode.ACCESS_CONTROL]


def test_a_slow_root_port_bounds_the_links_below(tmp_path):
    (tmp_path / "lspci.txt").write_text(lspci(port_speed="8GT/s"))
    tree = import_machine([tmp_path / "lspci.txt"])
    rate = {name: tree.vertex(name).capacity * tree.link_bytes_per_s for name in tree.endpoint_names}
    assert rate["2"] == pytest.approx(15.754e9, rel=1e-3)
    assert rate["0"] == pytest.approx(31.508e9, rel=1e-3), "the link below the switch is that of the switch"


def test_the_machine_of_a_nccl_log_is_read():
    tree = import_machine([DATA / "nccl_debug_info.log", DATA / "nvidia_smi_topo.txt"])
    assert tree.source == "imported from NCCL log"
    assert classes_of(tree) == groups((2, "PIX"), (2, "SYS"))
    assert tree.link_bytes_per_s == pytest.approx(31.508e9)
    assert [tree.vertex(name).label for name in tree.accelerator_names] == [
        "0000:16:00.0",
        "0000:17:00.0",
        "0000:9a:00.0",
        "0000:9b:00.0",
    ]


def test_commands_take_the_pasted_text(tmp_path):
    output = tmp_path / "machine.yaml"
    result = CliRunner().invoke(
        app, ["topology", "import", str(DATA / "nvidia_smi_topo.txt"), "--gpu", "L40S", "-o", str(output)]
    )
    assert result.exit_code == 0, result.output
    assert classes_of(fc.load_topology(output)) == groups((2, "PIX"), (2, "SYS"))
    result = CliRunner().invoke(app, ["predict", str(DATA / "nccl_debug_info.log"), "--copies", "0>1 2>1"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("link", ["gen9x16", "gen4", "x16", "gen4x7"])
def test_other_links_are_rejected(link):
    with pytest.raises(InputError, match="such as gen4x16"):
        import_machine([DATA / "nvidia_smi_topo.txt"], link=link)


@given(st.sampled_from(["topo", "lspci", "tree", "rocm", "nccl"]), st.data())
def test_damaged_files_are_read_or_rejected(tmp_path_factory, name, data):
    text = {
        "topo": matrix(groups((2, "PIX"), (2, "NODE"), (2, "SYS")), numa=[0] * 4 + [1] * 4),
        "lspci": lspci(),
        "tree": TREE,
        "rocm": ROCM,
        "nccl": (DATA / "nccl_debug_info.log").read_text(),
    }[name]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 200)))
    path = tmp_path_factory.mktemp("damaged") / "file.txt"
    path.write_text(
        text[:start] + data.draw(st.text(max_size=20)) + text[end:], errors="surrogatepass" if False else "replace"
    )
    try:
        tree = import_machine([path])
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert tree.accelerator_names


def contradictions_of(tree):
    return [one.text for one in tree.warnings if one.code is WarningCode.FILES_CONTRADICT]


def imported(folder, **texts):
    paths = []
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
        paths.append(folder / f"{name}.txt")
    return import_machine(paths)


TWO_SOCKETS = matrix([["X", "SYS", "SYS"], ["SYS", "X", "PIX"], ["SYS", "PIX", "X"]])


def test_what_a_program_does_not_print_is_no_contradiction(tmp_path):
    # lspci -tv prints no sockets: those of nvidia-smi are added.
    tree = imported(tmp_path, tv=TREE, topo=TWO_SOCKETS)
    assert classes_of(tree) == [["X", "SYS", "SYS"], ["SYS", "X", "PIX"], ["SYS", "PIX", "X"]]
    assert WarningCode.INTER_SOCKET_CAPACITY_ASSUMED in {one.code for one in tree.warnings}
    # lspci -vv without NUMA nodes.
    plain = "\n".join(line for line in lspci().splitlines() if "NUMA node" not in line)
    far = matrix([["X", "PIX", "SYS"], ["PIX", "X", "SYS"], ["SYS", "SYS", "X"]])
    assert imported(tmp_path, vv=plain, topo=far).path_class("0", "2") in ("SYS", "NODE", "PHB")
    # The path of GPUs with NVLink is assumed by the reader, not printed.
    linked = matrix([["X", "NV4", "NODE"], ["NV4", "X", "NODE"], ["NODE", "NODE", "X"]])
    assert imported(tmp_path, vv=lspci(), topo=linked).path_class("0", "1") == "PIX"
    # rocm-smi prints no switches.
    rocm = ROCM.replace("XGMI", "PCIE")
    count = len(imported(tmp_path, rocm=rocm).accelerator_names)
    nested = matrix(groups(*([(2, "PIX")] if count == 2 else [(2, "PIX"), (count // 2, "SYS")])))
    assert imported(tmp_path, rocm=rocm, topo=nested).path_class("0", "1") == "PIX"


def test_what_both_programs_print_must_agree(tmp_path):
    switched = matrix([["X", "NODE", "NODE"], ["NODE", "X", "NODE"], ["NODE", "NODE", "X"]])
    (text,) = contradictions_of(imported(tmp_path, vv=lspci(), topo=switched))
    assert "topo.txt: GPUs 0 and 1 have class NODE (in a NUMA node), expected PIX (below a switch)" in text
    narrow = lspci(gpu_status="Speed 16GT/s, Width x4 (downgraded)")
    (text,) = contradictions_of(imported(tmp_path, vv=lspci(), other=narrow))
    assert re.search(r"other.txt: GPU 0 has a link of x4, expected x16 as in .*vv.txt", text)


def test_all_listings_of_a_file_are_read(tmp_path):
    narrow = lspci(gpu_status="Speed 16GT/s, Width x4 (downgraded)")
    agreeing = matrix([["X", "PIX", "NODE"], ["PIX", "X", "NODE"], ["NODE", "NODE", "X"]])
    for text in (agreeing + narrow, narrow + agreeing):
        tree = imported(tmp_path, report=text)
        assert WarningCode.DOWNGRADED_LINK in {one.code for one in tree.warnings}
    (text,) = contradictions_of(imported(tmp_path, report=matrix(groups((2, "PIX"), (2, "NODE"))) + lspci()))
    assert "has 4 GPUs, expected 3 as in" in text
    # A warning of one file holds also if another one determines the tree.
    redirected = imported(tmp_path, vv=lspci(), acs=lspci(redirect="+"))
    assert WarningCode.ACCESS_CONTROL in {one.code for one in redirected.warnings}


def test_graphics_cards_of_a_machine_without_accelerators_are_gpus(tmp_path):
    tree = imported(tmp_path, vv=lspci().replace("3D controller", "VGA compatible controller"))
    assert len(tree.accelerator_names) == 3
    assert any("no accelerator but graphics cards" in one.text for one in tree.warnings)


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>:", "0: ", "2026-01-02T03:04:05Z ", "worker-0 | "])
def test_prefixes_of_lspci_trees_are_ignored(tmp_path, prefix):
    tree = imported(tmp_path, tv="".join(f"{prefix}{line}\n" for line in TREE.splitlines()))
    assert classes_of(tree) == classes_of(imported(tmp_path, tv=TREE))


def test_a_log_of_nccl_without_its_topology_says_what_is_missing(tmp_path):
    with pytest.raises(
        InputError,
        match="has no topology beside NCCL log, .* NCCL prints it with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS",
    ):
        imported(tmp_path, log="n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct\n")


def test_a_log_that_ends_within_the_machine_is_rejected(tmp_path):
    log = (DATA / "nccl_debug_info.log").read_text()
    end = next(
        match.start() for match in re.finditer(r"^.*=====+$", log, re.MULTILINE) if "GPU/" in log[: match.start()]
    )
    with pytest.raises(
        InputError, match="ends within the machine of NCCL, expected its last line '=====': the log is cut"
    ):
        imported(tmp_path, log=log[:end])


@pytest.mark.parametrize(
    "decoration",
    [
        "node01: {}",
        "    {}",
        "\t{}",
        "(RayWorker pid=812, ip=10.0.0.3) {}",
        "[1,0]<stdout>:{}",
        "[prterun-node01-812@1,0]<stdout>: {}",
    ],
)
def test_decoration_of_all_lines_is_removed(tmp_path, decoration):
    for name, text in (("lspci", lspci()), ("topo", matrix(groups((2, "PIX"), (2, "NODE"))))):
        plain, decorated = tmp_path / f"{name}.txt", tmp_path / f"{name}2.txt"
        plain.write_text(text)
        decorated.write_text("\n".join(decoration.format(line) for line in text.split("\n")))
        assert classes_of(import_machine([decorated])) == classes_of(import_machine([plain]))


def test_a_word_of_a_program_is_no_host_name():
    assert clean_text("Device: 0") == "Device: 0"
    assert clean_text("Device: 0\nLink: 1") == "Device: 0\nLink: 1"
    assert clean_text("\tGPU0\tGPU1\nGPU0\tX") == "\tGPU0\tGPU1\nGPU0\tX"


def test_xml_is_recognised_without_its_suffix(tmp_path):
    (tmp_path / "machine.txt").write_text(SYSTEM)
    (tmp_path / "machine.xml").write_text(SYSTEM)
    assert classes_of(import_machine([tmp_path / "machine.txt"])) == classes_of(
        import_machine([tmp_path / "machine.xml"])
    )
