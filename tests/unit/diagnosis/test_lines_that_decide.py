"""Reports in which one line names the cause: of the kernel, NCCL, libfabric, UCX and rocm_bandwidth_test."""

import pytest

import fabricast as fc
from fabricast.core.errors import InputError

INFO = "{0}:9:9 [0] NCCL INFO "


def texts_of(diagnosis):
    return [one.text for one in diagnosis.findings]


def stated(diagnosis):
    return " ".join(str(one) for one in diagnosis.statements)


def test_a_window_of_a_gpu_without_addresses_is_a_fault(first):
    found = (
        "[    2.07] pci 0000:84:00.0: [10de:2b85] type 00 class 0x030000 PCIe Legacy Endpoint\n"
        "[   13.04] nvidia 0000:84:00.0: BAR 1 [mem size 0x800000000 64bit pref]: can't assign; no space\n"
    )
    assert "0000:84:00.0: BAR 1 of 32 GiB cannot be assigned" in texts_of(first(found))[0]
    assert "Above 4G" in first(found).findings[0].remedy
    placed = "[   13.05] pci 0000:84:00.0: BAR 1 [mem 0xe05c0000000-0xe0dbfffffff 64bit pref]: assigned\n"
    assert not first(found + placed).findings
    # Linux before 6.9, and the window of a device that is no GPU.
    before = "[    2.10] pci 0000:84:00.0: BAR 1: no space for [mem size 0x800000000 64bit pref]\n"
    assert "32 GiB" in texts_of(first(found.splitlines()[0] + "\n" + before))[0]
    assert not first(before).findings
    # A size without the words of a failure.
    assert not first(found.replace(": can't assign; no space", ": releasing")).findings


def test_page_faults_of_amd_are_stated(first):
    found = first(
        "[19.9] amdgpu 0000:3d:00.0: amdgpu: [mmhub0] no-retry page fault (src_id:0 ring:160 vmid:3 pasid:3)\n"
        "[19.9] amdgpu 0000:3d:00.0: amdgpu:  for process python3 pid 6071 thread python3 pid 6071)\n"
    )
    assert "0000:3d:00.0: page fault of the process python3" in stated(found)
    assert "no errors of GPUs" not in stated(found)


def test_shared_memory_of_old_versions_is_no_direct_copy(first):
    hop = INFO.format("a") + "Channel 00 : 1[89000] -> 0[3d000] via direct shared memory\n"
    found = stated(first(hop + INFO.format("a") + "comm 0x7f rank 1 nranks 2 cudaDev 0 busId 89000 - Init COMPLETE\n"))
    assert "via SHM (1)" in found and "via direct" not in found


def test_cards_that_old_versions_list_are_the_network(first):
    tcp = INFO.format("a") + "NET/Socket : Using [0]ib0:192.168.11.1<0>\n"
    cards = INFO.format("a") + "NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:192.168.11.1<0>\n"
    other = (tcp + cards).replace("a:9", "b:9").replace("11.1", "11.2")
    found = first("NCCL version 2.4.7+cuda10.0\n" + tcp + cards + other)
    assert "network IB" in stated(found) and not found.findings
    chosen = first(tcp + cards + INFO.format("a") + "Using network Socket\n")
    assert "network Socket" in stated(chosen)


def test_the_interface_lo_between_hosts_is_a_cause(first):
    lines = "".join(
        INFO.format(host) + f"{words}\n"
        for host, words in (
            ("a", "comm 0x7f rank 0 nranks 4"),
            ("b", "comm 0x7f rank 2 nranks 4"),
            ("b", "NET : Using interface lo:127.0.0.1<0>"),
        )
    )
    assert [one.cause for one in first(lines).findings] == ["local_interface"]
    refused = "b:9:9 [1] include/socket.h:361 NCCL WARN Call to connect timeout : Connection refused\n"
    found = first(lines + refused)
    assert found.findings[0].cause == "local_interface" and str(found.verdict).startswith("the run failed")


def test_advice_for_gpudirect_leaves_out_what_is_set(first):
    log = (
        "NCCL version 2.21.5+cuda12.4\n"
        + "".join(INFO.format(host) + "comm 0x7f rank 0 nranks 2 nNodes 2 busId 1000\n" for host in "ab")
        + INFO.format("a")
        + "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
    )
    remedy = first(log).findings[0].remedy
    assert "update NCCL: versions before 2.23.4" in remedy and "NCCL_NET_GDR_LEVEL=SYS" in remedy
    level = INFO.format("a") + "NCCL_NET_GDR_LEVEL set by environment to SYS.\n"
    assert "NCCL_NET_GDR_LEVEL" not in first(log + level).findings[0].remedy
    assert "update NCCL" not in first(log.replace("2.21.5", "2.27.3")).findings[0].remedy


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fi_getinfo: -61 (No data available)", "libfabric finds no card of the provider"),
        ("fi_getinfo: provider efa output empty list", "libfabric finds no card of the provider"),
        ("RuntimeError: CUDA error: mapping of buffer object failed", "direct copies between GPUs cannot be set up"),
        ("RuntimeError: [3] store->get('1') got error: Socket Timeout", "rank 0 does not answer"),
        ("[0] MPI startup(): libfabric provider: sockets", "provider sockets"),
    ],
)
def test_a_line_that_names_the_cause_is_read(first, line, words):
    assert words in texts_of(first(f"some text\n{line}\n"))[0]


def test_results_after_a_query_of_the_cards_that_failed_are_slow(first):
    error = (
        "[1.2] [n1:1:0] ib_verbs.h:84 UCX  ERROR ibv_exp_query_device(mlx5_0) returned 38: No space left on device\n"
    )
    table = "# OSU MPI Bandwidth Test v5.3.2\n# Size      Bandwidth (MB/s)\n1 0.61\n2 0.89\n4 1.82\n8 3.7\n"
    found = first(error + table)
    assert [one.cause for one in found.findings] == ["mpi_warning"]
    assert "another libibverbs" in found.findings[0].text


def test_the_range_of_a_late_protocol_begins_with_its_line(first):
    times = [3.53] * 4 + [3.85, 5.02, 6.71, 10.34, 28.88, 53.57, 102.97, 5.07, 5.89, 6.26, 8.45, 11.01, 14.24, 19.98]
    rows = "".join(f"{2**power:<24}{time}\n" for power, time in enumerate(times))
    found = first("# OSU MPI Latency Test v5.8\n# Size          Latency (us)\n" + rows)
    assert "messages of 256 B to 1 KiB would be faster" in texts_of(found)[0]


def test_the_title_of_old_versions_of_rocm_bandwidth_test_is_read(tmp_path):
    path = tmp_path / "copies.txt"
    path.write_text(
        "RocmBandwidthTest Version: 2.0.1\n\n"
        "Device: 0,  AMD EPYC\nDevice: 1,  Vega 20,  03:0.0\nDevice: 2,  Vega 20,  06:0.0\n\n"
        "Device Access\n\nD/D       0         1         2\n\n0         1         1         1\n\n"
        "1         1         1         0\n\n2         1         0         1\n\n"
        "Unidirectional copy peak bandwidth GB/s\n\nD/D       0           1           2\n\n"
        "0         N/A         12.1        12.1\n\n1         12.9        400.1       N/A\n\n"
        "2         12.9        N/A         400.1\n"
    )
    found = fc.diagnose([str(path)])
    assert [one.cause for one in found.findings][:1] == ["no_peer_access"]


@pytest.mark.parametrize("command", ["mpirun -np 2 --host localhost:2 ./osu_latency", "srun -N 1 -n 2 ./osu_latency"])
def test_slow_messages_within_a_host_are_no_question_of_network_cards(first, command):
    table = "# OSU MPI Latency Test v5.6.1\n# Size          Latency (us)\n0 14.78\n1 15.76\n2 15.70\n4 15.05\n"
    found = first(f"{command}\n{table}")
    assert [one.cause for one in found.findings] == ["slow_within_host"]
    assert "between processes of one host" in found.findings[0].text and "shared memory" in found.findings[0].remedy
    assert [one.cause for one in first(f"{command} between two nodes\n{table}").findings] == ["messages_over_tcp"]
    # Words about any host do not place both processes on it.
    prose = "Rank 0 runs on a node, rank 1 elsewhere."
    assert [one.cause for one in first(f"{prose}\n{table}").findings] == ["messages_over_tcp"]


def test_parts_of_a_query_without_its_beginning_are_read(first):
    found = first("    Fabric\n        State        : In Progress\n        Status        : N/A\n")
    assert texts_of(found) == ["a GPU: fabric state is In Progress: NVLink is not ready"]
    window = "    BAR1 Memory Usage\n        Total        : {} MiB\n        Used         : 1 MiB\n"
    assert "BAR1 of a GPU has 256 MiB" in stated(first(window.format(256)))
    sizes = stated(first(window.format(32768) + window.format(8192) + window.format(32768)))
    assert "BAR1 is 32768 MiB on 2 GPUs, 8192 MiB on 1 GPU; sizes differ" in sizes


def test_a_tree_without_names_does_not_hide_the_access_of_gpus(first):
    found = first(
        "nvidia-smi topo -p2p r\n \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n\nLegend:\n\n  X    = Self\n"
        "# lspci -t\n-[0000:00]-+-00.0\n           \\-01.1-[01]----00.0\n"
    )
    assert any("GPU not supported" in str(one) for one in (*found.statements, *found.notes))


def test_a_protocol_that_is_much_slower_where_it_begins_is_named(first):
    rates = [93.0, 186.0, 372.0, 745.0, 1490.0, 2900.0, 6421.73, {0}, 1868.04, 2345.0, 2879.16, 9000.0]
    table = "# OSU MPI Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n"

    def rows(slow):
        return "".join(f"{2 ** (7 + n):<20}{slow if one == {0} else one}\n" for n, one in enumerate(rates))

    found = first(table + rows(1484.76))
    assert [one.cause for one in found.findings] == ["slow_protocol"]
    assert "falls from 6.42 GB/s at 8 KiB to 1.48 GB/s at 16 KiB" in found.findings[0].text
    # A single size that is slow may be noise.
    rates[8:11] = [6500.0, 7000.0, 8000.0]
    assert not first(table + rows(1484.76)).findings


def test_a_table_with_a_further_column_is_no_hang(first):
    head = "#  nodes        size         count      type   redop     time   algbw   busbw  error\n"
    row = "   1   1073741824     268435456     float     sum   8142.6  131.87  230.77  2e-07\n"
    with pytest.raises(InputError, match="2: has a column before the size"):
        first(head + row)


def test_a_log_that_ends_before_its_initialisation_asks_for_what_follows(first):
    log = (
        INFO.format("a")
        + "Using network Socket\n"
        + INFO.format("a")
        + "Channel 00 : 1[21000] -> 0[1000] via P2P/IPC\n"
    )
    assert "add the output up to the error or hang" in str(first(log).verdict)
    done = INFO.format("a") + "comm 0x7f rank 1 nranks 2 cudaDev 0 busId 89000 - Init COMPLETE\n"
    assert "add the table of nccl-tests" in str(first(log + done).verdict)


def test_the_distance_of_a_gpu_without_gpudirect_is_a_cause(first):
    line = "NET/IB : GPU Direct RDMA Disabled for GPU 18000 / HCA 0 (distance 5 > 4)\n"
    log = "".join(INFO.format(host) + "comm 0x7f rank 0 nranks 2 nNodes 2 busId 1000\n" for host in "ab")
    assert [one.cause for one in first(log + INFO.format("a") + line).findings] == ["no_gpudirect"]


@pytest.mark.parametrize(
    "words",
    ["Both ports report `ACSCtl: SrcValid+ ReqRedir+ CmpltRedir+`.", "on (ACSCtl: 0x001d = SrcValid+, ReqRedir+)"],
)
def test_access_control_within_a_sentence_is_read(first, words):
    assert [one.cause for one in first(f"{words}\n").findings] == ["possible_access_control"]


def test_tables_of_two_commands_name_their_difference(first):
    head = "# OSU MPI Latency Test v5.4.1\n# Size          Latency (us)\n"
    near = "".join(f"{2**power:<24}{0.70 + power / 100:.2f}\n" for power in range(12))
    far = "".join(f"{2**power:<24}{1.11 + power / 100:.2f}\n" for power in range(12))
    command = "$ mpirun -np 2 --bind-to core --map-by {} osu_latency\n"
    found = first(command.format("core") + head + near + command.format("numa") + head + far)
    assert "; the commands differ: '--map-by core' and '--map-by numa'" in texts_of(found)[0]
    assert "count the switches" not in found.findings[0].remedy
    same = first(command.format("core") + head + near + command.format("numa") + head + near)
    assert str(same.verdict).startswith("within") and "'--map-by numa'" in str(same.verdict)
    assert "commands" not in str(first((command.format("core") + head + near) * 2).verdict)


def test_a_process_that_hangs_in_the_kernel_is_a_cause(first):
    found = first(
        "[  120.000001] INFO: task python3:4242 blocked for more than 120 seconds.\n"
        "[  120.000002]  uvm_va_space_destroy+0x1/0x2 [nvidia_uvm]\n"
    )
    assert "a process hangs in the kernel" in texts_of(found)[0]


GPU_LATENCY = "# OSU MPI-CUDA Latency Test v7.3\n# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)\n"


def test_messages_of_gpu_memory_are_not_judged_as_those_of_host_memory(first):
    rows = "# Size          Latency (us)\n1 12.5\n1048576 300.0\n"
    assert first("# OSU MPI Latency Test v7.3\n" + rows).findings[0].cause == "messages_over_tcp"
    assert not first(GPU_LATENCY + rows).findings
    late = first(GPU_LATENCY + rows.replace("12.5", "31.0")).findings[0]
    assert late.cause == "slow_gpu_buffers"
    assert "gdr_copy" in late.remedy


def test_a_rate_of_gpu_memory_below_any_link_is_named(first):
    table = "# OSU MPI-CUDA Bandwidth Test v7.3\n# Send Buffer on DEVICE (D) and Receive Buffer on HOST (H)\n"
    rows = "# Size      Bandwidth (MB/s)\n65536 1500.0\n1048576 1600.0\n"
    found = first(table + rows)
    assert "reach 1.6 GB/s at most with buffers in GPU memory" in found.findings[0].text
    assert not first(table + rows.replace("1600", "4600")).findings
    assert not first(table.replace("DEVICE (D) and", "HOST (H) and").replace("-CUDA", "") + rows).findings


def test_one_failure_of_sharp_is_one_cause(first):
    found = first(
        "[C25L19:0:9 unique id 7] ERROR Failed to lock SAT tree(ID:0x40 ret:0x4) in sharp_alloc_group.\n"
        + INFO.format("C25L19").replace("INFO", "WARN")
        + "SHARP group create: Streaming Tree lock failed (-18)\n"
    )
    assert [one.cause for one in found.findings] == ["nccl_warning"]
    assert "sharp_am" in found.findings[0].remedy


def test_shared_memory_that_is_full_is_named_once(first):
    start = INFO.format("a").replace("INFO", "WARN")
    found = first(
        start
        + "Error while creating shared memory segment /dev/shm/nccl-KWfVyt (size 5967872)\n"
        + start
        + "Error: failed to extend /dev/shm/nccl-fjwOOB to 5967876 bytes\n"
        + start
        + "a message of no known meaning\n"
    )
    assert [one.text.partition(" (a)")[0] for one in found.findings] == ["shared memory (/dev/shm) is too small"]


@pytest.mark.parametrize(
    ("interface", "words"),
    [
        ("lo:127.0.0.1<0>", "interface lo, which reaches no other host"),
        ("docker0:172.17.0.1<0>", "interface docker0, a bridge"),
    ],
)
def test_interfaces_of_one_host_between_hosts_are_named(first, interface, words):
    lines = INFO.format("a") + f"NET/Socket : Using [0]{interface}\n" + INFO.format("a") + "Using network Socket\n"
    hop = INFO.format("a") + "Channel 00/0 : 0[7000] -> 1[1b000] [send] via NET/Socket/0\n"
    assert words in texts_of(first(lines + hop))[0]
    assert len(first(lines + hop).findings) == 1
    # Addresses of one link reach the hosts of this link.
    link = lines.replace(interface, "eno1:fe80::745d%eno1<0>") + hop
    assert [one.cause for one in first(link).findings] == ["tcp_between_nodes"]
    failed = INFO.format("a").replace("INFO", "WARN") + "Connect to fe80::1%eno1<4> failed : Connection timed out\n"
    assert "interface eno1, whose address (fe80)" in " ".join(texts_of(first(link + failed)))
    # A run that began reached its hosts, and a single host needs no other interface.
    done = INFO.format("a") + "comm 0x7f rank 0 nranks 2 cudaDev 0 busId 7000 - Init COMPLETE\n"
    assert "local_interface" not in [one.cause for one in first(lines + hop + done).findings]
    assert not first(lines).findings


def test_ranks_with_one_address_are_of_different_hosts(first):
    hops = "Channel 00 : 0[18000] -> 1[18000] [receive] via NET/Socket/1\n"
    found = first(INFO.format("a") + hops + INFO.format("a") + hops.replace("0[18000] -> 1", "1[18000] -> 0"))
    assert [one.cause for one in found.findings] == ["tcp_between_nodes"]


def test_hosts_with_different_plugins_are_named(first):
    found = first(
        INFO.format("a")
        + "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.\n"
        + INFO.format("b")
        + "Plugin Path : /opt/hpcx/lib/libnccl-net.so\n"
    )
    assert "b uses the plugin libnccl-net.so for the network; a uses no plugin" in texts_of(found)[0]


def test_processes_that_run_by_themselves_are_named(first):
    done = "comm 0x55 rank 0 nranks 1 cudaDev 0 busId d8000 - Destroy COMPLETE\n"
    found = first(INFO.format("a") + done + INFO.format("b") + done)
    assert "every process runs by itself" in texts_of(found)[0]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            "Net : No interface found in the same subnet as remote address 192.168.0.91<27030>",
            "no interface in the net",
        ),
        ("NET/OFI Request 0x7f completed with error. RC: 20. Error: unknown error.", "failed in libfabric"),
        ("Failed to find reverse path from remNode 0/200000 nlinks 3 to node 0/700000", "topology that it reads"),
        ("hipIpcGetMemHandle failed : invalid argument", "direct copies between GPUs cannot be set up"),
    ],
)
def test_messages_of_nccl_have_their_meaning(first, message, words):
    assert words in texts_of(first(INFO.format("a").replace("INFO", "WARN") + message + "\n"))[0]


def test_an_unknown_warning_comes_before_a_general_failure(first):
    warning = INFO.format("a").replace("INFO", "WARN") + "the flux capacitor is empty\n"
    found = first(warning + "a: Test NCCL failure common.cu:961 'internal error - please report this issue'\n")
    assert texts_of(found)[0] == 'NCCL warns: "the flux capacitor is empty"'
    assert str(found.verdict).startswith("the run failed")


def test_a_slow_transport_explains_no_failure(first):
    hop = INFO.format("a") + "Channel 01/0 : 9[1] -> 0[0] [receive] via NET/Socket/0\n"
    failed = INFO.format("a").replace("INFO", "WARN") + "socketFinalizeAccept: wrong type 4 != 3\n"
    assert [one.cause for one in first(hop + failed).findings] == ["nccl_error"]
    assert [one.cause for one in first(hop).findings] == ["tcp_between_nodes"]


def test_a_warning_that_a_sentence_quotes_is_read(first):
    found = first("we encountered NCCL WARN NET/IB : Got completion with error 4, opcode 0, len 32694, vendor err 81\n")
    assert "error 4" in texts_of(found)[0]
