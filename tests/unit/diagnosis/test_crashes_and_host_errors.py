"""Runs that crash, in the words of several launchers, and errors of hosts that no fault may hide."""

import pytest

from fabricast.core.errors import InputError
from fabricast.core.facts import Quantity
from fabricast.sources.reading import facts_of_text

TABLE = "# OSU MPI Latency Test v7.3\n# Size  Latency (us)\n1  1.9\n8  1.9\n"
CLEAN = "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n"
BOOT = "[    0.000000] Linux version 6.8.0\n"


@pytest.mark.parametrize(
    "crash",
    [
        "prterun noticed that process rank 1 with PID 42 on node n2 exited on\nsignal 11 (Segmentation fault).\n",
        "mpiexec noticed that process rank 1 with PID 42 on node n2 exited on signal 11 (Segmentation fault).\n",
        "=   PID 12345 RUNNING AT node1\n=   EXIT CODE: 139\n",
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)\n",
        "[n1:1935046] *** Process received signal ***\n[n1:1935046] Signal: Segmentation fault (11)\n",
        "[1638:0:1638] Caught signal 11 (Segmentation fault: invalid permissions for mapped object)\n",
    ],
)
def test_crashes_of_several_launchers_are_named(first, crash):
    for text in (crash, TABLE + crash):
        verdict = str(first(text).verdict)
        assert verdict.startswith("the run failed: a process crashed (segmentation fault)"), text


def test_assertions_of_the_library_end_a_run(first):
    line = "Assertion failed in file src/mpid/ch4/mpidig_pt2pt_callbacks.c at line 243: data_sz <= SIZE\n"
    assert "an assertion of the MPI library failed" in str(first(TABLE + line).verdict)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ERROR:torch.distributed.elastic:failed (exitcode: -7) local_rank: 0 (pid: 1) of binary: python", "/dev/shm"),
        ("[n1:1:0:1] Caught signal 7 (Bus error: nonexistent physical address)", "/dev/shm"),
        ("[ERROR] [launch.py:324:sigkill_handler] ['python'] exits with return code = -9", "too little memory"),
        ("[rank3]:[E1] [Rank 3] Timeout at NCCL work: 32, last enqueued NCCL work: 32", "did not end in time"),
        ("[c10d] waitForInput: socket SocketImpl(fd=11) timed out after 900000ms", "did not come"),
        ("btl: tcp: Match incoming connection from [[2,1],1] 44.1.0.4 with locally known IP 2.2.2.77 failed", "NAT"),
        ("No PMIx server was reachable, but a PMI1/2 was detected.", "do not know each other"),
        (
            "[n1:17:0:17] cma_ep.c:88 process_vm_readv(pid=1 {0x1,6}-->{0x2,6}) returned -1: Bad address",
            "no host memory",
        ),
    ],
)
def test_ends_of_trainings_and_launchers_are_named(first, line, words):
    found = first(line + "\n")
    assert words in str(found.verdict)


def test_processes_that_a_launcher_ends_are_no_cause(first):
    crash = "=   KILLED BY SIGNAL: 11 (Segmentation fault)\n"
    killed = "=   KILLED BY SIGNAL: 9 (Killed)\n"
    assert "segmentation fault" in str(first(killed + crash).verdict)
    assert "by the launcher after another one failed" in str(first(killed).verdict)
    cancelled = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2024-05-01T10:00:00{} ***\n"
    task = "srun: error: n2: task 1: Exited with exit code 1\n"
    assert "a task ended with an error" in str(first(cancelled.format("") + task).verdict)
    assert "at its time limit" in str(first(task + cancelled.format(" DUE TO TIME LIMIT")).verdict)
    head = "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
    assert "at its time limit" in str(first(head + cancelled.format(" DUE TO TIME LIMIT")).verdict)
    memory = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.\n"
    )
    assert "too little memory" in str(first(memory).verdict)


def test_ranks_of_two_runs_and_ranges_of_cores_share_no_core():
    old = "[n1:{0}] MCW rank {1} bound to socket 0[core {1}[hwt 0]]: [B/.]\n"
    two_runs = old.format(1, 0) + old.format(1, 1) + old.format(2, 0) + old.format(2, 1)
    new = "[n1:1] Rank {} bound to package[0][core:0-15]\n"
    for text in (two_runs, new.format(0) + new.format(1)):
        assert not facts_of_text(text).values(Quantity.CAUSE)
    same = "[n1:1] Rank {} bound to package[0][core:3]\n"
    assert "the same core" in facts_of_text(same.format(0) + same.format(1)).values(Quantity.CAUSE)[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("mlx5_core 0000:41:00.0: poll_health:955:(pid 0): device's health compromised - reached miss count", "health"),
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", "uncorrected error of memory"),
        ("mce: [Hardware Error]: CPU 0: Machine Check Exception: 5 Bank 7: be00000000800400", "not corrected"),
        ("mlx5_core 0000:03:00.0: mlx5_load_one failed with error code -22", "mlx5_load_one failed"),
        (
            "amdgpu 0000:68:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB) detected!",
            "uncorrectable hardware error",
        ),
        ("Out of memory: Killed process 4242 (python) total-vm:1kB", "lack of memory"),
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:1]", "a processor hangs"),
        ("amdgpu 0000:1b:00.0: amdgpu: Fatal error during GPU init", "Fatal error during GPU init"),
        (
            "amdgpu 0000:9d:00.0: {1}socket: 6, die: 1, 1533 new correctable hardware errors detected in xgmi_wafl block",
            "1533 new correctable",
        ),
    ],
)
def test_errors_of_hosts_are_no_clean_state(first, line, words):
    verdict = str(first(f"{BOOT}[  103.000000] {line}\n").verdict)
    assert verdict.startswith("a fault is stated") and words in verdict


def test_events_of_the_firmware_name_their_device(first):
    event = (
        "[ 9.000000] {{{0}}}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 512\n"
        "[ 9.000001] {{{0}}}[Hardware Error]: event severity: {1}\n"
        "[ 9.000002] {{{0}}}[Hardware Error]:   section_type: PCIe error\n"
        "[ 9.000003] {{{0}}}[Hardware Error]:   device_id: 0000:20:03.1\n"
    )
    assert "corrected errors of its PCIe link (event 359" in str(first(event.format(359, "corrected")).verdict)
    assert "uncorrected errors" in str(first(event.format(1, "recoverable")).verdict)
    assert str(first(event.format(2, "corrected")).verdict).startswith("no fault is stated")


def test_corrected_errors_and_words_of_other_programs_are_no_fault(first):
    corrected = "[ 9.000000] mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 9: 8c000041000800c0\n"
    logged = "[ 9.000000] mce: [Hardware Error]: Machine check events logged\n[ 9.1] EDAC MC0: 1 CE on mc#0\n"
    assert str(first(BOOT + corrected + logged).verdict).startswith("no fault is stated")
    few = "[ 9.000000] amdgpu 0000:c1:00.0: 3 new correctable hardware errors detected in umc block\n"
    assert str(first(BOOT + few).verdict).startswith("no fault is stated")
    assert "50000 new" in str(first(BOOT + few + few.replace("3 new", "50000 new")).verdict)
    with pytest.raises(InputError, match="no known program"):
        first("MCE: 0 0 Machine Check exceptions\nEDAC mc1: 12 errors\n")


def test_an_iommu_that_a_machine_lacks_translates_nothing():
    lacks = "[    1.000000] AMD-Vi: AMD IOMMUv2 functionality not available on this system - This is not a bug.\n"
    default = "[    1.100000] iommu: Default domain type: Translated\n"
    assert not any("IOMMU" in note for note in facts_of_text(BOOT + default + lacks).values(Quantity.NOTE))


def test_no_fault_is_stated_only_if_every_file_was_read(first):
    assert str(first(CLEAN).verdict).startswith("no fault is stated")
    found = first(CLEAN, "job 7 of user a\nGPU 3 of node7 is dead\n")
    assert str(found.verdict).startswith("nothing could be judged") and "was not read" in str(found.verdict)


def test_hosts_with_fewer_devices_are_named_wherever_they_stand(first):
    gpus = "".join(f"{{}}: GPU {number}: NVIDIA H100 80GB HBM3 (UUID: GPU-{number})\n" for number in range(8))
    few = "".join(gpus.splitlines(keepends=True)[:7])
    for text in (
        few.replace("{}", "n1") + gpus.replace("{}", "n2"),
        gpus.replace("{}", "n1") + few.replace("{}", "n2"),
    ):
        assert "lists 7 GPUs" in str(first(text).verdict)


def test_inactive_links_of_a_whole_gpu_are_a_fault_on_boards_with_nvlink(first):
    other = "GPU 1: NVIDIA {0} (UUID: GPU-w)\n\t Link 0: 53.125 GB/s\n"
    dark = "GPU 2: NVIDIA {0} (UUID: GPU-x)\nNVML: Unable to retrieve NVLink information as all links are inActive\n"
    assert "all its NVLinks are inactive" in str(first((other + dark).format("B200")).verdict)
    # Bridges connect some cards only, and a machine with one GPU may be virtual.
    assert not first((other + dark).format("RTX A6000")).findings
    assert not first(dark.format("H100 80GB HBM3").replace("GPU 2", "GPU 0")).findings


def test_columns_that_dmon_lacks_are_no_clean_state(first):
    lacks = facts_of_text("# gpu pwr gtemp sm\n# Idx W C %\n 0 70 40 0\n").values(Quantity.NOTE)
    assert "no column shows throttling or errors" in lacks[0]
    rows = "# gpu pviol tviol sbecc dbecc pci\n# Idx % bool errs errs errs\n 0 0 0 0 {} 0\n 0 0 0 0 {} 0\n"
    assert not first(rows.format(2, 2)).findings
    assert "1 uncorrectable ECC errors since the first row" in str(first(rows.format(2, 3)).verdict)
    assert not first(rows.format(3, 0)).findings


def test_datagrams_and_tables_of_one_rank_have_no_expectation(first):
    udp = "[  5]   0.00-10.04  sec  1.25 MBytes  1.05 Mbits/sec  0.012 ms  0/906 (0%)  receiver\n"
    assert not facts_of_text(udp).values(Quantity.TCP_RATE)
    assert "over UDP" in facts_of_text(udp).values(Quantity.NOTE)[0]
    lost = udp.replace("0/906 (0%)", "453/906 (50%)")
    assert "50 % of the datagrams lost" in facts_of_text(lost).values(Quantity.NOTE)[0]
    head = "[ ID] Interval           Transfer     Bitrate         Total Datagrams\n"
    sender = head + "[  5]   0.00-1.00   sec   119 MBytes  1.00 Gbits/sec  86323\n"
    assert not facts_of_text(sender).values(Quantity.CAUSE)


def test_lists_of_ports_that_are_cut_state_no_health(first):
    cut = first("## Summary: 20 nodes checked, 3 bad nodes found\n")
    assert "counts 3 bad nodes, and the text lists 0" in str(cut.verdict)
    named = 'Errors for "MT4123 ConnectX6"\n   GUID 0x1 port 1: [LinkDownedCounter == 9]\n'
    whole = named + named.replace("0x1", "0x2") + "## Summary: 20 nodes checked, 2 bad nodes found\n"
    assert all(one.cause != "cut_counters" for one in first(whole).findings)
    discards = 'Errors for "node7 HCA-1"\n   GUID 0x1 port 1: [PortXmitDiscards == 90000]\n'
    assert "congestion" in first(discards).findings[0].remedy


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:455 'invalid argument'",
            "the all-reduce of vLLM failed",
        ),
        ("RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution", "uncorrectable error"),
        (
            (
                "h:1:1 [1] misc/shmutils.cc:136 NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl- "
                "(size 0), error: No such file or directory (2)"
            ),
            "of another rank is not there",
        ),
        ("what():  ibv_modify_qp failed (errno 19) (Ib failure: No such device)", "cannot be set up"),
    ],
)
def test_errors_of_libraries_are_named(first, line, words):
    assert words in str(first(line + "\n").verdict)


def test_rates_that_fall_with_the_size_are_named(first):
    head = "# OSU MPI Bandwidth Test v7.3\n# Size  Bandwidth (MB/s)\n"
    rates = {1 << 18: 15660.0, 1 << 19: 17616.0, 1 << 20: 8107.0, 1 << 22: 2726.0}
    found = first(head + "".join(f"{size}  {rate}\n" for size, rate in rates.items()))
    assert any("falls from 17.6 GB/s at 512 KiB to 2.73 GB/s at 4 MiB" in note for note in found.notes)
    steady = first(head + "".join(f"{size}  {max(rate, 9000.0)}\n" for size, rate in rates.items()))
    assert not any("falls" in note for note in steady.notes)


def test_latencies_of_files_that_end_early_are_compared(first):
    rows = "".join(f"{1 << power}  {{0}}\n" for power in range(23))
    head = "# OSU MPI Latency Test v7.3\n# Size  Latency (us)\n"
    short = head + "".join(f"{1 << power}  60.0\n" for power in range(13))
    found = first(head + rows.format(1.9), head + rows.format(1.95), short)
    assert str(found.verdict).startswith("slower than expected") and "last 60 us" in str(found.verdict)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 3 timed out 5376 ms",
            "a network interface stopped sending",
        ),
        (
            "r8125 0000:22:04.0 eth4: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5010 ms",
            "a network interface stopped sending",
        ),
        ("bnxt_en 0000:41:00.0 ens1: Firmware not responding", "the firmware of a network card does not answer"),
        (
            "pcieport 0000:80:01.0: DPC: containment event, status:0x1f01 source:0x0000",
            "a port of PCIe was switched off",
        ),
        ("zpci: 000d:00:00.0: Automatic recovery failed after slot reset", "from which it did not recover"),
        (
            "habanalabs 0000:33:00.0: hl0: Device is NOT usable, cannot be recovered",
            "an accelerator (Gaudi) is not usable",
        ),
        ("xe 0000:2b:00.0: [drm] Tile0: GT0: Timedout job: seqno=148, guc_id=0", "error of its driver: Timedout job"),
        ("NVRM: GPU0 _kgspRpcRecvPoll: GSP RM heartbeat timed out", "its system processor (GSP) does not answer"),
    ],
)
def test_errors_of_devices_in_the_kernel_log(first, line, words):
    log = "[    0.000000] Linux version 5.14.0-284.el9.x86_64\n"
    assert [words in one.text for one in first(f"{log}[ 512.300000] {line}\n").findings] == [True]
    assert not first(
        f"{log}mce: CPU1: Package temperature above threshold, cpu clock throttled (total events = 2)\n"
    ).findings


def test_xids_without_times_are_read(first):
    log = "NVRM: Xid (PCI:0019:01:00): 149, NETIR Fatal\nNVRM: Xid (PCI:0000:9b:00): 94, pid=1, Contained ECC error\n"
    assert ["Xid 149" in one.text or "Xid 94" in one.text for one in first(log).findings] == [True, True]


def test_failures_of_drivers_without_a_known_meaning_are_quoted(first):
    log = "[    0.000000] Linux version 5.14.0-284.el9.x86_64\n[    2.000000] {}\n"
    found = first(log.format("bnxt_en 0000:41:00.0 ens1: Error: hwrm_ring_alloc failed rc:-16"))
    assert "failures whose meaning is not known here" in str(found.verdict)
    assert "hwrm_ring_alloc failed" in " ".join(found.statements)
    assert "no fault is stated" in str(
        first(log.format("nvidia: module verification failed: signature missing")).verdict
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "[drm ERROR :amdgpu_job_timedout] ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3",
            "ring gfx_0.0.0 timeout",
        ),
        (
            '[XID found] (54 minutes ago) "NVRM: Xid (PCI:0000:9b:00): 119, pid=40, Timeout after 45s of waiting for RPC"',
            "0000:9b:00.0: its system processor (GSP) does not answer",
        ),
    ],
)
def test_errors_of_gpus_without_a_device_or_quoted(first, line, words):
    assert words in first(f"{line}\n").findings[0].text


def test_a_ring_that_times_out_precedes_the_reset_after_it(first):
    log = (
        "[ 100.1] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=1, emitted seq=3\n"
        "[ 100.2] amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!\n"
    )
    assert [one.text for one in first(log).findings] == ["0000:c1:00.0: error of its driver: ring sdma0 timeout"]


def test_names_of_uncorrected_errors_are_not_those_of_corrected_ones(first):
    port = "pcieport 0000:03:04.0: "
    log = (
        f"{port}PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)\n{port}   [ 6] Bad TLP\n"
        f"{port}PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)\n{port}   [ 5] SDES\n"
    )
    assert "1 corrected PCIe error (Bad TLP), fewer than 5" in " ".join(first(log).statements)


def test_a_link_that_was_lost_once_is_a_note(first):
    line = "[ {0}.5] mlx5_core 0000:3b:00.0 ens1: Link {1}\n"
    found = first(line.format(10, "down") + line.format(12, "up"))
    assert not found.findings and "lost its link once, and has it again" in " ".join(found.statements)


def test_a_processor_that_was_throttled_is_a_note(first):
    line = "[ 512.3] mce: CPU12: Package temperature above threshold, cpu clock throttled (total events = {})\n"
    found = first(line.format(1233) + line.format(1236))
    assert not found.findings and "CPU12 1,236 times" in " ".join(found.statements)


def test_errors_from_which_a_device_recovers_are_no_cause(first):
    port = "[ 512.300000] pcieport 0000:80:01.0: {}\n"
    event = port.format("DPC: containment event, status:0x1f01 source:0x0000")
    assert first(event).findings
    assert not first(event + port.format("AER: device recovery successful")).findings
    assert not first(
        "[ 5.1] cdc_ether 1-1:2.0 usb0: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5010 ms\n"
    ).findings
    boot = port.format(
        "DPC: error containment capabilities: Int Msg #0, RPExt+ PoisonedTLP+ SwTrigger+ RP PIO Log 4, DL_ActiveErr+"
    )
    assert "no fault is stated" in str(first(f"[ 0.0] Linux version 5.14\n{boot}").verdict)
