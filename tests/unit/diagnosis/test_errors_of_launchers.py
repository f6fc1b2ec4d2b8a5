"""Errors of Slurm, MPI libraries, virtual functions, memory modules, TCP and shared memory, each by its line."""

import pytest

import fabricast as fc


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("srun: error: Couldn't find the specified plugin name for mpi/pmix looking at all files", "no PMIx plugin"),
        (
            "error:  mpi/pmix_v4: init: (null) [0]: mpi_pmix.c:197: pmi/pmix: can not load PMIx library",
            "no PMIx plugin",
        ),
        ("[b7135fd2fee3:10793] PML ucx cannot be selected", "UCX finds no network card"),
        ("[b7135fd2fee3:10793] PML cm cannot be selected", "is not available on this host"),
        ("MPIDI_CRAY_init: GPU_SUPPORT_ENABLED is requested, but GTL library is not linked", "is not linked for it"),
        ("Warning! : Core id 10977 does not exist on this architecture!", "MVAPICH cannot bind"),
        ('[ 4994.83] ptrace attach of "lmp -in a"[8347] was attempted by "lmp -in a"[8346]', "may not read the memory"),
        (
            "process_vm_readv delivered 0 instead of 480960, error message Operation not permitted",
            "may not read the mem",
        ),
        (
            "sharp_am[7]: Local Port validation failed. error: FabricProvider must bind to port with master SM (SM LID:35",
            "on another host than the subnet manager",
        ),
        ("    /usr/share/openmpi/help-mpi-btl-tcp.txt: Too many open files.  Sorry!", "too many open files"),
        ("A request for multiple cpus-per-proc was given, but a directive", "several cores for each process"),
        (
            "libfabric:3251:1715881079:ofi_rxd:psm2:core:psmx2_getinfo():536<info> no PSM2 device is active.",
            "Omni-Path",
        ),
        (
            "[jazz17:1:0:1] rc_verbs_iface.c:63   FATAL: send completion with error: transport retry counter exceeded",
            "the network lost messages",
        ),
        ("Failed status transport retry counter exceeded (12) for wr_id 2", "the network lost messages"),
    ],
)
def test_a_line_of_a_launcher_or_library_has_its_meaning(first, text, words):
    assert words in first(f"{text}\n").findings[0].text


def test_a_host_without_rdma_devices_is_no_failure(first):
    found = first(
        "[1610465245.269420] [debian:800759:0] rdmacm_cm.c:638  UCX  ERROR rdma_create_event_channel failed: No such "
        "device\n[debian:800759] ompi/mca/pml/ucx/pml_ucx.c:273  Error: Failed to create UCP worker\n"
    )
    assert "a program (UCX) finds no RDMA device" in found.findings[0].text
    assert not str(found.verdict).startswith("the run failed")


@pytest.mark.parametrize(
    "line",
    [
        "mlx5_core 0000:61:00.0: mlx5_cmd_check:795:(pid 5): ALLOC_UAR(0x802) op_mod(0x0) failed, status limits exceeded(8)",
        "mlx4_core 0004:02:00.0: Failed to initialize user access region table, aborting",
    ],
)
def test_a_card_without_pages_for_processes_has_no_failure(first, line):
    found = first(f"[   18.024187] {line}\n").findings[0]
    assert "has too few pages for the processes of the host (UAR)" in found.text
    assert "PF_LOG_BAR_SIZE" in found.remedy


def test_many_corrected_errors_of_a_memory_module_are_a_fault(first):
    line = "[  511.304636] EDAC MC0: {} CE single-symbol chipkill ECC on P0_Channel5_Dimm0 DIMMF1 (node:0 card:5)\n"
    assert (
        "420 corrected errors of the memory module P0_Channel5_Dimm0 DIMMF1" in first(line.format(420)).findings[0].text
    )
    assert "12 corrected errors" in first(line.format(1) * 12).findings[0].text
    few = first(line.format(2))
    assert not few.findings
    assert any("2 corrected errors of the memory module" in str(one) for one in few.statements)


def test_a_virtual_function_without_address_is_no_cable(first):
    port = (
        "CA 'mlx5_7'\n\tNumber of ports: 1\n\tCA type: MT4124\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: LinkUp\n"
    )
    port += "\t\tRate: 200\n\t\tBase lid: {}\n\t\tSM lid: 1\n\t\tLink layer: InfiniBand\n"
    found = first(port.format(65535)).findings[0]
    assert "a virtual function without an address (LID)" in found.text
    assert "virt_enabled" in found.remedy
    assert "virtual" not in first(port.format(12)).findings[0].text
    card = "hca_id: mlx5_7\n    node_guid:    {}\n    port: 1\n    state:    PORT_INIT (2)\n    link_layer:    InfiniBand\n"
    assert "has no GUID" in first(card.format("0000:0000:0000:0000")).findings[0].text
    assert "no GUID" not in first(card.format("a088:c203:005b:370c")).findings[0].text


def test_a_stream_that_stalls_is_no_slow_stream(first):
    row = "[ 15]   {}.00-{}.00   sec  {}  0.00 Gbits/sec    1   23.8 KBytes\n"
    rows = row.format(0, 1, "87.4 KBytes") + "".join(row.format(one, one + 1, "0.00 Bytes") for one in range(1, 9))
    found = first(rows).findings[0]
    assert "8 of 9 intervals transfer nothing" in found.text
    assert "ping -M do" in found.remedy


def test_two_tests_over_tcp_are_compared(first):
    runs = (
        "Client connecting to h\n[SUM]  0.0-30.0 sec    337 GBytes  96.4 Gbits/sec\n"
        "Connecting to host h, port 5201\n[SUM]   0.00-30.00  sec   123 GBytes  {} Gbits/sec\n"
    )
    found = first(runs.format(35.2)).findings[0]
    assert found.text.startswith("a test over TCP reaches 35.2 Gbit/s, another 96.4 Gbit/s")
    assert not first(runs.format(94.0)).findings
    assert "ethtool" in str(first(runs.format(94.0)).verdict)


@pytest.mark.parametrize(
    ("size", "used", "words"), [("64M", 31, "little for several"), ("16G", 99, "it is full"), ("16G", 31, None)]
)
def test_the_size_of_shared_memory_is_read_from_df(first, size, used, words):
    found = first(f"Filesystem      Size  Used Avail Use% Mounted on\nshm  {size}   20M   45M  {used}% /dev/shm\n")
    assert [words in one.text for one in found.findings] == ([True] if words else [])


def test_the_row_of_all_ports_counts_where_it_is_the_only_one(first):
    row = "   GUID 0x1070fd0300370ea2 port {}: [LinkDownedCounter == 25 (25.000)] [PortXmitDiscards == 2846 (2.779K)]\n"
    assert "all ports together, has counted errors" in first(row.format("ALL")).findings[0].text
    both = first('Errors for "sw01"\n' + row.format("ALL") + row.format(7)).findings
    assert [one.text.partition(" has")[0] for one in both] == ["sw01 port 7"]


def test_a_transport_that_ucx_cannot_open_is_none(first):
    found = first(
        "#      Transport: self\n#         Device: memory0\n#      Transport: rc_verbs\n#         Device: mlx5_0:1\n"
        "#   < failed to open interface >\n#      Transport: tcp\n#         Device: eth0\n"
    )
    assert "UCX cannot open the network cards: rc_verbs failed" in found.findings[0].text


def test_output_of_other_programs_with_seconds_is_no_kernel_log(first):
    text = "[91169.504] [ERROR][XORG] (EE) NVIDIA(GPU-0): Failed to initialize the NVIDIA GPU at PCI:1:0:0.\n[91169.514] [ERROR]Aborting because nvidia 0000:01:00.0 failed.\n"
    with pytest.raises(fc.InputError, match="no known program"):
        first(text)
