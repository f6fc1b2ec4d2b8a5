"""First answers to what people paste into reports: other spellings, cut parts, several outputs, messages of libraries."""

import gzip

import pytest

import fabricast as fc
from fabricast.core.errors import InputError
from fabricast.core.facts import Quantity
from fabricast.sources.reading import facts_of_text
from tests.nccl_tests_logs import nccl_tests as nccl_tests_log
from tests.unit.diagnosis.pasted import nccl_tests

MATRIX = "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\n"
ROWS = ["GPU0\t X \tPHB\tSYS\t0-7\t0\n", "GPU1\tPHB\t X \tSYS\t0-7\t0\n", "GPU2\tSYS\tSYS\t X \t8-15\t1\n"]


def causes_of(diagnosis):
    return [finding.cause for finding in diagnosis.findings]


def test_states_name_the_gpu_that_the_list_prints(first):
    gpu = "GPU {}: Tesla V100-SXM2-32GB (UUID: GPU-1a)\n\t Link 0: 25.781 GB/s\n\t Link 1: {}\n"
    found = first(gpu.format(2, "25.781 GB/s") + gpu.format(3, "<inactive>"))
    assert "GPU 3: NVLink 1 inactive" in str(found.verdict)
    assert "GPU 1: NVLink 1 inactive" in str(first(gpu.format(0, "25.781 GB/s") + gpu.format(1, "<inactive>")).verdict)


def test_every_rank_and_direction_of_a_disabled_pair_is_one_pair(first):
    line = "h:{0}:11 [0] NCCL INFO P2P is disabled between connected GPUs {1}. You can repress this message.\n"
    log = line.format(1, "0 and 1") + line.format(1, "1 and 0") + line.format(2, "0 and 1")
    assert "between GPUs 0 and 1: data" in first(log).findings[0].text
    assert "GPUs 0 and 1, and between one other pair:" in first(log + line.format(2, "2 and 3")).findings[0].text


GONE = (
    "[ 880.1] NVRM: GPU 0000:0a:00.0: RmInitAdapter failed! (0x24:0x72:1568)\n",
    (
        "[1843.3] NVRM: The NVIDIA GPU 0000:b3:00.0\n         NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
        "         NVRM: fallen off the bus and is not responding to commands.\n"
    ),
    "[ 9.1] NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.\n",
    "[ 8.1] NVRM: nvAssertOk: Assertion failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0F) returned\n",
    (
        "[ 7.1] NVRM: The NVIDIA GPU 000a:00:00.0\n NVRM: is not supported by the driver.\n"
        "[ 7.2] NVRM: The NVIDIA probe routine failed for 1 device(s).\n"
    ),
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *zip(
            GONE,
            (
                "0000:0a:00.0: cannot be initialised by its driver",
                "0000:b3:00.0: has fallen off the bus",
                "0000:01:00.0: has fallen off the bus",
                "a GPU: has fallen off the bus",
                "000a:00:00.0: is not supported by this version of its driver",
            ),
            strict=True,
        )
    ],
)
def test_gpus_that_the_driver_cannot_use(first, text, words):
    found = first(text)
    assert causes_of(found) == ["gpu_errors"] and words in found.findings[0].text


def test_a_lost_gpu_whose_xid_says_so_is_named_once(first):
    xid = "[ 1.1] NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.\n"
    assert len(first(xid + GONE[2]).findings) == 1


MESSAGES = (
    (
        "h:4:9 [0] p2p.cu:548 NCCL WARN failed to open CUDA IPC handle : 11 invalid argument",
        "direct copies between GPUs",
    ),
    ("h:4:9 [7] NCCL WARN NET/IB : SHARP coll init error: Cannot create SHARP job(-11)", "in-network reduction"),
    ("[c1:1 - comm.c:370] ERROR collect_ports_data: device mlx5_0 port 1 is not valid (port is used by SM)", "(SHARP)"),
    ("h:8:2 [0] NCCL WARN NET/OFI GDR disabled on GDR-supported instance type p4d.24xlarge", "refuses EFA"),
    (
        "h:8:2 [0] NCCL WARN NET/OFI Couldn't open a fabric access domain. RC: -38, ERROR: none",
        "cannot open its device",
    ),
    ("h:8:2 [0] NCCL WARN NET/OFI OFI fi_getinfo() call failed: No data available", "finds no EFA provider"),
    ("h:1:2 [2] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3", "hosts use different networks"),
    ("h:1:2 [0] NCCL WARN NET/IB : Unable to open device mlx5_bond_0", "cannot open a network card"),
    (
        "h:1:2 [0] NCCL WARN connecting to address with family 59936 is neither AF_INET(2) nor AF_INET6",
        "different versions of NCCL",
    ),
    ("h:5:6 [0] include/socket.h:360 WARN Call to connect failed : Connection timed out", "a host cannot be reached"),
    ("x: Last NCCL warning(error): 'Bootstrap : no socket interface found'", "finds no network interface"),
    ("HW Exception by GPU node-9 (Agent handle: 0x63) reason :GPU Hang", "a GPU stopped answering"),
    ("(err): OFI poll failed (ofi_events.c:1077:MPIDI_OFI_handle_cq_error:PTLTE_NOT_FOUND)", "while the program ran"),
    ("(init): OFI addrinfo() failed (ofi_init.h:719:No data available)", "finds no network that it can use"),
    ("[1.1] [g39:1 :0] ucp.c:1 UCX  WARN  transport 'gdr_copy' is not available, please use: rc", "lacks a transport"),
    ("RuntimeError: connect [127.0.1.1]:3210: Connection refused", "loopback address"),
    (" GID: 00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00", "no address (its GID is zero)"),
    ("E0: Failed to modify QP to RTR, check mtu, gid: Connection timed out [110]", "cannot be set up"),
)


@pytest.mark.parametrize(("line", "words"), MESSAGES)
def test_messages_of_libraries_have_their_meaning(first, line, words):
    found = first(f"{line}\n")
    assert len(found.findings) == 1 and words in found.findings[0].text
    assert "not known" not in found.findings[0].remedy


@pytest.mark.parametrize(
    "line",
    [
        "h:1:2 [0] graph/xml.cc:332 NCCL WARN Could not find real path of /sys/class/pci_bus/0000:21\n",
        "h:1:2 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept from 10.0.0.9: wrong magic 4554 != 5\n",
        "h:8:2 [0] NCCL WARN NET/OFI GDR disabled on GDR-supported instance type p4d.24xlarge\n",
    ],
)
def test_a_communicator_that_is_complete_refutes_failures_before_it(first, line):
    complete = "h:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE\n"
    assert str(first(line).verdict).startswith("the run failed")
    assert not str(first(line + complete).verdict).startswith("the run failed")
    assert str(first(complete + line).verdict).startswith("the run failed")


KERNEL = "[    1.100000] Linux version 6.8.0\n"


@pytest.mark.parametrize(
    "text",
    [
        KERNEL + "[ 5.1] usb 1-1: device has fallen off the bus\n",
        KERNEL + "[ 5.1] mlx5_core 0000:3b:00.0: probe routine failed\n",
        KERNEL + "[ 5.1] NVRM: GPU 0000:3d:00.0: some message\n[ 5.2] nouveau: RmInitAdapter failed\n",
        (
            "[ 5.1] NVRM: GPU 0000:65:00.0: RmInitAdapter failed! (0x24)\n"
            "[ 9.1] [drm] Initialized nvidia-drm 0.0.0 for 0000:65:00.0 on minor 1\n"
        ),
        GONE[2] + KERNEL,
        (
            "[ 7.1] NVRM: The NVIDIA GeForce GT 710 GPU is supported through the 470.xx Legacy drivers.\n"
            "[ 7.1] NVRM: The 550 driver will ignore this GPU. Continuing probe...\n"
            "[ 7.2] NVRM: The NVIDIA probe routine failed for 1 device(s).\n"
        ),
    ],
)
def test_messages_of_other_devices_and_of_earlier_boots_are_no_lost_gpu(first, text):
    assert not first(text).findings


def test_the_worst_state_of_a_gpu_is_named(first):
    found = first(GONE[0] + "[881.1] NVRM: GPU 0000:0a:00.0: GPU has fallen off the bus.\n")
    assert len(found.findings) == 1 and "has fallen off the bus" in found.findings[0].text


@pytest.mark.parametrize(
    "text",
    [
        "'HW Exception by GPU node-9' does not appear in the log.\n",
        "api.server:12:34 [0] http/get WARN Cuda failure is a song\n",
        "OFI (libfabric) initialisation never failed on this machine\n",
        "Using gloo backend. Connection to store established\n",
        "# OSUSE openSUSE\n",
        "We have Rank 0 Pid 1 on host device 0 [0x01] in every log\n",
    ],
)
def test_words_of_other_programs_are_no_messages(first, text):
    with pytest.raises(InputError, match="written by no known program"):
        first(text)


def test_other_causes_of_collnet_precede_it(first):
    found = first("h:1:2 [0] transport/coll_net.cc:300 NCCL WARN Cuda failure 'out of memory' in CollNet\n")
    assert "the memory of a GPU is full" in found.findings[0].text


def test_sizes_of_zero_and_unknown_widths(first):
    row = "   0   0   float  sum  -1  4.50  0.00  0.00  0  4.50  0.00  0.00  0\n"
    title = (
        "# Collective test starting: all_reduce_perf\n#  size  count  type  redop  root  time  algbw  busbw #wrong\n"
    )
    assert "lists no GPUs" in str(first(title + row + rows_of(16, {1 << 25: 1931.6})).verdict)
    port = "hca_id: mlx5_{}\n        port:   1\n                state:                  PORT_ACTIVE (4)\n{}"
    speed = "                active_width: 4X (2)\n                active_speed: {}\n"
    ports = port.format(0, speed.format("invalid speed (128)")) + port.format(1, speed.format("25.0 Gbps (32)"))
    found = first(ports + "hca_id: mlx5_2\n        phys_port_cnt: 1\n")
    assert not found.findings and found.damaged == 1 and "1 x 100 Gbit/s" in str(found.statements)


def test_details_of_an_error_are_no_second_error(first):
    place = "[c:31180:0:31180] ib_mlx5_log.c:143 "
    log = f"{place} Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81)\n{place} DCI QP 0x14e4 wqe[0]: SEND\n"
    assert causes_of(first(log)) == ["mpi_error"]


def test_hosts_that_find_each_other_over_different_interfaces(first):
    line = "{}:1:1 [0] NCCL INFO Bootstrap : Using {}<0>\n"
    local = first(line.format("a", "lo:127.0.0.1") + line.format("b", "bond0:10.0.0.2"))
    assert causes_of(local) == ["host_differs_interface"] and "cannot reach a" in local.findings[0].text
    same = first(line.format("a", "eth0:172.17.0.2") + line.format("b", "eth0:172.17.0.2"))
    assert "cannot reach a" in same.findings[0].text
    complete = "a:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE\n"
    assert not first(line.format("a", "eth0:172.17.0.2") + line.format("b", "eth0:172.17.0.2") + complete).findings
    # Names alone may differ on hosts of one network: they count where the run stopped.
    other = line.format("a", "eth4:10.0.0.1") + line.format("b", "eth0:10.0.0.2")
    assert str(first(other).verdict).startswith("nothing could be judged")
    ranks = "".join(
        f"#  Rank  {rank} Group  0 Pid 9 on {host} device 0 [0x01] NVIDIA H100\n" for rank, host in enumerate("ab")
    )
    assert causes_of(first(ranks + other)) == ["host_differs_interface", "stopped"]
    assert "NCCL_P2P_DISABLE" not in first(ranks).findings[0].remedy


def test_a_stopped_run_comes_after_what_its_log_states(first):
    ranks = "#  Rank  0 Group  0 Pid 9 on a device 0 [0x01] NVIDIA H100\n"
    log = "a:1:1 [0] NCCL WARN NET/OFI Only EFA provider is supported\n"
    assert causes_of(first(ranks + log)) == ["nccl_warning", "stopped"]


ROW = "   {0}  {1}  float  sum  -1  {2:.1f}  {3:.2f}  {4:.2f}  0  {2:.1f}  {3:.2f}  {4:.2f}  0\n"


def rows_of(ranks, times):
    rates = {size: size / time / 1e3 for size, time in times.items()}
    factor = 2 * (ranks - 1) / ranks
    return "".join(ROW.format(size, size // 4, times[size], rates[size], factor * rates[size]) for size in times)


def test_rows_without_header_are_a_table_whose_ratio_tells_ranks():
    text = rows_of(16, {1 << 25: 1931.6, 1 << 26: 3586.3, 1 << 27: 7189.9})
    for changed in (text, text.replace("  -1  ", "  -1[0]  ")):
        (table,) = facts_of_text(changed).values(Quantity.COLLECTIVE)
        assert (table.operation, table.ranks, len(table.rows)) == ("all_reduce", 16, 3)
    # Bandwidths that do not belong to size and time are no rows.
    assert not facts_of_text(text.replace("  17.37  ", "  7.37  ")[: len(text) // 3]).values(Quantity.COLLECTIVE)


def test_the_number_sign_may_be_lost():
    text = nccl_tests("all_reduce", 4, {1 << 24: 900.0, 1 << 26: 3600.0}).replace("#", " ")
    (table,) = facts_of_text(text).values(Quantity.COLLECTIVE)
    assert (table.ranks, len(table.rows)) == (4, 2)
    perftest = (
        "                    RDMA_Read BW Test\n bytes     iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
        " 65536      1000             11800.00            11792.00             0.188\n"
    )
    (time,) = facts_of_text(perftest).values(Quantity.MESSAGE_TIME)
    assert time.path == "ib_read_bw" and time.bytes_per_s == pytest.approx(11792 * 2**20)


def test_a_rate_that_falls_with_the_size_is_named(tmp_path):
    rows = [(2**23, 900.0), (2**24, 1000.0), (2**25, 1900.0), (2**26, 9000.0), (2**27, 18000.0)]
    found = fc.diagnose(nccl_tests_log(tmp_path / "run.log", rows))
    assert "falling_rate" in causes_of(found)
    steady = [(size, size / 2**24 * 1000) for size, _ in rows]
    assert "falling_rate" not in causes_of(fc.diagnose(nccl_tests_log(tmp_path / "run.log", steady)))


def test_one_rank_sends_nothing(first):
    text = nccl_tests("all_reduce", 1, {1 << 24: 900.0})
    assert "one rank, which sends nothing" in str(first(text).verdict)


@pytest.mark.parametrize("head", [f"nvidia-smi topo -m{MATRIX}", f"|{MATRIX}", f"$ nvidia-smi topo -m {MATRIX}"])
def test_the_header_of_a_matrix_may_follow_other_words(first, head):
    assert len(first(head + "".join(ROWS)).tree.accelerator_names) == 3


def test_a_missing_row_of_a_symmetric_matrix_is_its_column(first):
    found = first(MATRIX + ROWS[0] + ROWS[1])
    assert found.tree.path_class("0", "2") == "SYS" and "its column has the same values" in str(found.warnings)
    with pytest.raises(InputError, match="has no row of GPU1"):
        first(MATRIX + ROWS[0])


def test_parts_that_can_be_read_are_stated(first):
    cut = (
        "Device=0 CANNOT Access Peer Device=1\nDevice=1 CANNOT Access Peer Device=0\n"
        "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1\n     0 918.27   2.10\n     1   2.1\n"
    )
    assert "one pair of GPUs has no peer access" in str(first(cut).statements)
    waived = "nvbandwidth Version: v0.2\nDevice 0: NVIDIA GeForce RTX 4090\nWaiving device_to_device_memcpy_write_ce.\n"
    assert "left its tests out" in str(first(waived).verdict)
    access = "        GPU0    GPU1\n GPU0   X       GNS\n GPU1   GNS     X\n"
    assert "GPU not supported" in str(first(access).statements)


def test_listings_without_names_and_dictionaries_are_not_taken_for_others(first):
    with pytest.raises(InputError, match="as 'lspci -t' prints it, expected output of 'lspci -tv'"):
        first(
            "-[0000:00]-+-00.0\n           +-01.1-[01]--+-00.0\n           |            \\-00.1\n           \\-02.0\n"
        )
    with pytest.raises(InputError, match="written by no known program"):
        first("{'loss': 0.45, 'epoch': 1}\n")


BANDWIDTH = (
    "[CUDA Bandwidth Test] - Starting...\nRunning on...\n\n Device 0: Tesla P100-PCIE-16GB\n Quick Mode\n\n"
    " Host to Device Bandwidth, 1 Device(s)\n PINNED Memory Transfers\n   Transfer Size (Bytes)\tBandwidth(MB/s)\n"
    "   33554432\t\t{}\n\n"
)


def test_bandwidth_test_is_compared_and_a_slow_run_is_a_binding(first):
    assert str(first(BANDWIDTH.format(12150.7)).verdict).startswith(
        "within the expected range: copies from host memory"
    )
    both = first(BANDWIDTH.format(12150.7) + BANDWIDTH.format(3783.4))
    totals = BANDWIDTH.replace("Device 0: Tesla P100-PCIE-16GB\n", "Device 0: A\n Device 1: A\n Device 2: A\n")
    assert "prints totals of several devices" in str(first(totals.format(36000.0)).statements)
    assert causes_of(both) == ["far_memory"] and "3.78 GB/s in one run and 12.2 GB/s" in both.findings[0].text


def test_links_that_dcgmi_states(first):
    status = "|  NvLink Link Status  |\nGPUs:\n    gpuId 0:\n        U U U U\n    gpuId 1:\n        {}\n"
    assert causes_of(first(status.format("U U D D"))) == ["gpu_errors"]
    assert causes_of(first(status.format("D D D D"))) == ["gpu_errors"]
    # Cards without a bridge have all links down, and those of bridges some of them.
    assert not first(status.replace("U U U U", "D D D D").format("D D D D")).findings
    assert not first(status.replace("U U U U", "U U D D").format("U U D D")).findings
    with pytest.raises(InputError, match="has no GPU with NVLinks"):
        first("|  NvLink Link Status  |\n")
    assert not first("| GPU 0's NvLink link 0 is currently down |\n").findings


def test_ports_of_ibv_devinfo_and_rdma_link(first):
    port = "hca_id: mlx5_3\n        port:   1\n                state:                  PORT_{}\n"
    assert "mlx5_3 port 1 is Down" in first(port.format("DOWN (1)")).findings[0].text
    assert "subnet manager" in first(port.format("INIT (2)")).findings[0].remedy
    whole = (
        port.format("ACTIVE (4)")
        + "                active_width: 4X (2)\n                active_speed: 25.0 Gbps (32)\n"
    )
    assert "1 x 100 Gbit/s" in str(first(whole).statements)
    links = "link mlx5_0/1 lid 3 state ACTIVE physical_state LINK_UP\nlink mlx5_1/1 lid 9 state DOWN physical_state DISABLED\n"
    assert "mlx5_1 port 1 is Down (Disabled)" in first(links).findings[0].text


def test_an_index_of_gids_that_other_hosts_cannot_reach(first):
    gids = (
        "mlx5_0  1       1       fe80:0000:0000:0000:0e42:a1ff:fe00:0010                 v2      eth2\n"
        "mlx5_0  1       2       0000:0000:0000:0000:0000:ffff:0a00:0015 10.0.0.21       v1      eth2\n"
        "mlx5_0  1       3       0000:0000:0000:0000:0000:ffff:0a00:0015 10.0.0.21       v2      eth2\n"
    )
    for index, word in ((1, "link-local"), (2, "RoCE v1")):
        found = first(gids, f"export NCCL_IB_GID_INDEX={index}\n")
        assert word in found.findings[0].text and found.findings[0].remedy == "NCCL_IB_GID_INDEX=3"
        assert str(found.verdict).startswith("nothing could be judged")  # Hosts of one subnet reach it.
        assert not first(gids, f"export NCCL_IB_GID_INDEX={index}\nexport NCCL_IB_HCA=mlx5_1\n").findings
    assert not first(gids, "export NCCL_IB_GID_INDEX=3\n").findings


def test_locked_memory(first):
    line = "max locked memory           (kbytes, -l) {}\n"
    assert causes_of(first(line.format(64))) == ["locked_memory"]
    assert not first(line.format("unlimited")).findings
    assert "may lock 2 GiB memory" in str(first(line.format(2097152)).statements)
    # Without hosts to reach, nothing needs locked memory.
    assert not first(line.format(64), nccl_tests("all_reduce", 4, {1 << 26: 900.0})).findings
    assert causes_of(first("Max locked memory         65536                65536                bytes\n")) == [
        "locked_memory"
    ]


def test_two_tables_of_one_test_in_one_file(first):
    table = "# OSU MPI Bandwidth Test v7.5\n# Size      Bandwidth (MB/s)\n2097152   {}\n"
    found = first(table.format(4435.4) + table.format(22587.12))
    # They may be different tests: within a node and between nodes.
    assert str(found.verdict).startswith("possibly slower")
    assert not found.has_causes
    assert "reach 4.44 GB/s, in the other table 22.6 GB/s" in found.findings[0].text
    assert not first(table.format(22487.4) + table.format(22587.12)).findings


def test_cut_cables_do_not_spoil_the_others(first):
    cable = '           3    {}[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       1    1[  ] "n{} HCA-1" ( )\n'
    text = (
        "Switch: 0x0 sw1:\n"
        + cable.format(1, 1)
        + cable.format(2, 2)
        + "           3    4[  ] ==( 4X   53.125 Gbps Activ\n"
    )
    found = first(text)
    assert found.damaged == 1 and "with 4 x 25.78 Gbit/s" in str(found.statements)


def test_a_chosen_tcp_and_settings_of_containers(first):
    found = first("    -e NCCL_SOCKET_IFNAME='bond0' \\\n    -e NCCL_NET='Socket' \\\n")
    assert causes_of(found) == ["tcp_between_nodes"] and "unset NCCL_NET" in found.findings[0].remedy
    assert "(no direct copies between GPUs)" in str(first("export NCCL_P2P_LEVEL=LOC\n").statements)


def test_virtual_machines_and_bridges(first, tmp_path):
    tree = "h:2:7 [0] NCCL INFO === System : maxWidth 12.5 totalWidth 72.0 ===\nh:2:7 [0] NCCL INFO CPU/0 (1/2/4)\n"
    gpus = "".join(f"h:2:7 [0] NCCL INFO + PCI[{{0}}] - GPU/4{n}000 ({n})\n" for n in (7, 8))
    end = "h:2:7 [0] NCCL INFO ==========================================\n"
    assert len(first(tree + gpus.format("24.0") + end).tree.accelerator_names) == 2
    assert "as in virtual machines" in str(first(tree + gpus.format("0.2") + end).statements)
    card = "h:2:7 [0] NCCL INFO + PCI[0.2] - NIC/67000\n"
    assert "as in virtual machines" not in str(first(tree + gpus.format("24.0") + card + end).statements)
    pair = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV{0}\t0-7\t0\nGPU1\tNV{0}\t X \t0-7\t0\n"
    (tmp_path / "topo.txt").write_text(pair.format(3))
    assert "use 3 of the 4 links of their bridge" in fc.diagnose(tmp_path / "topo.txt", gpu="RTX 3090").findings[0].text
    (tmp_path / "topo.txt").write_text(pair.format(4))
    assert not fc.diagnose(tmp_path / "topo.txt", gpu="RTX 3090").findings


def test_fewer_gpus_than_cards_share_their_pcie_links():
    forecast = fc.cluster_collective("hgx_h100", sizes=["1GiB"], gpus=1, nodes=2, nic="4x400", network="RoCE")
    row = forecast.table.iloc[0]
    assert row["limit"] == "PCIe links of the GPUs" and row["bus_gb_per_s"] < 64
    # No public machine uses fewer GPUs than cards: an error of others would not apply.
    assert "is unknown: no public machine" in str(forecast.warnings)


def matrix_both_ways(rates, title="Bidirectional P2P=Enabled"):
    head = "   D\\D  " + "  ".join(map(str, range(len(rates))))
    rows = "".join(f"     {place} {'  '.join(f'{rate:.2f}' for rate in row)}\n" for place, row in enumerate(rates))
    return f"{title} Bandwidth Matrix (GB/s)\n{head}\n{rows}"


def test_a_slow_gpu_in_a_matrix_of_both_ways(first):
    slow = [[900, 50.4, 50.1, 3.9], [51.0, 900, 50.2, 3.9], [51.0, 51.1, 900, 3.9], [3.9, 3.9, 3.9, 278]]
    for title in ("Bidirectional P2P=Enabled", "Bidirectional P2P=Disabled"):
        found = first(matrix_both_ways(slow, title))
        assert causes_of(found) == ["slow_endpoint"] and "GPU 3 reaches 3.9 GB/s in all its" in found.findings[0].text


def test_copies_that_are_equal_with_and_without_direct_access_are_not_called_direct(first):
    rates = [[838, 12.1, 12.6], [12.1, 838, 12.6], [12.6, 12.6, 838]]
    both = matrix_both_ways(rates, "Unidirectional P2P=Disabled") + matrix_both_ways(
        rates, "Unidirectional P2P=Enabled"
    )
    assert "direct copies" not in str(first(both, gpu="RTX 3090").verdict)
    assert "direct copies" in str(first(matrix_both_ways(rates, "Unidirectional P2P=Enabled"), gpu="RTX 3090").verdict)


@pytest.mark.parametrize(
    ("line", "is_set"),
    [
        ("NCCL_P2P_DISABLE=1 ./all_reduce_perf -g 2", True),
        ("user@host:~/tests$ NCCL_P2P_DISABLE=1 ./all_reduce_perf -g 2", True),
        ("**NCCL_P2P_DISABLE=1** ./all_reduce_perf -g 2", True),
        ("mpirun -np 8 -x NCCL_P2P_DISABLE=1 ./all_reduce_perf", True),
        ("env OMP_NUM_THREADS=1 NCCL_P2P_DISABLE=1 python train.py", True),
        ("./all_reduce_perf -g 2 NCCL_P2P_DISABLE=1", False),
        ("Works with NCCL_P2P_DISABLE=1 ./all_reduce_perf, hangs without:", False),
        ("# export NCCL_P2P_DISABLE=1", False),
    ],
)
def test_variables_count_where_they_are_set(line, is_set):
    logs = facts_of_text(f"{line}\nh:1:1 [0] NCCL INFO NCCL version 2.18.5+cuda12.2\n").values(Quantity.NCCL_RUN)
    assert ("NCCL_P2P_DISABLE" in logs[0].environment) is is_set


def test_a_variable_after_the_program_has_no_effect(first):
    assert "follows the program, where it has no effect" in str(
        first("./all_reduce_perf -g 2 NCCL_P2P_DISABLE=1\n").statements
    )


def test_uncorrected_errors_and_failures_of_gpus(first):
    aer = "pcieport 0000:00:01.2: AER: Uncorrectable (Non-Fatal) error received from 0000:63:00.0\n"
    assert "0000:63:00.0: uncorrected errors" in first(aer).findings[0].text
    xid = "[ 1.1] NVRM: Xid (PCI:0000:07:00): {}, pid=1, name=x, words\n"
    assert "firmware of its driver (Xid 38)" in first(xid.format(38)).findings[0].text
    assert "whose meaning is not known here (Xid)" in str(first(xid.format(999)).verdict)
    burn = "50.0%  proc'd: 1 (0 Gflop/s) - 0 (0 Gflop/s)   errors: 0 - 1641686072  (DIED!) temps: 33 C - 29 C\n"
    assert "GPU 1: stopped (gpu_burn)" in first(burn).findings[0].text
    diag = "| GPU Memory                | Pass - GPU: 1                                  |\n"
    failed = diag + "|                           | Fail - GPU: 0                                  |\n"
    assert "GPU 0: fails the test 'GPU Memory' of dcgmi diag" in first(failed).findings[0].text
    assert not first(diag).findings


def test_simple_p2p(first):
    access = "> Peer access from Tesla K80 (GPU0) -> Tesla K80 (GPU1) : {}\n"
    assert causes_of(first(access.format("No"))) == ["no_peer_access"]
    wrong = access.format("Yes") + "Verification error @ element 0: val = nan, ref = 0.000000\n"
    assert str(first(wrong).verdict).startswith("wrong results")
    rate = "cudaMemcpyPeer / cudaMemcpy between GPU0 and GPU1: 11.9GB/s\n"
    assert str(first(access.format("Yes") + rate).verdict).startswith("within the expected range: direct copies")


OSU = "# OSU MPI-ROCM Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n"
ERROR = "[17.85] [lx:2038794:0]  ib_md.c:309  UCX  ERROR ibv_reg_mr(address=0x7f, length=16) failed: Invalid argument\n"


def test_an_error_is_survived_only_if_results_follow(first):
    assert causes_of(first(OSU + ERROR)) == causes_of(first(OSU + "1  0.7\n" + ERROR)) == ["mpi_warning"]
    assert not first(OSU + ERROR + "1  0.7\n2  1.4\n").findings


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("NET/IB : Got async event : local catastrophic error", "fatal error"),
        ("NET/IB : mlx5_0:1 Got async event : local access violation work queue error", "memory of this host"),
        (
            "NET/IB : Got completion from peer 10.1.3.2<3> with status=9 opcode=0 len=0 vendor err 138",
            "other host refused",
        ),
        (
            "NET/IB : Got completion from peer 10.1.3.2<4> with error 5, opcode 0, len 0, vendor err 249",
            "cancelled after",
        ),
        ("Connect to 10.38.10.112<21724> failed : Connection refused", "no process listens"),
        ("socketStartConnect: Connect to 10.0.0.2<45763> failed : Software caused connection abort", "to another rank"),
        ("Call to ibv_reg_dmabuf_mr failed with error Operation not supported", "lacks DMA-BUF"),
        ("Bootstrap Root : rank 1 of 8 ranks has already checked in", "have the same rank"),
        ("Cuda failure 711 'peer mapping resources exhausted'", "more GPUs with direct copies than CUDA permits"),
    ],
)
def test_messages_name_their_layer(first, message, words):
    assert words in first(f"h:1:2 [0] misc/socket.cc:390 NCCL WARN {message}\n").findings[0].text


def test_the_last_retry_and_rendezvous_of_pytorch(first):
    retry = "h:1:2 [0] NCCL INFO socketPollConnect: connect returned No route to host, retrying ({}/34)\n"
    assert causes_of(first(retry.format(34))) == ["nccl_error"] and not first(retry.format(3)).findings
    socket = "[W socket.cpp:601] [c10d] The client socket has failed to connect to [m]:43461 (errno: 113 - No route to host).\n"
    assert "cannot reach the first one" in first(socket).findings[0].text


def test_prose_is_no_message(first):
    for text in ("NCCL failure reproduced on 2.25.1, 2.28.9\n", 'Nothing like "NCCL WARN Cuda failure" either.\n'):
        with pytest.raises(InputError, match="written by no known program"):
            first(text)


def test_hosts_with_blanks_and_sizes_of_zero():
    text = nccl_tests("all_reduce", 4, {1 << 24: 900.0, 1 << 26: 3600.0}).replace(" on node ", " on NODE A ")
    (table,) = facts_of_text(text).values(Quantity.COLLECTIVE)
    assert table.ranks == 4
    zero = "           0             0     float     sum      -1     0.53    0.00    0.00      0     0.21    0.00    0.00      0\n"
    (table,) = facts_of_text(zero * 2 + rows_of(16, {1 << 25: 1931.6, 1 << 26: 3586.3})).values(Quantity.COLLECTIVE)
    assert len(table.rows) == 2


def test_the_reason_of_a_failure_on_the_next_line(first):
    found = first("host: Test CUDA failure common.cu:1007\n'CUDA-capable device(s) is/are busy or unavailable'\n")
    assert "a GPU is busy" in found.findings[0].text


def test_two_gpus_of_bridged_pairs_are_those_of_a_bridge(tmp_path):
    names = [f"GPU{number}" for number in range(4)]
    bridges = {(0, 1), (1, 0), (2, 3), (3, 2)}
    rows = [
        "\t".join([name, *("X" if a == b else "NV12" if (a, b) in bridges else "NODE" for b in range(4)), "0-31", "0"])
        for a, name in enumerate(names)
    ]
    (tmp_path / "topo.txt").write_text(
        "\t".join(["", *names, "CPU Affinity", "NUMA Affinity"]) + "\n" + "\n".join(rows) + "\n"
    )
    node = tmp_path / "topo.txt"
    forecast = fc.cluster_collective(node, gpu="A100 PCIe", gpus=2, sizes=["256 MiB"])
    assert forecast.table["limit"].iloc[0] == "NVLink"
    with pytest.raises(InputError, match="bridges connect pairs of GPUs only"):
        fc.cluster_collective(node, gpu="A100 PCIe", gpus=3, sizes=["256 MiB"])


def test_a_processor_that_no_file_states_makes_an_answer_doubtful(first):
    topology = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t0-7\t0\nGPU1\tSYS\t X \t8-15\t1\n"
    table = nccl_tests("all_reduce", 2, {8: 20.36}).replace("NVIDIA GeForce RTX 4090", "Tesla T4")
    assert str(first(topology, table, gpu="Tesla T4").verdict).startswith("possibly slower than expected")


def test_ranks_of_pytorch_that_wait_at_different_operations(first):
    line = (
        "[Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, OpType=ALLREDUCE) ran for 9 ms\n"
    )
    found = first(line.format(0, 96120) + line.format(0, 96117) + line.format(7, 96088))
    assert "rank 7 waits at operation 96,088, rank 0 at 96,117" in found.findings[0].text
    several = line.format(0, 12) + line.format(1, 12) + line.format(2, 11).replace("ALLREDUCE", "BROADCAST")
    words = "rank 2 waits at operation 11, ranks 0, 1 at 12 (SeqNum), BROADCAST and ALLREDUCE"
    assert words in first(several).findings[0].text
    assert causes_of(first(line.format(0, 5) + line.format(7, 5))) == ["nccl_error"]
    groups = "[Rank {}] [PG {} X] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, OpType=ALLREDUCE)\n"
    assert causes_of(first(groups.format(0, 1, 5) + groups.format(1, 2, 9))) == ["nccl_error"]


def test_ranks_of_pytorch_with_an_earlier_last_operation_are_named():
    watchdog = "[rank{0}]:[E1] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={1}, OpType=BROADCAST)\n"
    status = "[rank{0}]:[E1] [PG ID {1} PG GUID {1} Rank {2}] Timeout at NCCL work: {3}, last enqueued NCCL work: {4}, last completed NCCL work: 1\n"
    dump = "[rank{0}]:[E1] [PG ID {1} PG GUID {1} Rank {0}] Received a dump signal. Last enqueued NCCL work: {2}, last completed: 1\n"
    text = watchdog.format(5, 78) + status.format(5, 0, 5, 78, 79) + dump.format(3, 0, 77)
    expected = "rank 5 waits at operation 78, and rank 3 states 77 as its last one"
    assert any(expected in note for note in facts_of_text(text).values(Quantity.NOTE))
    even = watchdog.format(5, 78) + status.format(5, 0, 5, 78, 79) + dump.format(3, 0, 78)
    assert not any("waits at operation" in note for note in facts_of_text(even).values(Quantity.NOTE))
    elsewhere = text + status.format(3, 2, 1, 9, 9)
    assert not any("rank 3 states 77" in note for note in facts_of_text(elsewhere).values(Quantity.NOTE))


def test_cards_of_infiniband_and_roce_together(first):
    log = "h{}:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_3:1/IB [1]mlx5_0:1/IB [2]mlx5_2:1/{} ; OOB eth0:10.0.0.1<0>\n"
    log += "h{}:1:1 [0] NCCL INFO Using network IB\n"
    mixed = first(log.format(1, "RoCE", 1) + log.format(2, "RoCE", 2)).findings
    assert mixed[0].cause == "mixed_cards" and mixed[0].remedy.startswith("NCCL_IB_HCA=^mlx5_2")
    assert not first(log.format(1, "IB", 1) + log.format(2, "IB", 2)).findings


def p2p(rates, title="Unidirectional P2P=Enabled"):
    return matrix_both_ways(rates, title)


HEALTHY = [[900, 21.5, 21.5], [21.5, 900, 21.5], [21.5, 21.5, 900]]
NARROW = [[900, 21.5, 6.4], [21.5, 900, 6.4], [6.4, 6.4, 900]]


@pytest.mark.parametrize("topology", [(), (MATRIX + "".join(ROWS).replace("SYS", "PHB"),)])
def test_every_file_of_copies_counts_in_any_order(first, topology):
    for title in ("Unidirectional P2P=Enabled", "Unidirectional P2P=Disabled"):
        for files in ((p2p(HEALTHY, title), p2p(NARROW, title)), (p2p(NARROW, title), p2p(HEALTHY, title))):
            found = first(*topology, *files, gpu="RTX 4090")
            assert "slow_endpoint" in causes_of(found), title


def test_host_memory_is_not_called_slow_where_direct_copies_are_slower(first):
    slow = [[900, 5.1, 5.1], [5.1, 900, 5.1], [5.1, 5.1, 900]]
    files = p2p(HEALTHY, "Unidirectional P2P=Disabled") + p2p(slow)
    table = nccl_tests("all_reduce", 3, {1 << 26: 90000.0})
    found = first(MATRIX + "".join(ROWS).replace("SYS", "PHB"), files, table, gpu="RTX 6000 Ada")
    assert "slower_than_staged" in causes_of(found) and "host_memory_transport" not in causes_of(found)


def test_texts_of_results_are_short_and_have_their_notes():
    schedule = fc.fastest_schedule("storm8", fc.halo_exchange("storm8", (4, 2)))
    assert len(repr(schedule)) < 200 and "naive order" in repr(schedule)
    forecast = fc.cluster_collective("hgx_h100", sizes=["64 MiB"])
    assert any("expected error" in one for one in forecast.table.attrs["warnings"])
    nearest = fc.reference("H100", gpus=8, nodes=5, sizes=["1 GiB"])
    assert "the nearest one" in repr(nearest) and "the nearest one" in nearest.table.attrs["warnings"][0]


def test_files_and_functions_of_another_kind_are_refused(tmp_path):
    (tmp_path / "topology.conf").write_text(
        "SwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Nodes=n[4-7]\nSwitchName=s2 Switches=s[0-1]\n"
    )
    with pytest.raises(InputError, match="expected messages between two processes or pairs"):
        fc.fit_max_rate(tmp_path / "topology.conf")
    with pytest.raises(InputError, match="expected bytes/s, at least 1e\\+06"):
        fc.predict("storm8", [(0, 1)], model=lambda tree, copies: [11.6] * len(copies))
    (tmp_path / "topo.txt").write_text(MATRIX + "".join(ROWS))
    with pytest.raises(InputError, match="pass through host memory, which schedules do not model"):
        fc.fastest_schedule(
            fc.load_machine(tmp_path / "topo.txt", gpu="RTX 4090"), fc.graph([(0, 1), (1, 0)], size="64 MiB")
        )


def test_ibstat_states_the_cards_of_a_cluster(tmp_path, first):
    forecast = fc.cluster_collective("hgx_h100", sizes=["256 MiB", "8 GiB"], nodes=4, nic="8x400").table
    rows = [(int(size), 4 * time) for size, time in zip(forecast["size_bytes"], forecast["time_us"], strict=True)]
    log = nccl_tests_log(tmp_path / "run.log", rows, ranks=32, hosts=4).read_text()
    port = "CA 'mlx5_{}'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: {}\n"
    ports = "".join(port.format(number, 400) for number in range(8))
    assert str(first(log).verdict).startswith("possibly slower") and "if these are its cards" in str(first(log).verdict)
    stated = first(log, ports)
    assert str(stated.verdict).startswith("slower than expected") and "assumed" not in str(stated.verdict)
    # A card for storage has another rate; hosts that differ decide nothing.
    assert str(first(log, ports + port.format(9, 100)).verdict).startswith("slower than expected")
    assert (
        "if these are its cards" in str(first(log, ports, port.format(0, 200)).verdict)
        or first(log, ports, port.format(0, 200)).findings
    )


def test_compressed_files_are_named(tmp_path):
    (tmp_path / "run.log.gz").write_bytes(gzip.compress(b"#  Rank  0"))
    with pytest.raises(InputError, match="is compressed \\(gzip\\), expected its text"):
        fc.diagnose(tmp_path / "run.log.gz")


def test_hops_over_the_network_of_one_host_are_not_between_nodes(first):
    log = "node:1:1 [0] NCCL INFO Channel 00 : 0[1000] -> 1[2000] [send] via NET/Socket/0\n"
    log += "node:1:1 [0] NCCL INFO Using network Socket\n"
    found = causes_of(first(nccl_tests("all_reduce", 4, {1 << 26: 90000.0}) + log))
    assert "network_in_host" in found and "tcp_between_nodes" not in found
