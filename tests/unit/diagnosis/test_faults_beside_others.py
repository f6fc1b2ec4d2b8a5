"""Faults that stand beside boots, other services, advice, other hosts and unusual names."""

import pytest

import fabricast as fc

AT = "[    8.000000] "
SLOG = "Nov 24 10:00:00 {} kernel: {}\n"


def test_an_error_of_memory_is_the_reason_of_a_boot(first):
    error = f"{AT}EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0)\n"
    assert "an uncorrected error of memory" in first(f"{error}{AT}Linux version 6.1.0\n").findings[0].text


def test_a_boot_of_another_host_ends_no_error(causes_of_text):
    lockup = "watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [python:1]"
    assert causes_of_text(SLOG.format("n1", lockup) + SLOG.format("n2", "Linux version 6.1.0"))
    assert not causes_of_text(SLOG.format("n1", lockup) + SLOG.format("n1", "Linux version 6.1.0") + "\n")


def test_memory_of_a_gpu_and_of_its_host_are_two_facts(causes_of_text):
    host = f"{AT}Out of memory: Killed process 5 (python) total-vm:1kB\n"
    assert "host_error" in causes_of_text(
        f"{host}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
    )


def test_files_of_two_hosts_keep_their_causes(tmp_path):
    for name in ("n1.txt", "n2.txt"):
        (tmp_path / name).write_text(f"{AT}Out of memory: Killed process 5 (python) total-vm:1kB\n")
    found = fc.diagnose([str(tmp_path / "n1.txt"), str(tmp_path / "n2.txt")])
    assert len({one.origin.rpartition(":")[0] for one in found.findings}) == 2


def test_another_service_that_runs_is_no_fabric_manager(causes_of_text):
    text = (
        "● nvidia-persistenced.service - NVIDIA Persistence Daemon\n     Active: active (running) since Mon\n"
        "● nvidia-fabricmanager.service - NVIDIA fabric manager service\n     Active: failed (Result: exit-code)\n"
        "systemd[1]: Failed to start NVIDIA fabric manager service.\n"
    )
    assert causes_of_text(text) == ["fabric_manager_service"]


def test_an_error_may_give_advice_behind_its_words(causes_of_text):
    line = (
        "RuntimeError: Your module has parameters that were not used in producing loss. If you already have done this"
    )
    assert causes_of_text(f"{line}\n") == ["unused_parameters"]


def test_timeouts_count_whatever_the_number_of_packets(causes_of_text):
    path = "/sys/class/infiniband/mlx5_0/ports/1"
    text = f"{path}/counters/port_rcv_packets:9999999999\n{path}/hw_counters/local_ack_timeout_err:500000\n"
    assert causes_of_text(text) == ["network_port"]


@pytest.mark.parametrize("name", ["gpu-{:03}", "gpunode{:02}", "node{:02}.us.example.com"])
def test_names_of_hosts_are_known(causes_of_text, name):
    rows = [f"{name.format(one)} {name.format(one + 1)} {4 if 7 in (one, one + 1) else 9}\n" for one in range(12)]
    assert causes_of_text(f"busbw in GB/s (runs of 5 ms each)\n{''.join(rows)}") == ["slow_host"]


def test_a_switch_of_nvlinks_that_does_not_answer_is_a_fault(causes_of_text):
    assert causes_of_text("05:00.0 Bridge: NVIDIA Corporation GH100 [H100 NVSwitch] (rev ff)\n") == ["gpu_errors"]
    assert not causes_of_text("01:00.0 3D controller: NVIDIA Corporation TU117M [GeForce GTX 1650 Ti] (rev ff)\n")


def test_an_interface_of_ethernet_that_is_down_is_a_port_that_is_down(causes_of_text):
    assert causes_of_text("mlx5_1 port 1 ==> ens2np0 (Down)\n") == ["network_port"]


@pytest.mark.parametrize(
    "text",
    [
        "If a receive buffer is too small, MPI_ERR_TRUNCATE: message truncated is reported by MPI_Recv.\n",
        '  return "MPI_ERR_TRUNCATE: message truncated";\n',
        "libibverbs: Warning: couldn't load driver 'libvmw_pvrdma-rdmav34.so': no such file\n",
    ],
)
def test_words_about_errors_of_mpi_are_none(causes_of_text, text):
    assert not causes_of_text(text)


@pytest.mark.parametrize("title", ["# OSU MPI Multi Latency Test v5.9", "# OSU MPI-CUDA Latency Test D-D v7.2"])
def test_several_pairs_and_gpus_are_no_single_message_of_a_port(first, title):
    port = (
        "CA 'mlx5_0'\n    CA type: MT4129\n    Number of ports: 1\n    Port 1:\n        State: Active\n"
        "        Physical state: LinkUp\n        Rate: 200\n        Link layer: InfiniBand\n"
    )
    found = first(f"{title}\n# Size          Latency (us)\n8   2.0\n4194304   760.0\n", port)
    assert "below_port_rate" not in [one.cause for one in found.findings]


@pytest.mark.parametrize(
    "sentence",
    [
        "Removing NCCL_P2P_DISABLE=1 fixes it.",
        "Unsetting NCCL_IB_DISABLE=1 resolved it.",
        "The job hangs when NCCL_P2P_DISABLE=1 is set; it works by default.",
        "Setting NCCL_P2P_DISABLE=1 avoids direct copies between GPUs.",
        "Release notes 2.19: Fixed a hang with NCCL_P2P_DISABLE=1.",
        "NCCL_P2P_DISABLE=1 works around ACS at lower rates.",
        "We set NCCL_IB_DISABLE=1 because there is no InfiniBand, and all_reduce_perf works there.",
    ],
)
def test_more_sentences_are_no_cure(causes_of_text, sentence):
    assert "cured_by_setting" not in causes_of_text(f"The job hangs.\n{sentence}\n")


@pytest.mark.parametrize(
    "sentence",
    [
        "It works only when I set NCCL_P2P_DISABLE=1.",
        "NCCL_P2P_DISABLE=1 works, without it the run times out.",
        "NCCL_P2P_DISABLE=1 is a known workaround and it works for us.",
        "The hang disappears with NCCL_P2P_DISABLE=1.",
    ],
)
def test_more_sentences_are_cures(causes_of_text, sentence):
    assert "cured_by_setting" in causes_of_text(f"The job hangs.\n{sentence}\n")


def test_full_shared_memory_beside_results_is_no_cause(causes_of_text):
    shm = "Filesystem      Size  Used Avail Use% Mounted on\nshm  64G   64G   0   100% /dev/shm\n"
    assert causes_of_text(shm) == ["full_shared_memory"]
    assert not causes_of_text(f"{shm}# OSU MPI Latency Test v7.3\n# Size   Latency (us)\n8      1.75\n64     1.80\n")


PORT = "CA 'mlx5_{}'\n    CA type: MT4129\n    Port 1:\n        State: {}\n        Physical state: {}\n        Rate: {}\n        Link layer: {}\n"


def test_a_disabled_port_does_not_make_messages_slow(first):
    ports = (
        PORT.format(0, "Active", "LinkUp", 200, "InfiniBand")
        + PORT.format(1, "Down", "Disabled", 10, "InfiniBand")
        + PORT.format(2, "Active", "LinkUp", 25, "Ethernet")
    )
    table = "# OSU MPI Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n1048576     24100.0\n4194304     24400.0\n"
    assert "slower" not in str(first(ports, table).verdict)


def test_late_messages_and_low_rates_over_tcp_are_one_cause(first):
    table = "# OSU MPI {} Test v7.3\n# Size      {}\n{}\n"
    latency = table.format("Latency", "Latency (us)", "1     27.97\n4194304     3466.0")
    rate = table.format("Bandwidth", "Bandwidth (MB/s)", "1048576     1150.0\n4194304     1150.0")
    found = first(latency, rate, PORT.format(0, "Active", "LinkUp", 200, "InfiniBand"))
    assert [one.cause for one in found.findings] == ["messages_over_tcp"]
    assert not found.has_causes


def test_direct_copies_that_the_driver_forbids_are_noted(first):
    topology = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPHB\t0-15\t0\nGPU1\tPHB\t X \t0-15\t0\n"
    log = (
        "a:1:1 [0] NCCL INFO NCCL version 2.20.5+cuda12.4\n"
        "a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via {}\na:1:1 [0] NCCL INFO Connected all rings\n"
    )
    words = "NCCL copies directly between GPUs (P2P)"
    assert words in " ".join(first(topology, log.format("P2P/CUMEM"), gpu="RTX 4090").notes)
    assert words not in " ".join(first(topology, log.format("SHM/direct/direct"), gpu="RTX 4090").notes)
    assert words not in " ".join(first(topology, log.format("P2P/CUMEM"), gpu="L40S").notes)


def test_two_tables_without_numbers_of_processes_may_be_of_different_jobs(first):
    table = "# OSU MPI Allreduce Latency Test v7.3\n# Size       Avg Latency(us)\n{}\n"
    rows = [
        "\n".join(f"{2**power}    {factor * (10 + 2**power / 1e4):.2f}" for power in range(3, 16)) for factor in (1, 5)
    ]
    found = first(*map(table.format, rows))
    assert str(found.verdict).startswith("possibly slower than expected")
    assert "state no number of processes" in found.findings[0].text
