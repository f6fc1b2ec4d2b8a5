"""Modules of the kernel, services, containers and drivers of clusters, and pairs of hosts."""

import pytest

AT = "[55580.715174] "


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{AT}gdrdrv: disagrees about version of symbol nvidia_p2p_get_pages", "built for another driver or kernel"),
        (
            f"{AT}nvidia_fs: module using GPL-only symbols uses symbols nvidia_p2p_get_pages from proprietary module nvidia.",
            "with the proprietary modules",
        ),
        (f"{AT}mlx5_core 0000:61:00.0 eth0: TX timeout detected", "network card 0000:61:00.0 has a failure"),
        (
            "ibrc.cpp:nvshmemt_init:1851: neither nv_peer_mem, or nvidia_peermem detected. Skipping transport.",
            "NVSHMEM",
        ),
        ("ibgda.cpp:1889: NULL value cannot allocate mlx5dv_devx_uar", "DEVX"),
        ("Libfabric error: (-12) Cannot allocate memory", "EFA gets no locked memory"),
        ("slurmstepd: error: pyxis: [ERROR] Command not found: nvidia-container-cli", "lacks the tools"),
        ("pyxis: nvidia-container-cli: container error: file lookup failed: /x: permission denied", "may not be read"),
        ("libibverbs: Warning: Driver bnxt_re does not support the kernel ABI of 6 (supports 1 to 1)", "do not fit"),
        (" Unable to find the Infiniband/RoCE device", "no InfiniBand or RoCE card is registered"),
        ("sa_get_handle: No SM/SA found on port", "reaches no subnet manager"),
        ("unable to open GDR driver, is gdrdrv.ko loaded?", "GDRCopy cannot use its module"),
        ("PSM could not set up shared memory segment (err=9)", "PSM2 gets no shared memory"),
        ("IMEX daemon status is -3 (not READY)", "only NVLink domains of several hosts need"),
        ("Reason=gres/gpu count reported lower than configured (0 < 1)", "Slurm finds fewer GPUs"),
        ("Number of GPUs detected in the PCI tree 7 is not equal to the number of CUDA 8", "GPUDirect-TCPX"),
        ("Couldn't allocate MR with error=14", "cannot reach the memory of a GPU"),
        (
            "[CUDA_ERROR_NOT_PERMITTED] operation not permitted in expression cuMemCreate(&handle) on a, rank = 0",
            "cuMemC",
        ),
        ("interface version 530.30.02 don't match with driver version 530.41.03", "530.30.02 does not fit the driver"),
        ("1c:00.0 VGA compatible controller: NVIDIA Corporation TU102GL (rev ff)", "0000:1c:00.0: does not answer"),
        (
            "    Fabric\n        State    : Completed\n        Status    : Insufficient Resources",
            "Insufficient Resources",
        ),
    ],
)
def test_a_line_of_a_cluster_has_its_meaning(first, text, words):
    head = "nvbandwidth Version: v0.8\n" if "CUDA_ERROR" in text else ""
    assert words in first(f"{head}{text}\n").findings[0].text


def test_addresses_of_the_imex_service_are_a_cause_and_other_errors_no_clean_report(first):
    line = "[Mar 21 2025 20:45:38] [ERROR] [tid 39] {}\n"
    found = first("IMEX Log initializing\n" + line.format("No matching network interface found for any IP addresses"))
    assert "none of the addresses of its configuration" in found.findings[0].text
    other = first("IMEX Log initializing\n" + line.format("the flux capacitor is empty"))
    assert 'the IMEX service states: "the flux capacitor is empty"' in " ".join(map(str, other.statements))
    assert "no fault is stated" not in str(other.verdict)


def test_cards_that_answer_are_no_fault(first):
    line = "1c:00.0 VGA compatible controller: NVIDIA Corporation TU102GL (rev {})\n"
    assert [one.device for one in first(line.format("ff") + line.replace("1c", "1d").format("a1")).findings] == [
        "0000:1c:00.0"
    ]


PAIRS = "all_reduce_perf, busbw of two hosts\nnode644,node699 49.36\nnode632,node641 88.36\nnode284,node678 {}\nnode641,node644 49.30\nnode404,node699 86.81\n"


def test_the_host_of_all_slow_pairs_is_slow(first):
    found = first(PAIRS.format(87.1))
    assert [one.cause for one in found.findings] == ["slow_host"]
    assert found.findings[0].text.startswith("every pair with node644 is slow (49.3 to 49.36)")
    assert "pairs of other hosts reach 86.81 to 88.36" in found.findings[0].text


def test_a_slow_pair_of_two_unknown_hosts_is_a_question(first):
    found = first(PAIRS.format(49.28))
    assert "pairs that no slow host explains: node284 and node678" in " ".join(map(str, found.statements))


def test_equal_pairs_have_no_slow_host(first):
    assert not first(PAIRS.replace("49.36", "87.0").replace("49.30", "87.2").format(87.1)).findings


def test_a_log_that_ends_without_cards_asks_for_them(first):
    log = "a:1:1 [0] NCCL INFO NET/IB : No device found.\na:1:1 [0] NCCL INFO Using network Socket\n"
    hop = "a:1:1 [0] NCCL INFO comm 0x7f rank 0 nranks 16 cudaDev 0 busId 7000 - Init START\n"
    assert "no InfiniBand or RoCE card" in str(first(log + hop).verdict)


def test_results_that_are_printed_twice_are_of_processes_without_mpi(first):
    result = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 3.94145\n#\n"
    found = first(f"mpirun -H a,b -np 2 ./all_reduce_perf -b 8 -e 128M -f 2 -g 2\n{result}{result}")
    assert [one.cause for one in found.findings] == ["no_mpi"]
    heading = "# nThread 1 nGpus 8 minBytes 1073741824 maxBytes 8589934592 step: 2(factor)\n#\n# Using devices\n"
    ranks = "#  Rank  0 Group  0 Pid    798 on       hw14 device  0 [0x0f] NVIDIA H800\n"
    assert "no_mpi" in [one.cause for one in first(heading + heading + ranks).findings]
    # Two runs, one after the other.
    assert "no_mpi" not in [one.cause for one in first(heading + ranks + result + heading + ranks + result).findings]
