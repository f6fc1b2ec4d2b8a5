"""Output that a virtual machine with one H200 printed: nothing there is a link between GPUs, and little is a fault."""

import pytest

import fabricast as fc
from fabricast.core.errors import InputError
from fabricast.core.facts import Quantity
from fabricast.sources.reading import facts_of_text

STARTED = (
    "# Collective test starting: {}_perf\n# nThread 1 nGpus {} minBytes 8 maxBytes 8 step: 4(factor)\n# Using devices\n"
)
RANK = "#  Rank  0 Group  0 Pid   1321 on         vm device  0 [0000:00:06] NVIDIA H200\n"
HEADER = "#       size         count      type   redop    root     time   algbw   busbw  #wrong\n"
MATRIX = (
    "Device: 0, NVIDIA H200, pciBusID: 0, pciDeviceID: 6, pciDomainID:0\n"
    "P2P Connectivity Matrix\n     D\\D     0\n     0\t     1\n"
    "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0 \n     0 3957.57 \n"
    "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0 \n     0 3976.14 \n"
)
DMON = (
    "# gpu    pwr     sm   pclk  tviol  dbecc    pci  rxpci\n# Idx      W      %    MHz   bool   errs   errs   MB/s\n"
)
QUERY = "index, name, pci.bus_id, clocks_event_reasons.active, ecc.errors.uncorrected.volatile.total\n"


@pytest.mark.parametrize(("program", "rate"), [("all_reduce", "0.00"), ("sendrecv", "1697.8")])
def test_a_table_of_one_rank_is_compared_with_no_machine(first, program, rate):
    row = f"   268435456      67108864     float     sum      -1   158.10  1697.8  {rate}       0\n"
    found = first(STARTED.format(program, 1) + RANK + HEADER + row)
    assert "nothing could be judged" in str(found.verdict)
    assert "lists one rank, which sends nothing to others" in str(found.verdict)
    assert "public" not in str(found.verdict)


def test_a_run_that_asks_for_more_gpus_than_there_are_has_failed(first):
    found = first(STARTED.format("all_reduce", 2) + "Invalid number of GPUs: 2 requested but only 1 were found.\n")
    assert str(found.verdict).startswith("the run failed: the run asks for 2 GPUs of a host that has 1")


def test_copies_within_one_gpu_are_no_copies_of_an_unknown_kind(first):
    assert "the copies stay within the memory of each GPU" in str(first(MATRIX).verdict)


def test_peer_access_without_a_topology_asks_for_it(first):
    rows = " \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n"
    assert "which GPUs may copy directly, not how they are connected" in str(first(rows).verdict)
    with pytest.raises(InputError, match="has peer access of one GPU, which has no pair"):
        first(" \tGPU0\t\n GPU0\tX\t\n")


@pytest.mark.parametrize(
    ("line", "is_used"),
    [
        ("[    0.1] pci 0000:00:06.0: Adding to iommu group 3", True),
        ("[    0.1] DMAR: IOMMU enabled", True),
        ("[    0.1] pci 0000:00:06.0: Enabling HDA controller", False),
    ],
)
def test_linux_names_a_domain_type_also_where_it_uses_no_iommu(first, line, is_used):
    text = f"[    0.0] Linux version 6.18\n{line}\n[    0.2] iommu: Default domain type: Translated\n"
    assert any("the IOMMU translates" in note for note in first(text).statements) == is_used


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("timeout: failed to run command \u2018lspci\u2019: No such file or directory\n", "no output of lspci"),
        ("bash: line 1: ibstat: command not found\n", "no output of ibstat"),
        ("sh: 1: nvidia-smi: not found\n", "no output of nvidia-smi"),
        ("Architecture:                            x86_64\nCPU(s):  16\n", "output of lscpu"),
        ("available: 1 nodes (0)\nnode 0 cpus: 0 1 2\n", "output of numactl -H"),
        ('<graphs version="1">\n</graphs>\n', "which 'NCCL_GRAPH_DUMP_FILE' writes"),
    ],
)
def test_files_without_output_and_of_programs_that_state_nothing_are_named(tmp_path, text, reason):
    path = tmp_path / ("file.xml" if text.startswith("<") else "file.txt")
    path.write_text(f'<?xml version="1.0"?>\n{text}' if text.startswith("<") else text)
    with pytest.raises(InputError, match=reason):
        fc.diagnose(path)


def test_dmon_shows_throttling_errors_and_traffic(first):
    healthy = DMON + "    0    401     99   1980      0      0      1  24210\n"
    found = first(healthy)
    assert not found.findings
    assert any("GPU 0 receives up to 24.2 GB/s over PCIe" in line for line in found.statements)
    row = "    1    398     97   1410      1      2    250      -\n"
    before = "    1    398     97   1410      0      0    250      -\n"
    states = [fact.value for fact in facts_of_text(healthy + DMON + before + row).of(Quantity.GPU_STATE)]
    assert [state.split(" (")[-1] for state in states] == ["tviol)", "dbecc)", "pci)"]
    assert "2 uncorrectable" in states[1] and "250 PCIe replays" in states[2]
    assert first(healthy + row).findings[0].text.startswith("GPU 1: ")


def test_a_mask_of_reasons_and_errors_of_the_memory_are_states():
    def states(mask, errors):
        text = f"{QUERY}0, NVIDIA H200, 00000000:00:06.0, {mask}, {errors}\n"
        return [fact.value for fact in facts_of_text(text, "gpus.csv").of(Quantity.GPU_STATE)]

    # Idle (0x1) and the power limit (0x4) are usual.
    assert states("0x0000000000000005", "0") == states("[N/A]", "[N/A]") == []
    assert states("0x0000000000000048", "0") == ["HW Slowdown is active", "HW Thermal Slowdown is active"]
    assert states("0x0", "3") == ["3 uncorrectable ECC errors since the start of the driver"]


def test_the_environment_that_pytorch_prints_names_gpus():
    text = (
        "Is CUDA available: True\nGPU models and configuration: GPU 0: NVIDIA L4\nGPU 1: NVIDIA L4\n\nGPU 2: no list\n"
    )
    assert facts_of_text(text).values(Quantity.GPU_MODEL) == ["NVIDIA L4", "NVIDIA L4"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[W1 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3", "states no error"),
        (
            "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to",
            "a rank cannot reach the first one",
        ),
    ],
)
def test_lines_of_torch_about_its_first_connection(first, line, expected):
    assert expected in str(first(f"{line}\n").verdict)
