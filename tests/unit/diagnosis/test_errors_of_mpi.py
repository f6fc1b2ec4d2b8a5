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


@pytest.fixture
def first(tmp_path):
    """Return a function that writes a text and returns its diagnosis."""

    def diagnose(text):
        path = tmp_path / "run.log"
        path.write_text(text)
        return fc.diagnose(path)

    return diagnose


@pytest.mark.parametrize(
    ("text", "host", "meaning"),
    [
        (BRIDGE.format("connect() to 172.17.0.1 failed: Connection refused (111)"), "node1", "exists on every host"),
        (BRIDGE.format("connect() to 10.1.1.4 failed: No route to host (113)"), "node1", "cannot be reached"),
        (
            (
                "[1700000001.1] [node2:4770 :0]  ib_iface.c:690  UCX  ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate"
                " memory\n[node2:04770] pml_ucx.c:212 Error: Failed to create UCP worker\n"
            ),
            "node2",
            "memory cannot be locked",
        ),
        (
            "[node4:18089:0:13210]    ud_iface.c:732  UCX Fatal: transport error: Endpoint timeout\n",
            "",
            "the network lost messages",
        ),
        (
            (
                "[1700000001.1] [node5:21759:0]  select.c:401  UCX  ERROR no active messages transport to <no debug data>:"
                " tcp/ens1f0 - Destination is unreachable\n"
            ),
            "node5",
            "no transport in common",
        ),
        (TCP_BOX, "node3", "cannot be reached"),
        ("Failed to modify QP 59 to RTR\n Unable to Connect the HCA's through the link\n", "", "cannot be set up"),
        ("Couldn't connect to 10.0.0.2:18515\n", "", "cannot be reached"),
    ],
)
def test_errors_of_connections_are_causes_of_a_failed_run(first, text, host, meaning):
    found = first(text)
    assert str(found.verdict).startswith("the run failed: ") and meaning in found.findings[0].text
    assert found.findings[0].cause == "mpi_error" and (f"({host})" in found.findings[0].text) == bool(host)
    assert found.findings[0].origin.endswith((":1", ":2"))


def test_consequences_follow_their_cause(first):
    text = (
        "[node6:69399] pml_ucx.c:383  Error: ucp_ep_create(proc=95) failed: Destination is unreachable\n"
        "[1700000001.2] [node6:69399:0]  sock.c:116  UCX  ERROR connect(fd=34, dest_addr=10.0.0.9:35892) failed: Connection"
        " timed out\n"
    )
    assert [one.text.split(" (")[0] for one in first(text).findings] == [
        "a host cannot be reached over the chosen interface",
        "the processes cannot be connected",
    ]


def test_warnings_of_openib_cost_nothing_where_results_follow(first):
    alone = first(OLD_TRANSPORT)
    assert [one.cause for one in alone.findings] == ["mpi_warning"] and "(node7)" in alone.findings[0].text
    table = log("NVIDIA H100 80GB HBM3", 16, 2, 60, 450)
    launched = first(OLD_TRANSPORT + table)
    assert not launched.findings and str(launched.verdict).startswith("within the expected range")


def test_a_connection_that_fails_before_results_is_no_failed_run(first):
    text = BRIDGE.format("connect() to 172.17.0.1 failed: Connection refused (111)")
    found = first(text + log("NVIDIA H100 80GB HBM3", 16, 2, 60, 450))
    assert str(found.verdict).startswith("within the expected range")
    assert [one.cause for one in found.findings] == ["mpi_warning"]


def test_the_error_about_an_unknown_file_names_few_programs(first):
    with pytest.raises(
        fc.InputError, match=r"written by no known program, expected for example .*nvidia-smi topo -m"
    ) as raised:
        first("nothing that a program prints\n")
    assert len(str(raised.value)) < 300
