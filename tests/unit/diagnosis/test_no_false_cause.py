"""Texts that resemble faults: advice, healthy output, other tables. None of them states a cause."""

import pytest

HANG = "The job hangs at the first all_reduce.\n"
AT = "[    8.000000] "
SHM = "Filesystem      Size  Used Avail Use% Mounted on\nshm  64M   0   64M   0% /dev/shm\n"


@pytest.mark.parametrize(
    "sentence",
    [
        "If it hangs, set NCCL_P2P_DISABLE=1 as a workaround.",
        "Fixed a hang with NCCL_NVLS_ENABLE=0.",
        "The crash occurs only when NCCL_P2P_DISABLE=1 is set, without it the job finishes.",
        "When NCCL_P2P_DISABLE=1 is passed, the crash appears.",
        "With NCCL_P2P_DISABLE=1 the job crashed after it successfully finished 3 steps.",
    ],
)
def test_advice_and_the_opposite_are_no_cure(causes_of_text, sentence):
    assert "cured_by_setting" not in causes_of_text(HANG + sentence + "\n")


def test_a_run_without_a_failure_is_not_cured(causes_of_text):
    assert not causes_of_text("INFO launching with NCCL_P2P_DISABLE=1, completes in 3 minutes, 0 errors\n")


@pytest.mark.parametrize(
    ("before", "row"),
    [
        ("rates of the training in GB/s\n", "epoch{} step10{}: {}\n"),
        ("latency of all_reduce in us\n", "node{} node1{} {}\n"),
        ("", "node{} node1{} {}\n"),
        ("capacity in GB/s\n", "leaf{} spine1{} {}\n"),
        ("GB/s\n", "gpu{} gpu1{} {}\n"),
    ],
)
def test_other_tables_of_two_names_are_no_rates_of_hosts(causes_of_text, before, row):
    rows = [row.format(3 if one < 3 else one, one, 1.0 if one < 3 else 9.8) for one in range(9)]
    assert not causes_of_text(before + "".join(rows))


def test_many_pairs_of_hosts_have_one_slow_host(first):
    rows = [f"n{one} n{other} {4 if 7 in (one, other) else 9}\n" for one in range(200) for other in range(one)]
    found = first(f"busbw in GB/s\n{''.join(rows)}").findings
    assert [one.text.partition(" is slow")[0] for one in found] == ["every pair with n7"]


def test_the_usual_size_of_shared_memory_is_no_failure(first):
    found = first(SHM)
    assert str(found.verdict).startswith("nothing could be judged: shared memory (/dev/shm) has 64 MiB")


@pytest.mark.parametrize(
    ("heading", "row", "words"),
    [
        ("Filesystem     1M-blocks  Used Available Use% Mounted on", "tmpfs 32172 0 32172 0% /dev/shm", "31.42 GiB"),
        (
            "Filesystem      1B-blocks  Used Avail Use% Mounted on",
            "tmpfs 33734864896 0 33734864896 0% /dev/shm",
            "31.42",
        ),
        ("Filesystem     Type   Size  Used Avail Use% Mounted on", "tmpfs tmpfs 32G 0 32G 0% /dev/shm", "32 GiB"),
    ],
)
def test_the_heading_of_df_has_the_unit(first, heading, row, words):
    found = first(f"{heading}\n{row}\n")
    assert not found.findings
    assert words in " ".join(map(str, found.statements))


def test_inodes_are_no_size(causes_of_text):
    table = "Filesystem     Inodes IUsed IFree IUse% Mounted on\ntmpfs 823632 1 823631 1% /dev/shm\n"
    assert not causes_of_text(table)


def test_copies_within_a_host_are_no_transport_of_cards(causes_of_text):
    transport = "#      Transport: {}\n#         Device: {}\n"
    text = transport.format("self", "memory") + transport.format("tcp", "eth0") + transport.format("cma", "memory")
    assert causes_of_text(text) == ["no_card_transport"]
    cards = text + transport.format("rc_mlx5", "mlx5_0:1") + transport.format("ud_mlx5", "mlx5_1:1")
    assert not causes_of_text(f"{cards}#\n# < failed to open interface >\n")


@pytest.mark.parametrize(
    "text",
    [
        "nvidia-container-cli: version 1.14.3\n",
        "nvidia-container-cli: /usr/bin/nvidia-container-cli\n",
        f'{AT}ptrace attach of "python"[1] was attempted by "py-spy"[2]\n',
        "If you see 'CUDA error: invalid device ordinal', count the GPUs.\n",
        "import torch\n# RuntimeError: CUDA error: invalid device ordinal\n",
        "without --ipc=host, workers are out of shared memory, so add it\n",
        "Expected 8 threads to join the rendezvous, but not all of them arrived on time.\nThread is unstuck!\n",
        f"{AT}RIP: 0010:dc_stream_set_cursor+0x1/0x2 [amdgpu]\n",
        f"{AT}EDAC amd64: MC: 0: UE interrupts enabled\n",
        f"{AT}pci 0000:05:01.0: bridge window [mem size 0x40000000 64bit pref]: can't assign; no space\n",
        "01:00.0 3D controller: NVIDIA Corporation GP107M [GeForce GTX 1050 Mobile] (rev ff)\n",
        "41:00.0 Non-Volatile memory controller: Samsung NVMe SSD (rev ff)\n",
        (
            "nvidia-fabricmanager.service - NVIDIA fabric manager service\n     Active: active (running) since Mon\n"
            "nvidia-fabricmanager.service: Failed with result 'exit-code'.\n"
        ),
        "if `Failed to start NVIDIA fabric manager` appears, see the log\n",
        "Duplicate GPU detected : rank 0 and ... means that two processes use one GPU\n",
        (
            "a:1:1 [0] NCCL INFO Call to connect returned No route to host, retrying\n"
            "a:1:1 [0] NCCL INFO Connected all rings\n"
        ),
    ],
)
def test_a_text_that_resembles_a_fault_states_none(causes_of_text, text):
    assert not causes_of_text(text)


def test_a_warning_of_the_libraries_of_cards_is_no_failed_run(first):
    warning = "libibverbs: Warning: Driver hfi1verbs does not support the kernel ABI of 6 (supports 4 to 5)\n"
    assert "failed" not in str(
        first(f"{warning}# OSU MPI Latency Test v5.9\n# Size   Latency (us)\n8      1.75\n").verdict
    )


def test_lines_behind_the_missing_ranks_are_no_ranks(first):
    text = "Missing ranks:\n0: [allreduce.a, allreduce.b ...]\nEpoch 1 finished\n1: [rank1] step 100\n"
    (found,) = first(text).findings
    assert "rank 0 does not call" in found.text


def test_the_part_that_differs_between_ranks_is_named(first):
    call = "CollectiveFingerPrint(SequenceNumber=1, OpType=ALLREDUCE, TensorShape=[4], TensorDtypes={}, x)"
    text = (
        "Detected mismatch between collectives on ranks. "
        f"Rank 0 is running collective: {call.format('Float')}, but Rank 1 is running collective: {call.format('Half')}\n"
    )
    assert "ALLREDUCE has numbers of type Float on rank 0, and Half on rank 1" in first(text).findings[0].text


def test_old_errors_end_with_a_boot(causes_of_text):
    error = f"{AT}watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [python:1]\n"
    assert causes_of_text(error)
    assert not causes_of_text(f"{error}{AT}Linux version 5.15.0\n{AT}mlx5_core 0000:01:00.0: firmware version: 1.2\n")


@pytest.mark.parametrize(("requests", "is_fault"), [(10**8, False), (10**5, True)])
def test_losses_are_a_share_of_the_packets(causes_of_text, requests, is_fault):
    path = "/sys/class/infiniband/mlx5_0/ports/1/hw_counters"
    text = f"{path}/out_of_sequence:1200\n{path}/rx_write_requests:{requests}\n"
    assert bool(causes_of_text(text)) is is_fault
    # Nothing grew between two prints.
    assert not causes_of_text(text + text)


def test_a_processor_with_graphics_is_no_gpu_beside_cards(first):
    text = (
        "RocmBandwidthTest Version: 2.6.0\n\nDevice: 0,  AMD Ryzen 7 5700G with Radeon Graphics\n"
        "Device: 1,  Radeon RX 7900 XTX,  GPU-1,  03:0.0\n\nUnidirectional copy peak bandwidth GB/s\n\n"
        "D/D       0           1\n\n0         N/A         25.1\n\n1         25.2        800.0\n"
    )
    assert "several models" not in str(first(text).verdict)


def test_small_or_pageable_copies_say_little_about_a_link(first):
    row = "bandwidthTest-H2D-{}, Bandwidth = {} GB/s, Time = 0.1 s, Size = {} bytes, NumDevsUsed = 1\n"
    for text in (row.format("Paged", 6.1, 33554432), row.format("Pinned", 1.2, 2048)):
        found = first(f"[CUDA Bandwidth Test] - Starting...\nDevice 0: NVIDIA A100\n{text}")
        assert not found.findings


def test_names_and_files_of_a_plugin_are_not_compared(causes_of_text):
    head = "{0}:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.{1}<0>\n{0}:1:1 [0] NCCL INFO NET/Plugin: {2}\n"
    text = head.format("h1", 1, "Loaded net plugin NCCL RDMA Plugin (v8)") + (
        "h2:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>\n"
        "h2:1:1 [0] NCCL INFO Plugin Path : /opt/lib/libnccl-net.so\n"
    )
    assert "host_differs_plugin" not in causes_of_text(text)


def test_a_limited_stream_does_not_stall(causes_of_text):
    row = "[  5]   {}.00-{}.00   sec  {}  {}    {}    64.0 KBytes\n"
    rows = [row.format(0, 1, "128 KBytes", "1.05 Mbits/sec", 0)]
    rows += [row.format(one, one + 1, "0.00 Bytes", "0.00 bits/sec", 0) for one in range(1, 9)]
    text = f"Connecting to host a, port 5201\n[ ID] Interval  Transfer  Bitrate  Retr  Cwnd\n{''.join(rows)}"
    assert "stalled_stream" not in causes_of_text(text)


@pytest.mark.parametrize(
    "text",
    [
        f"RuntimeError: DataLoader worker (pid 5) is killed by signal: Bus error.\n{SHM.replace('0%', '99%')}",
        "help-mpi-btl-tcp.txt: Too many open files\n[Errno 24] Too many open files: 'a'\n",
        (
            f"slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some of the step tasks have been OOM Killed.\n"
            f"{AT}Memory cgroup out of memory: Killed process 5 (python)\n"
        ),
    ],
)
def test_one_fact_in_the_words_of_two_programs_is_one_cause(causes_of_text, text):
    assert len(causes_of_text(text)) == 1
