"""Kinds of wrong first answers to public reports and to new users, each with a small input."""

import pytest

import fabricast as fc
from fabricast.core.facts import Quantity
from fabricast.known_messages.table import message_table
from fabricast.nccl.costs import Operation
from fabricast.sources.reading import facts_of_text
from tests.nccl_tests_logs import nccl_tests as nccl_tests_log
from tests.unit.diagnosis.pasted import debug_log, nccl_tests, peer_test
from tests.unit.diagnosis.test_hosts_and_curves import host_log
from tests.unit.pcie.topology.test_listings import groups, matrix

FABRIC_MANAGER = "CUDA error at bandwidthTest.cu:256 code=802(cudaErrorSystemNotReady)\n"
HOST_RATES = (
    "nvbandwidth Version: v0.7\nDevice 0: NVIDIA RTX A6000\nDevice 1: NVIDIA RTX A6000\nDevice 2: NVIDIA RTX A6000\n\n"
    "Running host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n"
    "           0         1         2\n 0     25.30     {:.2f}     25.30\n\nSUM host_to_device_memcpy_ce {:.2f}\n"
)


def causes_of(found):
    return [finding.cause for finding in found.findings]


def test_one_slow_card_is_not_hidden_by_a_median(first):
    found = first(HOST_RATES.format(6.5, 57.1))
    assert causes_of(found) == ["slow_endpoint"] and found.findings[0].text.startswith(
        "GPU 1 copies 6.5 GB/s from host"
    )
    healthy = first(HOST_RATES.format(25.1, 75.7))
    assert not healthy.findings and str(healthy.verdict).startswith(
        "within the expected range: copies from host memory"
    )


def test_both_ways_are_compared_where_no_single_copy_was_measured(first):
    both = peer_test([[8.5] * 2] * 2).replace("Unidirectional", "Bidirectional").replace(" (P2P Writes)", "")
    found = first(both, gpu="RTX A6000")
    assert "direct copies, both ways together, reach 8.5 GB/s" in str(found.verdict)
    switched = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-7\nGPU1\tNV18\t X \t0-7\n"
    fast = both.replace("8.50", "742.00")
    assert "copies over" in str(first(switched, fast, gpu="H100 SXM").verdict)


def test_a_matrix_without_indentation_is_read(first):
    text = "\n".join(line.strip() for line in peer_test([[25.0] * 2] * 2).splitlines())
    assert str(first(text, gpu="RTX A6000").verdict).startswith("within the expected range: direct copies reach 25")


def test_a_topology_of_a_page_with_vertical_lines_is_read(first):
    rows = [" ", *(f"GPU{one}" for one in range(2))]
    table = " | GPU0 | GPU1 | CPU Affinity\n-- | -- | -- | --\nGPU0 | X | PHB | 0-7\nGPU1 | PHB | X | 0-7\n"
    found = first(table, peer_test([[25.0] * 2] * 2), link="gen4x16")
    assert found.tree is not None and len(found.tree.accelerator_names) == len(rows) - 1


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("Cuda failure 'invalid device function' (enqueue.cc)", "has no code for this GPU"),
        ("Cuda failure 'invalid argument' (misc/shmutils.cc)", "CUDA cannot register a segment of shared memory"),
        ("Error while creating shared memory segment /dev/shm/nccl-x (size 96)", "segment of shared memory cannot be"),
        ("Call to posix_fallocate failed : No space left on device", "/dev/shm) is too small"),
        ("Call to ibv_create_cq failed with error Cannot allocate memory", "memory cannot be locked"),
        ("NET/OFI Only EFA provider is supported", "the OFI plugin finds no EFA provider"),
        ('Missing "HSA_FORCE_FINE_GRAIN_PCIE=1" from environment', "only for direct copies over PCIe"),
        ('Missing "ROCM_X=1" from environment', "environment variable"),
        ("Net : Socket creation failed : Address family not supported by protocol", "family (IPv4 or IPv6)"),
        ("store->get('1') got error: Socket Timeout", "rank 0 does not answer"),
        ('Missing "iommu=pt" from kernel command line', "iommu=pt"),
        ('Missing "pci=bfsort" from kernel command line', "parameter of the kernel"),
    ],
)
def test_messages_have_the_meaning_of_their_error(text, meaning):
    assert meaning in message_table("nccl").problem(text).meaning


def test_errors_of_cuda_in_other_programs_are_known(first):
    assert "fabric manager" in str(first(FABRIC_MANAGER).verdict)
    text = "Failed: Cuda error custom_all_reduce.cuh:307 'peer access is not supported between these two devices'\n"
    assert str(first(text).verdict).startswith("the run failed: direct copies between GPUs cannot be set up")


def test_a_missing_infiniband_card_is_no_cause_on_one_host(first):
    log = "n:1:2 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]\n"
    assert not first(log).findings
    several = "n:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0\n"
    assert "install rdma-core" in first(log + several).findings[0].remedy


def test_a_failed_card_after_which_tcp_is_used_is_no_failed_run(first):
    log = "n:1:2 [0] misc/ibvwrap.cc:212 NCCL WARN Call to ibv_open_device failed\n"
    assert str(first(log).verdict).startswith("the run failed")
    went_on = first(f"{log}n:1:2 [0] NCCL INFO Using network Socket\n")
    assert str(went_on.verdict).startswith("a fault is stated") and causes_of(went_on) == ["nccl_warning"]


def test_hops_before_nccl_2_6_are_read(first):
    log = "n:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0\n"
    found = first(f"{log}n:1:2 [0] NCCL INFO Ring 00 : 1 -> 0 [send] via NET/Socket/0\n")
    assert "tcp_between_nodes" in causes_of(found)


def test_another_provider_of_libfabric_than_efa_is_the_cause(first):
    log = host_log(network="AWS Libfabric", gpudirect=False)
    line = "node00:1:9 [0] NCCL INFO NET/OFI Selected Provider is {} (found 4 nics)\n"
    found = first(line.format("tcp;ofi_rxm") + log)
    assert causes_of(found) == ["libfabric_provider"] and "FI_PROVIDER=efa" in found.findings[0].remedy
    assert "libfabric_provider" not in causes_of(first(line.format("efa") + log))


def test_settings_are_compared_among_hosts_whose_lines_are_in_the_log(first):
    start = "{}:1:9 [0] NCCL INFO "
    variable = "NCCL_IB_DISABLE set by environment to 1\n"
    cut = f"{start.format('a')}{variable}{start.format('a')}Using network Socket\n"
    cut += f"{start.format('b')}NCCL_SOCKET_IFNAME set by environment to eth0\n"
    assert "host_differs_settings" not in causes_of(first(cut))


def test_a_disabled_port_next_to_an_active_one_of_its_card_is_no_fault(first):
    port = "CA 'mlx5_{0}'\n\tCA type: MT4129\n\tSystem image GUID: 0x1\n\tPort 1:\n\t\tState: {1}\n"
    port += "\t\tPhysical state: {2}\n\t\tRate: 200\n\t\tLink layer: Ethernet\n"
    found = first(port.format(0, "Active", "LinkUp") + port.format(1, "Down", "Disabled"))
    assert not found.findings and "another port of this card is active" in str(found.statements)
    assert causes_of(first(port.format(0, "Active", "LinkUp") + port.format(1, "Down", "Polling"))) == ["network_port"]


def test_nvlinks_that_nccl_does_not_use_are_a_fault(first):
    topology = matrix(groups((2, "NV4")), numa=[0, 0])
    log = debug_log(2, [0, 1], direct=False)
    found = first(topology, log, gpu="RTX 3090")
    assert "unused_links" in causes_of(found) and "normal for GeForce" not in str(found.findings)
    assert "unused_links" not in causes_of(first(topology, debug_log(2, [0, 1]), gpu="RTX 3090"))


def test_a_gpu_named_in_another_form_is_the_same(first):
    topology, log = (
        matrix(groups((2, "NV4")), numa=[0, 0]),
        nccl_tests("all_reduce", 2, {1 << 28: 6500.0}, "NVIDIA GeForce RTX 3090"),
    )
    for gpu in ("RTX 3090", "GeForce RTX 3090"):
        assert not str(first(topology, log, gpu=gpu).verdict).startswith("not supported")


def test_access_control_of_one_device_below_a_switch_is_no_cause(first):
    blocks = (
        "00:01.1 PCI bridge: Root Port\n\tBus: primary=00, secondary=01, subordinate=03, sec-latency=0\n"
        "\tCapabilities: [58] Express (v2) Root Port (Slot+)\n\tLnkCap: Port #0, Speed 16GT/s, Width x16\n\n"
        "01:00.0 PCI bridge: Switch\n\tBus: primary=01, secondary=02, subordinate=03, sec-latency=0\n"
        "\tCapabilities: [58] Express (v2) Upstream Port\n\tLnkCap: Port #0, Speed 16GT/s, Width x16\n\n"
        "02:00.0 PCI bridge: Switch\n\tBus: primary=02, secondary=03, subordinate=03, sec-latency=0\n"
        "\tCapabilities: [58] Express (v2) Downstream Port (Slot+)\n\tLnkCap: Port #0, Speed 16GT/s, Width x16\n"
        "\tACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n\n"
        "03:00.0 3D controller: NVIDIA Corporation GA102GL\n\tCapabilities: [78] Express (v2) Endpoint\n"
        "\tLnkCap: Port #0, Speed 16GT/s, Width x16\n"
    )
    other = blocks.replace("00:01.1", "40:01.1").replace("=00", "=40").replace("=01", "=41").replace("=02", "=42")
    other = other.replace("=03", "=43").replace("\n01:", "\n41:").replace("\n02:", "\n42:").replace("\n03:", "\n43:")
    found = first(f"{blocks}\n{other}")
    assert found.tree is not None and "access_control" not in causes_of(found)


def table(operation, ranks, columns, factor, in_place="0"):
    """Return a table that does not name its operation."""
    text = nccl_tests("all_reduce", ranks, {1 << 26: 900.0})
    rate = (1 << 26) / 900.0 / 1e3
    row = f"{1 << 26} {1 << 24} float {columns} 900.00 {rate:.2f} {rate * factor:.2f} 0 900.00 {rate:.2f} {rate * factor:.2f} {in_place}"
    kept = [line for line in text.splitlines() if line.startswith("#") and "starting" not in line]
    return "\n".join([*kept, row]) + "\n", operation


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        table(Operation.ALL_REDUCE, 4, "sum -1", 1.5),
        table(Operation.REDUCE_SCATTER, 4, "sum -1", 0.75),
        table(Operation.ALL_GATHER, 4, "none -1", 0.75),
        table(Operation.ALLTOALL, 4, "none -1", 0.75, "N/A"),
        table(Operation.SENDRECV, 4, "sum -1", 1.0, "N/A"),
        # Broadcast and reduce have a root and the factor of nothing.
        table(None, 4, "none 0", 1.0),
    ],
)
def test_the_operation_follows_from_factor_reduction_and_in_place_checks(text, operation):
    (found,) = facts_of_text(text).values(Quantity.COLLECTIVE)
    assert found.operation is operation


def test_a_cut_list_of_ranks_says_nothing_about_their_number():
    text = nccl_tests("all_gather", 4, {1 << 26: 900.0})
    ranks = [line for line in text.splitlines(keepends=True) if "Rank" in line]
    for line in ranks[1:]:
        text = text.replace(line, "")
    facts = facts_of_text(text)
    assert not facts.problems and facts.values(Quantity.COLLECTIVE)[0].ranks is None


def test_a_rate_below_all_public_ones_of_its_size_is_not_within(tmp_path):
    rows = [(1 << 33, (1 << 33) / 423e3 * 2 * 7 / 8)]
    log = nccl_tests_log(tmp_path / "run.log", rows, ranks=8, hosts=1)
    found = fc.diagnose(log)
    assert str(found.verdict).startswith("possibly slower than expected: ") and "below the slowest of them" in str(
        found.verdict
    )
    # 423 GB/s are below the 450 GB/s of the links.
    assert "above the NVLinks" not in str(found.notes)


def test_pairs_of_amd_gpus_without_access_are_a_fault(first):
    text = (
        "          RocmBandwidthTest Version: 2.6.0\n\n          Device: 0,  AMD EPYC 7542 32-Core Processor\n"
        "          Device: 1,  Radeon RX 7900 XTX,  GPU-XX,  83:0.0\n          Device: 2,  Radeon RX 7900 XTX,  GPU-XX,  03:0.0\n\n"
        "          Inter-Device Access\n\n          D/D       0         1         2\n\n          0         1         1         1\n\n"
        "          1         1         1         0\n\n          2         1         0         1\n\n"
        "          Unidirectional copy peak bandwidth GB/s\n\n          D/D       0           1           2\n\n"
        "          0         N/A         28.411      28.410\n\n          1         29.013      649.528     N/A\n\n"
        "          2         29.016      N/A         636.462\n\n"
    )
    found = first(text)
    assert causes_of(found) == ["no_peer_access"] and str(found.verdict).startswith("a fault is stated: 2 of 2 pairs")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!", "GPU reset begin"),
        ("i915 0000:03:00.0: [drm] GPU HANG: ecode 12:10:85def5fa, in python [14382]", "GPU HANG"),
        ("xe 0000:03:00.0: [drm] GT0: Engine reset: engine_class=ccs, logical_mask: 0x1", "Engine reset"),
    ],
)
def test_errors_of_amd_and_intel_gpus_in_the_kernel_log_are_faults(first, line, error):
    (found,) = first(f"[  812.104512] {line}\n").findings
    assert found.text == f"0000:03:00.0: error of its driver: {error}" and "nvidia" not in found.remedy


def test_missing_nvlinks_of_an_sxm_board_are_a_fault_and_no_error(first):
    found = first(matrix(groups((2, "SYS"))), gpu="A100 SXM4")
    assert causes_of(found) == ["missing_direct_links"]


def test_files_without_a_fault_say_so(first):
    listed = "".join(f"GPU {one}: NVIDIA H100 80GB HBM3 (UUID: GPU-{one})\n" for one in range(8))
    assert "no fault is stated" in str(first(listed).verdict)


def test_equal_states_of_several_gpus_are_one_finding(first):
    gpu = "GPU 00000000:{}:00.0\n    Product Name                          : NVIDIA H100 80GB HBM3\n"
    fabric = "    Fabric\n        State                             : In Progress\n"
    found = first("==NVSMI LOG==\n\n" + "".join(gpu.format(bus) + fabric for bus in ("18", "2a", "3a")))
    assert [one.text for one in found.findings] == ["GPUs 0, 1, 2: fabric state is In Progress: NVLink is not ready"]
    assert "fabric manager" in found.findings[0].remedy


def test_half_the_forecast_rate_has_its_usual_explanations(tmp_path):
    table = fc.cluster_collective(
        "hgx_h100", "all_reduce", sizes=[2.0**28, 2.0**30, 2.0**33], nodes=4, nic="8x400"
    ).table
    rows = list(zip(table["size_bytes"].astype(int), table["time_us"], strict=True))
    for factor, is_named in ((1.0, False), (2.0, True)):
        log = nccl_tests_log(tmp_path / "run.log", [(size, factor * time) for size, time in rows])
        assert any("one card (or its port) at half rate" in note for note in fc.diagnose(log).notes) == is_named


def test_shared_memory_that_a_setting_switches_off_is_named(first):
    log = debug_log(4, [0, 1, 2, 3], direct=False, env="NCCL_SHM_DISABLE set by environment to 1")
    found = first(log.replace("via SHM/direct/direct", "via NET/Socket/0"))
    assert found.findings[0].text.endswith("because NCCL_SHM_DISABLE=1 is set")
    assert found.findings[0].remedy == "unset NCCL_SHM_DISABLE"
