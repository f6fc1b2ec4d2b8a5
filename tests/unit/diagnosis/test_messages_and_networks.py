"""Outputs of MPI benchmarks and of ibnetdiscover: slow files, late protocols, slow ports, missing cables."""

import numpy as np
import pytest

import fabricast as fc
from fabricast.networks.descriptions import switch_network
from fabricast.sources.reading import read
from tests.unit.sources.test_formats import EXAMPLES

SIZES = [1 << power for power in range(22)]


def osu(path, test, value):
    """Write an output of the OSU benchmarks with a value for each size."""
    unit = "Latency (us)" if test == "Latency" else "Bandwidth (MB/s)"
    rows = "".join(f"{size:<10} {value(size):18.2f}\n" for size in SIZES)
    path.write_text(f"# OSU MPI {test} Test v7.3\n# Size      {unit}\n{rows}")
    return path


def latency(path, eager=1 << 14, start=2.6, rate=24.4e3, noise=0.0):
    """Write a latency test with an eager protocol up to a size; rates are in bytes per us."""
    draw = np.random.default_rng(3)

    def time_us(size):
        line = 1.05 + size / 9e3 if size < eager else start + size / rate
        return line * (1 + noise * draw.standard_normal())

    return osu(path, "Latency", time_us)


def test_the_slow_one_of_several_files_is_named(tmp_path):
    files = [latency(tmp_path / f"pair_n{number}.out", rate=12.1e3 if number == 2 else 24.4e3) for number in range(4)]
    found = fc.diagnose(files)
    (slow,) = found.findings
    assert slow.cause == "slow_messages" and "pair_n2.out: messages of osu_latency of 2 MiB reach" in slow.text
    assert "in the other 3 files" in slow.text and str(found.verdict).startswith("slower than expected: ")
    assert not fc.diagnose(files[:2]).findings
    # One file has no expectation.
    one = fc.diagnose(files[2])
    assert str(one.verdict).startswith("nothing could be judged: a single test") and not one.has_causes


def test_late_small_messages_of_one_host_are_named(tmp_path):
    late = osu(tmp_path / "late.out", "Latency", lambda size: 2.1 + size / 24e3)
    good = osu(tmp_path / "good.out", "Latency", lambda size: 1.1 + size / 24e3)
    assert [one.cause for one in fc.diagnose([late, good]).findings] == ["late_messages"]


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_a_threshold_that_is_too_high_is_named_with_the_crossing(tmp_path, noise):
    found = fc.diagnose(latency(tmp_path / "late.out", eager=1 << 19, noise=noise)).findings
    assert [one.cause for one in found] == ["late_rendezvous"]
    factor = float(found[0].text.partition("(")[2].partition(" times as fast at 256 KiB)")[0])
    assert factor == pytest.approx(2.25, rel=0.05) and "UCX_RNDV_THRESH" in found[0].remedy
    # The threshold is a size that was measured.
    assert found[0].remedy.endswith((" to 8 KiB", " to 16 KiB", " to 32 KiB"))
    # Thresholds before the crossing, and slow but consistent lines, are no fault.
    assert not fc.diagnose(latency(tmp_path / "good.out", noise=noise)).findings
    assert not fc.diagnose(latency(tmp_path / "slow.out", start=3.9, rate=17.5e3, noise=noise)).findings


def test_equal_ports_and_cables_are_no_fault(tmp_path):
    found = fc.diagnose(EXAMPLES / "ibnetdiscover.txt")
    assert not found.findings and "no port or cable of the network is slower than most others" in str(found.verdict)


def fabric(path, *, slow_host=False, slow_cable=False, missing=False):
    """Write two leaves and two spines with two cables between each pair, and four hosts on each leaf."""
    blocks = {f"leaf{leaf}": [] for leaf in (0, 1)} | {f"spine{spine}": [] for spine in (0, 1)}
    guid = {name: f"S-{number:016x}" for number, name in enumerate(blocks, 1)}
    for leaf, host in ((leaf, 4 * leaf + port) for leaf in (0, 1) for port in range(4)):
        speed = "2xHDR" if slow_host and host == 5 else "4xHDR"
        end = f'"H-{host + 100:016x}"[1](a) \t\t# "n{host} mlx5_0" lid {host + 10} {speed}'
        blocks[f"leaf{leaf}"].append(f"[{host % 4 + 1}]\t{end}")
    for leaf, cable in ((leaf, cable) for leaf in (0, 1) for cable in range(4)):
        if missing and (leaf, cable) == (1, 3):
            continue
        speed = "4xEDR" if slow_cable and (leaf, cable) == (0, 2) else "4xHDR"
        up, down, names = cable + 5, 1 + 2 * leaf + cable % 2, (f"leaf{leaf}", f"spine{cable // 2}")
        for one, other, port, far in ((*names, up, down), (*names[::-1], down, up)):
            blocks[one].append(f'[{port}]\t"{guid[other]}"[{far}] \t\t# "{other}" lid 30 {speed}')
    lines = []
    for name, ports in blocks.items():
        lines += [f'Switch 40 "{guid[name]}" # "{name}" enhanced port 0 lid 1 lmc 0', *ports, ""]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("fault", "cause", "text"),
    [
        (
            "slow_host",
            "slow_network_port",
            "leaf1 port 2 - n5 mlx5_0 port 1: 100 Gbit/s, most ports of hosts 200 Gbit/s",
        ),
        (
            "slow_cable",
            "slow_network_cable",
            "leaf0 port 7 - spine1 port 1: 100 Gbit/s, most cables between switches 200 Gbit/s",
        ),
        ("missing", "missing_network_cable", "spine1 - leaf1 (1): fewer cables than most pairs of switches have (2)"),
    ],
)
def test_faults_of_a_network_are_named(tmp_path, fault, cause, text):
    assert not fc.diagnose(fabric(tmp_path / "good.txt")).findings
    found = fc.diagnose(fabric(tmp_path / "bad.txt", **{fault: True}))
    assert [(one.cause, one.text) for one in found.findings] == [(cause, text)]
    assert str(found.verdict).startswith("a fault is stated: ")


def test_the_best_order_leaves_slow_hosts_out(tmp_path):
    network = fabric(tmp_path / "net.txt", slow_host=True)
    found = fc.map_ranks("ring:6", network=network, ranks_per_node=1, proposals=2000)
    assert found.slow_hosts == ("n5",) and "n5" not in set(found.table["host"])
    every = fc.map_ranks("ring:8", network=network, ranks_per_node=1, proposals=2000)
    assert "n5" in set(every.table["host"])


def test_short_names_of_hosts_are_known(tmp_path):
    text = fabric(tmp_path / "net.txt").read_text()
    (tmp_path / "fqdn.txt").write_text("".join(text.replace(" mlx5_0", ".cluster.example mlx5_0")))
    network = switch_network(str(tmp_path / "fqdn.txt"))
    assert network.host_numbers(["n1", "n3.cluster.example"]).tolist() == [1, 3]


def test_files_of_messages_and_networks_are_read_as_before(tmp_path):
    assert not read([fabric(tmp_path / "net.txt"), latency(tmp_path / "osu.out")]).problems
