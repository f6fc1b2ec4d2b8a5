"""Copies between GPUs of several nodes: limits of each layer, a plain reference, theory, public data, bad input."""

import itertools
import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.clusters.errors import recorded_errors
from fabricast.clusters.evidence import copy_errors
from fabricast.clusters.latency import message_latency
from fabricast.clusters.machine import ClusterMachine, NodeMachine
from fabricast.clusters.node_trees import card_names
from fabricast.clusters.routes import Layer, cluster_links
from fabricast.clusters.times import busiest_link, run_copies
from fabricast.collectives.clusters.cluster import node_of
from fabricast.collectives.clusters.constants import known_constants
from fabricast.core.errors import InputError
from fabricast.core.warnings import WarningCode
from fabricast.machine.build import machine_of_tree
from fabricast.networks.patterns import compact_block, rank_pairs, slots_of_blocks
from fabricast.pcie.graphs.rates import Rates
from fabricast.pcie.machines.engine_model import EngineModel
from fabricast.pcie.topology.builtin import node_names, node_tree
from tests.conftest import REPOSITORY

MIB = 2.0**20
#: Rate of a card of 400 Gbit/s with one peer, and with several.
TO_ONE = known_constants()["verbs_share"] * 50e9
TO_MANY = known_constants()["card_pair_share"] * 50e9


def hgx(nodes=2, nic="8x400", **options):
    return fc.load_cluster("hgx_h100", nodes=nodes, nic=nic, network="InfiniBand", latency_us=0.001, **options)


def time_of(cluster, copies, size="64 MiB", **options):
    return fc.predict_cluster(cluster, copies, size=size, alternatives=False, **options).time_s


def test_a_copy_has_the_rate_of_its_card_and_two_share_it():
    one = time_of(hgx(), [("node0.gpu0", "node1.gpu0")])
    assert one == pytest.approx(64 * MIB / TO_ONE, rel=1e-4)
    apart = [("node0.gpu0", "node1.gpu0"), ("node0.gpu1", "node1.gpu1")]
    assert time_of(hgx(nic="1x400"), apart) == pytest.approx(2 * 64 * MIB / TO_ONE, rel=1e-4)
    assert time_of(hgx(), apart) == pytest.approx(one, rel=1e-6)


def test_a_card_with_several_peers_is_slower():
    copies = [("node0.gpu0", "node1.gpu0"), ("node0.gpu0", "node2.gpu0")]
    assert time_of(hgx(3), copies) == pytest.approx(2 * 64 * MIB / TO_MANY, rel=1e-4)


def test_the_rail_of_the_target_is_used_over_nvlink():
    found = fc.predict_cluster(hgx(), [("node0.gpu0", "node1.gpu3")], alternatives=False)
    assert found.bottleneck == "node0: card nic3 sends"
    names = used_names(hgx(), [0], [11])
    assert "node0: direct link 0 > NVSwitch" in names
    assert "node0: endpoint nic3 receives" in names
    assert not any("nic0" in name for name in names)


def used_names(cluster, source, target, **options):
    links = cluster_links(cluster, np.array(source), np.array(target), **options)
    return {links.names[link] for link in links.links.link.tolist()}


def test_without_gpudirect_copies_pass_through_host_memory():
    names = used_names(hgx(gpudirect=False), [0], [8])
    assert any("H@R0" in name for name in names)
    direct, staged = (used_names(hgx(gpudirect=one), [0], [8]) for one in (True, False))
    assert not any("H@" in name for name in direct)
    assert time_of(hgx(gpudirect=False), [("0", "8")]) >= time_of(hgx(), [("0", "8")])
    assert len(staged) > len(direct)


def test_copies_within_a_node_have_the_times_of_that_node():
    cluster = fc.load_cluster("storm8", nodes=2, nic="2x100", network="InfiniBand")
    pairs = [(0, 1), (2, 1), (4, 5), (3, 4)]
    alone = fc.predict("storm8", pairs, size="64 MiB", model="endpoint_engines", program="independent")
    both = fc.predict_cluster(cluster, [(f"node1.{one}", f"node1.{other}") for one, other in pairs], size="64 MiB")
    np.testing.assert_allclose(both.table["elapsed_s"], alone["elapsed_s"], rtol=1e-6)


def test_an_oversubscribed_network_is_slower_by_its_factor():
    copies = [(f"node0.gpu{gpu}", f"node1.gpu{gpu}") for gpu in range(8)]
    plain, narrow = time_of(hgx(), copies), time_of(hgx(oversubscription=4.0), copies)
    assert narrow == pytest.approx(4 * plain, rel=1e-4)
    found = fc.predict_cluster(hgx(oversubscription=4.0), copies, alternatives=False)
    assert found.layer == "network"
    gain = found.layers.set_index("layer")["gain"]
    assert gain["network"] == pytest.approx(4, rel=1e-3) and gain["node"] == pytest.approx(1, rel=1e-3)


def test_shifts_have_no_hot_link_on_a_full_tree_and_known_ones_with_fewer_links():
    """Zahavi, IPDPS workshops 2011: routes by destination."""
    for up in (4, 2):
        hosts = 8 - up
        cluster = hgx(2 * hosts, "1x400", switches=f"fat_tree:2,8,{up}@400", gpus=1)
        shift = [(str(rank), str((rank + hosts) % (2 * hosts))) for rank in range(2 * hosts)]
        # The hosts of a leaf switch share its links upwards: 4 of 4 ports, and 6 hosts over 2 ports.
        hot_s = hosts / up * 64 * MIB / 50e9
        assert time_of(cluster, shift) == pytest.approx(max(64 * MIB / TO_ONE, hot_s), rel=1e-3)


def test_adaptive_routes_are_never_slower_than_a_hot_static_link():
    cluster = hgx(12, "1x400", switches="fat_tree:2,8,2@400", gpus=1)
    generator = np.random.default_rng(3)
    for _ in range(5):
        order = generator.permutation(12)
        pairs = [(str(one), str(other)) for one, other in enumerate(order.tolist()) if one != other]
        assert time_of(cluster, pairs, routing="adaptive") <= time_of(cluster, pairs) * (1 + 1e-6)


def reference_ends(links, sizes):
    """Return completion times by progressive filling in plain Python, without traffic of the reverse direction."""
    routes = [links.links.link[a:b].tolist() for a, b in itertools.pairwise(links.links.offset.tolist())]
    capacity, left, now = links.links.capacity, dict(enumerate(sizes.tolist())), 0.0
    ends = {}
    while left:
        rate, spare, open_copies = {}, dict(enumerate(capacity.tolist())), set(left)
        while open_copies:
            users = {}
            for copy in open_copies:
                for link in routes[copy]:
                    users[link] = users.get(link, 0) + 1
            tight = min(users, key=lambda link: (spare[link] / users[link], link))
            share = spare[tight] / users[tight]
            for copy in [one for one in open_copies if tight in routes[one]]:
                rate[copy] = share
                open_copies.discard(copy)
                for link in routes[copy]:
                    spare[link] -= share
        step = min(left[copy] / rate[copy] for copy in left)
        now += step
        for copy in list(left):
            left[copy] -= rate[copy] * step
            if left[copy] <= 1e-9 * sizes[copy]:
                ends[copy] = now
                del left[copy]
    return np.array([ends[copy] for copy in range(len(sizes))])


@pytest.mark.parametrize("seed", range(4))
def test_times_are_those_of_a_plain_reference(seed):
    generator = np.random.default_rng(seed)
    cluster = hgx(4, "4x400", switches="fat_tree:2,4,2@400")
    source = generator.integers(0, 32, 24)
    target = (source + generator.integers(1, 32, 24)) % 32
    sizes = generator.choice([1.0, 2.0, 5.0], 24) * MIB
    links = cluster_links(cluster, source, target)
    links.links.needs[:] = -1
    one_way = links.links._replace(duplex_cost=0.0)
    plain = type(links)(one_way, links.layer, links.names, links.crosses, links.switches)
    np.testing.assert_allclose(run_copies(plain, sizes).end_s, reference_ends(plain, sizes), rtol=1e-6)


def test_the_order_of_copies_changes_nothing_and_the_busiest_link_is_a_lower_bound():
    cluster = hgx(4, "4x400", switches="fat_tree:2,4,1@400")
    generator = np.random.default_rng(1)
    source = generator.integers(0, 32, 40)
    target = (source + generator.integers(1, 32, 40)) % 32
    sizes = generator.uniform(1, 9, 40) * MIB
    links = cluster_links(cluster, source, target)
    ends = run_copies(links, sizes).end_s
    order = generator.permutation(40)
    shuffled = run_copies(cluster_links(cluster, source[order], target[order]), sizes[order]).end_s
    np.testing.assert_allclose(shuffled, ends[order], rtol=1e-6)
    assert busiest_link(links, sizes)[0] <= ends.max() * (1 + 1e-9)


def test_large_patterns_have_the_time_of_the_busiest_link():
    cluster = hgx(32, "8x400")
    large = fc.predict_cluster(cluster, "all_to_all:256", size="1 MiB", alternatives=False)
    assert not large.is_simulated and "elapsed_s" not in large.table
    assert large.time_s == pytest.approx(248 * MIB / TO_MANY, rel=1e-3)
    assert any("lower bound" in str(one) for one in large.warnings)


def test_blocks_of_a_grid_have_the_fewest_neighbours_outside():
    for sides, count in (((4, 4, 4, 8), 8), ((6, 4), 4), ((2, 2, 2), 4)):
        block = compact_block(sides, count)
        slots = slots_of_blocks(sides, block)
        assert sorted(slots.tolist()) == list(range(int(np.prod(sides))))
        pairs = rank_pairs(f"halo:{'x'.join(map(str, sides))}")
        outside = (slots[pairs.source] // count != slots[pairs.target] // count).sum()
        assert outside <= (pairs.source // count != pairs.target // count).sum()


def test_a_halo_exchange_gains_from_blocks():
    found = fc.predict_cluster(hgx(16), "halo:4x4x8", size="4 MiB")
    best = found.choices.iloc[0]
    assert best["choice"].startswith("each node has a block of")
    assert best["gain"] > 1.05
    assert best["time_s"] == pytest.approx(found.time_s / best["gain"])


def test_files_of_launchers_put_blocks_on_nodes(tmp_path):
    stem = tmp_path / "blocks"
    words = ["hgx_h100", "--nodes", "16", "--nic", "8x400", "--halo", "4x4x8", "--size", "1MiB", "--write-ranks", stem]
    assert run(*words).exit_code == 0
    hosts = (tmp_path / "blocks.hosts").read_text().split()
    assert len(hosts) == 128 and set(hosts) == {f"node{node}" for node in range(16)}
    # Ranks of one block of 1 x 4 x 2 are on one node: neighbours in the second and third side.
    assert hosts[0] == hosts[1] == hosts[8] == hosts[25] and hosts[0] != hosts[2]
    assert "rank 25=node0 slot=7" in (tmp_path / "blocks.rankfile").read_text()
    with pytest.raises(InputError, match="halo exchanges"):
        fc.predict_cluster(hgx(), "ring:16", size="1 MiB").write_blocks(stem)


def test_another_order_of_hosts_gains_on_a_dragonfly():
    # Neighbours in the order of the job are in different groups.
    hosts = "host[0,4,8,12,1,5,9,13,2,6,10,14,3,7,11,15]"
    cluster = hgx(16, "1x400", switches="dragonfly:4,2,2,2@400", hosts=hosts, gpus=1)
    found = fc.predict_cluster(cluster, "halo:8x2", size="4 MiB")
    gains = found.choices.set_index("choice")["gain"]
    assert gains[next(name for name in gains.index if "order of the hosts" in name)] > 1.2


def test_small_messages_have_the_latency_of_the_network(tmp_path):
    text = "# OSU MPI Latency Test v5.9\n# Size          Latency (us)\n1                       3.50\n8                       3.60\n"
    (tmp_path / "osu_latency.txt").write_text(text)
    cluster = fc.load_cluster(["hgx_h100", str(tmp_path / "osu_latency.txt")], nodes=2, nic="8x400")
    found = fc.predict_cluster(cluster, [("node0.gpu0", "node1.gpu0")], size=8)
    assert found.layer == "latency"
    assert found.time_s == pytest.approx(3.5e-6, rel=1e-2)
    assumed = fc.load_cluster("hgx_h100", nodes=2, nic="8x400")
    parts = message_latency(assumed, np.array([1, 3])).time_s
    assert parts[0] == pytest.approx(1.387e-6, rel=0.01), "Breaking Band, slide 34"
    assert parts[1] > parts[0]


def test_the_rate_of_one_process_limits_single_copies():
    cluster = hgx(process_gbyte_s=10.0)
    for peers in (1, 2):
        copies = [("node0.gpu0", f"node1.gpu{peer}") for peer in range(peers)]
        found = fc.predict_cluster(cluster, copies, size="64 MiB", alternatives=False)
        # Max-rate: k processes have k times the rate; the copies of one share it.
        assert (found.layer, found.time_s) == ("process", pytest.approx(peers * 64 * MIB / 10e9, rel=1e-3))


@pytest.mark.parametrize("name", node_names())
def test_built_in_nodes_have_trees_with_their_cards(name):
    node = node_of(name)
    tree = node_tree(node.name, node.cards)
    assert (len(tree.accelerator_names), len(card_names(tree))) == (node.gpus, node.cards)
    cluster = fc.load_cluster(name, nodes=2, nic=f"{node.cards}x{node.card_gbit_s:g}")
    nearest = {
        tree.path_class(gpu, cluster.kinds[0].cards[card])
        for gpu, card in zip(tree.accelerator_names, cluster.kinds[0].card_of, strict=True)
    }
    assert nearest <= {node.attach.name, "NODE", "SYS"} and node.attach.name in nearest
    assert time_of(cluster, [("node0.gpu0", "node1.gpu0")]) > 0


def test_errors_are_those_of_the_public_rows():
    table = copy_errors()
    recorded = recorded_errors()
    assert table["pattern"].tolist() == [row["pattern"] for row in recorded]
    np.testing.assert_allclose(table["median"], [row.number("median") for row in recorded], atol=1e-3)
    errors = table.set_index("pattern")["median"]
    assert errors["MPI messages of 1 to 4 MiB of several processes"] < 0.03
    assert errors["all-to-all of 32 MiB and more"] < 0.05
    assert table["rows"].tolist() == [int(row["rows"]) for row in recorded]
    np.testing.assert_allclose(table["worst"], [row.number("worst") for row in recorded], atol=1e-3)


CLUSTER = "cluster: pool\nnode: hgx_h100\nnodes: 4\nnic: 8x400\nnetwork: InfiniBand\nswitches: fat_tree:2,4,2@400\n"


def run(*words):
    return CliRunner().invoke(app, ["predict", *map(str, words)])


def test_the_command_prints_what_limits_and_what_helps(tmp_path):
    (tmp_path / "pool.yaml").write_text(CLUSTER)
    path = tmp_path / "pool.yaml"
    result = run(path, "--copies", "node0.gpu3>node3.gpu3 node0.gpu1>node0.gpu2", "--format", "table")
    lines = result.stdout.splitlines()
    assert "fat tree of 2 levels" in lines[0]
    assert "limited by card: node0: card nic3 sends" in lines[1]
    assert any(line.startswith("network: limits 0 %") for line in lines)
    document = json.loads(run(path, "--halo", "4x8", "--size", "1MiB", "--format", "json").stdout)
    assert document["layer"] in ("card", "network", "node")
    assert {"layers", "choices", "copies", "warnings"} <= document.keys()
    table = fc.predict(path, [("node0.gpu3", "node3.gpu3")], size="64 MiB")
    assert table["bottleneck"].tolist() == ["node0: card nic3 sends"]
    assert {one["layer"] for one in table.attrs["layers"]} == {"node", "card", "network", "latency"}
    output = tmp_path / "copies.csv"
    assert run(path, "--ring", "-o", output).exit_code == 0
    assert len(pd.read_csv(output)) == 32


def test_a_matrix_of_ranks_is_a_pattern(tmp_path):
    (tmp_path / "bytes.csv").write_text("source,target,size_bytes\n0,8,1048576\n8,0,2097152\n")
    found = fc.predict_cluster(hgx(), tmp_path / "bytes.csv")
    assert found.table["size_bytes"].tolist() == [MIB, 2 * MIB]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hgx_h100", "--nodes", "2", "--nic", "8x400", "--copies", "node0.gpu9>node1.gpu0"], "node0.gpu9"),
        (["hgx_h100", "--nodes", "2", "--nic", "8x400", "--copies", "node2.gpu0>node1.gpu0"], "node0 to node1"),
        (["hgx_h100", "--nodes", "2", "--nic", "8x400", "--copies", "x>y"], "such as node0.gpu3"),
        (["hgx_h100", "--nodes", "2", "--nic", "8x400", "--copies", "99>0"], "expected 0 to 15"),
        (["hgx_h100", "--nodes", "2", "--nic", "8x400", "--copies", "0>0"], "to itself"),
        (["hgx_h100", "--nodes", "2", "--nic", "8x400"], "no copies are specified"),
        (["hgx_h100", "--nodes", "2", "--nic", "8x400", "--ring", "--halo", "4x4"], "exclude each other"),
        (["hgx_h100", "--nodes", "2", "--nic", "8x400", "--halo", "4x8"], "32 ranks, expected at most the 16"),
        (["hgx_h100", "--nodes", "2", "--nic", "8x400", "--ring", "--tau", "0.1"], "--tau has no effect"),
        (["hgx_h100", "--nodes", "0", "--nic", "8x400", "--ring"], "expected 1 to 100,000"),
        (["hgx_h100", "--nodes", "2", "--nic", "8x400", "--ring", "--routing", "best"], "static"),
        (["hgx_h100", "--nodes", "9", "--nic", "1x400", "--ring", "--switches", "fat_tree:1,8,4"], "8 hosts"),
        (["hgx_h100", "--nodes", "2", "--nic", "8x400", "--ring", "--hosts", "a[0-1]"], "without switches"),
        (["hgx_h100", "--nodes", "2", "--nic", "8x400", "--ring", "--latency-us", "nan"], "latency"),
        (["hgx_h100", "--nodes", "2", "--nic", "8x400", "--ring", "--oversubscription", "0.5"], "oversubscription"),
        (["hgx_h100", "--nodes", "2", "--nic", "8x400", "--ring", "--size", "0"], "size"),
        (["hgx_h100", "--nodes", "2", "--nic", "8x400", "--ring", "--network", "pigeon"], "pigeon"),
        (["storm8", "--nodes", "2", "--ring"], "such as 8x400"),
        (["storm8", "--ring", "--nic", "8x400"], "--nic has no effect on one machine"),
    ],
)
def test_bad_input_has_one_line(words, message):
    result = run(*words)
    text = str(result.exception)
    assert isinstance(result.exception, InputError), result.output
    assert message in text and "\n" not in text


def test_links_without_a_layer_limit_nothing_of_it():
    cluster = hgx(14, "1x400", switches="fat_tree:2,8,1@400", gpus=1)
    pairs = rank_pairs("all_to_all:14")
    links = cluster_links(cluster, pairs.source, pairs.target)
    sizes = np.full(pairs.source.size, MIB)
    whole, busiest = busiest_link(links, sizes)
    assert links.layer[busiest] == Layer.NETWORK
    without, other = busiest_link(links.without(Layer.NETWORK), sizes)
    assert without < whole and links.layer[other] != Layer.NETWORK


PAIRS = """name: bridged
link_bytes_per_s: 31.5e9
bandwidth_bytes_per_s: 25.0e9
peer_links:
  - {kind: NVLink, endpoints: ["0", "1"], bytes_per_s: 100.0e9}
  - {kind: NVLink, endpoints: ["2", "3"], bytes_per_s: 100.0e9}
vertices:
  - {name: SYS, kind: system}
"""


def bridged(tmp_path):
    """Return the path of a machine with two sockets, GPUs in linked pairs, and one card next to each GPU."""
    lines = [PAIRS]
    for socket in range(2):
        lines.append(f"  - {{name: RC{socket}, kind: root_complex, parent: SYS}}\n")
        for gpu in (2 * socket, 2 * socket + 1):
            lines += [f"  - {{name: S{gpu}, kind: switch, parent: RC{socket}}}\n"]
            lines += [f'  - {{name: "{gpu}", kind: endpoint, parent: S{gpu}}}\n']
            lines += [f"  - {{name: nic{gpu}, kind: endpoint, parent: S{gpu}, network_card: true}}\n"]
    path = tmp_path / "bridged.yaml"
    path.write_text("".join(lines))
    return str(path)


def test_rails_need_a_link_to_the_gpu_next_to_the_card(tmp_path):
    cluster = fc.load_cluster(bridged(tmp_path), nodes=2, nic="4x100", network="InfiniBand", latency_us=0.001)
    assert cluster.kinds[0].card_of == (0, 1, 2, 3)
    linked = used_names(cluster, [0], [5])
    assert "node0: direct link 0 > 1" in linked and "node0: card nic1 sends" in linked
    apart = used_names(cluster, [0], [7])
    assert "node0: card nic0 sends" in apart and "node1: card nic3 receives" in apart


def test_copies_go_over_the_gpu_nearest_to_the_card():
    cluster = hgx(nic="4x400")
    assert cluster.kinds[0].card_of == (0, 1, 1, 0, 2, 3, 3, 2)
    names = used_names(cluster, [0], [10])
    assert "node0: direct link 0 > NVSwitch" in names and "node0: direct link NVSwitch > 2" in names
    assert "node0: endpoint 2 sends" in names


def test_many_nodes_need_little_memory():
    cluster = hgx(20_000, "8x400")
    found = fc.predict_cluster(cluster, [("0", str(cluster.gpus - 1)), (str(cluster.gpus - 1), "0")], size="64 MiB")
    assert found.time_s == pytest.approx(64 * MIB / TO_ONE, rel=0.1)


def test_cards_on_networks_of_their_own_have_one_number_at_both_ends():
    for kinds in ("hgx_h100", "h100x4"):
        assert hgx(2, switches="fat_tree:2,8,4,8@400", gpus=4).nodes == 2, kinds
    cluster = fc.load_cluster("storm8", nodes=2, nic="8x100", network="InfiniBand", switches="fat_tree:2,8,4,8@100")
    names = used_names(cluster, [0], [11])
    sends = next(name for name in names if "card" in name and "sends" in name)
    receives = next(name for name in names if "card" in name and "receives" in name)
    assert sends.split()[2] == receives.split()[2]
    # One port for each host: equal planes are assumed, with the same rule.
    assumed = fc.load_cluster("storm8", nodes=2, nic="8x100", network="InfiniBand", switches="fat_tree:2,8,4@100")
    assert {name for name in used_names(assumed, [0], [11]) if "card" in name} == {
        name for name in names if "card" in name
    }


def test_a_rate_of_one_copy_is_no_shared_limit():
    tree = fc.load_topology("dual4x2")
    rates = Rates(12e9, 12e9, between_roots_bytes_per_s=3e9)
    node = NodeMachine("dual", machine_of_tree(tree), tree.accelerator_names, 1e9, 1e9)
    node.__dict__["engines"] = EngineModel(tree, rates, program="independent", model="endpoint_engines")
    cluster = ClusterMachine("dual", (node,), np.zeros(1, dtype=np.int64))
    once, thrice = (fc.predict_cluster(cluster, [(0, 7)] * count, size="64 MiB").time_s for count in (1, 3))
    assert once == pytest.approx(64 * MIB / 3e9)
    # The link between sockets has the rate of four such copies.
    assert thrice == pytest.approx(once)


def test_the_expected_error_is_that_of_compared_clusters_only():
    def text(**options):
        cluster = fc.load_cluster(options.pop("node", "hgx_h100"), nodes=2, **options)
        found = fc.predict_cluster(cluster, [("0", str(cluster.gpus - 1))], size="64 MiB")
        return " ".join(str(one) for one in found.warnings if one.code is WarningCode.EXPECTED_ERROR)

    assert "all-to-all" in text(network="InfiniBand")
    assert "unknown" in text(network="Slingshot")
    assert "unknown" in text(network="InfiniBand", gpudirect=False)
    assert "unknown" in text(node="gh200x4")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gpus": 0}, "expected 1 to 8"),
        ({"gpus": -1}, "expected 1 to 8"),
        ({"switches": "fat_tree:2,8,4", "oversubscription": 2.0}, "has no effect on switches"),
        ({"switches": "fat_tree:2,8,4", "hosts": "host0,host0"}, "a host twice"),
    ],
)
def test_contradictions_about_the_network_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        hgx(**options)


def test_files_without_a_node_and_files_of_one_of_several_kinds_are_refused(tmp_path):
    (tmp_path / "osu.txt").write_text("# OSU MPI Latency Test v5.9\n# Size          Latency (us)\n1 3.50\n8 3.60\n")
    with pytest.raises(InputError, match="describe no node"):
        fc.load_cluster(str(tmp_path / "osu.txt"), nodes=2, nic="8x400")


def test_the_size_of_predict_applies_to_copies_without_one():
    cluster = fc.load_cluster("hgx_h100", nodes=2, nic="8x400")
    for copies in ("node0.gpu0>node1.gpu0", [("node0.gpu0", "node1.gpu0")], "ring:16"):
        assert set(fc.predict(cluster, copies, size="1 MiB")["size_bytes"]) == {2**20}
        assert set(fc.predict(cluster, copies)["size_bytes"]) == {300 * 2**20}
    assert set(fc.predict(cluster, "ring:16,2 MiB")["size_bytes"]) == {2**21}
    with pytest.raises(fc.InputError, match="size is stated twice"):
        fc.predict(cluster, "ring:16,2 MiB", size="1 MiB")
    with pytest.raises(fc.InputError, match="copies contains 'node0.gpu0', expected copies such as '0>3 1>3'"):
        fc.predict(cluster, "node0.gpu0 node0.gpu0>node1.gpu0")


@pytest.mark.parametrize(
    ("options", "argument", "message"),
    [
        (["--halo", "0x4"], "halo", "is '0x4', expected a grid such as 4x4x8"),
        (["--halo", "axb"], "halo", "is 'axb', expected a grid such as 4x4x8"),
        (["--halo", "4x4x8"], "halo", "has 128 ranks, expected at most the 16 GPUs"),
        (["--pattern", "ring:99"], "pattern", "has 99 ranks, expected at most the 16 GPUs"),
        (["--ring", "--write-ranks", "blocks"], "write-ranks", "is for halo exchanges"),
    ],
)
def test_errors_name_the_option_of_the_user(options, argument, message):
    error = run("hgx_h100", "--nodes", "2", "--nic", "8x400", *options).exception
    assert isinstance(error, InputError)
    assert error.argument == argument
    assert error.reason.startswith(message)


def test_the_command_states_the_time_of_patterns_without_times_of_copies(tmp_path):
    result = run("hgx_h100", "--nodes", "32", "--nic", "8x400", "--all-to-all", "1MiB")
    assert "copies complete after at least" in result.stderr
    table = fc.predict(fc.load_cluster("hgx_h100", nodes=32, nic="8x400"), "all_to_all:256,1 MiB")
    assert table.attrs["is_lower_bound"] is True and table.attrs["time_s"] > 0
    # Which copies a layer limits is unknown, and so are all times but those of busiest links.
    assert all(np.isnan(layer["share_of_copies"]) for layer in table.attrs["layers"])
    printed = run("hgx_h100", "--nodes", "32", "--nic", "8x400", "--all-to-all", "1MiB", "--format", "table").stdout
    assert re.search(
        r"card: without this limit at least [\d.]+ ms \(the busiest link is 1\.\d+ times as fast\)", printed
    )
    assert "% of the copies" not in printed


def topo(cards, extra=()):
    """Return output of nvidia-smi topo -m of eight linked GPUs with a card each, and more cards on other roots."""
    names = [f"NIC{card}" for card in range(cards + len(extra))]
    head = "\t".join(["", *(f"GPU{gpu}" for gpu in range(8)), *names, "CPU Affinity", "NUMA Affinity"])
    far = lambda gpu, card: "PIX" if card == gpu else "NODE" if card < 8 and card // 4 == gpu // 4 else "SYS"  # noqa: E731
    rows = []
    for gpu in range(8):
        links = ["X" if gpu == other else "NV18" for other in range(8)]
        more = ["NODE" if socket == gpu // 4 else "SYS" for socket in extra]
        rows.append(
            "\t".join([f"GPU{gpu}", *links, *(far(gpu, card) for card in range(cards)), *more, "0-9", str(gpu // 4)])
        )
    sockets = [card // 4 for card in range(cards)] + list(extra)
    for one, name in enumerate(names):
        ends = [far(gpu, one) if one < cards else "NODE" if sockets[one] == gpu // 4 else "SYS" for gpu in range(8)]
        same = [
            "X" if one == other else "NODE" if sockets[one] == sockets[other] else "SYS" for other in range(len(names))
        ]
        rows.append("\t".join([name, *ends, *same]))
    return "\n".join([head, *rows]) + "\n"


def test_management_cards_of_a_node_are_left_out(tmp_path):
    path = tmp_path / "topo.txt"
    path.write_text(topo(8, extra=(0, 1)))
    cluster = fc.load_cluster(str(path), nodes=4, nic="8x400", gpu="H100 SXM5", network="InfiniBand")
    assert cluster.kinds[0].cards == tuple(f"NIC{card}" for card in range(8))
    assert cluster.kinds[0].card_of == tuple(range(8))
    few = fc.load_cluster(str(path), nodes=4, nic="4x400", gpu="H100 SXM5", network="InfiniBand")
    # Evenly spaced, so that both sockets have cards.
    assert few.kinds[0].cards == ("NIC0", "NIC2", "NIC4", "NIC6")


def test_a_small_copy_does_not_slow_a_large_one(tmp_path):
    path = tmp_path / "bytes.csv"
    path.write_text(f"source,target,size_bytes\n0,8,{2**30}\n0,16,1\n")
    found = fc.predict_cluster(hgx(3), path, alternatives=False)
    assert found.time_s == pytest.approx(2**30 / TO_ONE, rel=1e-3)


def test_numbers_are_ranks_and_texts_may_list_copies():
    cluster = hgx()
    by_number = fc.predict_cluster(cluster, np.array([[0.0, 8.0]]), size="64 MiB")
    by_text = fc.predict_cluster(cluster, "node0.gpu0>node1.gpu0", size="64 MiB")
    assert by_number.table["target"].tolist() == by_text.table["target"].tolist() == ["node1.gpu0"]
    for copies in ([(0.5, 1)], [("1.5", "0")], "", [("0", None)]):
        with pytest.raises(InputError):
            fc.predict_cluster(cluster, copies, size="64 MiB")


def test_contradicting_files_are_refused(tmp_path):
    path = tmp_path / "topo.txt"
    path.write_text(topo(8))
    with pytest.raises(InputError, match="describe a node twice"):
        fc.load_cluster(["hgx_h100", str(path)], nodes=2, nic="8x400")
    with pytest.raises(InputError, match="no effect on built-in nodes"):
        fc.load_cluster("hgx_h100", nodes=2, nic="8x400", gpu="RTX 4090")
    network = REPOSITORY / "src" / "fabricast" / "sources" / "examples" / "ibnetdiscover.txt"
    with pytest.raises(InputError, match="at most the 1 ports"):
        fc.load_cluster("hgx_h100", nodes=2, nic="8x400", switches=network)


def test_pairs_in_the_notation_of_the_command_are_pairs():
    cluster = fc.load_cluster("hgx_h100", nodes=2, nic="4x400", network="InfiniBand")
    words = fc.predict_cluster(cluster, ["node0.gpu0>node1.gpu0", "node0.gpu1>node1.gpu1"])
    pairs = fc.predict_cluster(cluster, [("node0.gpu0", "node1.gpu0"), ("node0.gpu1", "node1.gpu1")])
    assert words.table.equals(pairs.table)
