"""False causes that a review of readers and statements found: later lines, other hosts and other files refute them."""

import pytest

import fabricast as fc
from tests.unit.collectives.test_reference import log

CARD = "[  {second}.104512] mlx5_core 0000:c1:00.0{words}\n"
P2P = "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D {numbers}\n{rows}"
WARNING = "host1:77:88 [0] transport/net_ib.cc:99 NCCL WARN {}\n"
TABLE = log("NVIDIA H100 80GB HBM3", 16, 2, 60, 450)


def kernel(*words):
    """Return a kernel log of a network card."""
    return "".join(CARD.format(second=812 + number, words=one) for number, one in enumerate(words))


def copies(gpus, gb_per_s):
    """Return a matrix of p2pBandwidthLatencyTest whose pairs have one rate."""
    rows = "".join(
        f"     {row} " + " ".join("900.00" if row == column else f"{gb_per_s:.2f}" for column in range(gpus)) + "\n"
        for row in range(gpus)
    )
    return P2P.format(numbers="    ".join(map(str, range(gpus))), rows=rows)


@pytest.mark.parametrize(
    ("lines", "causes"),
    [
        ((": Port: 1 Link DOWN", ": Port: 1 Link ACTIVE"), []),
        ((" eth2: Link down", " ens1f0np0: renamed from eth2", " ens1f0np0: Link up"), []),
        ((": Port module event: module 0, Cable unplugged", ": Port module event: module 0, Cable plugged"), []),
        ((": Port module event[error]: module 0, Cable error, Power budget exceeded", " eth0: Link up"), []),
        ((": Port: 1 Link DOWN", ": Port: 2 Link UP"), ["network_port"]),
        ((": Port: 1 Link UP", ": Port: 1 Link DOWN"), ["network_port"]),
        ((": Port module event: module 0, Cable unplugged",), ["network_port"]),
    ],
)
def test_the_last_state_of_a_card_counts(first, lines, causes):
    assert [one.cause for one in first(kernel(*lines)).findings] == causes


def test_the_name_of_a_driver_is_no_kernel_log(first):
    with pytest.raises(fc.InputError, match="written by no known program"):
        first("mlx5_core            1589248  1 mlx5_ib\n\tKernel modules: mlx5_core\n")


def test_kernel_logs_of_several_hosts_are_read_by_host(first):
    lines = f"node1: {kernel(' eth0: Link down')}node2: {kernel(' eth0: Link up')}"
    assert [one.text.split(" is ")[0] for one in first(lines).findings] == ["node1 network card 0000:c1:00.0"]
    error = "{}: [  812.104512] pcieport 0000:00:01.1: AER: PCIe Bus Error: severity=Corrected, type=Data Link Layer\n"
    assert not first("".join(error.format(host) * 3 for host in ("node1", "node2"))).findings


def test_equal_errors_of_two_hosts_are_two(first):
    error = "[  812.104512] NVRM: Xid (PCI:0000:21:00): 79, pid=1, GPU has fallen off the bus.\n"
    assert [one.origin.rpartition("/")[2] for one in first(error, error).findings] == ["0.txt:1", "1.txt:1"]


def test_matrices_of_two_machines_are_not_one(first):
    assert not first(copies(2, 25), copies(4, 12.5)).findings


@pytest.mark.parametrize("event", ["port active", "client reregistration", "GID table change"])
def test_events_without_effect_are_no_cause(first, event):
    assert not first(WARNING.format(f"NET/IB : mlx5_0:1 Got async event : {event}") + TABLE).findings


def test_a_warning_before_results_is_no_failed_run(first):
    text = WARNING.format("Call to ibv_open_device failed")
    assert str(first(text).verdict).startswith("the run failed")
    assert str(first(text + TABLE).verdict).startswith("within the expected range")


def test_complete_logs_of_two_jobs_are_not_compared(first):
    jobs = [
        "".join(
            f"{host}:1:1 [0] NCCL INFO {words}\n"
            for host in hosts
            for words in (f"NCCL version {version}+cuda12.2", "Using network IB", "comm 0x1 rank 0 nRanks 16 nNodes 2")
        )
        for hosts, version in ((("node1", "node2"), "2.18.5"), (("node3", "node4"), "2.21.5"))
    ]
    assert not first(*jobs).findings


def test_hosts_of_one_log_may_have_other_settings(first):
    text = "".join(
        f"{host}:1:1 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to {value}\n{host}:1:1 [0] NCCL INFO Using network IB\n"
        for host, value in (("h1", "eth0"), ("h2", "ens3"))
    )
    (one,) = first(text).findings
    assert one.text == "NCCL_SOCKET_IFNAME=eth0 is set on 1 of 2 hosts (h1), on others ens3"


def test_a_narrow_device_in_a_wide_port_is_a_note(first):
    port = "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n\t\tLnkSta:\tSpeed 16GT/s, Width x4 (downgraded)\n"
    device = "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x4\n\t\tLnkSta:\tSpeed 16GT/s, Width x4\n"
    assert not first(port + device).findings
    assert [one.cause for one in first(port + port).findings] == ["narrow_link"]


def test_lines_of_ibstat_of_several_hosts_may_alternate(first):
    lines = (
        "CA 'mlx5_0'", "\tCA type: MT4129", "\tPort 1:", "\t\tState: {}", "\t\tPhysical state: LinkUp", "\t\tRate: 400",
        "\t\tLink layer: InfiniBand",
    )  # fmt: skip
    text = "".join(
        f"{host}: {line.format(state)}\n" for line in lines for host, state in (("n1", "Active"), ("n2", "Down"))
    )
    assert [one.text for one in first(text).findings] == ["n2 mlx5_0 port 1 is Down (LinkUp)"]
