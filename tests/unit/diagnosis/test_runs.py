"""Several runs: a slow host in pairs of hosts, runs of the same hosts, and stated causes before doubtful times."""

import itertools

import pytest

import fabricast as fc
from tests.nccl_tests_logs import nccl_tests
from tests.unit.diagnosis.test_hosts_and_curves import FORECAST, host_log

#: Times in us of 16 H100 in two nodes.
PAIR = [(2**26, 400.0), (2**28, 1200.0), (2**30, 4400.0)]


def pair_log(path, hosts, factor=1.0):
    """Write the log of a pair of hosts."""
    nccl_tests(path, [(size, factor * time) for size, time in PAIR], ranks=16, hosts=2)
    text = path.read_text()
    path.write_text(text.replace("node00", hosts[0]).replace("node01", hosts[1]))
    return path


def pairs(folder, slow, factor=2.2):
    names = [f"hgx0{number}" for number in range(4)]
    return [
        pair_log(folder / f"{one}_{other}.log", (one, other), factor if slow in (one, other) else 1.0)
        for one, other in itertools.combinations(names, 2)
    ]


def test_the_host_in_all_slow_pairs_is_named(tmp_path):
    found = fc.diagnose(pairs(tmp_path, "hgx02"))
    first = found.findings[0]
    assert first.cause == "slow_host" and first.text.startswith("hgx02 is in all 3 slow pairs of hosts")
    assert "in the 3 pairs without it" in first.text


def test_equal_pairs_and_two_slow_hosts_name_none(tmp_path):
    assert not any(one.cause == "slow_host" for one in fc.diagnose(pairs(tmp_path, "none")).findings)
    logs = pairs(tmp_path, "hgx02")
    pair_log(tmp_path / "hgx00_hgx01.log", ("hgx00", "hgx01"), 2.2)
    assert not any(one.cause == "slow_host" for one in fc.diagnose(logs).findings)


def test_a_run_is_compared_with_a_faster_one_of_the_same_hosts(tmp_path):
    good = nccl_tests(tmp_path / "good.log", FORECAST)
    bad = nccl_tests(tmp_path / "bad.log", [(size, 1.6 * time) for size, time in FORECAST])
    found = fc.diagnose([good, bad])
    (finding,) = [one for one in found.findings if one.cause == "slower_than_other_run"]
    assert "good.log on the same hosts" in finding.text and "bad.log" in finding.origin
    assert str(found.verdict).startswith("slower than expected")


def test_a_stated_cause_precedes_doubtful_times(tmp_path):
    log = nccl_tests(tmp_path / "run.log", [(size, time * 1.9) for size, time in FORECAST])
    log.write_text(host_log(other={"cards": 7}) + log.read_text())
    verdict = str(fc.diagnose(log).verdict)
    assert verdict.startswith("slower than expected: node02 lists 7 network cards")


def test_a_run_of_one_node_of_a_described_cluster_is_compared_with_public_nodes(tmp_path):
    (tmp_path / "cluster.yaml").write_text("cluster: mine\nnode: hgx_h100\nnodes: 4\nnic: 8x400\n")
    rows = [(2**30, 5100.0), (2**33, 40960.0)]
    log = nccl_tests(tmp_path / "one.log", rows, ranks=8, hosts=1)
    found = fc.diagnose([tmp_path / "cluster.yaml", log])
    assert [one.cause for one in found.findings] == ["nvls_unused"]


@pytest.mark.parametrize("label", ["{}: ", " {}: "])
def test_labels_of_srun_are_no_part_of_lines(tmp_path, label):
    log = nccl_tests(tmp_path / "run.log", FORECAST)
    log.write_text("".join(label.format(0) + line for line in log.read_text().splitlines(keepends=True)))
    assert str(fc.diagnose(log).verdict).startswith("within the expected range")


def test_a_rate_above_the_cards_is_explained(tmp_path):
    log = nccl_tests(tmp_path / "run.log", [(2**28, 1500.0), (2**30, 4300.0)])
    found = fc.diagnose(log)
    assert any("above the 400 GB/s of 8 x 400 Gbit/s" in text for text in found.notes)


def test_wrong_results_have_a_verdict_of_their_own(tmp_path):
    log = nccl_tests(tmp_path / "run.log", FORECAST)
    lines = log.read_text().splitlines()
    lines[-1] = lines[-1][:-1] + "7"
    log.write_text("\n".join(lines) + "\n")
    assert str(fc.diagnose(log).verdict).startswith("wrong results: 1 of 6 sizes have wrong results")


def ring_times(hosts, gb_per_s):
    """Return times in us of all_reduce with a bus bandwidth."""
    ranks = 8 * hosts
    return [(size, 2 * (ranks - 1) / ranks * size / gb_per_s / 1e3) for size in (2**30, 2**33)]


@pytest.mark.parametrize(
    ("few", "many", "rates", "is_slow"),
    [(4, 16, (369, 259), True), (4, 16, (369, 340), False), (2, 16, (468, 259), False), (4, 8, (300, 369), False)],
)
def test_a_ring_of_more_nodes_is_compared_with_one_of_fewer(tmp_path, few, many, rates, is_slow):
    logs = [
        nccl_tests(tmp_path / f"{hosts}.log", ring_times(hosts, rate), ranks=8 * hosts, hosts=hosts)
        for hosts, rate in zip((few, many), rates, strict=True)
    ]
    found = fc.diagnose(logs)
    slow = [one for one in found.findings if one.cause == "slower_than_fewer_nodes"]
    assert bool(slow) == is_slow
    if is_slow:
        assert str(found.verdict).startswith("possibly slower than expected: all_reduce of 8 GiB")
        assert "369 GB/s on 4" in slow[0].text and "node04" in slow[0].remedy


def test_the_missing_card_of_a_host_is_named(tmp_path):
    log = nccl_tests(tmp_path / "run.log", FORECAST)
    log.write_text(host_log(other={"cards": 7}) + log.read_text())
    (finding,) = [one for one in fc.diagnose(log).findings if one.cause == "host_differs_cards"]
    assert "node02 lists 7 network cards (mlx5_7 missing)" in finding.text


@pytest.mark.parametrize(("factor", "verdict"), [(2.3, "possibly slower"), (4.5, "slower than expected")])
def test_times_that_no_card_of_half_the_rate_explains_are_slow(tmp_path, factor, verdict):
    log = nccl_tests(tmp_path / "run.log", [(size, time * factor) for size, time in FORECAST])
    log.write_text(host_log() + log.read_text())
    assert str(fc.diagnose(log).verdict).startswith(verdict)
    # Without the list of cards, their number is assumed, too.
    other = nccl_tests(tmp_path / "other.log", [(size, time * factor) for size, time in FORECAST])
    assert str(fc.diagnose(other).verdict).startswith("possibly slower")


def test_the_hosts_of_one_slow_pair_are_named(tmp_path):
    disjoint = [(f"hgx0{2 * number}", f"hgx0{2 * number + 1}") for number in range(4)]
    logs = [pair_log(tmp_path / f"{a}.log", (a, b), 2.2 if a == "hgx04" else 1.0) for a, b in disjoint]
    found = fc.diagnose(logs)
    (finding,) = [one for one in found.findings if one.cause == "slow_host"]
    assert finding.text.startswith("hgx04 or hgx05 is slow") and not finding.host
    again = [*logs, pair_log(tmp_path / "more.log", ("hgx00", "hgx04"))]
    (finding,) = [one for one in fc.diagnose(again).findings if one.cause == "slow_host"]
    assert finding.host == "hgx05" and finding.text.startswith(
        "hgx05 is in the slow pair, and its other host in a fast"
    )


def test_a_table_that_ends_early_is_no_agreement(tmp_path):
    log = nccl_tests(tmp_path / "run.log", FORECAST[:2])
    log.write_text("# nThread 1 nGpus 8 minBytes 8 maxBytes 8589934592 step: 2(factor)\n" + log.read_text())
    found = fc.diagnose(log)
    assert str(found.verdict).startswith("nothing could be judged: the table ends after 4 MiB of 8 GiB")
    assert "measured before: all_reduce of 4 MiB" in str(found.verdict) and found.has_causes


@pytest.mark.parametrize(
    "status", ["status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129", "status=12"]
)
def test_statuses_of_the_network_are_known_by_name_and_number(tmp_path, status):
    line = f"n3:1:2 [0] transport/net_ib.cc:2078 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<1> with {status}\n"
    (tmp_path / "a.log").write_text(line)
    assert "the network lost messages" in str(fc.diagnose(tmp_path / "a.log").verdict)


def test_nccl_states_that_nvls_is_not_available(tmp_path):
    log = nccl_tests(tmp_path / "run.log", [(2**30, 5100.0), (2**33, 40960.0)], ranks=8, hosts=1)
    log.write_text("n1:1:2 [0] NCCL INFO NVLS multicast support is not available on dev 0\n" + log.read_text())
    found = fc.diagnose(log)
    assert found.findings[0].text.startswith("NCCL states that NVLink SHARP (NVLS) is not available: 3")
    assert found.findings[0].origin.endswith(":1")


def single(path, host, time_us=34200.0):
    log = nccl_tests(path, [(2**30, time_us / 8), (2**33, time_us)], ranks=8, hosts=1)
    log.write_text(log.read_text().replace("node00", host))
    return log


def test_nvls_that_a_log_has_is_no_cause(tmp_path):
    log = single(tmp_path / "run.log", "n1", 40960.0)
    log.write_text("n1:1:2 [0] NCCL INFO NVLS multicast support is available on dev 0\n" + log.read_text())
    found = fc.diagnose(log)
    assert [one.cause for one in found.findings] == ["slower_than_public_machines"]


@pytest.mark.parametrize(
    ("times", "names"),
    [
        ((1, 1.01, 1.19, 1.02), "n2"),
        ((1, 1.2, 1.2, 1), "n1, n2"),
        ((1, 1.01, 1.02, 1.03), ""),
        ((1, 1.1, 1.3, 1.2), ""),
    ],
)
def test_hosts_that_are_slower_by_themselves_than_the_others_are_named(tmp_path, times, names):
    logs = [single(tmp_path / f"{n}.log", f"n{n}", 34200.0 * time) for n, time in enumerate(times)]
    found = [one.text for one in fc.diagnose(logs).findings if one.cause == "slow_host"]
    assert [text.partition(": all_reduce of 8 GiB reaches")[0] for text in found] == ([names] if names else [])
