"""Networks of switches: theory of fat trees and dragonflies, a plain reference of routes, files, and mappings."""

import itertools
from collections import deque

import numpy as np
import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.core.errors import InputError
from fabricast.networks.descriptions import default_network, switch_network
from fabricast.networks.generators import dragonfly, fat_tree
from fabricast.networks.loads import ROUTINGS, link_loads
from fabricast.networks.mapping import search_hosts
from fabricast.networks.network import Cable, network_of_cables
from fabricast.networks.patterns import node_pairs, rank_pairs
from tests.conftest import REPOSITORY
from tests.network_files import discovery

RATE = 1e9
TREES = [fat_tree(2, 8, 4, bytes_per_s=RATE), fat_tree(3, 6, 3, bytes_per_s=RATE), fat_tree(2, 12, 6, bytes_per_s=RATE)]


def shift_s(network, step, routing="static"):
    hosts = np.arange(len(network.hosts))
    return link_loads(network, hosts, (hosts + step) % hosts.size, np.full(hosts.size, RATE), routing).time_s


@pytest.mark.parametrize("network", TREES, ids=lambda network: network.title)
def test_no_shift_shares_a_link_on_a_tree_that_is_not_oversubscribed(network):
    """Zahavi: destination-mod-k routes carry every shift permutation without contention."""
    for step in range(1, len(network.hosts)):
        assert shift_s(network, step) == pytest.approx(1.0)


def test_half_the_up_ports_carry_three_times_the_bytes_of_a_full_shift():
    """9 of 36 ports up: 27 hosts of a leaf share 9 links, so that a shift by whole leaves has 3 copies on each."""
    network = fat_tree(2, 36, 9, bytes_per_s=RATE)
    assert len(network.hosts) == 27 * 36
    for routing in ("static", "adaptive"):
        assert shift_s(network, 27, routing) == pytest.approx(3.0)


def test_uniform_traffic_loads_links_of_a_level_equally():
    network = TREES[0]
    hosts = len(network.hosts)
    source, target = np.array(list(itertools.permutations(range(hosts), 2))).T
    for routing in ROUTINGS:
        load = link_loads(network, source, target, np.ones(source.size), routing).bytes
        links = load[: network.neighbour.size]
        assert links.min() == pytest.approx(links.max())


def test_indirect_routes_double_the_mean_load():
    """Valiant: each byte crosses the tree twice, except for those whose random leaf is the first or the last one."""
    network = TREES[2]
    hosts, links = len(network.hosts), network.neighbour.size
    step = hosts // 2
    ends = np.arange(hosts), (np.arange(hosts) + step) % hosts, np.ones(hosts)
    direct, indirect = (link_loads(network, *ends, routing).bytes[:links].sum() for routing in ("adaptive", "indirect"))
    leaves = network.leaves.size
    assert indirect / direct == pytest.approx(2 * (leaves - 1) / leaves)


def test_two_level_tree_has_the_contention_of_a_bad_permutation():
    """All hosts of a leaf send to hosts with the same number mod the spines: static routes share one link."""
    network = fat_tree(2, 8, 4, bytes_per_s=RATE)
    source, target = np.arange(4), 4 + 4 * np.arange(4)
    static, adaptive = (link_loads(network, source, target, np.full(4, RATE), r).time_s for r in ROUTINGS[:2])
    assert (static, adaptive) == (pytest.approx(4.0), pytest.approx(1.0))


def breadth_first(ends, start):
    """Return the distance of each switch from some switches, in plain Python."""
    far, waiting = dict.fromkeys(start, 0), deque(start)
    while waiting:
        switch = waiting.popleft()
        for other in ends[switch]:
            if other not in far:
                far[other] = far[switch] + 1
                waiting.append(other)
    return far


def reference_divisors(ends, leaves):
    """Return the number of routes that the levels below each switch distinguish, in plain Python."""
    level = breadth_first(ends, leaves)
    found = dict.fromkeys(level, 1)
    for switch in sorted(level, key=level.get):
        above = {other for other in ends[switch] if level[other] == level[switch] + 1}
        for other in above:
            found[other] = max(found[other], found[switch] * len(above))
    return found


def reference_route(network, source, target):
    """Return the links of the static route in plain Python."""
    ends = [network.neighbour[network.begin[s] : network.begin[s + 1]].tolist() for s in range(len(network.switches))]
    divisor = reference_divisors(ends, network.leaves.tolist())
    goal, destination = int(network.leaf[target]), int(network.number[target])
    far = breadth_first(ends, [goal])
    switch, links = int(network.leaf[source]), []
    while switch != goal:
        nearer = sorted({other for other in ends[switch] if far[other] == far[switch] - 1})
        following = nearer[destination // divisor[switch] % len(nearer)]
        cables = [place for place, other in enumerate(ends[switch]) if other == following]
        cable = destination // max(divisor[switch], divisor[following]) % len(cables)
        links.append(int(network.begin[switch]) + cables[cable])
        switch = following
    return links


def with_parallel_cables(leaves, hosts, spines, cables):
    """Return a tree of two levels with several cables between a leaf and a spine."""
    ends = [Cable(host // hosts, -1 - host, RATE) for host in range(leaves * hosts)]
    ends += [
        Cable(leaf, leaves + spine, RATE) for leaf in range(leaves) for spine in range(spines) for _ in range(cables)
    ]
    names = [f"host{number}" for number in range(leaves * hosts)], [f"switch{n}" for n in range(leaves + spines)]
    return network_of_cables(f"{leaves} leaves, {spines} spines, {cables} cables each", *names, ends)


@pytest.mark.parametrize("shape", [(4, 4, 2, 2), (8, 4, 1, 4), (6, 6, 3, 2)])
def test_parallel_cables_share_a_shift_evenly(shape):
    network = with_parallel_cables(*shape)
    for step in range(1, len(network.hosts)):
        assert shift_s(network, step) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "network",
    [*TREES, dragonfly(9, 4, 2, 2, bytes_per_s=RATE), dragonfly(5, 4, 2, 2, bytes_per_s=RATE)],
    ids=lambda network: network.title,
)
def test_each_switch_has_one_link_to_a_destination(network):
    """Routes by destination are those of forwarding tables: independent of the source."""
    link_of = {}
    for source, target in itertools.permutations(range(0, len(network.hosts), 3), 2):
        for link in reference_route(network, source, target):
            switch = int(np.searchsorted(network.begin, link, side="right")) - 1
            assert link_of.setdefault((switch, target), link) == link


@pytest.mark.parametrize(
    "network",
    [
        *TREES[:2],
        fat_tree(2, 6, 2, bytes_per_s=RATE, planes=2),
        dragonfly(4, 3, 2, 1, bytes_per_s=RATE),
        dragonfly(3, 2, 2, 3, bytes_per_s=RATE),
    ],
    ids=lambda network: network.title,
)
def test_loads_are_those_of_the_plain_reference(network):
    random = np.random.default_rng(3)
    hosts = len(network.hosts)
    source = random.integers(0, hosts, 60)
    target = (source + random.integers(1, hosts, 60)) % hosts
    size = random.uniform(1, 5, 60)
    expected = np.zeros(network.capacity.size)
    links = network.neighbour.size
    for one, other, amount in zip(source, target, size, strict=True):
        for rail in range(network.rails(np.arange(hosts))):
            first, last = network.host_begin[one] + rail, network.host_begin[other] + rail
            for link in (*reference_route(network, first, last), links + 2 * first, links + 2 * last + 1):
                expected[link] += amount / network.rails(np.arange(hosts))
    np.testing.assert_allclose(link_loads(network, source, target, size).bytes, expected)


@pytest.mark.parametrize(
    "network", [*TREES, dragonfly(5, 4, 2, 1, bytes_per_s=RATE)], ids=lambda network: network.title
)
def test_static_and_adaptive_routes_have_the_same_bytes_in_total(network):
    """Both are minimal; adaptive loads are split evenly."""
    source, target, size = node_pairs(rank_pairs("all_to_all:16,1 KB"), 1)
    static, adaptive = (link_loads(network, source, target, size, routing).bytes for routing in ROUTINGS[:2])
    assert static.sum() == pytest.approx(adaptive.sum())
    assert adaptive.max() <= static.max() * (1 + 1e-9)


def test_numbers_of_the_generators():
    assert [len(tree.hosts) for tree in TREES] == [32, 54, 72]
    network = dragonfly(9, 4, 2, 2, bytes_per_s=RATE)
    assert (len(network.hosts), len(network.switches)) == (72, 36)
    assert int(network.distance.max()) == 3, "local, global, local"
    assert fat_tree(1, 8, 4, bytes_per_s=RATE).neighbour.size == 0
    assert len(default_network(41).hosts) == 800


@pytest.mark.slow
def test_a_tree_of_65_536_hosts_fits_into_memory():
    network = fat_tree(3, 64, 32, bytes_per_s=RATE)
    assert len(network.hosts) == 65_536
    assert network.distance.nbytes < 30e6
    assert shift_s(network, 4096) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "text, message",
    [
        ("fat_tree:2,36", "expected fat_tree:LEVELS,PORTS,UP"),
        ("fat_tree:2,8,4,1000000", "expected fat_tree:LEVELS,PORTS,UP"),
        ("fat_tree:9,36,18", "levels is 9"),
        ("fat_tree:2,36,36", "expected 2 to 1,024 and 1 to 35"),
        ("dragonfly:9,2,2,2", "expected at least one to each of the 8 other groups"),
        ("torus:4,4", "expected fat_tree"),
        ("fat_tree:2,36,18@0", "expected a rate"),
        ("no_such_file.txt", "cannot be read"),
    ],
)
def test_other_words_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        switch_network(text)


def test_a_host_of_storage_halves_no_rails_and_runs_no_ranks(tmp_path):
    path = tmp_path / "network.txt"
    lines = discovery(rails=2).splitlines()
    path.write_text("\n".join(line for line in lines if "node15 mlx5_1" not in line))
    found = fc.map_ranks("ring:30,1 GB", network=path, ranks_per_node=2, proposals=0)
    assert found.host_s == pytest.approx(1e9 / 2 / 25e9)
    assert "node15" not in set(found.table["host"])
    assert any("1 hosts with another number of cards" in text for text in found.assumptions)


def test_ports_within_switches_are_no_hosts(tmp_path):
    path = tmp_path / "network.txt"
    extra = '[9]\t"H-00000000000000ff"[1](ff)\t\t# "Mellanox Technologies Aggregation Node" lid 255 4xHDR'
    lines = discovery().splitlines()
    path.write_text("\n".join([*lines[:4], extra, *lines[4:]]))
    assert switch_network(str(path)).hosts[0] == "node00"


def test_slower_ports_of_a_host_are_avoided(tmp_path):
    path = tmp_path / "network.txt"
    path.write_text(discovery().replace('"node00 mlx5_0" lid 4096 4xHDR', '"node00 mlx5_0" lid 4096 1xHDR'))
    found = fc.map_ranks("ring:8,1 GB", network=path, ranks_per_node=1, proposals=2000)
    static = found.times[found.times["routing"] == "static"].set_index("order")["time_s"]
    assert static["listed"] == pytest.approx(0.16)
    assert static["searched"] == pytest.approx(0.04)


def test_topology_as_scontrol_prints_it(tmp_path):
    """The command repeats the nodes of all switches below."""
    path = tmp_path / "topology.txt"
    path.write_text(
        "SwitchName=a Level=0 LinkSpeed=1 Nodes=n[0-3]\nSwitchName=b Level=0 LinkSpeed=1 Nodes=n[4-7]\n"
        "SwitchName=root Level=1 LinkSpeed=1 Nodes=n[0-7] Switches=a,b\n"
    )
    assert switch_network(str(path)).hosts == tuple(f"n{number}" for number in range(8))


@pytest.mark.parametrize("text", ["fat_tree:4,1024,512", "fat_tree:3,400,200", "dragonfly:4096,64,64,64"])
def test_networks_that_are_too_large_are_refused_at_once(text):
    with pytest.raises(InputError, match=r"cables, expected at most 2,000,000"):
        switch_network(text)


@pytest.mark.parametrize(
    "text",
    ["halo:", "halo:0x4", "halo:12345678x4", "halo:8xx8", "ring:1", "ring:2x2", "all_to_all:9999999", "halo:4,no"],
)
def test_other_patterns_are_refused(text):
    with pytest.raises(InputError):
        rank_pairs(text)


@pytest.mark.parametrize("report", [False, True])
def test_ibnetdiscover_gives_the_tree_with_its_names_and_rates(tmp_path, report):
    path = tmp_path / "network.txt"
    path.write_text(discovery(report=report))
    network = switch_network(str(path))
    assert network.hosts == tuple(f"node{number:02d}" for number in range(16))
    assert sorted(network.switches) == ["leaf0", "leaf1", "leaf2", "leaf3", "spine0", "spine1"]
    assert network.neighbour.size == 2 * 4 * 2
    assert set(network.capacity) == {25e9}
    generated = fat_tree(2, 6, 2, bytes_per_s=25e9)
    # Two of six ports up: 4 hosts at each of 4 (of 6) leaves.
    for step in (1, 4, 5):
        hosts = np.arange(16)
        ends = hosts, (hosts + step) % 16, np.full(16, 25e9)
        assert link_loads(network, *ends).time_s == pytest.approx(link_loads(generated, *ends).time_s)


def test_cards_of_one_host_are_rails(tmp_path):
    path = tmp_path / "network.txt"
    path.write_text(discovery(rails=2, speed="NDR"))
    network = switch_network(str(path))
    assert (len(network.hosts), network.rails(np.arange(16)), network.end_points) == (16, 2, 32)
    assert link_loads(network, np.array([0]), np.array([1]), np.array([100e9])).time_s == pytest.approx(1.0)


def test_damaged_discoveries_are_refused(tmp_path):
    path = tmp_path / "network.txt"
    path.write_text(discovery().replace("4xHDR", "4xHDX", 1))
    with pytest.raises(InputError, match=r"network.txt:5: speed is 'HDX', expected one of SDR"):
        switch_network(str(path))
    lines = discovery().splitlines()
    path.write_text("\n".join(line for line in lines if not line.startswith("Switch") or "spine1" not in line))
    with pytest.raises(InputError, match="a second time: the line of a switch is missing above"):
        switch_network(str(path))
    spine = next(place for place, line in enumerate(lines) if line.startswith("Switch") and "spine0" in line)
    path.write_text("\n".join(line for line in lines[:spine] if "spine" not in line))
    with pytest.raises(InputError, match="are not connected"):
        switch_network(str(path))


SLURM = "".join(f"SwitchName=leaf{n} Nodes=node[{4 * n:02d}-{4 * n + 3:02d}]\n" for n in range(4))
SLURM += "SwitchName=top Switches=leaf[0-3]\n"


def test_a_file_of_slurm_is_a_tree_with_a_stated_assumption(tmp_path):
    path = tmp_path / "topology.conf"
    path.write_text(SLURM)
    network = switch_network(str(path), oversubscription=2.0)
    assert network.hosts[:2] == ("node00", "node01")
    assert network.capacity[: network.neighbour.size].tolist() == [4 * 25e9 / 2] * 8
    assert any("Slurm counts no cables" in text for text in network.assumptions)
    assert shift_s(network, 4) * 25 == pytest.approx(2.0)


@pytest.mark.parametrize("seed", range(3))
def test_a_search_is_never_slower_and_reports_its_own_time(seed):
    random = np.random.default_rng(seed)
    network = dragonfly(6, 3, 2, 2, bytes_per_s=RATE)
    pairs = node_pairs(rank_pairs("halo:4x4x8,1 MB"), 4)
    hosts = random.permutation(len(network.hosts))
    found = search_hosts(network, pairs, 32, hosts, proposals=3000, seed=seed)
    assert found.time_s <= found.start_s
    assert np.unique(found.host).size == 32
    again = link_loads(network, found.host[pairs[0]], found.host[pairs[1]], pairs[2]).time_s
    assert found.time_s == pytest.approx(again)
    repeated = search_hosts(network, pairs, 32, hosts, proposals=3000, seed=seed)
    assert repeated.host.tolist() == found.host.tolist()


def test_a_scattered_allocation_gets_a_better_order(tmp_path):
    path = tmp_path / "network.txt"
    path.write_text(discovery(leaves=8, spines=2, hosts=8))
    names = [f"node{number:02d}" for number in np.random.default_rng(1).permutation(64)]
    found = fc.map_ranks("halo:8x8x8", network=path, hosts=names, proposals=40_000)
    static = found.times[found.times["routing"] == "static"].set_index("order")["time_s"]
    assert static["searched"] < static["listed"] / 1.3
    assert sorted(found.table["host"]) == sorted(names)
    assert found.table["last_rank"].iloc[-1] == 511
    files = found.write(tmp_path / "best")
    assert files[1].read_text().splitlines()[:9] == [found.table["host"][0]] * 8 + [found.table["host"][1]]
    assert "rank 0=" in files[0].read_text()


def test_links_of_a_pattern_are_listed_with_their_names():
    table = fc.network_loads("ring:32,1 GB", network="fat_tree:2,4,2@80", ranks_per_node=4)
    assert table["time_s"].is_monotonic_decreasing
    assert {"host0 to leaf0", "leaf0 to spine0"} & set(table["link"])
    assert table.attrs["assumptions"] == ()
    with pytest.raises(InputError, match="routing is 'x'|routing 'x' is unknown"):
        fc.network_loads("ring:32", routing="x")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"hosts": ["a", "b"]}, "hosts has 2 hosts, expected at least 4"),
        ({"hosts": ["a", "a", "b", "c"]}, "has a host twice"),
        ({"network": "fat_tree:1,2,1"}, "network has 2 hosts, expected at least 4"),
        ({"oversubscription": -7.0}, "oversubscription is -7"),
        ({"ranks_per_node": 32}, "all mappings are equal"),
        ({"gbit_s": 0.0}, "gbit_s is 0"),
    ],
)
def test_jobs_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        fc.map_ranks("halo:32", **arguments)


def test_commands_state_orders_limits_and_assumptions(tmp_path):
    path = tmp_path / "topology.conf"
    path.write_text(SLURM)
    run = CliRunner().invoke(app, ["map", "halo:4x4x4", "--ranks-per-node", "4", "--network", str(path)])
    assert run.exit_code == 0, run.output
    assert "listed order" in run.output and "best order" in run.output and "limit of the ports of hosts" in run.output
    assert "assumed: Slurm counts no cables" in run.output
    run = CliRunner().invoke(app, ["network", "loads", "ring:64", "--network", "dragonfly:9,4,2,2@100"])
    assert run.exit_code == 0, run.output
    assert "static routes; dragonfly of 9 groups" in run.output
    assert "assumed" not in run.output
    run = CliRunner().invoke(app, ["network", "loads", "ring:64", "--mapping", "RNM"])
    assert str(run.exception) == "mapping is not an option of this kind of network"
    run = CliRunner().invoke(app, ["map", "halo:4x4x4", "--network", "torus:4"])
    assert run.exit_code != 0 and "expected fat_tree" in str(run.exception)


def test_full_and_grouped_output_of_ibnetdiscover_is_read(tmp_path):
    """Option -f adds numbers to each line, option -g the ports outside a chassis."""
    path = tmp_path / "network.txt"
    path.write_text(discovery().replace("4xHDR", "4xHDR s=4 w=2 e=32"))
    full = switch_network(str(path))
    path.write_text(discovery().replace('[1]\t"H', '[1][ext 1]\t"H'))
    grouped = switch_network(str(path))
    assert full.hosts == grouped.hosts == tuple(f"node{number:02d}" for number in range(16))


def test_cards_with_the_description_of_their_maker_are_different_hosts(tmp_path):
    path = tmp_path / "network.txt"
    path.write_text(discovery().replace("node03 mlx5_0", "MT4123 ConnectX6   Mellanox Technologies"))
    assert "card-0000000000001003" in switch_network(str(path)).hosts


def test_names_that_launchers_cannot_have_are_refused(tmp_path):
    with pytest.raises(InputError, match="expected names of letters"):
        fc.map_ranks("ring:32", hosts=["a\nrank 9=evil", "b", "c", "d"])
    found = fc.map_ranks("ring:32", hosts=["a", "b", "c", "d"], proposals=0)
    with pytest.raises(InputError, match="expected the first part of file names"):
        found.write("")
    assert [path.name for path in found.write(tmp_path / "run1.5")] == ["run1.5.rankfile", "run1.5.hosts"]


def test_output_of_ibnetdiscover_that_is_cut_between_blocks_is_refused(tmp_path):
    text = (REPOSITORY / "src" / "fabricast" / "sources" / "examples" / "ibnetdiscover.txt").read_text()
    for end in (text.index("vendid=0x2c9", 200), text.index('Switch\t40 "S-0000000000000100"')):
        path = tmp_path / "network.txt"
        path.write_text(text[:end])
        with pytest.raises(InputError, match="lacks the block of switch"):
            switch_network(str(path))


@pytest.mark.parametrize("network", ["fat_tree:2,16,4@200", "fat_tree:3,8,4@200", "dragonfly:9,4,2,2@200"])
def test_packets_arrive_a_little_after_the_time_of_the_busiest_link(network):
    found = fc.simulate_network("halo:4x4x8,256 KiB", network=network, ranks_per_node=4, packet="8 KiB")
    loads = fc.network_loads("halo:4x4x8,256 KiB", network=network, ranks_per_node=4)
    assert found.busiest_s == pytest.approx(loads["time_s"].max())
    assert found.busiest_s <= found.elapsed_s < 1.15 * found.busiest_s
    # Each packet passes the port of the receiver and the links between switches.
    links = loads[~loads["link"].str.startswith("host")]["bytes"].sum()
    assert found.hops == pytest.approx(links / found.packet_bytes, rel=1e-6)


def test_packets_of_one_message_have_the_time_of_a_pipeline():
    found = fc.simulate_network("ring:2,64 KiB", network="fat_tree:1,4,2@80", ranks_per_node=1, packet="64 KiB")
    # Two messages in opposite directions: injection, the port of the receiver, and the delay of the switch.
    assert found.elapsed_s == pytest.approx(2 * 65536 / 10e9 + 2e-7, rel=1e-2)


def test_routes_that_are_too_long_for_the_simulation_are_refused():
    with pytest.raises(InputError, match="expected at most 5"):
        fc.simulate_network("ring:16", network="fat_tree:4,4,2", ranks_per_node=1)


def test_the_command_simulates_a_fat_tree():
    result = CliRunner().invoke(app, ["network", "simulate", "ring:32", "--network", "fat_tree:2,8,4@100"])
    assert result.exit_code == 0, result.output
    assert "last packet arrives after" in result.stdout and "assumed: each switch delays" in result.stdout


def test_blocks_of_a_grid_send_fewer_bytes_between_hosts(tmp_path):
    options = {"network": "dragonfly:4,4,4,2@200", "ranks_per_node": 16, "proposals": 2_000}
    listed, blocks = (fc.map_ranks("halo:8x8x8,64 KiB", blocks=one, **options) for one in (False, True))
    static = listed.times[listed.times["routing"] == "static"].set_index("order")["time_s"]
    assert static["blocks"] == blocks.times.query("order == 'listed' and routing == 'static'")["time_s"].iloc[0]
    # Six neighbours of 64 KiB: 16 ranks in a 2x8 plane have 32 + 4 outside, a 2x2x4 block 2 (8 + 8 + 4).
    assert listed.block == blocks.block == (2, 2, 4)
    hosts = blocks.write(tmp_path / "blocks")[1].read_text().split()
    ranks = np.arange(512).reshape(8, 8, 8)
    sent = dict.fromkeys(hosts, 0)
    for axis in range(3):
        for step in (1, -1):
            for rank, other in zip(ranks.ravel(), np.roll(ranks, step, axis=axis).ravel(), strict=True):
                sent[hosts[rank]] += 65536 * (hosts[rank] != hosts[other])
    assert set(sent.values()) == {65536 * 2 * (2 * 4 + 2 * 4 + 2 * 2)}
    assert blocks.host_s == pytest.approx(max(sent.values()) / 25e9)
    with pytest.raises(InputError, match="blocks of 16 ranks, not for 'ring:64'"):
        fc.map_ranks("ring:64", blocks=True, **options)


def test_the_command_advises_blocks():
    words = ["map", "halo:8x8x8", "--network", "dragonfly:4,4,4,2@200", "--ranks-per-node", "16", "--proposals", "2000"]
    assert "a block of 2x2x4 ranks on each node is" in CliRunner().invoke(app, words).stdout
    shown = CliRunner().invoke(app, [*words, "--blocks"]).stdout
    assert "a block of 2x2x4 on each" in shown and "--blocks searches" not in shown


def test_a_shuffled_list_of_hosts_becomes_as_fast_as_a_sorted_one():
    hosts = [f"host{number}" for number in range(64)]
    shuffled = np.random.default_rng(3).permutation(hosts).tolist()
    sorted_s, searched_s = (
        fc.map_ranks("halo:16x8x4", network="fat_tree:2,16,4@400", hosts=order, proposals=proposals).times.set_index(
            ["order", "routing"]
        )["time_s"][kind, "static"]
        for order, proposals, kind in ((hosts, 0, "listed"), (shuffled, 1000, "searched"))
    )
    assert searched_s == pytest.approx(sorted_s)


def test_an_all_to_all_of_all_hosts_needs_no_search():
    network = dragonfly(4, 2, 2, 2, bytes_per_s=RATE)
    nodes = np.arange(len(network.hosts))
    count = nodes.size

    source, target = (grid.ravel() for grid in np.meshgrid(nodes, nodes))
    apart = source != target
    pairs = (source[apart], target[apart], np.full(int(apart.sum()), 1e6))
    found = search_hosts(network, pairs, count, nodes, proposals=1000, seed=1)
    assert (found.proposals, found.time_s) == (0, found.start_s)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(nodes)
        shuffled = search_hosts(network, pairs, count, order, proposals=1000, seed=1)
        assert shuffled.time_s == pytest.approx(found.time_s, rel=1e-12)
    # One pair with more bytes: orders differ.
    pairs[2][0] *= 3
    assert search_hosts(network, pairs, count, nodes, proposals=1000, seed=1).proposals > 0


def test_messages_within_a_host_are_named_as_such():
    from typer.testing import CliRunner

    from fabricast.cli.main import app

    arguments = ["network", "loads", "ring:4", "--network", "fat_tree:2,4,2@80", "--ranks-per-node"]
    assert "no message crosses the network" in CliRunner().invoke(app, [*arguments, "4"]).output
    assert "no message crosses the network" not in CliRunner().invoke(app, [*arguments, "2"]).output
