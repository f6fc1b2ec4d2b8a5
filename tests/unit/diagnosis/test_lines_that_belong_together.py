"""Lines whose meaning depends on a heading, a wrapped line, another stream, or a later line."""

from pathlib import Path

import pytest

import fabricast as fc
import fabricast.sources
from fabricast.core.errors import InputError
from tests.unit.diagnosis.pasted import words

DEVICE = "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1\n\t\tLnkSta:\tSpeed 16GT/s, Width x8 (downgraded)\n"
PORT = "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x8, ASPM L1\n\t\tLnkSta:\tSpeed 16GT/s, Width x8\n"
ACS = "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n"


BAR = (
    "pci 0000:c5:00.0: [1002:74a1] type 00 class 0x120000\n"
    "[    4.2] pci 0000:c5:00.0: BAR 5 [mem size 0x00080000]: failed to assign"
)


def test_port_below_its_device_limits_the_link(answer):
    text = f"# lspci -vvv -s 0000:0a:00.0 (GPU)\n{DEVICE}# lspci -vvv -s 0000:00:03.2 (upstream bridge)\n{PORT}"
    assert "the link of 0000:0a:00.0 uses x8 of x16: its port has no more lanes" in words(answer(text))


def test_wide_port_above_a_narrow_device_is_no_fault(answer):
    found = words(answer(DEVICE + PORT))
    assert "a port of x16 has a device of x8" in found and "a fault is stated" not in found


def test_heading_names_the_device_of_a_link(answer):
    text = f"41:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090]\n{DEVICE}"
    assert "the link of 41:00.0 uses x8 of x16" in words(answer(text))


@pytest.mark.parametrize(("address", "is_possible"), [("0000:00:01.1", False), ("0000:41:01.0", True)])
def test_root_port_on_bus_0_redirects_nothing_more(answer, address, is_possible):
    found = words(answer(f"# lspci -vvv -s {address} (upstream bridge)\n{ACS}"))
    assert ("possibly" in found) == is_possible


def test_counters_of_rdma_continue_on_wrapped_lines(answer):
    text = (
        "link mlx5_1/1 rx_write_requests 0 rx_read_requests 0 rx_atomic_requests 0 out_of_buffer 0\n"
        " req_cqe_error 36090 req_transport_retries_exceeded 19\n duplicate_request 0 packet_seq_err 0\n"
    )
    assert (
        "mlx5_1 port 1 has counted errors since its counters were cleared: req_transport_retries_exceeded 19"
        in words(answer(text))
    )


def test_sum_of_streams_over_udp_has_their_losses(answer):
    text = (
        "[SUM] 0.0-10.0 sec 106 GBytes 90.7 Gbits/sec\n"
        "[ 19] 0.0-10.2 sec 1.36 GBytes 1.14 Gbits/sec 15.614 ms 300/1000 (30%)\n"
        "[ 17] 0.0-10.2 sec 1.85 GBytes 1.55 Gbits/sec 15.423 ms 100/1000 (10%)\n"
    )
    assert "iperf over UDP: 90.7 Gbit/s for 10 s, 20 % of the datagrams lost" in words(answer(text))


def test_rate_of_a_port_has_a_name_behind_it(answer):
    port = "CA 'rocep5s0f0'\n\tCA type: \n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n"
    text = f"{port}\t\tPhysical state: LinkUp\n\t\tRate: 10 (FDR10)\n\t\tLink layer: Ethernet\n"
    assert "1 x 10 Gbit/s" in words(answer(text))


def test_filtered_counters_belong_to_the_command(answer):
    text = "$ ethtool -S eth1 | grep discard\n     rx_discards_phy: 950331\n     tx_discards_phy: 0\n"
    assert "eth1 has counted errors since its start: rx_discards_phy 950,331" in words(answer(text))


def test_second_quoted_command_sets_its_own_variable(answer):
    text = (
        "If `torchrun --standalone a.py` hangs and `NCCL_P2P_DISABLE=1 torchrun --standalone a.py` works, it is P2P.\n"
    )
    log = "ncclUnhandledCudaError: Call to CUDA function failed.\n"
    assert "follows the program" not in words(answer(log + text))


def test_few_messages_have_no_times_to_fit(tmp_path):
    rows = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n"
    path = tmp_path / "pp.txt"
    path.write_text(f"{rows}64      10      =10      1.2k        0.01s      0.24     268.75       0.00\n")
    assert "'fabricast fit' prints" not in words(fc.diagnose(path))
    with pytest.raises(InputError, match="no times of messages that can be used: fi_pingpong sent fewer"):
        fc.fit_max_rate(path)


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("amdgpu: probe of 0000:83:00.0 failed with error -12", "0000:83:00.0: is refused by its driver"),
        (BAR, "BAR 5 of 512 KiB cannot be assigned"),
        ("mlx5_bond_0/1: QP 51291 error: local length error (0x8e 0x0 0x0)", "mlx5_bond_0 port 1 ended a connection"),
    ],
)
def test_kernel_names_what_a_driver_refuses(answer, line, state):
    assert state in words(answer(f"[    4.1] {line}\n"))


def test_warning_below_a_table_is_of_its_gpu(answer):
    table = "| NVIDIA-SMI 470.57 |\n|   0  Tesla V100-SXM2  On   | 00000001:00:00.0 Off |                    0 |\n"
    assert "infoROM is corrupted" in words(answer(f"{table}WARNING: infoROM is corrupted at gpu 0001:00:00.0\n"))


COPIES = (
    "nvbandwidth Version: v0.8\n\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n"
    " 0       N/A     26.34\n 1     26.34       N/A\n\nSUM device_to_device_memcpy_read_ce 52.68\n"
)


@pytest.mark.parametrize(
    ("sentence", "named"),
    [
        ("I ran this test on two A6000 devices of our server:", "A6000"),
        ("I ran this test on two A6000 and two A100 of our server:", ""),
        ("I ran this test on two unknown devices of our server:", ""),
    ],
)
def test_only_model_in_the_sentences_is_that_of_the_copies(answer, sentence, named):
    found = words(answer(f"{sentence}\n{COPIES}"))
    assert (f"no output names the GPUs: {named} of the text is used" in found) == bool(named)
    assert ("within the expected range" in found) == bool(named)


def test_switches_of_nvlink_are_no_pcie_machine(answer):
    path = Path(fabricast.sources.__file__).parent / "examples" / "lspci_vv.txt"
    switch = "83:00.0 Bridge: NVIDIA Corporation Device 22a3 (rev a1)\n\tNUMA node: 0\n"
    found = words(answer(path.read_text() + switch))
    assert "pass over PCIe" not in found and "direct links (NVLink)" in found


def test_gpu_that_is_slow_only_both_ways_is_named(answer):
    text = (
        "Host/Device Bandwidth Matrix (GB/s), memory=Pinned\n   Dir\\D       0      1      2      3\n"
        "   D2H     56.83  57.12  57.14  55.37\n   H2D     56.17  56.21  56.21  56.17\n   BiDir  101.26 101.38 101.40   7.25\n"
    )
    assert "GPU 3 copies 7.25 GB/s from and to host memory, other GPUs 101 GB/s" in words(answer(text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "LnkSta:\tSpeed 5GT/s (downgraded), Width x1 (downgraded)\n\tCapabilities: [100] AER\n",
            "a link uses x1, fewer",
        ),
        (
            (
                "[./a.out] - Starting...\n> Peer access from  (GPU0) ->  (GPU1) : Yes\n"
                "hipMemcpyPeer / hipMemcpy between GPU0 and GPU1: 28.13GB/s\n"
            ),
            "measured copies of simpleP2P",
        ),
        (
            (
                "    RocmBandwidthTest Version: 1.0.0\n    Device: 0,  Intel(R) Xeon(R) CPU\n"
                "    Device: 1,  Vega 10 XTX [Radeon Vega]\n    Data Path Validation\n    D/D       0           1\n"
                "    0         N/A         FAIL\n    1         FAIL        PASS\n"
            ),
            "arrive with wrong data (validation FAIL)",
        ),
        (
            (
                "Unidirectional P2P=Enabled Bandwidth Matrix (GB/s) (ACS disabled)\n   D\\D     0      1\n"
                "     0  —  56.57\n     1   56.57 —\n"
            ),
            "measured copies of p2pBandwidthLatencyTest",
        ),
        ("cudaDeviceCanAccessPeer failed for device: 1 peerDevice: 0\n", "one pair of GPUs has no peer access"),
        (
            "[12.1] vfio-pci 0000:01:00.0: Unable to change power state from D3cold to D0, device inaccessible\n",
            "D3cold",
        ),
        (
            "[12.1] python[25]: segfault at 7f797fe0 ip 00007f7c sp 00007f7c error 4 in libnccl.so.2[7f7c7a+d3d3000]\n",
            "crashed in a library of communication",
        ),
    ],
)
def test_forms_of_other_versions_are_read(answer, text, said):
    found = answer(text)
    assert said in f"{words(found)} {' '.join(found.sources)}"


@pytest.mark.parametrize("layer", ["InfiniBand", "Ethernet"])
def test_link_layer_of_ibstatus_selects_the_remedy(answer, layer):
    port = "Infiniband device 'mlx5_0' port 1 status:\n\tstate:\t 4: ACTIVE\n\tphys state:\t 5: LinkUp\n"
    text = f"{port}\trate:\t 400 Gb/sec (4X NDR)\n\tlink_layer:\t {layer}\n\nstatus: 101 ibv_modify_qp failed\n"
    remedy = answer(text).findings[0].remedy
    assert ("subnet manager" in remedy) == (layer == "InfiniBand")
    assert ("RoCE v2" in remedy) == (layer == "Ethernet")


def test_table_in_a_difference_of_files_is_read(answer):
    rows = [
        "#       size         count      type   redop    root     time   algbw   busbw #wrong",
        *(
            f"{size:12d} {size // 4:12d}     float     sum      -1  {size / 1e5:.1f}  100.0  175.0      0"
            for size in (2**26, 2**28)
        ),
    ]
    found = answer("\n".join(f"+{row}" for row in rows))
    assert "nccl-tests" in " ".join(found.sources) and "2 sizes" in " ".join(found.sources)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# Configured with: --enable-mt --without-verbs --with-cuda=/usr\n", "built without network cards"),
        ("tcp_bw:\n    bw   =  3.05 GB/sec\n", "qperf tcp_bw: 24.4 Gbit/s"),
        (
            (
                "Size   Size    Size     Time     Throughput\nbytes  bytes   bytes    secs.    10^6bits/sec\n\n"
                "131072  16384  16384    5.01     2745.06\n"
            ),
            "netperf tcp_stream: 2.75 Gbit/s",
        ),
    ],
)
def test_programs_of_the_network_are_read(answer, text, said):
    assert said in words(answer(text))


NARROW = (
    "[    2.8] pci 0000:2e:00.0: [10de:2204] type 00 class 0x030000\n[    2.9] pci 0000:2e:00.0: 8.000 Gb/s available PCIe "
    "bandwidth, limited by 2.5 GT/s PCIe x4 link at 0000:00:07.2 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)\n"
)


@pytest.mark.parametrize(
    ("tunnel", "is_fault"), [("", True), ("[ 3.1] thunderbolt 1-1: new device found, vendor=0xed\n", False)]
)
def test_ports_of_thunderbolt_state_no_rate(answer, tunnel, is_fault):
    found = words(answer(NARROW + tunnel))
    assert ("limited by a link of 2.5 GT/s x4" in found) == is_fault
    assert ("whatever their rate" in found) == (not is_fault)


def test_memory_without_addresses_is_named_before_a_narrow_slot(answer):
    text = NARROW + "[    3.2] pci 0000:2e:00.0: BAR 1 [mem size 0x10000000 64bit pref]: failed to assign\n"
    assert "BAR 1 of 256 MiB cannot be assigned" in answer(text).findings[0].text


@pytest.mark.parametrize("value", ["0", "1"])
def test_remedy_states_which_setting_is_in_use(answer, value):
    log = f"node:12:34 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to {value}.\n"
    rows = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    text = f"{log}{rows}     1048576        262144     float     sum      -1   100.0   10.5   10.5     12\n"
    remedy = next(one.remedy for one in answer(text).findings if one.cause == "wrong_results")
    assert ("NCCL_P2P_DISABLE=1 is set already" in remedy) == (value == "1")
