"""Files that answer by themselves: matrices of copies, runs that stop, messages of the kernel, lists of NVLinks."""

import pytest

import fabricast as fc
from tests.unit.diagnosis.pasted import nccl_tests, peer_test

SLOW_GPU = [[0, 25.9, 3.9, 25.8], [25.8, 0, 3.9, 25.9], [3.9, 3.9, 0, 3.9], [25.9, 25.9, 3.9, 0]]
STAGED = peer_test([[25.0] * 3] * 3).replace("P2P=Enabled Bandwidth (P2P Writes)", "P2P=Disabled Bandwidth")
RANKS = nccl_tests("all_reduce", 2, {1 << 20: 90.0, 1 << 24: 900.0})
HEAD = "".join(line for line in RANKS.splitlines(keepends=True) if line.startswith("#") and "Out of" not in line)


def causes_of(found):
    return [finding.cause for finding in found.findings]


def test_a_slow_gpu_of_a_matrix_is_named_without_topology(first):
    found = first(peer_test(SLOW_GPU))
    assert causes_of(found) == ["slow_endpoint"]
    assert found.findings[0].text.startswith("GPU 2 reaches 3.9 GB/s in all its direct copies, the other GPUs at least")
    assert str(found.verdict).startswith("slower than expected: GPU 2 ")
    # One slow pair, or two halves of a machine, are no slow GPU.
    halves = [[25.0 if one // 2 == other // 2 else 9.0 for other in range(4)] for one in range(4)]
    pair = [[3.9 if {one, other} == {0, 1} else 25.0 for other in range(4)] for one in range(4)]
    assert not first(peer_test(halves)).findings
    of_pair = first(peer_test(pair)).findings[0]
    assert of_pair.cause == "slow_pair"
    assert of_pair.text.startswith("direct copies 0>1, 1>0 reach 3.9 GB/s, the other 10 at least 25 GB/s")


def test_a_gpu_that_only_sends_or_receives_slowly_is_named(first):
    sends = [[12.0 if one == 1 else 21.0 for _ in range(4)] for one in range(4)]
    receives = [[12.0 if other == 1 else 21.0 for other in range(4)] for _ in range(4)]
    for matrix, verb in ((sends, "sends"), (receives, "receives")):
        found = first(peer_test(matrix)).findings
        assert [one.cause for one in found] == ["slow_endpoint"]
        assert found[0].text.startswith(f"GPU 1 {verb} 12 GB/s in all its direct copies, the other 9 at least 21 GB/s")
    # One fast copy of the GPU: neither its link nor its memory is slow.
    sends[1][2] = 21.0
    assert causes_of(first(peer_test(sends))) == ["slow_pair"]


def of_model(model, matrix):
    """Return copies of p2pBandwidthLatencyTest between GPUs of a model."""
    devices = "".join(f"Device: {n}, {model}, pciBusID: {n + 1}, pciDeviceID: 0, pciDomainID:0\n" for n in range(4))
    return f"[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n{devices}{peer_test(matrix)}"


def test_gpus_without_the_bridge_of_others_are_not_slow(first):
    bridge = [[51.0 if {one, other} == {0, 1} else 20.0 for other in range(4)] for one in range(4)]
    assert not first(of_model("NVIDIA RTX A6000", bridge)).findings
    # The bridge hides no GPU that is slow; without a model it is unknown.
    for other in range(4):
        bridge[3][other] = 6.0
    (found,) = first(of_model("NVIDIA RTX A6000", bridge)).findings
    assert found.text.startswith("GPU 3 (0000:04:00.0) sends 6 GB/s in all its direct copies")
    unknown = first(peer_test([[51.0 if {a, b} == {0, 1} else 20.0 for b in range(4)] for a in range(4)]))
    assert all("or the others have bridges (NVLink)" in one.text for one in unknown.findings)


def test_direct_links_and_not_those_of_pcie_are_the_cause_on_boards_with_nvlink(first):
    sends = [[200.0 if one == 2 else 390.0 for _ in range(4)] for one in range(4)]
    both = [[200.0 if 2 in (one, other) else 390.0 for other in range(4)] for one in range(4)]
    for matrix, words in ((sends, "sends 200 GB/s"), (both, "reaches 200 GB/s")):
        (found,) = first(of_model("NVIDIA H100 80GB HBM3", matrix)).findings
        assert words in found.text and "processor" not in found.text and "nvlink" in found.remedy


def test_a_slow_gpu_of_a_board_with_direct_links_is_no_card_without_a_bridge(first):
    matrix = [[41.0 if 3 in (one, other) else 380.0 for other in range(8)] for one in range(8)]
    (found,) = first(peer_test(matrix)).findings
    assert "GPU 3 reaches 41 GB/s" in found.text and "its links, or the GPU itself, are slow" in found.text


def test_pairs_of_part_of_an_uneven_board_have_different_links(first):
    matrix = [[48.3 if {one, other} == {1, 2} else 24.2 for other in range(4)] for one in range(4)]
    three = [row[:3] for row in matrix[:3]]
    for rates in (matrix, three):
        assert not first(of_model("Tesla V100-SXM2-16GB", rates)).findings


def test_several_slow_gpus_are_compared_with_those_that_are_not_slow(first):
    two = [[12.0 if {one, other} & {1, 3} else 21.0 for other in range(5)] for one in range(5)]
    found = first(peer_test(two)).findings
    assert [one.text[:5] for one in found] == ["GPU 1", "GPU 3"]
    assert all("the GPUs that are not slow at least 21 GB/s among each other" in one.text for one in found)


def test_direct_copies_slower_than_host_memory_are_named_without_topology(first):
    found = first(f"{STAGED}{peer_test([[2.0] * 3] * 3)}")
    assert causes_of(found) == ["slower_than_staged"]
    assert "6 of 6 pairs" in found.findings[0].text and "iommu=pt" in found.findings[0].remedy
    assert not first(f"{STAGED}{peer_test([[24.0] * 3] * 3)}").findings


@pytest.mark.parametrize(
    ("rate", "gpu", "start"),
    [
        (25.0, "RTX A6000", "within the expected range: direct copies reach 25 GB/s (median), "),
        (6.6, "RTX A6000", "slower than expected: direct copies reach 6.6 GB/s (median), "),
        (25.0, None, "nothing could be judged: the files name no known model of GPU"),
        # Copies over NVLink say nothing about the PCIe links.
        (390.0, "H100 SXM", "nothing could be judged"),
    ],
)
def test_rates_are_compared_with_public_machines_by_the_model(first, rate, gpu, start):
    found = first(peer_test([[rate] * 2] * 2), gpu=gpu)
    assert str(found.verdict).startswith(start)
    assert ("Gen4 x4" in str(found.verdict)) == (rate < 7)


def test_the_model_is_that_of_the_file(first):
    device = "Device: 0, NVIDIA RTX A6000, pciBusID: 3, pciDeviceID: 0, pciDomainID:0\n"
    assert "(RTX A6000)" in str(first(device + peer_test([[25.0] * 2] * 2)).verdict)


def test_a_run_that_stops_before_its_first_result_is_no_bad_file(first):
    for text in (HEAD, HEAD[: HEAD.index("#       size")], f"{HEAD}#  (B)  (elements)  (us)\n"):
        found = first(text)
        assert causes_of(found) == ["stopped"] and "NCCL_P2P_DISABLE=1" in found.findings[0].remedy
        assert str(found.verdict).startswith("nothing could be judged: the output ends before its first result")
    access = "P2P Connectivity Matrix\n     D\\D     0     1\n     0       1     1\n     1       1     1\n"
    for text in (access, f"{access}Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1\n"):
        assert causes_of(first(text)) == ["stopped"]


def test_processes_that_do_not_find_each_other_are_named(first):
    alone = RANKS.replace("# Out of bounds values : 0 OK\n", "")
    ranks = [line for line in alone.splitlines(keepends=True) if "Rank  0" in line]
    text = alone.replace(ranks[0], ranks[0] + ranks[0].replace("node01", "node02"))
    found = first(text)
    assert causes_of(found) == ["no_mpi"] and "MPI=1" in found.findings[0].remedy
    assert str(found.verdict).startswith("the run failed: rank 0 is listed by node01 and node02")


def test_tables_of_broadcast_with_a_root_and_no_reduction_are_read(first):
    rows = "#  size  count  type  root  time  algbw  busbw  error  time  algbw  busbw  error\n"
    rows += "1048576 262144 float 0 45.8 22.89 22.89 N/A 38.1 27.52 27.52 N/A\n"
    found = first(RANKS[: RANKS.index("#       size")].replace("all_reduce_perf", "broadcast_perf") + rows)
    assert "broadcast_perf, 2 ranks, 1 size" in found.sources[0] and not found.damaged


@pytest.mark.parametrize(
    ("line", "cause", "text"),
    [
        ("NVRM: Xid (PCI:0000:dc:00): 149, NETIR_LINK_EVT Fatal", "gpu_errors", "0000:dc:00.0: NVLink error (Xid 149)"),
        (
            "NVRM: Xid (PCI:0000:dc:00): 45, pid=1, Ch 1 caused by previous Xid 145",
            "gpu_errors",
            "0000:dc:00.0: NVLink error (Xid 145)",
        ),
        (
            "NVRM: Xid (PCI:0000:dc:00): 31, MMU Fault",
            None,
            "0000:dc:00.0: Xid 31, usually an error of a program: MMU Fault",
        ),
        ("NVRM: Xid (PCI:0000:dc:00): 999, Odd", None, "0000:dc:00.0: Xid 999, whose meaning is not known here: Odd"),
        (
            "nvidia-nvswitch1: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 46 sourcetrack timeout",
            "gpu_errors",
            "0000:c1:00.0: fatal error of an NVSwitch or its NVLinks (SXid 24007)",
        ),
        (
            "nvidia-nvswitch1: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress",
            None,
            "0000:c1:00.0: SXid 12028 of an NVSwitch, not fatal: Link 32 egress",
        ),
        (
            "Unable to determine the device handle for GPU0000:03:00.0: Unknown Error",
            "gpu_errors",
            "0000:03:00.0: cannot be reached by the driver (unknown error)",
        ),
    ],
)
def test_errors_of_the_driver_are_causes_or_notes_and_never_an_all_clear(first, line, cause, text):
    found = first(f"[  1.000000] {line}\n" if "handle" not in line else f"{line}\n")
    assert causes_of(found) == ([] if cause is None else [cause])
    printed = [finding.text for finding in found.findings] if cause else list(found.statements)
    assert printed[0].startswith(text)
    assert "no errors of GPUs" not in str(found.statements)
    assert (str(found.verdict).startswith("a fault is stated: ")) == (cause is not None)


def links_of(*counts, model="NVIDIA A100-SXM4-80GB", inactive=0, uuid="GPU-1"):
    lines = []
    for number, count in enumerate(counts):
        lines.append(f"GPU {number}: {model} (UUID: {uuid})")
        lines += [f"\t Link {link}: 25 GB/s" for link in range(count - inactive * (number == 0))]
        lines += [f"\t Link {count - 1 - link}: <inactive>" for link in range(inactive * (number == 0))]
    return "\n".join(lines) + "\n"


def test_only_links_that_are_stated_as_inactive_are_a_fault(first):
    assert not first(links_of(12, 12, 1)).findings
    found = first(links_of(12, 12, inactive=2))
    assert found.findings[0].text == "GPU 0: NVLinks 11, 10 inactive, 10 of 12 links work, on other GPUs 12"
    # The only GPU of a text: on an SXM board it is a fault, with a bridge it may be none.
    assert causes_of(first(links_of(6, model="Tesla V100-SXM2-32GB", inactive=2, uuid="..."))) == ["gpu_errors"]
    bridged = first(links_of(12, model="NVIDIA A40", inactive=8))
    assert not bridged.findings and "4 of 12 links work; it may have fewer partners" in str(bridged.statements)


def test_a_fabric_that_is_not_ready_is_a_fault(first):
    report = (
        "==NVSMI LOG==\n\nGPU 00000000:18:00.0\n    Product Name                          : NVIDIA H100 80GB HBM3\n"
    )
    fabric = "    Fabric\n        State                             : Completed\n        Status                            : {}\n"
    assert causes_of(first(report + fabric.format("Insufficient Resources"))) == ["gpu_errors"]
    assert not first(report + fabric.format("Success")).findings


def test_lines_of_lspci_after_grep_are_read(first):
    line = "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir{} CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n"
    assert causes_of(first(line.format("+") + line.format("-"))) == ["possible_access_control"]
    quiet = first(line.format("-") * 3)
    assert not quiet.findings and "redirects requests at none of 3 ports" in str(quiet.statements)
    link = "LnkCap: Port #0, Speed 16GT/s, Width x16, ASPM L1\nLnkSta: Speed {}GT/s (downgraded), Width x{}\n"
    assert causes_of(first(link.format(16, 8))) == ["narrow_link"]
    idle = first(link.format(2.5, 16))
    assert not idle.findings and "normal while its device is idle" in str(idle.statements)


def test_tests_of_nvbandwidth_that_were_left_out_or_damage_data_are_named(first):
    head = "nvbandwidth Version: v0.7\nDevice 0: NVIDIA L40S\nDevice 1: NVIDIA L40S\n\n"
    found = first(f"{head}Waiving device_to_device_memcpy_write_ce.\n")
    assert not found.findings and "left out device_to_device_memcpy_write_ce" in str(found.statements)
    found = first(f"{head}Running one_to_all_read_sm.\n Invalid value when checking the pattern at <0x7f>\n")
    assert causes_of(found) == ["wrong_results"]


def test_ports_of_ibstatus_and_of_several_hosts_are_read(first):
    port = "Infiniband device '{}' port 1 status:\n\tstate:\t\t {}\n\tphys state:\t {}\n\trate:\t\t {} Gb/sec (4X)\n"
    port += "\tlink_layer:\t InfiniBand\n\n"
    found = first(
        port.format("mlx5_0", "4: ACTIVE", "5: LinkUp", 200) + port.format("mlx5_1", "1: DOWN", "3: Disabled", 10)
    )
    assert [one.text for one in found.findings] == ["mlx5_1 port 1 is Down (Disabled)"]
    one = "{0}: CA 'mlx5_0'\n{0}:\tCA type: MT4123\n{0}:\tPort 1:\n{0}:\t\tState: Active\n{0}:\t\tRate: {1}\n"
    found = first(one.format("n1", 200) + one.format("n2", 100) + one.format("n3", 200))
    assert [one.text for one in found.findings] == ["n2 mlx5_0 port 1 runs at 100 Gbit/s, most ports at 200 Gbit/s"]


def test_ports_of_network_cards_in_the_kernel_log_are_causes(first):
    start = "[91822.551209] mlx5_core 0000:cc:00.0"
    down, up = f"{start} ibp204s0: Link down\n", f"{start} ibp204s0: Link up\n"
    module = f"{start}: Port module event[error]: module 0, Cable error, Bus stuck (I2C or data shorted)\n"
    power = f"{start}: mlx5_pcie_event:301:(pid 1129): Detected insufficient power on the PCIe slot (27W).\n"
    (found,) = first(down).findings
    assert found.text == "network card 0000:cc:00.0 is Down (its link went down and not up again)"
    assert not first(down + up).findings
    (found,) = first(module).findings
    assert found.text.endswith("has an error of its module: Cable error, Bus stuck (I2C or data shorted)")
    (found,) = first(power).findings
    assert "power cables" in found.remedy
    memory = "infiniband mlx5_0: create_mkey_callback:131:(pid 0): async reg mr failed. status -12\n"
    (found,) = first(memory * 2).findings
    assert found.text == "network card mlx5_0 cannot register memory: async reg mr failed. status -12"
    assert "ulimit -l" in found.remedy and "cable" not in found.remedy


def test_a_cluster_file_whose_keys_are_below_its_name_is_explained(tmp_path):
    (tmp_path / "cluster.yaml").write_text("cluster:\n  nodes: 4\n  node: hgx_h100\n")
    (tmp_path / "run.log").write_text(RANKS)
    found = fc.diagnose([tmp_path / "cluster.yaml", tmp_path / "run.log"])
    assert "key 'cluster' is a name, such as 'cluster: mine'" in found.sources[0]


def test_lscpu_states_the_processor_and_harms_nothing(tmp_path):
    (tmp_path / "lscpu.txt").write_text(
        "Architecture:        x86_64\nSocket(s):           2\nNUMA node(s):        8\n"
        "Model name:          AMD EPYC 7763 64-Core Processor\n"
    )
    (tmp_path / "topo.txt").write_text("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-63\nGPU1\tPHB\t X \t0-63\n")
    files = [tmp_path / "topo.txt", tmp_path / "lscpu.txt"]
    assert fc.load_machine(files, gpu="RTX 4090").cpu == "amd"
    (tmp_path / "numactl.txt").write_text("available: 2 nodes (0-1)\nnode 0 cpus: 0 1 2 3\n")
    (tmp_path / "ibstat.txt").write_text(
        "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n"
    )
    found = fc.diagnose([tmp_path / name for name in ("ibstat.txt", "numactl.txt", "lscpu.txt")])
    assert not found.has_causes and "AMD EPYC 7763" in " ".join(found.statements)
