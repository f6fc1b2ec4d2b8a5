"""Errors that Open MPI, UCX and perftest print, as causes of a run that failed, and their limits."""

import pytest

import fabricast as fc
from tests.unit.collectives.test_reference import log

BRIDGE = "[node1][[38971,1],2][btl_tcp_endpoint.c:796:mca_btl_tcp_endpoint_complete_connect] {}\n"
OLD_TRANSPORT = (
    f"{'-' * 74}\nBy default, for Open MPI 4.0 and later, infiniband ports on a device\n"
    f"are not used by default.\n\n  Local host:              node7\n{'-' * 74}\n"
)
TCP_BOX = (
    f"{'-' * 74}\nWARNING: Open MPI failed to TCP connect to a peer MPI process.  This\nshould not happen.\n\n"
    "  Local host: node3\n  PID:        24783\n  Message:    connect() to 10.0.0.13:1026 failed\n"
    f"  Error:      No route to host (113)\n{'-' * 74}\n"
)


UCX = "[1.1] [node1:4321 :0] some_file.c:80 UCX  ERROR"
ABORT = "[node1:07356] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n"


@pytest.mark.parametrize(
    ("text", "host", "meaning"),
    [
        (BRIDGE.format("connect() to 172.17.0.1 failed: Connection refused (111)"), "node1", "exists on every host"),
        (BRIDGE.format("connect() to 10.1.1.4 failed: No route to host (113)"), "node1", "host cannot be reached"),
        (
            (
                "[1700000001.1] [node2:4770 :0]  ib_iface.c:690  UCX  ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate memory\n"
                "[node2:04770] pml_ucx.c:212 Error: Failed to create UCP worker\n"
            ),
            "node2",
            "gets no memory for its queues",
        ),
        (
            "[1700000001.1] ib_iface.c:1138 UCX  ERROR ibv_create_cq(cqe=256) failed: Connection timed out\n",
            "",
            "an operation of the network card failed",
        ),
        (
            "[node4:18089:0:13210]    ud_iface.c:732  UCX Fatal: transport error: Endpoint timeout\n",
            "node4",
            "the network lost messages",
        ),
        (
            "[node4:19546:0:19546] ib_mlx5_log.c:139  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15)\n",
            "node4",
            "the network lost messages",
        ),
        (
            "[1700000001.1] [node5:21759:0]  select.c:401  UCX  ERROR no active messages transport to <no debug data>\n",
            "node5",
            "no transport in common",
        ),
        (TCP_BOX, "node3", "host cannot be reached"),
        ("[node5:1] Read -1, expected 16384, errno =1\n", "node5", "may not read the memory"),
        ("Failed to modify QP 59 to RTR\n Unable to Connect the HCA's through the link\n", "", "cannot be set up"),
        (" Failed status 12: wr_id 0 syndrom 0x81\n", "", "the network lost messages"),
        ("Unable to init the socket connection\n", "", "no server answers"),
        ("Couldn't allocate MR\nfailed to create mr\n", "", "memory cannot be registered"),
        (" Port number 1 state is Down\n", "", "a port of the network card is down"),
        (
            "MPIDI_OFI_mpi_init_hook(1486): OFI fi_getinfo() failed (ofi_init.c:2684:No data available)\n",
            "",
            "no network",
        ),
        ("bash: orted: command not found\nORTE was unable to reliably start one or more daemons.\n", "", "search path"),
        ("find_provider(170).........: OFI fi_getinfo() failure\n", "", "finds no network"),
        (f"{UCX} shared memory allocation failed: No space left on device.\n", "node1", "shared memory (/dev/shm)"),
        (f"{UCX} cuIpcOpenMemHandle() failed: invalid argument\n", "node1", "the GPU memory of each other"),
        (f"{UCX} Invalid value for UCX_TLS: 'foo'\n", "node1", "a value that does not exist"),
        ("There are not enough slots available in the system to satisfy the 16\n", "", "more processes than the hosts"),
    ],
)
def test_errors_are_causes_of_a_failed_run(first, text, host, meaning):
    found = first(text + ABORT)
    assert str(found.verdict).startswith("the run failed: ") and meaning in found.findings[0].text
    assert found.findings[0].cause == "mpi_error" and (not host or f" ({host}): " in found.findings[0].text)
    assert found.findings[0].origin.endswith((":1", ":2"))


def test_an_error_after_which_the_run_may_go_on_is_no_failed_run(first):
    found = first(BRIDGE.format("connect() to 10.1.1.4 failed: No route to host (113)"))
    assert str(found.verdict).startswith("a fault is stated: a host cannot be reached")


def test_an_error_of_unknown_meaning_is_quoted(first):
    text = f"{UCX} an unusual thing happened\n"
    assert str(first(text).verdict).startswith(
        "nothing could be judged: an error whose meaning is not known here (node1)"
    )
    assert str(first(text + ABORT).verdict).startswith(
        "the run failed: an error whose meaning is not known here (node1)"
    )


def test_consequences_follow_their_cause(first):
    text = (
        "[node6:69399] pml_ucx.c:383  Error: ucp_ep_create(proc=95) failed: Destination is unreachable\n"
        "[1700000001.2] [node6:69399:0]  sock.c:116  UCX  ERROR connect(fd=34, dest_addr=10.0.0.9:35892) failed: Connection"
        " timed out\n"
    )
    for end in ("", ABORT):
        assert [one.text.split(" (")[0] for one in first(text + end).findings] == [
            "a host cannot be reached over the chosen interface",
            "the processes cannot be connected",
        ]


@pytest.mark.parametrize("table", [log("NVIDIA H100 80GB HBM3", 16, 2, 60, 450), ""], ids=["with results", "alone"])
def test_the_warning_about_openib_is_a_note(first, table):
    found = first(OLD_TRANSPORT + table)
    assert not found.findings and not found.has_causes
    assert any("by its old transport (openib)" in one for one in found.statements)


def test_errors_before_results_are_notes(first):
    text = BRIDGE.format("connect() to 172.17.0.1 failed: Connection refused (111)")
    found = first(text + log("NVIDIA H100 80GB HBM3", 16, 2, 60, 450))
    assert str(found.verdict).startswith("within the expected range") and not found.has_causes
    assert any("the run has results after the error" in one for one in found.statements)
    # A benchmark that is not read is a result, too.
    found = first(text + "# OSU MPI Broadcast Latency Test v5.8\n# Size       Avg Latency(us)\n1          0.23\n")
    assert not found.findings


def test_other_programs_are_not_read(first):
    with pytest.raises(fc.InputError, match="written by no known program"):
        first("Couldn't connect to redis:6379\n")


def test_the_error_about_an_unknown_file_names_few_programs(first):
    with pytest.raises(
        fc.InputError, match=r"written by no known program, expected for example .*nvidia-smi topo -m"
    ) as raised:
        first("nothing that a program prints\n")
    assert len(str(raised.value)) < 300
