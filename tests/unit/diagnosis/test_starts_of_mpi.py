"""Failures of MPI at its start, and of libfabric."""

import numpy as np
import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.core.findings import Finding
from fabricast.diagnosis.ranking import ranked
from fabricast.networks.descriptions import switch_network
from fabricast.networks.patterns import rank_pairs

TABLE = "# OSU MPI Latency Test v7.3\n# Size          Latency (us)\n8                      1.12\n64                     1.12\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("A request was made to bind to that would require binding", "more cores are asked for"),
        (
            "MPIDI_UCX_mpi_init_hook(2): ucx function returned with failed status(ucx_init.c 2 x Destination is unreachable)",
            "UCX has no transport by which",
        ),
        (
            "[mpiexec@a] Error: Unable to run bstrap_proxy on node013 (pid 4, exit code 65280)",
            "cannot start its process",
        ),
        ("[a:2] *** MPI_ERR_TRUNCATE: message truncated", "longer than the buffer"),
        ("The call to cuIpcOpenMemHandle failed. This is an unrecoverable error", "cannot open the memory of the GPU"),
        ("[a:2] [[3,0],1] selected pml ob1, but peer [[3,1],0] on b selected pml ucx", "chose different transports"),
        ("This test requires at least two processes", "the test needs two processes"),
        (
            "MPIDI_OFI_mpi_init_hook(1): OFI EP enable failed (ofi_init.c:13:create_endpoint:No space left on device)",
            "cannot be opened when the program starts",
        ),
        (
            "MPIDI_OFI_handle_cq_error(1): OFI poll failed (ofi_events.c:1:x:Input/output error - UNDELIVERABLE)",
            "do not arrive at another process",
        ),
        ("MPI_ABORT was invoked on rank 12 in communicator MPI_COMM_WORLD", "a process of the program ended the job"),
        ("prterun has exited due to process rank 12 with PID 2 on node a calling", "a process of the program ended"),
    ],
)
def test_a_failure_is_named_also_beside_a_table(first, line, words):
    for text in (f"{line}\n", f"{line}\n{TABLE}"):
        found = first(text)
        assert str(found.verdict).startswith("the run failed: ")
        assert words in found.findings[0].text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so': no such file", "is not installed"),
        ("WARNING: Open MPI accepted a TCP connection from what appears to be a", "several hosts have one address"),
        ("MPI startup(): tmi fabric is unknown or has been removed from the product", "lacks the fabric"),
    ],
)
def test_a_warning_is_a_fault_by_itself(first, line, words):
    found = first(f"{line}\n")
    assert str(found.verdict).startswith("a fault is stated: ")
    assert words in found.findings[0].text
    assert "failed" not in str(first(f"{line}\n{TABLE}").verdict)


def test_one_late_size_of_many_is_scatter(tmp_path):
    sizes = [2.0**power for power in range(12)]
    for name, late in (("a", ()), ("b", ()), ("c", (3,)), ("d", (7, 8))):
        rows = [f"{int(size)}  {1.0 + 0.35 * (place in late):.2f}" for place, size in enumerate(sizes)]
        table = "\n".join(rows)
        (tmp_path / name).write_text(f"# OSU MPI Latency Test v7.3\n# Size          Latency (us)\n{table}\n")
    paths = {name: str(tmp_path / name) for name in "abcd"}
    assert "agree" in str(fc.diagnose([paths["a"], paths["b"], paths["c"]]).verdict)
    late = [one for one in fc.diagnose([paths["a"], paths["b"], paths["d"]]).findings if one.cause == "late_messages"]
    assert late and paths["d"] in late[0].text


PORT = "    Port {0}:\n        State: {1}\n        Physical state: {2}\n        Rate: {3}\n        Link layer: InfiniBand\n"
CARD = "CA 'mlx5_{}'\n    CA type: MT4129\n    Number of ports: 1\n"


def test_ports_of_files_count_beside_stated_cards(tmp_path):
    path = tmp_path / "ibstat.txt"
    path.write_text(
        "".join(CARD.format(n) + PORT.format(1, "Active", "LinkUp", 200 if n == 5 else 400) for n in range(8))
    )
    found = fc.diagnose([str(path)], nic="8x400")
    assert [one.text for one in found.findings] == ["mlx5_5 port 1 runs at 200 Gbit/s, most ports at 400 Gbit/s"]


def test_a_disabled_port_of_one_host_is_not_lacking_on_another(first):
    rows = {
        "n1": CARD.format(0)
        + PORT.format(1, "Active", "LinkUp", 200)
        + CARD.format(1)
        + PORT.format(1, "Down", "Disabled", 10),
        "n2": CARD.format(0) + PORT.format(1, "Initializing", "LinkUp", 200),
    }
    text = "".join(f"{host}: {line}\n" for host, lines in rows.items() for line in lines.splitlines())
    causes = [one.text for one in first(text).findings]
    assert causes[0] == "n2 mlx5_0 port 1 is Initializing (LinkUp)"
    assert not any("lacks" in one for one in causes)


def test_a_description_without_gpus_does_not_hide_measured_messages(tmp_path):
    (tmp_path / "lstopo.xml").write_text(
        '<?xml version="1.0"?><topology version="2.0"><object type="Machine" os_index="0">'
        '<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[00-ff]"><object type="PCIDev" '
        'pci_busid="0000:01:00.0" pci_type="0207 [15b3:101b] [15b3:0006] 00" pci_link_speed="15.75"/></object></object>'
        "</topology>"
    )
    (tmp_path / "lat.out").write_text(TABLE)
    found = fc.diagnose([str(tmp_path / "lstopo.xml"), str(tmp_path / "lat.out")])
    assert not found.has_causes
    assert any("no accelerator" in one for one in found.notes)


def test_slow_messages_of_gpus_ask_for_gpudirect(first):
    table = (
        "# OSU MPI-CUDA Bandwidth Test v7.3\n# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)\n"
        "# Size      Bandwidth (MB/s)\n1048576     12100.0\n4194304     12300.0\n"
    )
    found = first(table, CARD.format(0) + PORT.format(1, "Active", "LinkUp", 200))
    assert "nvidia-peermem" in found.findings[0].remedy


def test_a_slow_port_precedes_errors_that_a_gpu_contains():
    found = [
        Finding("gpu_errors", "0000:c3:00.0: contained ECC error (Xid 94)", "reset", 57.2),
        Finding("network_port", "n3 mlx5_5 port 1 runs at 200 Gbit/s, most ports at 400 Gbit/s", "cable", 56.0),
        Finding("slower_than_forecast", "all_reduce is slow", "look", 50.0),
    ]
    assert next(one.cause for one in ranked(found)) == "network_port"
    assert next(one.cause for one in ranked(found[:2])) == "gpu_errors"


def test_equal_lines_of_protocols_are_printed_once(tmp_path):
    rows = "\n".join(f"{2**power}  {2**power / (0.3257 + 2**power / 24560):.4f}" for power in range(23))
    path = tmp_path / "bw.out"
    path.write_text(f"# OSU MPI Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n{rows}\n")
    lines = CliRunner().invoke(app, ["fit", str(path)]).output.splitlines()
    assert len([line for line in lines if "r_c" in line]) == 1


def test_a_stated_oversubscription_needs_no_advice(tmp_path):
    path = tmp_path / "topology.conf"
    path.write_text(
        "SwitchName=leaf1 Nodes=n[1-4]\nSwitchName=leaf2 Nodes=n[5-8]\nSwitchName=spine Switches=leaf[1-2]\n"
    )
    assert "state yours" not in " ".join(switch_network(str(path), oversubscription=2.0).assumptions[:1])
    assert "state yours" in " ".join(switch_network(str(path)).assumptions[:1])


@pytest.mark.parametrize(
    ("lines", "is_shared"),
    [
        (["[0] MPI startup(): 0       21   n1    {0}", "[0] MPI startup(): 1       22   n1    {0}"], True),
        ([f"[0] MPI startup(): {rank}       2{rank}   n1    {{0-1}}" for rank in range(3)], True),
        (["[0] MPI startup(): 0       21   n1    {0}", "[0] MPI startup(): 1       22   n2    {0}"], False),
        ([f"cpu-bind=MASK - n1, task  {rank}  {rank} [5]: mask 0x1 set" for rank in range(2)], True),
        ([f"cpu-bind=MASK - n1, task  {rank}  {rank} [5]: mask 0xff set" for rank in range(2)], False),
    ],
)
def test_processes_that_share_processors_are_a_cause(first, lines, is_shared):
    found = first("\n".join(lines) + "\n")
    assert [one.cause for one in found.findings] == ["shared_core"] * is_shared
    assert any("processes are pinned to" in one for one in found.statements)


@pytest.mark.parametrize(
    ("test", "slowest", "is_late"), [("Allreduce", 9, True), ("Allreduce", 2, False), ("Bcast", 9, False)]
)
def test_one_late_process_of_an_operation_is_named(first, test, slowest, is_late):
    rows = "\n".join(f"{2**power}  18.00  16.56  {18 * slowest}.00  1000" for power in range(2, 12))
    heading = "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations"
    found = first(f"# OSU MPI {test} Latency Test v7.3\n{heading}\n{rows}\n")
    assert [one.cause for one in found.findings] == ["late_process"] * is_late
    assert not found.has_causes


def test_alltoall_is_a_pattern():
    assert np.array_equal(rank_pairs("alltoall:8").source, rank_pairs("all_to_all:8").source)


def test_single_messages_of_several_mebibytes_reach_a_port(first):
    table = "# OSU MPI Latency Test v7.3\n# Size          Latency (us)\n8   1.2\n4194304   {}\n"
    port = CARD.format(0) + PORT.format(1, "Active", "LinkUp", 200)
    slow = first(table.format(700.0), port)
    assert str(slow.verdict).startswith("possibly slower than expected: the fastest messages of osu_latency reach 5.99")
    assert str(first(table.format(175.0), port).verdict).startswith("within the expected range")


def test_a_topology_alone_is_described(first):
    names = "\t".join(f"GPU{one}" for one in range(4))
    rows = "\n".join(
        f"GPU{one}\t" + "\t".join(" X " if one == other else "NV6" for other in range(4)) + "\t0-63\t0"
        for one in range(4)
    )
    found = first(f"\t{names}\tCPU Affinity\tNUMA Affinity\n{rows}\n")
    # Boards with four GPUs of 18 links each have no switch.
    assert "4 GPUs, NVLink between all pairs" in found.statements


def test_transports_that_open_mpi_prints(first):
    log = "[n01:20211] mca: bml: Using {} btl for send to [[45317,1],1] on node n02\n"
    assert first(log.format("tcp")).findings[0].cause == "messages_over_tcp"
    assert not first(log.format("openib")).findings
    assert "Open MPI sends to n02 by vader" in " ".join(first(log.format("vader")).statements)
