"""First answers that a review proved wrong: each states a cause that the input does not have."""

import pytest

import fabricast as fc

ROW = "{0} {1} float sum -1 {2:.2f} {3:.2f} {4:.2f} 0\n"
PORT = "CA '{0}'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tLink layer: {1}\n"


def run_log(host, rate, head=""):
    ranks = "".join(
        f"#  Rank {n} Group  0 Pid 1 on {host} device {n} [0x1{n}] NVIDIA H100 80GB HBM3\n" for n in range(8)
    )
    rows = "".join(ROW.format(2**n, 2**n // 4, 2**n * 1.75 / rate / 1e3, rate / 1.75, rate) for n in (28, 30, 33))
    return f"{head}# Collective test starting: all_reduce_perf\n{ranks}# size count type redop root time algbw busbw #wrong\n{rows}"


def test_a_setting_of_one_host_precedes_its_slow_rate(first):
    setting = "n4:1:1 [0] NCCL INFO NCCL_NVLS_ENABLE set by environment to 0.\n"
    hosts = [run_log(f"n{number}", 475.0) for number in (1, 2, 3)]
    found = first(*hosts, run_log("n4", 356.0, setting))
    assert found.findings[0].cause == "nvls_excluded"
    assert not any(one.cause == "slow_host" for one in found.findings)
    assert first(*hosts, run_log("n4", 356.0)).findings[0].cause == "slow_host"


def test_a_connection_type_of_perftest_is_no_option_for_cycles(first):
    text = (
        "$ ib_send_lat -cRC host2\n                    Send Latency Test\n Dual-port       : OFF\n Connection type : RC\n"
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
        "   99% percentile[usec]   99.9% percentile[usec]\n 2       1000          1.05           3.00         1.10"
        "     1.11             0.05            1.20                    3.00\n"
    )
    found = first(text)
    assert not any("option -C" in text for text in (*found.statements, *found.notes))


def test_rows_of_another_osu_test_are_no_latency(first):
    text = (
        "$ mpirun -np 2 osu_latency\n# Size          Latency (us)\n4 1.10\n1024 1.90\n1048576 50.10\n"
        "$ mpirun -np 64 osu_allreduce\n# Size       Avg Latency(us)\n4 21.1\n1024 40.9\n1048576 10000.1\n"
    )
    assert not first(text).findings


def test_a_refused_query_of_the_firmware_is_no_fault(first):
    line = "[1.5] mlx5_core 0000:04:00.0: mlx5_cmd_out_err:795:(pid 99): {}(0x805) op_mod(0x1) failed, status bad operation(0x2), syndrome (0x1), err(-22)\n"
    assert not first(line.format("ACCESS_REG") + line.format("QUERY_VNIC_ENV")).findings
    assert first(line.format("CREATE_QP")).findings


@pytest.mark.parametrize(
    ("layer", "host", "is_unused"),
    [("InfiniBand", "", True), ("Ethernet", "", False), ("InfiniBand", "login1: ", False)],
)
def test_ports_of_another_network_or_host_are_no_unused_cards(first, layer, host, is_unused):
    log = "n1:1:1 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_0,mlx5_1,mlx5_2,mlx5_3\n" + "".join(
        f"n{1 + rank // 8}:1:1 [{rank % 8}] NCCL INFO comm 0x1 rank {rank} nranks 16 cudaDev {rank % 8} busId 1{rank % 8}000 commId 0x2 - Init START\n"
        f"n{1 + rank // 8}:1:1 [{rank % 8}] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [3]mlx5_3:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
        f"n{1 + rank // 8}:1:1 [{rank % 8}] NCCL INFO Channel 00/0 : {rank}[{rank % 8}] -> {(rank + 8) % 16}[{rank % 8}] [send] via NET/IB/0/GDRDMA\n"
        for rank in range(16)
    )
    ports = "".join(PORT.format(f"mlx5_{number}", "InfiniBand" if number < 4 else layer) for number in range(8))
    ports = "".join(f"{host}{line}\n" for line in ports.splitlines())
    causes = [one.cause for one in first(log, ports).findings]
    assert ("unused_network_cards" in causes) == is_unused


def test_providers_that_were_asked_for_are_no_missing_card(first):
    text = (
        "provider: tcp;ofi_rxm\n    fabric: eth0\n    domain: eth0\nprovider: {}\n    fabric: eth0\n    domain: eth0\n"
    )
    assert first(text.format("shm")).findings
    with pytest.raises(fc.InputError):
        first("$ fi_info -p tcp\n" + text.format("tcp"))


@pytest.mark.parametrize(("time_us", "is_loss"), [(350.0, False), (9000.0, True)])
def test_a_lasting_step_below_timeouts_is_no_loss(first, time_us, is_loss):
    rows = "".join(f"{2**n} {12.0 + n / 10 if n <= 12 else time_us + n:.2f}\n" for n in range(2, 17))
    found = first("# OSU MPI Latency Test v7.2\n# Size          Latency (us)\n" + rows)
    assert any(one.cause == "late_messages" for one in found.findings) == is_loss


def test_rows_of_iperf_that_it_omits_are_no_run(first):
    rows = "[  5]   {0}.00-{1}.00   sec  {2} GBytes  {3} Gbits/sec    0   1.0 MBytes{4}\n"
    text = rows.format(0, 1, "0.600", "5.17", "       (omitted)") + "".join(
        rows.format(n, n + 1, "1.09", "9.40", "") for n in range(3)
    )
    found = first("Connecting to host n2, port 5201\n" + text)
    assert not any("5.17" in words for words in (str(found.verdict), *found.statements))


def test_settings_of_advice_are_not_set(first):
    found = first("The run was fine. If not, use mpirun -x NCCL_P2P_DISABLE=1 next time.\n" + run_log("n1", 475.0))
    assert str(found.verdict).startswith("within")
    assert not any("NCCL_P2P_DISABLE" in text for text in found.statements)


def test_source_code_states_no_failure(first):
    code = '    WARN("P2P is disabled between NVLINK connected GPUs %d and %d. This should not be the case", a, b);\n'
    code += '    fprintf(stderr, "Unable to init the socket connection");\n'
    assert not first(code + run_log("n1", 475.0)).findings


def test_harmless_lines_do_not_turn_a_survived_error_into_a_failure(first):
    survived = "[n1:7] btl_tcp_endpoint.c:733] connect() to 10.0.0.2:1024 failed: Connection refused (111)\n"
    osu = "# OSU MPI Latency Test v7.2\n# Size          Latency (us)\n4 1.10\n1024 1.90\n1048576 50.10\n"
    for line in ("bash: module: command not found\n", "modprobe: FATAL: Module msr not found in directory /lib\n"):
        assert not str(first(line + survived + osu).verdict).startswith("the run failed")


def test_sockets_have_no_gpudirect_that_could_be_missing(first):
    text = "h:1:2 [0] NCCL INFO NET/{0} : GPU Direct RDMA Disabled for HCA 0 'eth0'\nh:1:2 [0] NCCL INFO Using network {0}\n"
    assert not any(one.cause == "no_gpudirect" for one in first(text.format("Socket")).findings)
    assert any(one.cause == "no_gpudirect" for one in first(text.format("IB")).findings)


def test_pairs_of_processes_are_not_advised_where_they_were_measured(first):
    port = PORT.format("mlx5_0", "InfiniBand")
    rows = "".join(f"{2**n} 30000.00 {30000e6 / 2**n:.2f}\n" for n in range(14, 23))
    title = "# OSU MPI Multiple Bandwidth / Message Rate Test v7.2\n# [ pairs: 16 ] [ window size: 64 ]\n"
    (found,) = first(f"{title}# Size                  MB/s        Messages/s\n{rows}", port).findings
    assert found.cause == "below_port_rate" and "more processes" not in found.remedy


SLOT = "{0}:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1)\n\tNUMA node: 0\n\tCapabilities: [78] Express (v2) Legacy Endpoint, MSI 00\n\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n\t\tLnkSta:\tSpeed 16GT/s, Width x{1}\n"
COPIES = (
    "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n"
    "Device: 0, NVIDIA GeForce RTX 4090, pciBusID: 3, pciDeviceID: 0, pciDomainID:0\n"
    "Device: 1, NVIDIA GeForce RTX 4090, pciBusID: 4, pciDeviceID: 0, pciDomainID:0\n"
    "Device=0 CANNOT Access Peer Device=1\nDevice=1 CANNOT Access Peer Device=0\n"
    "P2P Connectivity Matrix\n     D\\D     0     1\n     0\t     1     0\n     1\t     0     1\n"
    "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1 \n     0 911.78  21.62\n     1  21.43 915.20\n"
)
TOPO = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNODE\t0-15\t0\nGPU1\tNODE\t X \t0-15\t0\n"


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_copies_refute_a_narrow_link_also_beside_a_topology_without_addresses(first, order):
    files = (TOPO, SLOT.format("03", 16) + SLOT.format("04", 8), COPIES)
    found = first(*(files[place] for place in order))
    assert str(found.verdict).startswith("within the expected range")
    (contradiction,) = found.findings
    assert contradiction.cause == "files_contradict" and "1.txt" in contradiction.origin


def test_no_setting_permits_the_direct_copies_that_a_file_denies(tmp_path):
    for name, text in (("topo.txt", TOPO), ("p2p.txt", COPIES)):
        (tmp_path / name).write_text(text)
    files = [tmp_path / "topo.txt", tmp_path / "p2p.txt"]
    found = fc.collective(files, sizes=["64MiB"], gpu="RTX 4090", env={"NCCL_P2P_LEVEL": "SYS"})
    assert found.table["limit"].iloc[0] == "copies through host memory"


@pytest.mark.parametrize(
    ("bridge", "family"),
    [
        ("Advanced Micro Devices, Inc. [AMD] Starship/Matisse Root Complex", "amd"),
        ("Intel Corporation Sky Lake-E DMI3 Registers", "intel_skylake"),
        ("Intel Corporation 440FX - 82441FX PMC [Natoma]", None),
    ],
)
def test_the_names_of_host_bridges_state_the_processor(tmp_path, bridge, family):
    (tmp_path / "lspci.txt").write_text(
        f"-[0000:00]-+-00.0  {bridge}\n           +-01.0-[01]----00.0  NVIDIA Corporation AD102 [GeForce RTX 4090]\n"
        "           \\-02.0-[02]----00.0  NVIDIA Corporation AD102 [GeForce RTX 4090]\n"
    )
    assert fc.load_machine(tmp_path / "lspci.txt").cpu == family


def test_a_matrix_without_pairs_has_no_median(tmp_path):
    from typer.testing import CliRunner

    from fabricast.cli.main import app

    enabled = COPIES.replace("P2P=Disabled", "P2P=Enabled").replace("  21.62", "").replace("  21.43 915.20", " 915.20")
    (tmp_path / "p2p.txt").write_text(COPIES + enabled[enabled.index("Unidir") :])
    output = CliRunner().invoke(app, ["bandwidth", str(tmp_path / "p2p.txt")]).output
    assert "median 21.5" in output and "median 91" not in output


def test_cut_tables_are_no_missing_links(first):
    cut = COPIES[: COPIES.index("P2P Connectivity")]
    for files in ((cut,), (TOPO, cut)):
        assert "its tables are cut" in str(first(*files).verdict)
    assert "its tables are cut" not in str(first(TOPO, COPIES).verdict)


def test_small_sizes_of_a_cut_table_are_no_share_of_a_rate(first):
    head = run_log("n1", 475.0).partition("# size")[0]
    table = f"# nThread 1 nGpus 8 minBytes 8 maxBytes 4294967296 step: 2(factor)\n{head}# size count type redop root time algbw busbw #wrong\n"
    found = first(f"{table}8 2 float sum -1 59.98 0.00 0.00 0\n")
    assert "the table ends after 8 B" in str(found.verdict) and "100 %" not in str(found.verdict)


def test_a_single_gpu_has_no_copies_to_others(first):
    found = first("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-71\t0\n")
    assert "1 GPU" in found.statements and not any("copies pass over PCIe" in text for text in found.statements)


def test_perftest_without_rows_is_named_as_such(first):
    head = "                    RDMA_Write BW Test\n Connection type : RC           Using SRQ      : OFF\n"
    head += " local address: LID 0x1907 QPN 0x0867 PSN 0x6d058e RKey 0x1fffb9 VAddr 0x007f58a406e000\n"
    found = first(head)
    assert not found.findings and any("perftest prints no result" in text for text in found.statements)
    failed = first(head + " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n")
    assert failed.findings[0].cause == "mpi_error"


def test_further_slow_runs_of_a_slow_host_are_not_listed(first):
    pairs = [
        ("n1", "n2", 470.0),
        ("n1", "n3", 226.0),
        ("n1", "n4", 465.0),
        ("n2", "n3", 228.0),
        ("n2", "n4", 460.0),
        ("n3", "n4", 227.0),
    ]
    found = first(*(pair_log(*pair) for pair in pairs))
    causes = [one.cause for one in found.findings]
    # Fewer cards than those of public machines would explain the other runs.
    assert causes[0] == "slow_host" and "slower_than_public_machines" not in causes
    assert sum("NCCL 2.21.5" in one for one in found.statements) == 1


def pair_log(one, other, rate):
    ranks = "".join(
        f"#  Rank {n} Group  0 Pid 1 on {one if n < 8 else other} device {n % 8} [0x1{n % 8}] NVIDIA H100 80GB HBM3\n"
        for n in range(16)
    )
    rows = "".join(ROW.format(2**n, 2**n // 4, 2**n * 1.875 / rate / 1e3, rate / 1.875, rate) for n in (28, 30, 33))
    info = f"{one}:1:1 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n"
    return f"{info}# Collective test starting: all_reduce_perf\n{ranks}# size count type redop root time algbw busbw #wrong\n{rows}"
