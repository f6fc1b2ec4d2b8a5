"""Output of tools in public reports: what they print is not taken for something else."""

import pytest

from tests.unit.diagnosis.pasted import words

LATENCY = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]\n"
    " 2       5          2826.00        6078.00      2862.00            3650.50         1401.90\n"
)


@pytest.mark.parametrize("option", ["-C", "--report-cycles", "-aFC"])
def test_cycles_of_perftest_are_no_times(answer, option):
    found = answer(f"$ ib_write_lat -n 5 {option}\n RDMA_Write Latency Test\n{LATENCY}")
    assert "cycles of the processor" in words(found) and not found.findings
    assert [one.cause for one in answer(f"$ ib_write_lat -n 5\n RDMA_Write Latency Test\n{LATENCY}").findings]


def test_perftest_states_a_processor_without_a_fixed_frequency(answer):
    line = "Conflicting CPU frequency values detected: 2428.573000 != 3004.218000. CPU Frequency is not max.\n"
    assert "2,429 and 3,004 MHz" in words(answer(f"$ ib_write_lat -n 5\n RDMA_Write Latency Test\n{line}{LATENCY}"))


def test_old_nccl_names_its_network(answer):
    log = (
        "n1:1:1 [0] NCCL INFO NET : Using interface ib0:12.12.12.102<0>\n"
        "n1:1:1 [0] NCCL INFO NET/IB : Using interface ib0 for sideband communication\n"
        "n1:1:1 [0] NCCL INFO Using internal Network Socket\nn1:1:1 [0] NCCL INFO rank 0 nranks 8\n"
    )
    assert "network Socket (TCP)" in words(answer(log))


PORT = "Sep 22 09:59:09 pve kernel: pcieport 0000:80:1b.4: "
HANDLER = "Sep 22 09:59:09 pve kernel: xhci_hcd 0000:97:00.0: AER: can't recover (no error_detected callback)\n"


def test_a_device_whose_driver_handles_no_errors_has_none_if_the_port_is_named(answer):
    error = f"{PORT}PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer, (Receiver ID)\n"
    found = answer(f"{HANDLER}{error}{PORT}   [21] ACSViol                (First)\n")
    assert "0000:97:00.0" not in words(found)
    assert "ACSViol" in words(found) and "slot and power are not the cause" in words(found)
    assert "0000:97:00.0: uncorrected errors" in words(answer(HANDLER))


@pytest.mark.parametrize(("number", "is_fault"), [(2, True), (0, False)])
def test_boards_without_nvlinks_are_a_fault_unless_the_machine_may_be_virtual(answer, number, is_fault):
    text = f"GPU {number}: NVIDIA B200 (UUID: GPU-1)\nNVML: Unable to retrieve NVLink information as all links are inActive\n"
    assert bool(answer(text).findings) == is_fault


@pytest.mark.parametrize("command", ["sudo dmesg | grep -i kfd", "dmesg | more | grep 04:00"])
def test_selected_lines_say_nothing_about_the_others(answer, command):
    text = f"$ {command}\n[    2.177738] kfd kfd: amdgpu: added device 1002:66a1\n"
    assert "others are not known" in words(answer(text))
    assert "no repeated PCIe errors" in words(answer(text.replace(command, "sudo dmesg")))


def test_times_of_mpirun_are_no_kernel_log(answer):
    text = (
        "[n1:1:0] ib_mlx5_log.c:113  Transport retry count exceeded (synd 0x15 vend 0x81) opcode RDMA_READ\n"
        "Sun Apr 22 11:13:01 2018[1,305]<stderr>:/src/uct/ib/mlx5/ib_mlx5_log.c: [ uct_ib_mlx5_completion_with_err() ]\n"
    )
    assert "kernel log" not in words(answer(text))


def test_a_port_without_a_cable_is_no_fault_if_another_port_of_the_card_has_one(answer):
    lines = [f"[   1.0] mlx5_core 0004:01:00.{port}: Port module event: module {port}, Cable " for port in (0, 1)]
    assert not answer(f"{lines[0]}plugged\n{lines[1]}unplugged\n").findings
    assert len(answer(f"{lines[0]}unplugged\n{lines[1]}unplugged\n").findings) == 1


def test_addresses_of_virtual_functions_are_a_note(answer):
    found = answer("[    0.7] pci 0000:04:00.0: BAR 7: no space for [mem size 0x01000000 64bit pref]\n")
    assert "virtual functions (SR-IOV)" in words(found) and not found.findings


def test_a_host_without_buffers_loses_packets(answer):
    found = answer("NIC statistics:\n     rx_crc_errors: 0\n     rxq0: rx_drops_no_frags: 3885606854\n")
    assert "3,885,606,854" in words(found) and "ethtool -G" in words(found)


def test_columns_below_a_command_are_a_table_of_osu(answer):
    rows = "Size Latency (us)\n0 0.52\n1 0.60\n2 0.60\n4 0.64\n"
    assert "of OSU" in str(answer(f"mpirun -np 2 osu_latency\n{rows}").sources[0])


def test_the_last_line_of_nccl_tests_names_the_operation(answer):
    row = "     4194304       1048576     float    none       0    603.0    6.96    6.96      0    588.2    7.13    7.13      0\n"
    found = answer(f"{row}# Out of bounds values : 0 OK\n# Collective test concluded: broadcast_perf\n")
    assert "broadcast_perf" in str(found.sources[0])


def test_a_log_of_one_rank_says_how_to_start_more(answer):
    log = "".join(f"n1:1:1 [0] NCCL INFO Channel {channel:02}/32 :    0\n" for channel in range(3))
    assert "nccl-tests built with MPI=1" in words(answer(log))


def test_a_completion_of_mlx5_is_read_with_its_syndrome(answer):
    rows = "00000000 00000000 00000000 00000000\n" * 3 + "00000000 00008914 10000a8f 000005d2\n"
    found = answer(f"mlx5: n1: got completion with error:\n{rows}")
    assert "syndrome 0x14: remote operation error" in words(found)
    retry = answer(f"mlx5: n1: got completion with error:\n{rows.replace('8914', '8115')}")
    assert "the network lost messages" in words(retry)


@pytest.mark.parametrize(("time", "is_step"), [(2111.58, True), (31.0, False)])
def test_a_step_between_small_sizes_is_a_finding(answer, time, is_step):
    text = f"# OSU MPI Alltoallv Latency Test v5.6\n# Size       Avg Latency(us)\n4   11.11\n8   11.00\n16  {time}\n"
    assert ("late_messages" in [one.cause for one in answer(text).findings]) == is_step


PINGPONG = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n"


@pytest.mark.parametrize(("provider", "is_late"), [("efa", False), ("tcp", True)])
def test_times_of_fi_pingpong_are_compared_with_network_cards_but_not_over_efa(answer, provider, is_late):
    rows = "64      10k     =10k     1.2m        0.31s      4.13      15.50       0.06\n"
    found = answer(f"$ fi_pingpong -e rdm -p {provider} 10.0.0.2\n{PINGPONG}{rows}")
    assert ("messages_over_tcp" in [one.cause for one in found.findings]) == is_late


def test_a_few_messages_of_fi_pingpong_are_no_time(answer):
    rows = "64      10      =10      1.2k        0.03s      0.05    1275.70       0.00\n"
    found = answer(f"$ fi_pingpong -p tcp 10.0.0.2\n{PINGPONG}{rows}")
    assert not found.findings and "fewer than 100 messages" in words(found)


@pytest.mark.parametrize(("names", "is_fault"), [(("tcp", "udp"), True), (("verbs", "tcp"), False), (("efa",), False)])
def test_providers_of_libfabric_show_whether_it_has_only_tcp(answer, names, is_fault):
    text = "".join(f"provider: {name}\n    fabric: x\n    domain: {name}_0\n    type: FI_EP_RDM\n" for name in names)
    found = answer(text)
    assert bool(found.findings) == is_fault
    assert ("over TCP only" if is_fault else f"by {names[0]} ({names[0]}_0)") in words(found)


HOP = "n1:1:1 [0] NCCL INFO Channel 00/0 : {} -> {} [{}] via NET/IB/1{}\n"
RANKS = "n1:1:1 [0] NCCL INFO comm 0x1 rank 3 nranks 16 cudaDev 3 busId 13000 - Init COMPLETE\n"


@pytest.mark.parametrize(("suffix", "is_without"), [("/GDRDMA", False), ("", True)])
def test_hops_of_which_one_end_uses_gpudirect_do_not_lack_it(answer, suffix, is_without):
    log = HOP.format("11[13000]", "12[83000]", "receive", suffix) + HOP.format("11[13000]", "12[83000]", "send", "")
    found = answer(RANKS + log)
    assert ("no_gpudirect" in [one.cause for one in found.findings]) == is_without


def test_ranks_far_apart_without_a_group_are_of_several_groups(answer):
    line = (
        "[Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, OpType=ALLREDUCE) ran for 9 ms\n"
    )
    assert "waits at operation" in words(answer(line.format(0, 96117) + line.format(7, 96088)))
    assert "waits at operation" not in words(answer(line.format(0, 96117) + line.format(7, 64088)))


def test_tables_of_mscclpp_are_read(answer):
    ranks = "".join(
        f"#  Rank  {n} Pid  {n} on n1 device  {n} [000{n}:00:00.0] NVIDIA A100-SXM4-80GB\n" for n in range(8)
    )
    header = "#       size         count     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n"
    row = "  1073741824     268435456    17018   63.09  110.41      0\n\n# Out of bounds values : 0 OK\n"
    found = answer(f"{ranks}{header}{row}")
    assert "all_reduce of 1 GiB reaches 110 GB/s" in words(found) and "hangs" not in words(found)


@pytest.mark.parametrize(
    "sentence", ["you can set NCCL_P2P_DISABLE=1 to test", "If you still want it, set NCCL_P2P_DISABLE=1."]
)
def test_a_setting_that_a_sentence_recommends_is_not_set(answer, sentence):
    log = f"n1:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 8\n{sentence}\n"
    assert "NCCL_P2P_DISABLE=1" not in " ".join(answer(log).statements)
    command = "set NCCL_P2P_DISABLE=1 && python train.py\n"
    assert "NCCL_P2P_DISABLE=1" in " ".join(answer(f"{log}{command}").statements)


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("P2P is disabled between NVLINK connected GPUs 1 and 0.", "that NVLink connects"),
        (
            "INTERNAL: nccl_utils.cc:275: NCCL operation ncclCommInitRank(&comm) failed: unhandled cuda error",
            "a CUDA call failed",
        ),
        ("> Failed, NCCL error /src/allreducePlugin.cpp:295 'internal error - please report'", "internal error"),
        ('  --> Returned "Unreachable" (-12) instead of "Success" (0)', "no transport in common"),
        ("MPIDI_OFI_mpi_init_hook(599): OFI fi_open domain failed (ofi_init.c:599)", "opened when the program starts"),
    ],
)
def test_errors_of_callers_of_nccl_and_libfabric(answer, line, meaning):
    found = answer(f"{line}\n")
    assert str(found.verdict).startswith("the run failed") and meaning in str(found.verdict)


def test_pairs_without_access_are_counted_once_for_both_directions(answer):
    lines = "".join(
        f"> Peer access from Tesla K40m (GPU{a}) -> Tesla K40m (GPU{b}) : {'Yes' if a // 2 == b // 2 else 'No'}\n"
        for a in range(4)
        for b in range(4)
        if a != b
    )
    found = words(answer(lines))
    assert "4 of 6 pairs of GPUs have no peer access" in found and "GeForce" not in found and "sockets" in found


@pytest.mark.parametrize(("rate", "text"), [(0.0, "lasts 159.3 us"), (120.0, "reaches 120 GB/s")])
def test_a_rate_that_is_printed_as_zero_is_a_time(answer, rate, text):
    size, time = (64, 159.3) if rate == 0.0 else (1 << 30, 13421.8)
    ranks = "".join(f"#   Rank  {n} Pid  1 on n1 device  {n} [0x1{n}] Tesla V100-SXM3-32GB\n" for n in range(4))
    header = (
        "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
    )
    row = f"{size} {size // 4} float sum {time} {rate / 1.5:.2f} {rate:.2f} 3e-08 {time} {rate / 1.5:.2f} {rate:.2f} 3e-08\n"
    found = words(answer(f"# all_reduce_perf\n{ranks}{header}{row}"))
    assert text in found and "reaches 0 GB/s" not in found


def test_fields_of_ibportstate_are_no_counters(answer):
    text = "LinkWidthActive:.................4X\nMkeyLeasePeriod:.................0\nCA 'mlx4_0'\n\tCA type: MT4099\n"
    port = "\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Disabled\n"
    found = answer(f"{text}{port}")
    assert "perfquery" not in words(found) + str(found.sources) and "is Down (Disabled)" in words(found)
    assert "perfquery" in str(answer("SymbolErrorCounter:..............0\n").sources)


def test_a_command_that_the_firmware_refuses_is_a_state_of_the_card(answer):
    line = (
        "[1.5] mlx5_core 0000:04:00.0: mlx5_cmd_check:795:(pid 9993): RTR2RTS_QP(0x504) op_mod(0x0) failed, status bad "
        "parameter(0x3), syndrome (0x4bb88f)\n"
    )
    assert "RTR2RTS_QP failed, bad parameter, syndrome (0x4bb88f)" in words(answer(line))


def test_intervals_of_iperf_without_a_summary_are_averaged(answer):
    rows = "".join(f"[  5]   {n}.00-{n + 1}.00  sec  3.98 MBytes  {30 + n}.0 Mbits/sec\n" for n in range(10))
    assert "0.0345 Gbit/s for 10 s" in words(answer(f"Connecting to host 10.0.0.2, port 5201\n{rows}"))


def test_a_syndrome_of_dpdk_is_named(answer):
    rows = "00000030: 00 00 00 00 9D 00 53 04 0A 00 15 42 00 19 B0 D2 | ......S....B....\n"
    assert "syndrome 0x04: local protection error" in words(answer(f"MLX5 Error CQE: at [0x7f6a], len=64\n{rows}"))
