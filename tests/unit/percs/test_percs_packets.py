"""Packet simulation and max-min rates on two-level networks."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.network_lines import one_way_links
from fabricast.cli.main import app
from fabricast.clusters.times import run_copies
from fabricast.percs.cases import WORKLOADS, Case
from fabricast.percs.loads import ROUTINGS, count_traffic, route
from fabricast.percs.mappings import map_tasks
from fabricast.percs.network import GATEWAYS, percs
from fabricast.percs.packets import router_pairs, simulate_packets, sum_pairs
from fabricast.percs.workloads import stencil
from tests.reference_network import routes as plain_routes
from tests.reference_network_packets import simulate as plain_packets
from tests.unit.percs.networks import SEED, evaluate_case, small


def links_of_pairs(workload, router, network):
    """Return the links on the direct route of every router pair, and the size of its copy."""
    source, target, size = router_pairs(workload, router, network)
    numbers, paths, capacity = {}, [], []
    rates = {"D": network.d_bytes_per_s}
    for one, two in zip(source.tolist(), target.tolist(), strict=True):
        ((route_links, _),) = plain_routes(network, one, two, "direct")
        for link in route_links:
            if link not in numbers:
                numbers[link] = len(numbers)
                kind = network.local_class[link[2], link[3]] if link[0] == "L" else None
                capacity.append(rates["D"] if kind is None else network.capacities[kind])
        paths.append([numbers[link] for link in route_links])
    return one_way_links(paths, np.array(capacity)), size


@pytest.mark.slow
@given(st.integers(0, 10**6))
def test_time_of_fair_sharing_is_between_the_bound_and_twice_the_bound(seed):
    network = small(5)
    workload = stencil("g", (4, 6), 1e6)
    router = np.random.default_rng(seed).integers(0, network.routers, workload.tasks).astype(np.int32)
    links, size = links_of_pairs(workload, router, network)
    bound = route(count_traffic(workload, router, network)[0], network, "direct").bottleneck[0]
    time_s = run_copies(links, size).end_s.max()
    assert bound * (1 - 1e-9) <= time_s <= 2 * bound


def test_single_message_time_is_the_sum_of_its_hops():
    network = percs(4)
    pair = (np.array([1]), np.array([40]), np.array([1e6]))
    direct = simulate_packets(pair, network, "direct", packet_bytes=1e6)
    # Gateway rule mod: router 1, which is the source, has the link to group 1; then router 0 of group 1 to router 8.
    hops = 1e6 / 96e9 + 1e6 / 10e9 + 1e6 / 5e9 + 2 * 50e-9
    assert direct.elapsed_s == pytest.approx(hops, rel=1e-6)
    assert (direct.packets, direct.hops) == (1, 2)
    many = simulate_packets(pair, network, "direct", packet_bytes=1e3)
    assert many.packets == 1000
    assert many.elapsed_s == pytest.approx(1e6 / 5e9, rel=0.01), "the slowest link must always be busy"
    assert many.link_busy_s.max() == pytest.approx(1e6 / 5e9)


@pytest.mark.slow
@given(
    st.sampled_from(GATEWAYS),
    st.integers(3, 5),
    st.integers(1, 2),
    st.sampled_from(ROUTINGS),
    st.integers(1, 30),
    st.integers(0, 10**6),
    st.integers(1, 60),
)
def test_packet_simulation_equals_the_reference(gateway, groups, stripes, routing, window, seed, most):
    network = small(groups, gateway, stripes)
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, network.routers, (2, most))
    pairs = sum_pairs(first, second, rng.integers(1, 40_000, most).astype(np.float64), network)
    run = simulate_packets(pairs, network, routing, packet_bytes=1000.0, window=window, seed=seed)
    ends, busy, hops = plain_packets(pairs, network, routing, 1000.0, window, seed)
    assert (run.flow_end_s.tolist(), run.link_busy_s.tolist(), run.hops) == (ends, busy, hops)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_packet_simulation_respects_the_bound_and_conserves_work(routing):
    network, workload = percs(4), stencil("g", (64, 64), 65536.0)
    router = map_tasks("RNM", workload, network, np.random.default_rng(1))
    pairs = router_pairs(workload, router, network)
    run = simulate_packets(pairs, network, routing, packet_bytes=8192, seed=5)
    loads = route(count_traffic(workload, router, network)[0], network, routing)
    assert run.packets == pairs[2].sum() / 8192
    assert run.flow_end_s.max() == run.elapsed_s
    assert (run.link_busy_s <= run.elapsed_s).all()
    if routing == "direct":
        assert run.elapsed_s >= loads.bottleneck[0]
        assert run.link_busy_s.max() == pytest.approx(loads.bottleneck[0], rel=1e-6)
        assert run.elapsed_s <= 1.3 * loads.bottleneck[0]
    else:
        busy = run.link_busy_s[-(network.groups**2) :].sum() * network.d_bytes_per_s
        assert busy == pytest.approx(loads.between.sum()), "every packet must use two links between groups"
    again = simulate_packets(pairs, network, routing, packet_bytes=8192, seed=5)
    assert np.array_equal(run.flow_end_s, again.flow_end_s)


def test_bottleneck_times_equal_recorded_simgrid_times():
    # SimGrid 3.32, CM02 without cross-traffic: 4D-64 DEF 214.748 ms (studies/percs.md, section 7).
    _, loads = evaluate_case(Case("4D-64", "DEF"), SEED)
    assert loads["direct"].bottleneck[0] * 1e3 == pytest.approx(214.748, abs=5e-4)
    _, large = evaluate_case(Case("4D-300", "DEF"), SEED)
    assert large["direct"].bottleneck[0] * 1e3 == pytest.approx(107.374, abs=5e-4)


def test_direct_bottleneck_time_is_a_lower_bound():
    # In this case the packets complete before the bound from expected loads: actual random loads are lower.
    pattern, network = WORKLOADS["2D-64"], percs(64)
    router = map_tasks("RDM", pattern, network, np.random.default_rng(2))
    pairs = router_pairs(pattern, router, network)
    traffic, _ = count_traffic(pattern, router, network, seed=0)
    for routing in ("direct", "indirect"):
        run = simulate_packets(pairs, network, routing, packet_bytes=65536.0, seed=1)
        assert run.elapsed_s >= run.link_busy_s.max()
        if routing == "direct":
            assert run.elapsed_s >= route(traffic, network, routing).bottleneck[0]


def test_small_messages_are_not_padded_to_large_packets(tmp_path):
    matrix = tmp_path / "small.csv"
    matrix.write_text("source,target,size_bytes\n" + "".join(f"{n},{n + 8},1000\n" for n in range(8)))
    machine = tmp_path / "machine.yaml"
    machine.write_text(
        "groups: 4\nrouters_per_drawer: 4\ncores_per_router: 1\nll_bytes_per_s: 1.0e+10\nd_bytes_per_s: 1.0e+10\n"
        "injection_bytes_per_s: 1.0e+11\n"
    )
    call = ["network", "simulate", str(matrix), "--network", str(machine)]
    result = CliRunner().invoke(app, call).output
    times = re.search(r"arrives after ([\d.e-]+) ms; busiest resource \(\w+\) ([\d.e-]+) ms", result)
    assert float(times[1]) < 3 * float(times[2])
    assert "more than the bytes sent" not in result
    assert "more than the bytes sent" in CliRunner().invoke(app, [*call, "--packet", "64KiB"]).output
