"""Tables whose total, command or title a reader has to derive."""

import pytest

import fabricast as fc
from tests.unit.diagnosis.pasted import words

INTERVALS = (
    "Connecting to host 10.0.0.1, port 5201\n"
    "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n"
    "[  5]   0.00-1.00   sec  1.09 GBytes  9.37 Gbits/sec   14   1.24 MBytes\n"
    "[  5]   1.00-2.00   sec  1.04 GBytes  8.94 Gbits/sec  1438   1.02 MBytes\n"
    "[  5]   2.00-3.00   sec  1.09 GBytes  9.41 Gbits/sec   43   1.90 MBytes\n"
)


def test_segments_of_all_intervals_count_without_a_summary(answer):
    assert "1,495 segments" in words(answer(INTERVALS))


def test_summary_of_the_sender_counts_where_it_is_printed(answer):
    summary = "[  5]   0.00-3.00   sec  3.22 GBytes  9.24 Gbits/sec  1495             sender\n"
    assert "1,495 segments" in words(answer(INTERVALS + summary))


@pytest.mark.parametrize(("total", "name"), [("18g", "fi_bw"), ("37g", "fi_pingpong")])
def test_fabtests_table_without_a_command_is_a_rate_where_nothing_is_answered(tmp_path, total, name):
    rows = "bytes   iters   total       time     MB/sec    usec/xfer   Mxfers/sec\n"
    paths = [tmp_path / "a.out", tmp_path / "b.out"]
    paths[0].write_text(f"{rows}95m     200     {total}         1.27s  15763.98    6343.58       0.00\n")
    paths[1].write_text(f"{rows}95m     200     {total}         2.17s   9206.71   10861.64       0.00\n")
    found = fc.diagnose(*paths)
    assert f"messages of {name} of 95 MiB" in found.findings[0].text and "-I 1000" not in words(found)


def test_two_outputs_of_nearly_one_length_are_two_tests(answer):
    rows = [("10.0083", "92.5", "87.2"), ("10.0012", "72.1", "61.9")]
    lines = [f"[SUM] 0.0000-{end} sec  {size} GBytes  {rate} Gbits/sec\n" for end, size, rate in rows]
    found = words(answer("Expected\n".join(["", *lines])))
    assert "87.2 Gbit/s for 10.0083 s" in found and "61.9 Gbit/s for 10.0012 s" in found


TABLE = (
    "# Datatype: MPI_CHAR.\n# Size       Avg Latency(us)\n1                      21.80\n2      21.94\n4      22.01\n"
)


@pytest.mark.parametrize("kind", ["CUDA", "ROCM"])
def test_title_of_osu_states_buffers_in_gpu_memory(answer, kind):
    found = words(answer(f"# OSU MPI-{kind} Latency Test v7.5\n{TABLE}"))
    assert "buffers in GPU memory" in found and "over TCP" not in found


def test_title_without_gpus_is_of_host_memory(answer):
    assert "buffers in GPU memory" not in words(answer(f"# OSU MPI Latency Test v7.5\n{TABLE}"))


def test_command_with_host_buffers_decides_over_the_title(answer):
    found = words(answer(f"$ srun -n2 osu_latency -d cuda H H\n# OSU MPI-CUDA Latency Test v7.5\n{TABLE}"))
    assert "buffers in GPU memory" not in found


def test_port_without_a_link_is_an_empty_slot(answer):
    found = words(
        answer(
            "LnkCap: Port #1, Speed 8GT/s, Width x4, ASPM L1\n"
            "LnkSta: Speed 2.5GT/s, Width x0, TrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-\n"
        )
    )
    assert "as that of an empty slot" in found and "idle" not in found


def test_service_for_states_and_missing_virtual_memory_are_no_causes(answer):
    found = answer(
        "A800:6801:6839 [1] ras/client_support.cc:159 NCCL WARN Call to bind failed: Address already in use\n"
        "A800:6801:6839 [1] NCCL WARN cuMem support requires VMM RDMA support\n"
        "A800:6801:6839 [1] NCCL INFO Using network Socket\n"
    )
    assert not found.findings


def test_reason_below_a_broken_line_of_ucx_is_read(answer):
    found = answer(
        "ib_md.c:282  UCX  ERROR ibv_reg_mr(address=0x320000000, length=1024,\n"
        "                access=0x10000f) failed: Bad address\n"
        "ucp_mm.c:76  UCX  ERROR failed to register address 0x320000000 (host)\n"
    )
    assert "cannot reach the memory of a GPU" in found.findings[0].text
    assert "ulimit" not in words(found)


def test_summary_of_torchrun_follows_the_error_of_nccl(answer):
    found = answer(
        "[rank3]:[E ProcessGroupNCCL.cpp:523] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)\n"
        "Root Cause (first observed failure):\n[0]:\n  exitcode  : -6 (pid: 4242)\n"
    )
    assert "did not end in time" in found.findings[0].text and "torchrun" in found.findings[-1].text


def test_error_of_cuda_above_the_summary_of_torchrun_is_the_cause(answer):
    found = answer("RuntimeError: CUDA error: out of memory\nRoot Cause (first observed failure):\n[0]:\n")
    assert "the memory of a GPU is full" in found.findings[0].text


def test_dump_of_a_processor_belongs_to_the_gpu_with_its_error(answer):
    dump = "[ 1.0] NVRM: kflcnCoreDump_TU102: FALCON register dump\n"
    error = "[ 1.1] NVRM: Xid (PCI:0000:41:00): 119, pid=1, name=python, Timeout after 6s of waiting for RPC response\n"
    assert [one.text.partition(":  ")[0][:12] for one in answer(dump + error).findings] == ["0000:41:00.0"]
    assert "a GPU: " in answer(dump).findings[0].text


@pytest.mark.parametrize("device", [1, 12])
@pytest.mark.parametrize("ending", ["is available.", "is enabled.", "was enabled already"])
def test_peer_access_that_is_granted_is_not_refused(answer, device, ending):
    with pytest.raises(fc.InputError):
        answer(f"[TensorRT-LLM][WARNING] Device 0 peer access Device {device} {ending}\n")


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [("Invalid argument", "does not fit the driver"), ("Operation not permitted", "cannot be loaded")],
)
def test_module_for_memory_of_gpus_is_refused_for_several_reasons(answer, reason, meaning):
    found = answer(f"modprobe: ERROR: could not insert 'nvidia_peermem': {reason}\n")
    assert f"the module nvidia-peermem {meaning}" in found.findings[0].text


def test_error_of_cuda_that_a_program_catches_is_no_failure(answer):
    with pytest.raises(fc.InputError):
        answer("WARNING: caught RuntimeError: CUDA error: out of memory, retrying with batch 8\ntraining finished\n")


def test_streams_of_iperf_are_no_tests_beside_their_sum(answer):
    rows = "".join(
        f"[  {stream}]   0.00-2.0{end}   sec  {size} GBytes  {rate} Gbits/sec    {again}\n"
        for stream, size, rate in ((5, "11.5", "49.4"), (7, "11.5", "49.4"), ("SUM", "23.0", "98.8"))
        for end, again in ((0, "3             sender"), (4, "              receiver"))
    ).replace("[  SUM]", "[SUM]")
    found = answer(f"Connecting to host 10.0.0.2, port 5201\n{rows}")
    assert not found.findings and "98.8 Gbit/s" in words(found)


def test_card_that_psm3_cannot_open_does_not_end_a_run_with_results(answer):
    found = answer(f"n1:rank5: PSM3 can't open nic unit: 1 (err=23)\n# OSU MPI Latency Test v7.0\n{TABLE}")
    assert "the run has results after the error" in words(found)


def test_quoted_error_of_mpi_is_no_error(answer):
    with pytest.raises(fc.InputError):
        answer('The FAQ says: "*** An error occurred in MPI_Init_thread" appears if PMIx is missing.\n')


def test_paths_over_pcie_that_a_program_does_not_print_are_not_stated(answer):
    table = "GPU0 GPU1\nGPU0 0 PCIE\nGPU1 PCIE 0\n"
    title = "========================== Link Type between two GPUs ==========================\n"
    found = [str(one) for one in answer(title + table).statements]
    assert any("2 GPUs, whose copies pass over PCIe" in one for one in found) and "SYS" not in " ".join(found)


HOST_COPIES = (
    " Device 0: {gpu}\n Quick Mode\n\n Host to Device Bandwidth, 1 Device(s)\n PINNED Memory Transfers\n"
    "   Transfer Size (Bytes)\tBandwidth(GB/s)\n   32000000\t\t\t{rate}\n\nResult = PASS\n"
)


@pytest.mark.parametrize(("rate", "is_other"), [("67.1", True), ("12.4", False)])
def test_copies_faster_than_their_link_pass_over_another_one(answer, rate, is_other):
    found = answer(HOST_COPIES.format(gpu="Tesla V100-SXM2-16GB", rate=rate))
    assert ("they pass over another link" in words(found)) is is_other
    assert (found.verdict.kind == "within the expected range") is not is_other


RANKS = (
    "# nThread 1 nGpus 1 minBytes 134217728 maxBytes 134217728 step: 2(factor) warmup iters: 10 iters: 50\n"
    "#  Rank  0 Group  0 Pid 2994447 on        lab device  0 [0000:02:00] NVIDIA GeForce RTX 5090{mig}\n"
    "#  Rank  1 Group  0 Pid 2994448 on        lab device  {device} [0000:0{bus}:00] NVIDIA GeForce RTX 5090{mig}\n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong\n"
    "   134217728      33554432     float     sum      -1  58479.5    2.30    2.30       0\n"
)


@pytest.mark.parametrize(
    ("device", "bus", "mig", "is_shared"),
    [(0, 2, "", True), (1, 3, "", False), (1, 2, "", False), (0, 2, " MIG", False)],
)
def test_two_ranks_on_one_gpu_are_named_first(answer, device, bus, mig, is_shared):
    found = answer("# nccl-tests all_reduce_perf\n" + RANKS.format(device=device, bus=bus, mig=mig))
    assert ("ranks 0, 1 use the same GPU (0000:02:00)" in words(found)) is is_shared


MATRICES = (
    "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1      2      3\n"
    "     0 737.33   9.80  11.03  11.02\n     1   9.83 746.45  11.02  11.02\n     2  11.09  11.04 743.78   9.84\n"
    "     3  11.10  11.07   9.85 746.49\nUnidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n"
    "   D\\D     0      1      2      3\n     0 734.95  {a}  {a}   9.79\n     1  {a} 746.14   9.79  {a}\n"
    "     2  {a}   9.67 746.09  {a}\n     3   9.44  {a}  {a} 748.73\n"
)


@pytest.mark.parametrize(("fast", "is_slow"), [("48.30", False), ("19.30", True)])
def test_pairs_beside_links_that_are_much_faster_are_not_slow(answer, fast, is_slow):
    assert any(one.cause == "slow_pair" for one in answer(MATRICES.format(a=fast)).findings) is is_slow


def test_gpus_of_a_table_are_the_model_of_copies_in_another_file(tmp_path):
    (tmp_path / "copies.txt").write_text(
        "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1\n     0 909.26  19.50\n"
        "     1  19.60 922.11\n"
    )
    table = RANKS.format(device=1, bus=3, mig="").replace("5090", "4090")
    table = table.replace("58479.5    2.30    2.30", " 9320.7   14.40   14.40")
    (tmp_path / "nccl.log").write_text("# nccl-tests all_reduce_perf\n" + table)
    assert "name no known model" in words(fc.diagnose(tmp_path / "copies.txt"))
    assert "GeForce RTX 4090" in words(fc.diagnose(tmp_path / "copies.txt", tmp_path / "nccl.log"))


def test_processes_of_several_hosts_name_the_gpus_of_nvbandwidth(answer):
    text = (
        "nvbandwidth Version: v0.7\n\nProcess 0 (worker-0): device 0: HGX GB200 (00000008:01:00)\n"
        "Process 1 (worker-1): device 0: HGX GB200 (00000008:01:00)\n\n"
        "Running multinode_device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n"
        "           0         1\n 0       N/A    798.02\n 1    798.10       N/A\n"
    )
    assert "no known model" not in words(answer(text))


def test_gpu_without_a_handle_is_lost_also_with_its_number(answer):
    found = answer("Unable to determine the device handle for GPU3: 0000:04:00.0: Unknown Error\n")
    assert found.findings[0].text.startswith("0000:04:00.0: cannot be reached by the driver")


def test_columns_of_perftest_without_a_blank_are_read(answer):
    table = (
        " Dual-port       : OFF          Device: {}\n Send Latency Test\n"
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
        "99% percentile[usec]   99.9% percentile[usec]\n"
        " 2       1000          453.06         37330.73     692.41            928.05           2465.901216.65   37330.73\n"
    )
    assert "rxe0 is RDMA in software over Ethernet" in words(answer(table.format("rxe0")))
    assert "in software" not in words(answer(table.format("mlx5_0")))


def test_gains_of_single_bytes_are_no_late_protocol(answer):
    rows = "".join(f" {2**n} 1000 {2.04 if n < 5 else 1.57 + 2**n * 3e-4:.2f} {2**n / 2:.2f}\n" for n in range(15))
    found = answer(f"Benchmarking PingPong\nprocesses = 2\n #bytes #repetitions t[usec] Mbytes/sec\n{rows}")
    assert not found.findings and "nothing to be compared with" in words(found)


def test_further_tables_of_a_shortened_page_have_the_unit_of_the_first(answer):
    further = " Host to Device Bandwidth, 1 Device(s)\n   32000000\t\t\t31.9\n\nResult = PASS\n"
    found = answer(HOST_COPIES.format(gpu="NVIDIA H100 80GB HBM3", rate="54.2") + further)
    assert "31.9 GB/s in one run and 54.2 GB/s in another one" in words(found)


def test_interfaces_that_are_down_are_no_fault_of_infiniband(answer):
    found = answer("mlx5_0   port  1  ==>  ibp26s0        (Down)\nmlx5_1   port  1  ==>  enp27s0f0np0   (Up)\n")
    assert not found.findings and "interfaces that are down: ibp26s0 of mlx5_0 port 1" in words(found)


@pytest.mark.parametrize(("peak", "is_noted"), [("47.22", True), ("19.10", False)])
def test_rates_of_perftest_that_change_are_noted(answer, peak, is_noted):
    found = answer(
        " RDMA_Write BW Test\n Dual-port       : OFF        Device         : mlx5_0\n"
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        f" 65536      5000             {peak}              18.58             0.035434\n"
    )
    assert ("18.6 Gbit/s on average, as with other traffic" in words(found)) is is_noted


@pytest.mark.parametrize(("time", "rate", "is_noted"), [("39252", "164.13", True), ("27690", "232.66", False)])
def test_one_result_in_place_that_differs_is_a_disturbance(answer, time, rate, is_noted):
    rows = [(1, "7163.5", "224.84", "7161.8", "224.89"), (2, "13989", "230.27", "13997", "230.13")]
    rows += [(4, "27672", "232.81", time, rate), (8, "54894", "234.72", "54890", "234.74")]
    lines = "".join(
        f"  {size << 30}  {size << 28}  float  sum  -1  {out}  {size * 1073.741824e6 / float(out) / 1e6 * 1e3:.2f}  {bus}  0"
        f"  {within}  {size * 1073.741824e6 / float(within) / 1e6 * 1e3:.2f}  {other}  0\n"
        for size, out, bus, within, other in rows
    )
    head = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    found = answer(f"./build/all_reduce_perf -b 1G -e 8G -f 2 -g 4\n{head}{lines}")
    assert ("something disturbed one of them" in words(found)) is is_noted


@pytest.mark.parametrize(("gpu", "is_named"), [("NVIDIA H100 NVL", True), ("Tesla V100-PCIE-16GB", False)])
def test_slow_copies_of_gpus_that_can_encrypt_them_name_confidential_computing(answer, gpu, is_named):
    found = answer(HOST_COPIES.format(gpu=gpu, rate="1.4"))
    assert found.findings and ("confidential computing" in words(found)) is is_named
