"""Measured concurrent copies: copy programs, readers, machine validation and probes."""

import re
from dataclasses import replace
from typing import NamedTuple

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from fabricast.cli import app
from fabricast.core.errors import InputError
from fabricast.core.resources import published
from fabricast.core.warnings import WarningCode
from fabricast.pcie.engines.forecast import copy_times, total_rate
from fabricast.pcie.engines.links import LinkRates, SharedLimit
from fabricast.pcie.graphs.collectives import collective_arcs
from fabricast.pcie.graphs.programs import PROGRAMS, CopyProgram, program_of
from fabricast.pcie.machines.exclusion import Reason
from fabricast.pcie.machines.left_out_pause import JudgedMachine, left_out_rates
from fabricast.pcie.machines.validation import validate_machine
from fabricast.pcie.measurements.files import copies_of_machine, read_measured_copies
from fabricast.pcie.measurements.measured_graph import MeasuredGraph, flows_of
from fabricast.pcie.measurements.probes import probe_csv, proposed_probes
from fabricast.pcie.tables.measured_copies import measured_copy_tables, public_machines
from fabricast.pcie.tables.measured_errors import error_rows, feature_rows
from fabricast.pcie.topology.files import load_tree
from fabricast.pcie.topology.memory import root_complex_of, with_host_memory
from fabricast.pcie.topology.parts import MemoryNode, PeerLink, Vertex
from fabricast.pcie.topology.paths import reverse_links, way_of
from fabricast.pcie.topology.regular import regular_tree
from fabricast.pcie.topology.tree import PcieTree

TREE = regular_tree("flat4x2", (2, 4))
# More links than a 64-bit word has bits.
WIDE = regular_tree("wide", (4, 10))
EVEN, DUPLEX = LinkRates(50e9, 50e9), LinkRates(56e9, 54e9)
PUBLIC = published() / "pcie_concurrent_copies.csv"
ORDERED = CopyProgram("ordered", "", "source", True, False, 0.0)
IN_TURNS = CopyProgram("turns", "", "source", False, False, 0.0)


def texts(report, code):
    """Return the texts of the warnings with a code."""
    return [warning.text for warning in report.warnings if warning.code == code]


def limits(report):
    """Return the measured limits by name."""
    known = report.calibration.estimates
    return {limit: estimate.bytes_per_s for limit, estimate in known.items() if not estimate.is_lower_bound}


def lower_bounds(report):
    """Return the lower bounds of limits by name."""
    known = report.calibration.estimates
    return {limit: estimate.bytes_per_s for limit, estimate in known.items() if estimate.is_lower_bound}


def held_back_by(tree, flows, rates, limits):
    """Return the resources of each flow, their capacities, and the reverse resource of each.

    Resources are links, slower path classes over ports, and shared limits.
    """
    opposite, capacity, back, found = reverse_links(tree), {}, {}, []
    ways = {
        "host_in": "host_out", "host_out": "host_in", "crossing": "crossing",
        "remote_in": "remote_out", "remote_out": "remote_in",
    }  # fmt: skip
    for number, (s, t) in enumerate(flows):
        names, way = (tree.endpoint_names[s], tree.endpoint_names[t]), way_of(tree, s, t)
        own = list(tree.route(*names))
        for link in own[:]:
            capacity[link], back[link] = rates.one_way_bytes_per_s * tree.routes.capacity[link], int(opposite[link])
            lower, upper = (tree.vertex(name) for name in tree.link_names[link][:2])
            kinds = {lower.kind, upper.kind}
            is_port = "root_complex" in kinds and "system" not in kinds and not (lower.host_memory or upper.host_memory)
            if is_port and way in ways and rates.of_way(way):
                key = (link, way)
                capacity[key], back[key] = min(capacity[link], rates.of_way(way)), (back[link], ways[way])
                own.append(key)
        if way == "between_roots" and rates.of_way(way):
            capacity["alone", number] = rates.of_way(way)
            own.append(("alone", number))
        for place, limit in enumerate(limits):
            if number in (*limit.flows, *limit.other_way) and ((limit.flows and limit.other_way) or not limit.both):
                capacity["limit", place] = limit.bytes_per_s
                own.append(("limit", place))
        found.append(own)
    return found, capacity, back


def shares(tree, flows, rates, limits=()):
    """Compute max-min fair rates in plain Python.

    The tightest link is filled first. The cost of reverse traffic is subtracted from each link until the rates converge.
    """
    routes, capacity, opposite = held_back_by(tree, flows, rates, limits)
    load, found = {}, []
    for _ in range(60):
        left = {
            link: capacity[link] - rates.duplex_cost * load.get(opposite.get(link), 0.0)
            for route in routes for link in route
        }  # fmt: skip
        found, open_flows = [0.0] * len(flows), set(range(len(flows)))
        while open_flows:
            users = {link: [f for f in open_flows if link in routes[f]] for link in left}
            rate, tightest = min(
                ((left[link] / len(own), link) for link, own in users.items() if own), key=lambda x: x[0]
            )
            for flow in users[tightest]:
                found[flow] = rate
                open_flows.remove(flow)
                for link in routes[flow]:
                    left[link] -= rate
        load = {}
        for flow, route in enumerate(routes):
            for link in route:
                load[link] = load.get(link, 0.0) + found[flow]
    return found


def simulated(tree, flows, program, rates, repeats):
    """Simulate a deterministic program copy by copy in plain Python."""
    done, running, now = [0] * len(flows), {}, 0.0
    last = dict.fromkeys(range(len(tree.endpoint_names)), -1)
    turn = {}
    for flow, (_, target) in enumerate(flows):
        turn.setdefault(target, flow)
    while sum(done) < repeats * len(flows):
        for engine in last:
            if program.executor == "source" and any(flows[f][0] == engine for f in running):
                continue
            for step in range(1, len(flows) + 1):
                flow = (last[engine] + step) % len(flows)
                source, target = flows[flow]
                waits = program.serialised and (turn[target] != flow or any(flows[f][1] == target for f in running))
                if source == engine and flow not in running and done[flow] < repeats and not waits:
                    running[flow], last[engine] = 1.0, flow
                    break
        active = sorted(running)
        rate = dict(zip(active, shares(tree, [flows[f] for f in active], rates), strict=True))
        step_s = min(running[f] * rates.one_way_bytes_per_s / rate[f] for f in active)
        now += step_s
        for flow in active:
            running[flow] -= step_s * rate[flow] / rates.one_way_bytes_per_s
            if running[flow] < 1e-9:
                del running[flow]
                done[flow] += 1
                following = [(flow + k) % len(flows) for k in range(1, len(flows) + 1)]
                own = [f for f in following if flows[f][1] == flows[flow][1] and done[f] < repeats]
                turn[flows[flow][1]] = own[0] if own else -1
    return repeats * len(flows) * rates.one_way_bytes_per_s / now


class Limit(NamedTuple):
    """Shared limit, restricted to the running flows."""

    bytes_per_s: float
    flows: tuple
    other_way: tuple
    both: bool


def ends_together(tree, flows, rates, limits):
    """Compute the completion times of one-second copies that start together, in plain Python."""
    left, ends, now = dict.fromkeys(range(len(flows)), 1.0), [0.0] * len(flows), 0.0
    while left:
        active = sorted(left)
        running = [
            Limit(
                limit.bytes_per_s,
                *(tuple(active.index(f) for f in kind if f in left) for kind in (limit.flows, limit.other_way)),
                bool(limit.other_way),
            )
            for limit in limits
        ]
        rate = shares(tree, [flows[f] for f in active], rates, running)
        step_s = min(left[f] * rates.one_way_bytes_per_s / r for f, r in zip(active, rate, strict=True))
        now += step_s
        for flow, r in zip(active, rate, strict=True):
            left[flow] -= step_s * r / rates.one_way_bytes_per_s
            if left[flow] < 1e-9:
                del left[flow]
                ends[flow] = now
    return ends


TWO_SOCKETS = with_host_memory(load_tree("pcie5_four_switches"))
SLOWER = LinkRates(50e9, 50e9, crossing_bytes_per_s=40e9, between_roots_bytes_per_s=30e9, host_in_bytes_per_s=45e9,
                   host_out_bytes_per_s=35e9)  # fmt: skip
#: Copies between GPUs, and of the host memory of both sockets.
some_copies = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda arc: arc[0] != arc[1] and min(arc) < 8),
    min_size=1, max_size=6,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(some_copies, st.sampled_from([SLOWER, replace(SLOWER, two_way_bytes_per_s=45e9), EVEN]), st.data())
def test_path_classes_and_shared_limits_match_plain_simulation(flows, rates, data):
    number = st.integers(0, len(flows) - 1)
    limits = []
    for _ in range(data.draw(st.integers(0, 2))):
        kinds = [tuple(sorted(data.draw(st.sets(number, min_size=least)))) for least in (1, 0)]
        other = tuple(flow for flow in kinds[1] if flow not in kinds[0])
        limits.append(SharedLimit(data.draw(st.sampled_from([20e9, 60e9, 90e9])), kinds[0], other))
    size = np.full(len(flows), rates.one_way_bytes_per_s)
    completion = copy_times(TWO_SOCKETS, flows, PROGRAMS["independent"], rates, limits=limits, size_bytes=size,
                       start_s=np.zeros(len(flows)))  # fmt: skip
    assert completion.end_s == pytest.approx(ends_together(TWO_SOCKETS, flows, rates, limits), rel=1e-4)


def test_bidirectional_limit_applies_only_while_both_directions_run():
    both = SharedLimit(40e9, (0,), (1,))
    size, flows = np.full(2, 50e9), [(8, 0), (1, 8)]

    def ends(start_s):
        return copy_times(
            with_host_memory(TREE), flows, PROGRAMS["independent"], EVEN, limits=[both], size_bytes=size,
            start_s=np.array([0.0, start_s]),
        ).end_s.tolist()  # fmt: skip

    assert ends(0.0) == [2.5, 2.5]
    assert ends(10.0) == [1.0, 11.0]
    # Half a second isolated at 50 GB/s, then both at 20 GB/s until the first copy completes.
    assert ends(0.5) == pytest.approx([0.5 + 25 / 20, 1.75 + 25 / 50])


def arcs_between(endpoints):
    end = st.integers(0, endpoints - 1)
    return st.lists(
        st.tuples(end, end).filter(lambda arc: arc[0] != arc[1]), min_size=1, max_size=7, unique=True
    )  # fmt: skip


arcs = arcs_between(8)


@pytest.mark.parametrize("tree", [TREE, WIDE], ids=lambda tree: tree.name)
@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from([EVEN, DUPLEX]), st.sampled_from([ORDERED, IN_TURNS]), st.integers(1, 3))
def test_programs_match_plain_simulation(tree, data, rates, program, repeats):
    flows = data.draw(arcs_between(len(tree.endpoint_names)))
    expected = simulated(tree, flows, program, rates, repeats)
    assert total_rate(tree, flows, program, rates, repeats=repeats).bytes_per_s == pytest.approx(expected, rel=1e-4)


def test_wide_tree_has_more_than_64_links():
    assert len(WIDE.link_names) > 64


@given(arcs, st.sampled_from([EVEN, DUPLEX]))
@settings(max_examples=40, deadline=None)
def test_single_round_without_engines_starts_with_max_min_rates(flows, rates):
    total = total_rate(TREE, flows, PROGRAMS["independent"], rates, repeats=1)
    slowest = min(shares(TREE, flows, rates))
    # The last copy completes no later than at its initial rate, and no flow exceeds a link.
    assert total.bytes_per_s >= len(flows) * slowest * (1 - 1e-6)
    assert (total.flow_bytes_per_s <= rates.one_way_bytes_per_s * (1 + 1e-9)).all()


@pytest.mark.parametrize("two_way", [54e9, 45e9, 34e9, 28e9])
def test_duplex_cost_reproduces_bidirectional_rate(two_way):
    both = total_rate(TREE, [(0, 1), (1, 0)], PROGRAMS["independent"], LinkRates(56e9, two_way))
    assert both.bytes_per_s == pytest.approx(2 * two_way, rel=1e-6)


def test_single_engine_yields_harmonic_mean():
    """The total of n copies in round-robin order is n over the sum of inverse rates."""
    rates = LinkRates(54.1e9, 54.1e9, crossing_bytes_per_s=37.7e9)
    tree = load_tree("paired_virtual_switches")
    total = total_rate(tree, [(0, 4), (0, 2)], PROGRAMS["unordered_writes"], rates, repeats=50).bytes_per_s
    assert total == pytest.approx(2 / (1 / 54.1e9 + 1 / 37.7e9), rel=0.02)
    sharing = total_rate(tree, [(0, 4), (0, 2)], PROGRAMS["independent"], rates, repeats=50).bytes_per_s
    assert sharing > total * 1.1


def test_random_programs_depend_only_on_the_seed():
    flows = [(i, j) for i in range(4) for j in range(4) if i != j]
    first, again = (total_rate(TREE, flows, PROGRAMS["ordered_writes"], DUPLEX, seed=3) for _ in range(2))
    assert first.bytes_per_s == again.bytes_per_s
    assert first.low_bytes_per_s < first.bytes_per_s < first.high_bytes_per_s
    with pytest.raises(InputError, match="expected two different endpoints"):
        total_rate(TREE, [(1, 1)], ORDERED, EVEN)
    with pytest.raises(InputError, match="number of flows is 0"):
        total_rate(TREE, [], ORDERED, EVEN)
    with pytest.raises(InputError, match="program"):
        program_of("fortran")
    with pytest.raises(InputError, match="half"):
        LinkRates(50e9, 20e9)


def test_forecasts_of_published_machines():
    """Check forecast errors by graph class, and errors of both baselines."""
    tables = measured_copy_tables(public_machines(PUBLIC), seed=1)
    rows = tables.measured_copy
    judged = rows[rows["judged"]]
    counts = tables.error_histogram.query("model == 'endpoint_engines' and subset == 'all'")["communications"].sum()
    assert counts == len(judged), "every validated graph is in one bin"
    assert tables.error_feature.empty, "no machine has copies of 20 isomorphism classes"
    together = judged[judged["graph_class"] == "many copies of a GPU"]
    apart = together["packets_bytes_per_s"] / together["forecast_bytes_per_s"] - 1
    assert apart.abs().median() < 0.05, "packet and flow models with the same engines agree"
    judged = rows[rows["judged"]]
    error = judged["relative_error"].abs()
    few, many = (judged["graph_class"] == name for name in ("few copies", "many copies of a GPU"))
    assert error[few].median() < 0.02
    # Below the target of 95 %: on one machine, concurrent copies across the root complex are faster than the only
    # isolated one. They are validated instead of excluded as artefacts.
    assert 0.94 < (error[few] <= 0.15).mean() < 0.95
    assert not rows["reason_code"].eq(Reason.BEYOND_LINKS).any()
    assert error[many].median() < 0.07
    assert error[many].max() < 0.20
    sharing = (judged["sharing_bytes_per_s"] / judged["measured_bytes_per_s"] - 1).abs()
    assert sharing[many].median() > 0.2, "link sharing does not predict many copies of a GPU"
    direct = error[judged["graph_class"] == "direct links"]
    # Reads by one GPU from all others are slower than one engine; writes, and reads by the others, are not.
    assert len(direct) == 32 and direct.median() < 0.03 and (direct <= 0.15).mean() == 0.75
    assert rows.loc[rows["reason"].str.contains("collapse"), "judged"].eq(False).all()
    warnings = tables.machine_warning
    assert (warnings["code"] == WarningCode.DIVIDED_WRITES).any(), "the collapse is reported as a warning"
    assert not warnings.duplicated(["machine", "number"]).any()
    left_out = rows[rows["left_out_bytes_per_s"].notna()]
    assert left_out.index.equals(judged.index[many]), "all of them use the program with a fitted pause"
    error = (left_out["left_out_bytes_per_s"] / left_out["measured_bytes_per_s"] - 1).abs()
    assert error.median() < 0.07 and (error <= 0.15).mean() >= 0.9 and error.max() < 0.20
    host = rows[(rows["graph_class"] == "host copies") & (rows["flows"] > 2)]
    assert host["reason_code"].eq(Reason.NO_MEMORY_PROBE).all(), "the memory capacity is unknown without a probe"


def test_memory_probe_enables_validation_of_host_copies():
    tree = load_tree("two_sockets_host")
    eight = tuple(("H", str(g)) for g in range(8))
    four = tuple(("H", str(g)) for g in range(4))
    graphs = [
        MeasuredGraph("alone", (("H", "0"),), 55e9, "independent", "calibration"),
        MeasuredGraph("half", four, 150e9, "independent", "calibration"),
        MeasuredGraph("all", eight, 310e9, "independent"),
        MeasuredGraph("back", tuple((b, a) for a, b in eight), 300e9, "independent"),
    ]
    rows = validate_machine(tree, graphs).rows.set_index("graph")
    assert rows.loc["all", "judged"]
    assert rows.loc["all", "forecast_bytes_per_s"] == pytest.approx(300e9)
    assert not rows.loc["back", "judged"]


def both_ways(pairs):
    return tuple(flow for source, target in pairs for flow in ((source, target), (target, source)))


def test_bidirectional_memory_capacity_is_lower():
    """Eight H800 reach 441 GB/s reading host memory, 359 writing and 193 bidirectionally.

    The rates are sums over the GPUs of a row.
    """
    tree = load_tree("two_sockets_host")
    every, half = ([("H", str(gpu)) for gpu in range(count)] for count in (8, 4))
    alone = MeasuredGraph("alone", (("H", "0"),), 55e9, "independent", "calibration")
    opposite = MeasuredGraph("one both ways", both_ways(every[:1]), 69e9, "independent", "calibration")
    probe = MeasuredGraph("half both ways", both_ways(half), 96.5e9, "independent", "calibration")
    judged = [
        MeasuredGraph("all both ways", both_ways(every), 193e9, "independent"),
        MeasuredGraph("another both ways", both_ways(every[5:6]), 69e9, "independent"),
    ]
    report = validate_machine(tree, [alone, opposite, probe, *judged])
    rows = report.rows.set_index("graph")
    assert limits(report) == {"memory_both_ways": 96.5e9, "host_both_ways": 69e9}
    assert rows.loc["all both ways", "forecast_bytes_per_s"] == pytest.approx(193e9)
    assert rows.loc["another both ways", "forecast_bytes_per_s"] == pytest.approx(69e9)
    assert rows.loc[["all both ways", "another both ways"], "judged"].all()
    blind = validate_machine(tree, [alone, *judged]).rows.set_index("graph")
    assert blind.loc["all both ways", "reason_code"] == Reason.NO_MEMORY_PROBE


def test_host_copies_do_not_calibrate_duplex_cost_between_gpus():
    tree = replace(load_tree("two_sockets_host"), peer_links=())
    alone = MeasuredGraph("alone", (("0", "1"),), 55e9, "independent")
    host = MeasuredGraph("host pair", (("H", "0"), ("0", "H")), 69e9, "independent")
    peers = MeasuredGraph("peer pair", (("2", "3"), ("3", "2")), 106e9, "independent")
    assert "no bidirectional pair" in validate_machine(tree, [alone, host]).calibration.sources["two_way"]
    rates = validate_machine(tree, [alone, host, peers]).calibration.rates
    assert rates.two_way_bytes_per_s == pytest.approx(53e9)


def test_probes_calibrate_link_between_root_complexes():
    tree = replace(load_tree("two_sockets_host"), peer_links=())
    across = [(str(gpu), str(gpu + 4)) for gpu in range(4)]
    parts = [
        MeasuredGraph("alone", (("0", "1"),), 50e9, "independent", "calibration"),
        MeasuredGraph("opposite", (("0", "1"), ("1", "0")), 98e9, "independent", "calibration"),
        MeasuredGraph("far", (("0", "4"),), 50e9, "independent", "calibration"),
    ]
    judged = [
        MeasuredGraph("back", tuple((b, a) for a, b in across), 120e9, "independent"),
        MeasuredGraph("three", tuple(across[:3]), 120e9, "independent"),
        MeasuredGraph("two", tuple(across[:2]), 100e9, "independent"),
        MeasuredGraph("others", both_ways(zip("0123", "5674", strict=True)), 160e9, "independent"),
    ]
    probes = [
        MeasuredGraph("one way", tuple(across), 120e9, "independent", "calibration"),
        MeasuredGraph("both ways", both_ways(across), 160e9, "independent", "calibration"),
    ]
    blind = validate_machine(tree, parts + judged)
    assert not limits(blind)
    wide = blind.rows.set_index("graph").loc["back"]
    assert wide["low_bytes_per_s"] == pytest.approx(50e9)
    assert wide["high_bytes_per_s"] == pytest.approx(200e9), "the capacity of the link is unknown"
    calibrated = validate_machine(tree, parts + probes + judged)
    assert limits(calibrated) == {"root_complex_link": 120e9, "root_complex_link_both_ways": 160e9}
    rows = calibrated.rows.set_index("graph")
    forecast = rows.loc[["back", "three", "two", "others"], "forecast_bytes_per_s"]
    assert forecast.tolist() == pytest.approx([120e9, 120e9, 100e9, 160e9], rel=1e-3)
    assert rows.loc["back", "high_bytes_per_s"] == pytest.approx(120e9, rel=1e-3)


def test_socket_and_memory_probes_are_proposed():
    tree = replace(load_tree("two_sockets_host"), peer_links=())
    proposed = {probe.graph: probe.flows for probe in proposed_probes(tree)}
    assert proposed["between root complexes"] == (("0", "4"), ("1", "5"), ("2", "6"), ("3", "7"))
    assert set(proposed["between root complexes both ways"]) == set(both_ways(proposed["between root complexes"]))
    assert len(proposed["all below RC0 and host both ways"]) == 8
    assert proposed["host and one both ways"] == (("H", "0"), ("0", "H"))
    assert "between root complexes" not in {probe.graph for probe in proposed_probes(load_tree("flat4x2"))}


def test_contradictions_with_topology_are_reported():
    graphs = [
        MeasuredGraph("alone", (("0", "1"),), 50e9, "independent"),
        MeasuredGraph("two", (("0", "4"), ("1", "5")), 95e9, "independent"),
        MeasuredGraph("slow", (("2", "6"),), 49e9, "independent", "test"),
        MeasuredGraph("spread", (("0", "4"), ("4", "0"), ("1", "2")), 60e9, "ordered_writes"),
    ]
    result = validate_machine(TREE, graphs)
    assert any("'two'" in text for text in texts(result, WarningCode.RATE_BEYOND_LINKS))
    hazard = [MeasuredGraph("alone", (("0", "1"),), 50e9, "independent"),
              MeasuredGraph("h", (("0", "4"), ("1", "8")), 5e9, "ordered_writes")]  # fmt: skip
    report = validate_machine(load_tree("flat4x4"), hazard)
    assert texts(report, WarningCode.DIVIDED_WRITES)
    fallen = report.rows.iloc[1]
    assert fallen["judged"], "the measured rate does not decide whether a graph is validated"
    assert fallen["relative_error"] > 1
    with pytest.raises(InputError, match="no endpoint '9'"):
        validate_machine(TREE, [MeasuredGraph("x", (("0", "9"),), 1e9, "independent")])
    with pytest.raises(InputError, match="no single copy was measured"):
        validate_machine(TREE, [MeasuredGraph("x", (("0", "1"), ("0", "2")), 1e9, "independent")])


HEAD = "graph,source,target,size_bytes,elapsed_s,repetition\n"


def test_copies_are_summed_by_graph_and_repetition(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text(f"{HEAD}a,0,1,1e9,0.02,1\na,2,3,1e9,0.04,1\na,0,1,1e9,0.02,2\na,2,3,1e9,0.02,2\n")
    (graph,) = read_measured_copies(path, program="torch")
    assert graph.total_bytes_per_s == pytest.approx((2e9 / 0.04 + 2e9 / 0.02) / 2)
    assert (graph.repetitions, graph.program, graph.flows) == (2, "ordered_writes", (("0", "1"), ("2", "3")))
    duckdb.read_csv(str(path), all_varchar=True).write_parquet(str(tmp_path / "m.parquet"))
    (again,) = read_measured_copies(tmp_path / "m.parquet", program="torch")
    assert (again.total_bytes_per_s, again.flows) == (graph.total_bytes_per_s, graph.flows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph,x\na,1\n", "unknown"),
        ("graph,role\na,test\n", "neither a column"),
        (f"{HEAD}a,0,0,1e9,1,1\n", "expected two endpoints"),
        (f"{HEAD}a,0,1,1e9,-1,1\n", "above 0"),
        (f"{HEAD}a,0,1,1e9,nan,1\n", "nan"),
        (f"{HEAD}a,0,1,,1,1\n", "above 0"),
        (f"{HEAD}a,0,1,1e9,1,1\na,0,2,1e9,1,2\n", "0>1 is missing"),
        (f"{HEAD}a,0,1,1e9,1,1\na,0,1,1e9,1,2\na,0,1,1e9,1,2\n", "duplicate"),
        ("graph,communications,total_gb_per_s\na,0-1,5\n", "such as 0>1"),
        ("graph,communications,total_gb_per_s\na,0>1,0\n", "above 0"),
        ("graph,communications,total_gb_per_s\na,0>1,1e9\n", "10 TB/s"),
        ("graph,communications,total_gb_per_s,total_bytes_per_s\na,0>1,5,5\n", "2 rates"),
        ("graph,communications,total_gb_per_s,program\na,0>1,5,fortran\n", "program"),
        ("system,communications,total_gb_per_s\na,0>1,5\nb,0>1,5\n", "2 systems"),
        ("", "empty"),
    ],
)
def test_invalid_measurements_raise_one_line_error(tmp_path, text, message):
    path = tmp_path / "m.csv"
    path.write_text(text)
    result = CliRunner().invoke(app, ["validate", "flat4x2", str(path), "-o", str(tmp_path / "out.csv")])
    assert isinstance(result.exception, InputError), result.output
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)
    assert not (tmp_path / "out.csv").exists()


def test_user_supplied_rate_is_named_as_source(tmp_path):
    (tmp_path / "m.csv").write_text("graph,communications,total_gb_per_s,role\nboth,0>2 0>3,40,test\n")
    for arguments, source in (([], "payload share of the links"), (["--bandwidth-gb", "50"], "option --bandwidth-gb")):
        result = CliRunner().invoke(app, ["validate", "pcie5_four_switches", str(tmp_path / "m.csv"), *arguments])
        assert result.exit_code == 0, result.output
        assert f"({source}" in result.output
    assert "one way: 50 GB/s" in result.output


PEER_TEST = """P2P Connectivity Matrix
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1      2
     0 900.00  50.00  48.00
     1  50.00 900.00  48.00
     2  48.00  48.00 900.00
Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)
   D\\D     0      1      2
     0 900.00  98.00  95.00
     1  98.00 900.00  95.00
     2  95.00  95.00 900.00
"""
NVBANDWIDTH = """nvbandwidth Version: v0.8
Running device_to_device_memcpy_write_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A     50.00
 1     50.00       N/A

Running host_to_all_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     40.00     41.00

"""


def test_bandwidth_matrices_calibrate_a_machine(tmp_path):
    (tmp_path / "peer.txt").write_text(PEER_TEST)
    graphs = read_measured_copies(tmp_path / "peer.txt")
    assert len(graphs) == 12
    report = validate_machine(TREE, graphs)
    assert report.calibration.rates.one_way_bytes_per_s == pytest.approx(48e9)
    assert report.calibration.rates.two_way_bytes_per_s == pytest.approx(47.5e9)
    assert not report.rows["judged"].any()
    (tmp_path / "nv.txt").write_text(NVBANDWIDTH)
    (alone, other, host) = read_measured_copies(tmp_path / "nv.txt")
    assert (alone.flows, other.flows) == ((("0", "1"),), (("1", "0"),))
    assert (host.flows, host.total_bytes_per_s) == ((("H", "0"), ("H", "1")), 81e9)
    (tmp_path / "other.txt").write_text("p2pmark 1.0")
    with pytest.raises(InputError, match="no output of rocm_bandwidth_test, TransferBench, p2pmark, nvbandwidth or"):
        read_measured_copies(tmp_path / "other.txt")


def test_repeated_copy_without_repetition_number_is_rejected(tmp_path):
    path = tmp_path / "measured.csv"
    path.write_text("graph,source,target,rate_gb_per_s\na,0,1,55\na,1,0,55\na,0,1,54\n")
    with pytest.raises(InputError, match=r"measured\.csv:4: graph 'a' copies 0 to 1 a second time in one repetition"):
        read_measured_copies(path)


def test_topology_is_checked_against_copies(tmp_path):
    known = "graph,communications,program,role,total_gb_per_s\nalone,0>4 1>5,torch,calibration,112.5\n"
    path = tmp_path / "measured.csv"
    for rows, code, said in (
        ("one uplink,0>2 1>6,torch,,56.4\n", 0, "none of 1 graphs says anything against the tree"),
        ("", 0, "none of 1 graphs can be judged"),
        ("one uplink,0>2 1>6,torch,,112.0\n", 1, "the tree cannot be the fabric"),
    ):
        path.write_text(known + rows)
        result = CliRunner().invoke(app, ["topology", "check", "crossed_virtual_switches", str(path)])
        assert result.exit_code == code, result.output
        assert said in result.output


ROCM_BANDWIDTH_TEST = """....
          RocmBandwidthTest Version: 2.6.0

          Device: 0,  AMD EPYC 9554 64-Core Processor
          Device: 1,  AMD Instinct MI210,  GPU-06c9d21390bc2e70,  05:0.0
          Device: 2,  AMD Instinct MI210,  GPU-8b193c69a6fe8e9b,  08:0.0

          Inter-Device Access

          D/D       0         1         2

          0         1         1         1

          Unidirectional copy peak bandwidth GB/s

          D/D       0           1           2

          0         N/A         25.0        26.0

          1         27.0        540.849     14.045

          2         28.0        14.046      540.064

          Bidirectional copy peak bandwidth GB/s

          D/D       0           1           2

          0         N/A         48.0        49.0

          1         48.0        N/A         27.5

          2         49.0        27.5        N/A
"""
TRANSFER_BENCH = """TransferBench v1.62.00
Test 1:
 Executor: GPU 00 |   36.885 GB/s |    0.028 ms |      1048576 bytes | 37.857  GB/s (sum)
     Transfer 00  |   37.857 GB/s |    0.028 ms |      1048576 bytes | G0 -> G000:004 -> G1
 Aggregate (CPU)  |   30.000 GB/s |    0.040 ms |      1048576 bytes | Overhead: 0.012 ms
Test 2:
 Executor: DMA 00 |   20.000 GB/s |   10.000 ms |    200000000 bytes | 20.000  GB/s (sum)
     Transfer 00  |   20.000 GB/s |   10.000 ms |    200000000 bytes | F0 -> D000.*:001 -> F2
     Transfer 01  |   25.000 GB/s |    8.000 ms |    200000000 bytes | C1 -> D001:001 -> G02
Test 3:
     Transfer 00  |   20.000 GB/s |   10.000 ms |    200000000 bytes | G0 -> G000:004 -> N0

Unidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)
 SRC+EXE\\DST    CPU 00       GPU 00    GPU 01
  CPU 00  ->     42.75        41.97     42.33
  GPU 00  ->     55.23      1689.85     48.46
  GPU 01  ->     55.24        48.51       N/A
Bidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)
     SRC\\DST    CPU 00       GPU 00    GPU 01
  GPU 01  ->     11.11        11.11       N/A
"""


def test_rocm_output_is_read(tmp_path):
    (tmp_path / "rocm.txt").write_text(ROCM_BANDWIDTH_TEST)
    rates = {one.flows: (one.total_bytes_per_s, one.role) for one in read_measured_copies(tmp_path / "rocm.txt")}
    # Device numbers include processors, GPU numbers do not. Mirrored bidirectional cells are the same copy.
    one_way = {("H", "0"): 25, ("H", "1"): 26, ("0", "H"): 27, ("1", "H"): 28, ("0", "1"): 14.045, ("1", "0"): 14.046}
    two_ways = {(("H", "0"), ("0", "H")): 48, (("H", "1"), ("1", "H")): 49, (("0", "1"), ("1", "0")): 27.5}
    assert rates == {(arc,): (pytest.approx(rate * 1e9), "calibration") for arc, rate in one_way.items()} | {
        arcs: (pytest.approx(rate * 1e9), "calibration") for arcs, rate in two_ways.items()
    }
    for text in (TRANSFER_BENCH, TRANSFER_BENCH.replace("|", "│")):
        (tmp_path / "transfers.log").write_text(text)
        first, second, *matrix = read_measured_copies(tmp_path / "transfers.log")
        # The printed time has three decimals, too few for this transfer, so the printed rate is used.
        assert (first.flows, first.total_bytes_per_s, first.role) == ((("0", "1"),), 37.857e9, "calibration")
        # All bytes divided by the last completion time, not the sum of rates.
        assert (second.flows, second.role) == ((("0", "2"), ("NUMA1", "2")), "")
        assert second.total_bytes_per_s == pytest.approx(40e9)
        assert {one.flows[0]: one.total_bytes_per_s / 1e9 for one in matrix} == pytest.approx(
            {
                ("NUMA0", "0"): 41.97,
                ("NUMA0", "1"): 42.33,
                ("0", "NUMA0"): 55.23,
                ("0", "1"): 48.46,
                ("1", "NUMA0"): 55.24,
                ("1", "0"): 48.51,
            }
        )


def test_memory_of_several_processors_keeps_node_number(tmp_path):
    text = """TransferBench v1.62.00
 SRC+EXE\\DST    CPU 00    CPU 01    GPU 00
  CPU 00  ->     24.37     20.11     41.97
  CPU 01  ->     20.12     24.38     21.97
  GPU 00  ->     55.23     28.11       N/A
"""
    (tmp_path / "transfers.log").write_text(text)
    graphs = read_measured_copies(tmp_path / "transfers.log")
    assert {one.flows[0]: round(one.total_bytes_per_s / 1e9, 2) for one in graphs} == {
        ("NUMA0", "0"): 41.97, ("NUMA1", "0"): 21.97, ("0", "NUMA0"): 55.23, ("0", "NUMA1"): 28.11,
    }  # fmt: skip
    with pytest.raises(InputError, match="no endpoint 'NUMA1'; memory_nodes of the topology does not list it"):
        validate_machine(load_tree("flat4x2"), graphs)
    # NUMA0 is the host memory of a machine with one node.
    first = [graph for graph in graphs if "NUMA0" in graph.flows[0]]
    assert validate_machine(load_tree("flat4x2"), first).calibration.rates.one_way_bytes_per_s > 40e9
    with pytest.raises(InputError, match="no endpoint 'NUMA0'; memory_nodes of the topology does not list it"):
        validate_machine(load_tree("two_sockets_host"), first)


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (TRANSFER_BENCH, "25.000 GB/s", "90.000 GB/s", "rate of a transfer is 90 GB/s, expected 25 GB/s from its bytes and time"),
        (TRANSFER_BENCH, "25.000 GB/s", "0 GB/s", "has a rate of 0 GB/s, expected a positive rate"),
        (ROCM_BANDWIDTH_TEST, "26.0\n", "\n", "row 0 has 2 values, expected 3"),
        (ROCM_BANDWIDTH_TEST, "14.045", "14.0x5", "could not convert string to float: '14.0x5'"),
        (ROCM_BANDWIDTH_TEST, "14.045", "-14", "-14 GB/s, expected a rate above 0"),
        (TRANSFER_BENCH, "bytes | G0", "byt", "is not a complete row of a transfer"),
        (TRANSFER_BENCH, " -> G1", "", "is not a complete row of a transfer"),
        (TRANSFER_BENCH, "42.33", "", "row CPU 00 has 2 values, expected 3"),
        # Truncated between complete rows.
        (TRANSFER_BENCH, "  GPU 01  ->     55.24        48.51       N/A\n", "",
         "the unidirectional matrix has 2 of 3 rows: the output is cut short"),
        (TRANSFER_BENCH, "     Transfer 00  |   37.857 GB/s |    0.028 ms |      1048576 bytes | G0 -> G000:004 -> G1\n",
         "", "'Test 1' lacks transfers of its executors: the output is cut short"),
        (ROCM_BANDWIDTH_TEST, "          2         28.0        14.046      540.064\n", "",
         "the matrix of unidirectional copies has no row 2: the output is cut short"),
        (ROCM_BANDWIDTH_TEST, "          2         49.0        27.5        N/A\n", "",
         "the matrix of bidirectional copies has no row 2: the output is cut short"),
        ("TransferBench v1.62.00\n", "", "", "holds no copies of"),
        (ROCM_BANDWIDTH_TEST.replace("05:0.0", "").replace("08:0.0", ""), "", "", "cannot be distinguished"),
    ],
)  # fmt: skip
def test_damaged_rocm_output_is_rejected(tmp_path, text, old, new, message):
    path = tmp_path / "rocm.txt"
    path.write_text(text.replace(old, new, 1) if old else text)
    with pytest.raises(InputError, match=re.escape(message)):
        read_measured_copies(path)


P2PMARK = """Found 3 GPUs

=== Sequential P2P bandwidth (GB/s) ===
Each transfer: 64 MB, 20 iterations

Dst->  GPU0     GPU1     GPU2
GPU 0:     -      56.10     40.20
GPU 1:   56.12       -      40.21
GPU 2:   40.22    40.23       -

=== Topology probe: staggered reads by peer distance (GB/s) ===
3 concurrent transfers per round, each GPU reading from one unique peer.
Reveals PCIe switch topology: nearby peers are fast, cross-switch peers are slow.

+1  0<-1 1<-2 2<-0   45.00 avg   135.00 total
+2  0<-2 1<-0 2<-1   44.00 avg   132.00 total

=== Single reader, all 2 peers concurrent (GB/s) ===

GPU 0 reads from all peers: 47.00 GB/s
GPU 1 reads from all peers: 48.00 GB/s
GPU 2 reads from all peers: 40.00 GB/s

Effective system bandwidth (sequential): 44.90 GB/s

=== All GPUs read all peers simultaneously (GB/s) ===
Each GPU has 2 streams, 6 total concurrent transfers.

GPU 0: 40.00 GB/s
GPU 1: 41.00 GB/s
GPU 2: 39.00 GB/s

Total system bandwidth: 120.00 GB/s

===========================================================
  PCIe LINK SCORE:           0.71
"""


def test_p2pmark_output_is_read(tmp_path):
    (tmp_path / "p2pmark.txt").write_text(P2PMARK)
    alone, together = [], []
    for one in read_measured_copies(tmp_path / "p2pmark.txt"):
        (alone if one.role == "calibration" else together).append(one)
    expected = {
        ("0", "1"): 56.1,
        ("0", "2"): 40.2,
        ("1", "0"): 56.12,
        ("1", "2"): 40.21,
        ("2", "0"): 40.22,
        ("2", "1"): 40.23,
    }
    assert {one.flows[0]: one.total_bytes_per_s / 1e9 for one in alone} == pytest.approx(expected)
    # The output names the reader first, and a flow starts at the GPU that holds the bytes.
    reads = {
        "staggered reads, distance 1": ("1>0 2>1 0>2", 135.0), "staggered reads, distance 2": ("2>0 0>1 1>2", 132.0),
        "0 reads from all": ("1>0 2>0", 47.0), "1 reads from all": ("2>1 0>1", 48.0), "2 reads from all": ("0>2 1>2", 40.0),
        "all read from all": ("1>0 2>0 2>1 0>1 0>2 1>2", 120.0),
    }  # fmt: skip
    printed_reads = {one.name: (" ".join(map(">".join, one.flows)), one.total_bytes_per_s / 1e9) for one in together}
    assert printed_reads == reads
    assert {one.program for one in together} == {"unordered_reads"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("GPU 1:   56.12       -      40.21\n", "", "row 'GPU 1:' of the sequential copies has 0 values, expected 3"),
        ("56.12       -  ", "-  56.12", "row 'GPU 1:' of the sequential copies has 3 values"),
        ("+2  0<-2 1<-0 2<-1   44.00 avg   132.00 total\n", "", "staggered reads have 1 complete rounds, expected +1 to +2"),
        ("2<-0   45.00", "2<-2   45.00", "round +1 of the staggered reads does not name each of 3 GPUs"),
        ("GPU 2 reads from all peers: 40.00 GB/s", "GPU 2 reads", "reads by a single GPU have 2 complete rows, expected 3"),
        ("Total system bandwidth: 120.00 GB/s", "", "reads by all GPUs have 3 complete rows, expected 3 and a total"),
        ("GPU 2: 39.00", "GPU 2: 93.00", "the total of all GPUs is 120 GB/s, but their rates sum to 174"),
        ("Found 3 GPUs", "", "has no copies in GB/s, expected the output of the bandwidth mode"),
        ("56.10 ", "0.00  ", "0 GB/s, expected a rate above 0"),
    ],
)  # fmt: skip
def test_damaged_p2pmark_output_is_rejected(tmp_path, old, new, message):
    path = tmp_path / "p2pmark.txt"
    assert old in P2PMARK
    path.write_text(P2PMARK.replace(old, new, 1))
    with pytest.raises(InputError, match=re.escape(message)):
        read_measured_copies(path)
    path.write_text(P2PMARK[: P2PMARK.index("40.21")])
    with pytest.raises(InputError, match="is not as p2pmark prints it: row 'GPU 1:'"):
        read_measured_copies(path)


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (NVBANDWIDTH, "bandwidth (GB/s)", "bandwidth (MB/s)", "has 'MB/s', expected GB/s"),
        (NVBANDWIDTH, "bandwidth (GB/s)", "bandwidth", "has 'column', expected GB/s"),
        (NVBANDWIDTH, " 1     50.00       N/A\n", "", "has 1 rows, expected 2"),
        (NVBANDWIDTH, " 1     50.00", " 0     50.00", "row 0 is a duplicate"),
        (NVBANDWIDTH, "Running host_to_all_memcpy_ce.", "Running device_to_device_memcpy_write_ce.", "has 1 rows"),
        (PEER_TEST, "P2P=Enabled Bandwidth Matrix (GB/s)", "P2P=Enabled Bandwidth Matrix (GiB/s)", "has 'GiB/s'"),
        ('{"testcases": [{"name": "host_to_device_memcpy_ce", "status": "Failed", "bandwidth_matrix": [["25.0"]]}]}',
         "", "", "status 'Failed', expected Passed"),
        ('{"testcases": [{"name": "device_to_device_memcpy_write_ce", "bandwidth_matrix": [["N/A", "25.0"], ["25"]]}]}',
         "", "", "row 1 of 'device_to_device_memcpy_write_ce' has 1 values, expected 2"),
        ("graph,communications,total_gb_per_s,role\nalone,0>1,50,callibration\n", "", "", "role is 'callibration'"),
        ("graph,source,target,size_bytes,elapsed_s,rate_gb_per_s\na,0,1,1e9,0.02,5\n", "", "",
         "has elapsed_s and rate_gb_per_s, expected one of them"),
    ],
)  # fmt: skip
def test_inconsistent_benchmark_output_is_rejected(tmp_path, text, old, new, message):
    assert old in text
    path = tmp_path / ("m.csv" if text.startswith("graph") else "m.txt")
    path.write_text(text.replace(old, new, 1) if old else text)
    with pytest.raises(InputError, match=re.escape(message)):
        read_measured_copies(path)


@pytest.mark.parametrize("content", [b"\x00\x01", "graph".encode("utf-16"), b"PAR1 no parquet"])
def test_files_of_other_formats_are_rejected(tmp_path, content):
    for name in ("m.csv", "m.parquet"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError):
            read_measured_copies(tmp_path / name)


def _measured(*rows):
    """Return graphs of independent copies from (communications, GB/s, role)."""
    return [
        MeasuredGraph(comms, tuple(tuple(flow.split(">")) for flow in comms.split()), rate * 1e9, "independent", role)
        for comms, rate, role in rows
    ]


def test_rates_above_link_rates_are_not_used_for_calibration():
    """Links of storm8 have 15.75 GB/s: 13 GB/s is plausible, 54 GB/s is of another machine."""
    tree = load_tree("storm8")
    report = validate_machine(tree, _measured(("0>1", 13, "calibration"), ("2>3", 54, "calibration")))
    assert report.calibration.rates.one_way_bytes_per_s == 13e9
    assert dict(zip(report.rows["graph"], report.rows["reason_code"], strict=True))["2>3"] == Reason.BEYOND_LINKS
    with pytest.raises(InputError, match=r"'2>3' reached 54 GB/s, more than the links of 'storm8' carry"):
        validate_machine(tree, _measured(("2>3", 54, "calibration")))
    host = validate_machine(tree, _measured(("0>1", 13, "calibration"), ("H>0 H>1", 900, ""))).rows.iloc[1]
    assert host["reason_code"] == Reason.BEYOND_LINKS


@pytest.mark.parametrize("role", ["", "few_flows", "test_few_flows"])
def test_isolated_copies_and_bidirectional_pairs_calibrate_in_any_class(role):
    rows = [("0>1", 54, role), ("0>4", 38, role), ("0>1 1>0", 105, role), ("0>1 2>3", 108, role)]
    result = validate_machine(load_tree("flat4x2"), _measured(*rows))
    rates = result.calibration.rates
    assert (rates.one_way_bytes_per_s, rates.two_way_bytes_per_s, rates.crossing_bytes_per_s) == pytest.approx(
        (54e9, 52.5e9, 38e9)
    )
    assert result.rows["judged"].tolist() == [False, False, False, True]


def test_excluded_rows_and_test_rows_are_not_used_for_calibration():
    rows = [("0>1", 20, "impossible_over_line_rate"), ("0>1 1>0", 20, "collapse"), ("0>1", 21, "test")]
    known = [("2>3", 54, ""), ("0>1 2>3", 108, "")]
    result = validate_machine(load_tree("flat4x2"), _measured(*rows, *known))
    assert result.calibration.rates.one_way_bytes_per_s == pytest.approx(54e9)
    assert "no bidirectional pair" in result.calibration.sources["two_way"]
    assert result.rows["judged"].tolist() == [False, False, True, False, True]


def test_bidirectional_pairs_calibrate_unmeasured_isolated_rate():
    result = validate_machine(load_tree("flat4x2"), _measured(("0>1 1>0", 105, ""), ("0>1 2>3", 108, "")))
    rates = result.calibration.rates
    assert rates.two_way_bytes_per_s == pytest.approx(52.5e9)
    assert 52.5e9 < rates.one_way_bytes_per_s < 55e9
    assert "duplex cost of other machines" in result.calibration.sources["one_way"]


def test_crossing_copies_do_not_calibrate_link_rate():
    rows = [("0>4", 38, ""), ("0>1", 54, "test"), ("0>4 2>6", 80, "")]
    unknown = validate_machine(load_tree("flat4x2"), _measured(*rows))
    assert unknown.rows["reason_code"].tolist() == ["calibration", Reason.LINKS_UNCALIBRATED, Reason.LINKS_UNCALIBRATED]
    assert not texts(unknown, WarningCode.RATE_BEYOND_LINKS)
    # The link rate is known from the file, or if all paths of the topology cross the root complex.
    calibrated = validate_machine(load_tree("flat4x2"), _measured(*rows), one_way_bytes_per_s=57e9)
    assert (
        calibrated.calibration.rates.one_way_bytes_per_s,
        calibrated.calibration.rates.crossing_bytes_per_s,
    ) == pytest.approx((57e9, 38e9))
    assert calibrated.rows["reason_code"].tolist() == ["calibration", "", Reason.BEYOND_LINKS]
    no_other = validate_machine(load_tree("direct8"), _measured(*rows))
    assert no_other.rows["reason_code"].tolist() == ["calibration", Reason.BEYOND_LINKS, ""]


def test_slow_path_class_does_not_slow_other_classes():
    """Crossing, inter-socket and host-memory copies have separate rates."""
    rows = [
        ("0>1", 55, ""), ("0>2", 50, ""), ("0>4", 25, ""), ("H>0", 54, ""), ("0>H", 53, ""),
        ("H>0 H>1 H>2 H>3", 100, "calibration"),
    ]  # fmt: skip
    judged = [("2>0", 50, "test"), ("4>1", 25, "test"), ("H>3", 54, "test"), ("3>H", 53, "test"),
              ("0>1 H>2", 108, "test"), ("0>2 4>6", 100, "test"), ("H>0 H>2", 100, "test")]  # fmt: skip
    report = validate_machine(load_tree("pcie5_four_switches"), _measured(*rows, *judged))
    rates = report.calibration.rates
    assert [rates.of_way(way) for way in ("local", "crossing", "between_roots", "host_in", "host_out")] == [
        None, 50e9, 25e9, 54e9, 53e9
    ]  # fmt: skip
    assert report.rows["judged"].tolist() == [False] * 6 + [True] * 7
    assert report.rows["relative_error"].abs().max() < 1e-9


def test_duplex_cost_is_calibrated_within_one_path_class():
    """Bidirectional pairs are compared with isolated copies of the same path class."""
    local = [("0>1", 55, ""), ("0>1 1>0", 104.5, ""), ("0>4", 40, ""), ("0>4 4>0", 76, "")]
    assert validate_machine(TREE, _measured(*local)).calibration.rates.two_way_bytes_per_s == 52.25e9
    across = validate_machine(TREE, _measured(local[0], *local[2:])).calibration
    assert across.rates.two_way_bytes_per_s == pytest.approx(55e9 * 38 / 40)
    assert across.sources["two_way"] == "1 measured, bidirectional pairs across the root complex"


def test_memory_probes_calibrate_up_to_measured_rate():
    tree = load_tree("two_sockets_host")
    alone = ("H>0", 55, "calibration")

    def reasons(*rows):
        return validate_machine(tree, _measured(alone, *rows)).rows["reason_code"].tolist()[2:]

    unknown = Reason.NO_MEMORY_PROBE
    four, six = ("H>0 H>1 H>2 H>3", 200, ""), ("H>0 H>1 H>2 H>4", 200, "")
    # One copy per memory does not measure several; with unequal numbers the rate of each memory is unknown.
    assert reasons(("H>0 H>4", 110, "calibration"), four) == [unknown]
    assert reasons(("H>0 H>1 H>4", 150, "calibration"), four) == [unknown]
    # Two copies that are not limited by memory do not predict four; two that are limited do.
    assert (
        reasons(("H>0 H>1", 110, "calibration"), four, six)
        == [f"{unknown} beyond 110 GB/s, to which only links held copies back"] * 2
    )
    assert reasons(("H>0 H>1", 90, "calibration"), four) == [""]


def test_full_uplink_is_not_mistaken_for_memory_limit():
    tree = load_tree("pcie5_four_switches")
    alone = [("H>0", 55, "calibration"), ("0>H", 56, "calibration")]
    one_switch, two_switches = ("H>0 H>1", 55, "calibration"), ("H>0 H>2", 109, "")
    report = validate_machine(tree, _measured(*alone, one_switch, two_switches))
    assert not limits(report)
    assert lower_bounds(report) == {"memory_read": 55e9}
    assert "limited only by links" in report.calibration.sources["memory_read"]
    row = report.rows.iloc[-1]
    assert "beyond 55 GB/s" in row["reason"] and np.isnan(row["forecast_bytes_per_s"])
    calibrated = validate_machine(
        tree, _measured(*alone, one_switch, ("H>0 H>2", 109, "calibration"), ("H>1 H>3", 109, ""))
    )
    assert calibrated.rows.iloc[-1]["judged"] and abs(calibrated.rows.iloc[-1]["relative_error"]) < 0.03


def test_narrow_link_calibrates_full_width_link():
    """One of four GPUs has eight lanes and half the rate, whichever GPU was measured."""
    tree = regular_tree("mixed", (4,))
    vertices = tuple(replace(v, capacity=0.5) if v.name == "0" else v for v in tree.vertices)
    tree = replace(tree, vertices=vertices)
    for measured_alone in ([("H>0", 12.5, "")], [("H>1", 25, "")], [("H>0", 12.5, ""), ("H>1", 25, "")]):
        judged = [("H>1", 25, "test"), ("H>0", 12.5, "test"), ("0>1", 12.5, "test")]
        graphs = [replace(g, name=str(n)) for n, g in enumerate(_measured(*measured_alone, *judged))]
        report = validate_machine(tree, graphs)
        assert report.calibration.rates.one_way_bytes_per_s == 25e9
        assert report.rows["relative_error"].abs().max() < 1e-9


def test_direct_copies_and_host_copies_use_separate_links():
    tree = load_tree("mi300x")
    rows = [("0>1", 48, "calibration"), ("H>0", 55, "calibration"), ("0>1 H>1", 103, "")]
    report = validate_machine(tree, _measured(*rows))
    assert report.rows["judged"].tolist() == [False, False, True]
    assert not texts(report, WarningCode.RATE_BEYOND_LINKS)
    beyond = validate_machine(tree, _measured(*rows[:2], ("0>1 H>1", 120, "")))
    assert beyond.rows["reason_code"].iloc[-1] == Reason.LINKS_UNCALIBRATED, (
        "host copies do not calibrate the link rate"
    )


def test_concurrent_pairs_calibrate_root_complex_capacity():
    tree = load_tree("direct8")
    alone, four = ("0>1", 20, "calibration"), ("0>1 2>3 4>5 6>7", 45, "calibration")
    others = [("0>1 2>3", 40, ""), ("0>4 1>5 2>6", 45, ""), ("0>1 1>2 2>3 3>0", 50, "")]
    blind = validate_machine(tree, _measured(alone, *others))
    assert blind.rows["judged"].tolist() == [False, True, True, True]
    assert any("affects 3 graphs" in text for text in texts(blind, WarningCode.ROOT_COMPLEX_UNMEASURED))
    report = validate_machine(tree, _measured(alone, four, *others))
    assert report.calibration.rates.one_way_bytes_per_s == 20e9, "concurrent copies are not isolated copies"
    assert limits(report) == {"root_complex": 45e9}
    assert report.rows["relative_error"].iloc[2:4].abs().max() < 1e-9
    assert report.rows["reason_code"].iloc[4] == Reason.NO_ROOT_COMPLEX_PROBE
    proposed = {probe.graph: probe for probe in proposed_probes(tree)}
    assert proposed["across the root complex"].flows == (("0", "1"), ("2", "3"), ("4", "5"), ("6", "7"))
    assert proposed["across the root complex"].role == "calibration"


def test_inter_socket_copy_does_not_use_rate_of_other_path_class():
    tree = load_tree("dual4x2")
    near, far = ("0>1", 26, "calibration"), ("0>4", 9, "calibration")
    judged = [("0>4", 12, "test"), ("0>4 0>5 0>6", 9, ""), ("0>4 1>5", 9.3, "")]
    graphs = [replace(graph, name=str(number)) for number, graph in enumerate(_measured(near, *judged))]
    blind = validate_machine(tree, graphs).rows
    assert (
        blind["reason_code"].iloc[1:].eq(Reason.NO_INTER_SOCKET_PROBE).all()
        and blind["forecast_bytes_per_s"].iloc[1:].isna().all()
    )
    # Several copies reach at least the isolated rate in total, and at most the isolated rate each.
    known = validate_machine(tree, _measured(near, far, *judged[1:])).rows.iloc[2:]
    assert known["reason_code"].eq(Reason.NO_INTER_SOCKET_PROBE).all()
    assert known["low_bytes_per_s"].tolist() == pytest.approx([9e9, 9e9])
    assert known["high_bytes_per_s"].tolist() == pytest.approx([26e9, 18e9])


def test_bidirectional_inter_socket_pair_does_not_calibrate_duplex_cost():
    rows = _measured(("0>1", 26, ""), ("0>4 4>0", 18, ""), ("0>4", 9, "test"), ("0>4 0>5 0>6", 9, ""))
    report = validate_machine(load_tree("dual4x2"), rows)
    assert "bidirectional pairs are slower at root complexes" in report.calibration.sources["two_way"]
    assert report.calibration.rates.between_roots_bytes_per_s == pytest.approx(9e9, rel=0.04)
    assert lower_bounds(report) == {"root_complex_link_both_ways": 18e9}
    assert report.rows["judged"].tolist() == [False, False, True, False]


def two_roots(first, second, *, switches=False, widths=None):
    """Build a tree of two root complexes with GPUs and one NUMA node each.

    GPUs are attached directly, or below one switch per root complex.
    """
    vertices = [
        Vertex("SYS", "system", None),
        Vertex("RC0", "root_complex", "SYS"),
        Vertex("RC1", "root_complex", "SYS"),
    ]
    for root, gpus in (("RC0", first), ("RC1", second)):
        above = f"S{root[-1]}" if switches else root
        vertices += [Vertex(above, "switch", root)] if switches else []
        vertices += [Vertex(gpu, "endpoint", above, capacity=(widths or {}).get(gpu, 1.0)) for gpu in gpus]
    nodes = (MemoryNode("NUMA0", "RC0"), MemoryNode("NUMA1", "RC1"))
    return PcieTree("two_roots", tuple(vertices), memory_nodes=nodes, link_bytes_per_s=31507692307.7)


def test_ordered_writes_into_memory_do_not_wait():
    """Streams order copies into a GPU, but not copies into host memory."""
    rows = [("0>1", 26.3, "calibration"), ("0>H", 26.2, "calibration"), ("0>H 1>H 2>H 3>H", 100, "calibration"),
            ("0>H 1>H 2>H", 78, "")]  # fmt: skip
    graphs = [replace(graph, program="ordered_writes") for graph in _measured(*rows)]
    report = validate_machine(two_roots("0123", "4567"), graphs)
    assert report.rows["judged"].tolist() == [False, False, False, True]
    assert abs(report.rows["relative_error"].iloc[3]) < 0.03


@pytest.mark.parametrize("across", [("0>1", "01", "2"), ("0>1", "0", "1")])
def test_slow_bidirectional_pairs_at_root_complex_do_not_set_duplex_cost(across):
    """Peer copies reach 26 GB/s isolated and 33 GB/s bidirectional.

    They cross one root complex, or are between two. Bidirectional host copies reach 48 GB/s on each GPU.
    """
    pair, first, second = across
    back = f"{pair[-1]}>{pair[0]}"
    rows = [(pair, 25.8, "calibration"), (f"{pair} {back}", 33, "calibration"), ("H>0", 26.2, "calibration"),
            ("0>H", 26.2, "calibration"), ("H>0 0>H", 48, "calibration"), ("H>1 1>H", 48, "")]  # fmt: skip
    report = validate_machine(two_roots(first, second), _measured(*rows))
    assert "bidirectional pairs are slower" in report.calibration.sources["two_way"]
    assert abs(report.rows["relative_error"].iloc[-1]) < 0.05
    assert not texts(report, WarningCode.CALIBRATION_CONTRADICTED)


def test_inter_socket_limit_does_not_calibrate_isolated_copy():
    tree = two_roots("0123", "4567")
    probe = ("0>4 1>5 2>6 3>7", 46, "calibration")
    judged = [("3>7", 13.2, "test"), ("0>4 1>5", 26.4, ""), ("0>4 0>5", 13.2, "")]
    blind = validate_machine(tree, _measured(("H>0", 26.2, "calibration"), probe, *judged)).rows
    assert blind["reason_code"].iloc[2:].eq(Reason.NO_INTER_SOCKET_PROBE).all()
    calibrated = validate_machine(
        tree, _measured(("H>0", 26.2, "calibration"), ("0>4", 13.2, "calibration"), probe, *judged[1:])
    )
    assert calibrated.rows["judged"].iloc[3:].tolist() == [True, True]
    assert abs(calibrated.rows["relative_error"].iloc[3]) < 0.02


def test_remote_memory_copies_are_limited_per_gpu():
    rows = [("0>1", 26.4, "calibration"), ("NUMA0>2", 20, "calibration"), ("2>NUMA0", 18, "calibration"),
            ("NUMA0>2 NUMA0>3", 26.3, "calibration"), ("2>NUMA0 3>NUMA0", 26.2, "test")]  # fmt: skip
    report = validate_machine(two_roots("01", "23", switches=True), _measured(*rows))
    assert report.rows["relative_error"].iloc[3:].abs().max() < 0.02
    assert not texts(report, WarningCode.CALIBRATION_CONTRADICTED)


def test_full_narrow_link_does_not_calibrate_wider_links():
    tree = two_roots("01", "23", widths={"2": 0.5})
    alone = [("H>0", 26.2, "calibration"), ("0>1", 26.2, "calibration"), ("0>2", 13.1, "calibration")]
    rows = validate_machine(tree, _measured(*alone, ("3>1", 18, "test"), ("1>2", 13.1, "test"))).rows
    assert rows["reason_code"].tolist()[3:] == [Reason.NO_INTER_SOCKET_PROBE, ""]
    wide = validate_machine(tree, _measured(*alone[:2], ("1>3", 18, "calibration"), ("3>1", 18, "test")))
    assert wide.rows["relative_error"].iloc[-1] == pytest.approx(0)
    proposed = {probe.graph: probe.flows for probe in proposed_probes(tree)}
    assert proposed["alone SYS"] == (("0", "3"),)


def test_probe_limited_by_links_sets_no_shared_limit():
    """GPUs 0 and 1 share a switch, 2 and 3 have separate ports: links limit the total rate."""
    vertices = [Vertex("RC", "root_complex", None), Vertex("S", "switch", "RC")]
    vertices += [Vertex(gpu, "endpoint", "S" if gpu in "01" else "RC") for gpu in "0123"]
    tree = PcieTree("mixed", tuple(vertices), link_bytes_per_s=31507692307.7)
    rows = [("0>1", 26.4, "calibration"), ("H>0", 26.4, "calibration"), ("H>0 H>1 H>2 H>3", 52.8, "calibration"),
            ("H>0 H>2 H>3", 79.2, "")]  # fmt: skip
    report = validate_machine(tree, _measured(*rows))
    assert limits(report) == {} and lower_bounds(report) == {"memory_read": 52.8e9}
    assert not report.rows["judged"].iloc[-1], "a measured 52.8 GB/s does not validate 79.2 GB/s"


def test_round_robin_copies_of_one_gpu_do_not_reach_shared_limit():
    rows = [("0>1", 26.4, "calibration"), ("H>0", 26.4, "calibration"),
            ("0>4 1>5 2>6 3>7", 32, "calibration")]  # fmt: skip
    fan = MeasuredGraph("fan", tuple(("0", str(n)) for n in range(4, 8)), 9.2e9, "unordered_writes")
    assert not validate_machine(two_roots("0123", "4567"), [*_measured(*rows), fan]).rows["judged"].iloc[-1]


def test_host_copies_do_not_calibrate_link_rate():
    rows = [
        ("0>1", 15.8, "calibration"),
        ("H>0", 22.4, "calibration"),
        ("0>H", 21.1, "calibration"),
        ("H>0 1>0", 26.2, ""),
    ]
    report = validate_machine(two_roots("01", "23"), _measured(*rows))
    assert report.rows["reason_code"].iloc[-1] == Reason.LINKS_UNCALIBRATED
    assert not texts(report, WarningCode.RATE_BEYOND_LINKS)


def test_bidirectional_limits_do_not_calibrate_single_directions():
    tree, pairs = two_roots("0123", "4567"), ("0>4 4>0 1>5 5>1 2>6 6>2 3>7 7>3", 46, "calibration")
    rows = [("0>1", 26.4, "calibration"), ("0>4", 16.5, "calibration"), pairs, ("0>4 1>5 2>6 7>3", 33.6, ""),
            ("0>5 5>0 1>6 6>1", 46, "")]  # fmt: skip
    result = validate_machine(tree, _measured(*rows)).rows
    assert result["judged"].tolist()[3:] == [False, True]
    memory = [("0>1", 25.1, "calibration"), ("0>H", 26.4, "calibration"),
              (" ".join(f"H>{n} {n}>H" for n in range(4)), 174, "calibration"), ("H>0 0>H H>1 1>H", 87.2, "")]  # fmt: skip
    result = validate_machine(tree, _measured(*memory)).rows
    assert result["reason_code"].iloc[-1] == Reason.NO_MEMORY_PROBE


def test_memory_is_probed_at_root_complex_with_most_ports():
    vertices = [
        Vertex("SYS", "system", None),
        Vertex("RC0", "root_complex", "SYS"),
        Vertex("RC1", "root_complex", "SYS"),
    ]
    vertices += [Vertex("S", "switch", "RC0")] + [Vertex(gpu, "endpoint", "S") for gpu in "0123"]
    vertices += [Vertex(gpu, "endpoint", "RC1") for gpu in "456"]
    proposed = {probe.graph: probe.role for probe in proposed_probes(PcieTree("ports", tuple(vertices)))}
    assert proposed["host to all below RC1"] == "calibration"
    assert proposed["host to all below RC0"] == "test"


def test_random_order_does_not_imply_unknown_link():
    tree = two_roots("01", "23", switches=True)
    rows = [("0>1", 25, "calibration"), ("0>1 1>0", 48, "calibration"), ("0>2", 13, "calibration"),
            ("0>2 2>0", 26, "calibration"), ("0>2 1>3", 26, "calibration"),
            ("0>2 2>0 1>3 3>1", 52, "calibration")]  # fmt: skip
    every = tuple((s, t) for s in "0123" for t in "0123" if s != t)
    all_to_all = MeasuredGraph("all", every, 45e9, "ordered_writes")
    result = validate_machine(tree, [*_measured(*rows), all_to_all]).rows.iloc[-1]
    assert result["judged"] and result["low_bytes_per_s"] < result["high_bytes_per_s"]


def test_bidirectional_remote_memory_has_a_probe():
    tree = two_roots("01", "23", switches=True)
    proposed = {probe.graph: probe for probe in proposed_probes(tree)}
    both = proposed["NUMA0 and all on another socket both ways"]
    assert both.role == "calibration" and len(both.flows) == 4
    alone = [("0>1", 26, "calibration"), ("NUMA0>2", 20, "calibration"), ("2>NUMA0", 20, "calibration")]
    graph = MeasuredGraph("both", both.flows, 34e9, "independent", "calibration")
    report = validate_machine(tree, [*_measured(*alone), graph, replace(graph, name="again", role="test")])
    assert limits(report) == {"remote_memory_both_ways": 34e9}
    assert report.rows["judged"].iloc[-1] and abs(report.rows["relative_error"].iloc[-1]) < 1e-3


def test_graphs_with_uncalibrated_path_class_are_not_validated():
    tree = two_roots("0123", "4567")
    rows = [("H>0", 28.2, "calibration"), ("0>4", 37, "calibration"), ("0>4 1>5 2>6 3>7", 149, ""), ("0>1 0>4", 30, "")]
    result = validate_machine(tree, _measured(*rows)).rows
    assert not result["judged"].any()
    assert result["reason_code"].iloc[3] in (Reason.OTHER_ROUTE, Reason.NO_INTER_SOCKET_PROBE)


def test_unmeasured_crossing_copies_are_reported():
    tree = two_roots("0123", "4567")
    report = validate_machine(
        tree, _measured(("H>0", 26.2, "calibration"), ("0>1", 15.8, "test"), ("0>1 2>3", 31.6, ""))
    )
    assert any("affects 2 graphs" in text for text in texts(report, WarningCode.CROSSING_UNMEASURED))


def test_unused_calibration_row_is_not_validated():
    rows = validate_machine(TREE, _measured(("0>1", 50, "calibration"), ("0>1 0>2", 50, "calibration"))).rows
    assert rows["reason_code"].tolist() == ["calibration", Reason.CALIBRATION_UNUSED]


P2P = """[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, Some GPU, pciBusID: 3b, pciDeviceID: 0, pciDomainID:0
Device: 1, Some GPU, pciBusID: 1a, pciDeviceID: 0, pciDomainID:0
P2P Connectivity Matrix
So you can see lesser Bandwidth (GB/s) and unstable Latency (us) in those cases.
     D\\D     0     1
     0       1     1
     1       1     1
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0 700.00  20.00
     1  24.00 700.00
"""


def test_gpus_are_matched_by_printed_pci_addresses(tmp_path):
    """Bus 3b is GPU 0 in the output and GPU 1 in the topology, whose names are used."""
    (tmp_path / "p2p.txt").write_text(P2P)
    assert len(read_measured_copies(tmp_path / "p2p.txt")) == 2, "the connectivity matrix has no rates"

    def rates(domain):
        buses = dict(zip("01234567", ("1a", "3b", "4c", "5d", "6e", "7f", "8a", "9b"), strict=True))
        vertices = [
            replace(v, label=f"{domain}:{buses[v.name]}:00.0" if v.name in buses and domain else "")
            for v in TREE.vertices
        ]
        graphs = copies_of_machine(replace(TREE, vertices=tuple(vertices)), tmp_path / "p2p.txt")
        return {graph.flows[0]: graph.total_bytes_per_s / 1e9 for graph in graphs}

    as_printed = {("0", "1"): 20, ("1", "0"): 24}
    assert rates("0000") == {("1", "0"): 20, ("0", "1"): 24}
    assert rates("") == as_printed, "a topology without addresses"
    assert rates("0001") == as_printed, "another machine of the same model"
    (tmp_path / "p2p.txt").write_text(P2P.replace("pciBusID: 3b", "pciBusID: ff"))
    with pytest.raises(InputError, match="GPU 0 of the measurements is at 0:ff:0.0, where 'flat4x2' has none"):
        rates("0000")


def test_rates_in_another_unit_are_reported():
    gbit = validate_machine(TREE, _measured(("0>1", 440, ""), ("0>1 2>3", 880, "")))
    assert any("Gbit/s" in text for text in texts(gbit, WarningCode.IMPLAUSIBLE_RATE))
    slow = validate_machine(load_tree("pcie5_four_switches"), _measured(("0>1", 6.9, ""), ("0>1 2>3", 13.8, "")))
    assert any(
        "10.9% of the link rate of pcie5_four_switches" in text for text in texts(slow, WarningCode.IMPLAUSIBLE_RATE)
    )
    assert not validate_machine(load_tree("pcie5_four_switches"), _measured(("0>1", 55, ""))).warnings


def test_network_cards_execute_their_copies():
    """A GPU serialises its copies to GPUs, but not the reads of two network cards."""
    vertices = [*TREE.vertices]
    cards = [replace(v, network_card=v.name in ("4", "5")) for v in vertices]
    flows, size = [(0, 4), (0, 5)], np.full(2, 50e9)
    for tree, ends in ((TREE, [1, 2]), (replace(TREE, vertices=tuple(cards)), [2, 2])):
        completion = copy_times(tree, flows, replace(PROGRAMS["unordered_writes"], random_turns=False), EVEN,
                           size_bytes=size, start_s=np.zeros(2))  # fmt: skip
        assert completion.end_s.tolist() == ends


def test_contradictory_parameters_are_reported():
    report = validate_machine(TREE, _measured(("0>1", 55, ""), ("0>2", 54, ""), ("2>3", 12, ""), ("0>1 2>3", 108, "")))
    assert any("1 of 3" in text and "'2>3'" in text for text in texts(report, WarningCode.CALIBRATION_CONTRADICTED))
    agreeing = validate_machine(TREE, _measured(("0>1", 55, ""), ("0>2", 54, ""), ("0>1 2>3", 108, "")))
    assert not agreeing.warnings


def test_direct_link_copies_do_not_calibrate_pcie_rate():
    report = validate_machine(load_tree("hgx_a100"), _measured(("0>1", 250, "calibration"), ("H>0", 25, "calibration")))
    assert report.calibration.rates.one_way_bytes_per_s == 25e9
    assert report.calibration.values["direct_link"] == 250e9
    assert report.calibration.sources["direct_link"] == "1 measured, single copies over direct links"


def test_direct_link_copies_are_validated_with_isolated_copies():
    """Each GPU has one NVSwitch port; pairs without a measurement are listed without a rate."""
    tree = replace(TREE, peer_links=(PeerLink("NVSwitch", ("0", "1", "2", "3")),))
    alone = _measured(("4>5", 50, "calibration"), ("0>1", 200, "calibration"))
    both = _measured(("0>1 0>2", 200, ""), ("0>1 2>3", 400, ""), ("0>1 4>5", 100, ""))
    report = validate_machine(tree, [*alone, *both])
    judged = report.rows[report.rows["judged"]]
    assert judged["graph_class"].tolist() == ["direct links"] * 3
    assert judged["relative_error"].abs().max() < 1e-9
    assert judged["sharing_bytes_per_s"].tolist() == pytest.approx([200e9, 400e9, 100e9])
    assert judged["no_contention_bytes_per_s"].tolist() == pytest.approx([400e9, 400e9, 250e9])
    assert not report.warnings
    blind = validate_machine(tree, [alone[0], *both]).rows.set_index("graph")
    assert blind.loc[both[0].name, "reason_code"] == Reason.DIRECT_LINK_UNMEASURED
    pairs = replace(TREE, peer_links=(PeerLink("xGMI", ("0", "1", "2"), 64e9),))
    scaled = validate_machine(pairs, [alone[0], *_measured(("0>1", 48, "calibration"), ("0>1 1>2", 96, ""))])
    assert [link.bytes_per_s for link in scaled.calibration.direct_links] == [48e9] * 3
    assert scaled.rows["relative_error"].iloc[2] == pytest.approx(0, abs=1e-9)


def test_copies_between_root_complexes_are_not_validated_without_a_probe():
    """Without a probe, no rate between sockets contradicts the topology."""
    tree = load_tree("pcie5_four_switches")
    alone = ("0>1", 54, "calibration"), ("0>4", 50, "calibration")
    report = validate_machine(tree, _measured(*alone, ("0>4 1>5 2>6 3>7", 100, "")))
    row = report.rows.iloc[2]
    assert row["reason_code"] == Reason.NO_INTER_SOCKET_PROBE
    assert row["low_bytes_per_s"] <= 100e9 <= row["high_bytes_per_s"]
    (text,) = texts(report, WarningCode.MISSING_PROBES)
    assert text.startswith(f"'{row['graph']}' cannot be validated until probes are measured")
    calibrated = validate_machine(tree, _measured(*alone, ("0>4 1>5 2>6 3>7", 100, "calibration")))
    assert not calibrated.warnings


def test_summed_rates_exceed_rate_until_last_completion():
    """Two of three copies share a 50 GB/s link: 100 GB/s as a sum, 75 GB/s to the end."""
    graph = replace(_measured(("0>4 1>5 2>3", 100, ""))[0], rates_summed=True)
    rows = validate_machine(
        load_tree("flat4x2"),
        [*_measured(("0>1", 50, "calibration"), ("0>4 1>5 2>3 ", 75, "")), graph],
    ).rows
    assert rows["relative_error"].tolist() == pytest.approx([0, 0, 0], abs=1e-3)


@pytest.mark.parametrize("topology", ["storm8", "flat4x2", "direct8", "two_sockets_host", "flat4x4"])
def test_completed_probes_identify_the_machine(tmp_path, topology):
    """Fill the proposed probes with rates of a known machine and recover its parameters."""
    # Link speeds of the topology are removed: they may be slower than the rates used here.
    tree = replace(load_tree(topology), link_bytes_per_s=None)
    probes = proposed_probes(tree)
    assert len({probe.graph for probe in probes}) == len(probes)
    assert {probe.role for probe in probes} <= {"calibration", "test"}
    direct = replace(tree, peer_links=tuple(replace(link, bytes_per_s=150e9) for link in tree.peer_links))
    path = tmp_path / "probes.csv"
    path.write_text("\n".join(
        line + ("50" if number else "") for number, line in enumerate(probe_csv(probes).splitlines())) + "\n")  # fmt: skip
    graphs = read_measured_copies(path)
    assert [graph.flows for graph in graphs] == [probe.flows for probe in probes]
    known = []
    for graph in graphs:
        if any("H" in flow for flow in graph.flows):
            roots = {root_complex_of(tree, name) for flow in graph.flows for name in flow if name != "H"}
            known.append((graph, 50e9 * (1 if len(graph.flows) == 1 else 1.4 * len(roots))))
            continue
        number = tree.endpoint_number
        flows = [(number[s], number[t]) for s, t in graph.flows]
        rate = total_rate(direct, flows, PROGRAMS[graph.program], DUPLEX, over_peer_links=True).bytes_per_s
        known.append((graph, rate))
    measured = [
        MeasuredGraph(g.name, g.flows, rate, g.program, next(p.role for p in probes if p.graph == g.name))
        for g, rate in known
    ]
    report = validate_machine(tree, measured)
    judged = report.rows[report.rows["judged"]]
    assert (judged["relative_error"].abs() < 0.08).all()
    assert bool(tree.peer_links) == ("direct links" in set(judged["graph_class"]))
    if "alone PIX" in {g.name for g in graphs}:
        assert report.calibration.rates.one_way_bytes_per_s == pytest.approx(56e9)
        assert report.calibration.rates.two_way_bytes_per_s == pytest.approx(54e9, rel=1e-3)


def _machine_that_slows_down(generator, count):
    """Draw random graphs with max-min fair rates, minus 4 % for each copy beyond the first."""
    rates = LinkRates(50e9, 50e9)
    measured = [MeasuredGraph("alone", (("0", "1"),), 50e9, "independent", "calibration")]
    for number in range(count):
        drawn = generator.permutation(8 * 7)[: generator.integers(2, 9)]
        flows = [(int(pair // 7), int(pair % 7 + (pair % 7 >= pair // 7))) for pair in drawn]
        rate = total_rate(TREE, flows, PROGRAMS["independent"], rates).bytes_per_s * (1 - 0.04 * (len(flows) - 1))
        names = tuple((str(source), str(target)) for source, target in flows)
        measured.append(MeasuredGraph(f"g{number}", names, rate, "independent"))
    return measured


def test_errors_of_measured_copies_have_histogram_and_features():
    """Each error is in its bin, and the number of copies explains the errors."""
    measured = _machine_that_slows_down(np.random.default_rng(5), 60)
    rows = validate_machine(TREE, measured, one_way_bytes_per_s=50e9).rows
    rows = rows.assign(packets_bytes_per_s=np.nan)
    histogram = error_rows(rows, "m")
    sums = histogram.groupby(["model", "subset"])["communications"].sum().unstack()
    assert (sums["all"] == 60).all()
    assert (sums.drop(columns="all").sum(axis=1) == sums["all"]).all()
    assert set(sums.index) == {"endpoint_engines", "sharing_on_the_tree", "no_contention"}, "packets were not simulated"
    exact = histogram[(histogram["model"] == "sharing_on_the_tree") & (histogram["subset"] == "all")]
    error = rows.loc[rows["judged"], "sharing_bytes_per_s"] / rows.loc[rows["judged"], "measured_bytes_per_s"] - 1
    for _, one in exact[exact["communications"] > 0].iterrows():
        assert ((error >= one["lower"] - 1e-9) & (error <= one["upper"] + 1e-9)).sum() >= one["communications"]
    learnt = feature_rows(TREE, measured, rows, "m")
    best = learnt[learnt["model"] == "sharing_on_the_tree"].nlargest(1, "importance").iloc[0]
    assert best["feature"] == "communications in the graph"
    assert best["r2"] > 0.3
    few = feature_rows(TREE, measured[:12], rows.iloc[:12], "m")
    assert few.empty, "twelve graphs are too few"


def test_validate_prints_the_error_report(tmp_path):
    out = tmp_path / "rows.csv"
    arguments = ["validate", "crossed_virtual_switches", str(PUBLIC), "--system", "WRX90 2VS V1", "-o", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    for text in ("one way: 56.25 GB/s", "few copies", "many copies of a GPU", "within 15 %", "56 all-to-all"):
        assert text in result.output
    rows = pd.read_csv(out)
    assert len(rows) == 30
    assert np.isfinite(rows["forecast_bytes_per_s"]).all()
    probes = CliRunner().invoke(app, ["probes", "flat4x2", "-o", str(tmp_path / "probes.csv")])
    assert probes.exit_code == 0
    assert "near and far" in probes.output
    assert (tmp_path / "probes.csv").read_text().startswith("graph,communications,program,role,note,total_gb_per_s\n")


@pytest.mark.parametrize("name", ["ring", "tree", "pairwise", "halving"])
def test_collectives_reach_every_rank(name):
    """Data of each rank spread along the steps until every rank has all data."""
    steps = collective_arcs(name, 8)
    for arcs in steps:
        assert len({target for _, target in arcs}) == len(arcs) or name == "tree"
        assert all(source != target for source, target in arcs)
    holds = {rank: {rank} for rank in range(8)}
    for arcs in steps * (7 if name == "ring" else 1):
        before = {rank: set(own) for rank, own in holds.items()}
        for source, target in arcs:
            holds[target] |= before[source]
    assert all(own == set(range(8)) for own in holds.values())
    with pytest.raises(InputError):
        collective_arcs("star", 8)
    with pytest.raises(InputError):
        collective_arcs(name, 1)


def with_memory(*nodes):
    return replace(
        load_tree("two_sockets_host"), peer_links=(), memory_nodes=tuple(MemoryNode(*node) for node in nodes)
    )


def measured(name, flows, gb_per_s, role=""):
    return MeasuredGraph(name, tuple(flows), gb_per_s * 1e9, "independent", role)


def test_only_numa_node_of_root_complex_is_host_memory():
    tree = with_memory(("NUMA0", "RC0"), ("NUMA1", "RC1"))
    whole = with_host_memory(tree)
    assert whole.endpoint_names[-2:] == ("NUMA0", "NUMA1")
    assert whole.accelerator_names == tree.accelerator_names
    four = [("H", str(gpu)) for gpu in range(4)]
    named = [("NUMA0", str(gpu)) for gpu in range(4)]
    graphs = [measured("alone", four[:1], 55, "calibration"), measured("four", four, 150, "calibration")]
    judged = [measured("other root", [("H", str(gpu)) for gpu in range(4, 8)], 150), measured("named", named, 150)]
    rows = validate_machine(tree, [*graphs, *judged]).rows.set_index("graph")
    assert rows.loc[["other root", "named"], "judged"].all()
    assert rows.loc[["other root", "named"], "forecast_bytes_per_s"].to_numpy() == pytest.approx(150e9)
    # A tree without memory nodes yields the same forecast for 'H'.
    blind = validate_machine(replace(tree, memory_nodes=()), [*graphs, judged[0]]).rows.set_index("graph")
    assert blind.loc["other root", "forecast_bytes_per_s"] == rows.loc["other root", "forecast_bytes_per_s"]


def test_memory_node_capacity_is_used_as_link_capacity():
    four = [("H", str(gpu)) for gpu in range(4)]
    graphs = [measured("alone", four[:1], 50, "calibration"), measured("four", four, 100)]
    wide = validate_machine(with_memory(("NUMA0", "RC0"), ("NUMA1", "RC1")), graphs).rows.set_index("graph")
    assert wide.loc["four", "reason_code"] == Reason.NO_MEMORY_PROBE
    calibrated = validate_machine(with_memory(("NUMA0", "RC0", 2.0), ("NUMA1", "RC1")), graphs).rows.set_index("graph")
    assert calibrated.loc["four", "judged"]
    assert calibrated.loc["four", "forecast_bytes_per_s"] == pytest.approx(100e9)


def test_one_of_several_nodes_does_not_represent_all():
    tree = with_memory(("NUMA0", "RC0"), ("NUMA1", "RC0"))
    assert set(with_host_memory(tree).endpoint_names) - set(tree.endpoint_names) == {"NUMA0", "NUMA1", "H@RC0", "H@RC1"}
    every, one = ([(source, str(gpu)) for gpu in range(4)] for source in ("H", "NUMA0"))
    graphs = [measured("alone", every[:1], 50, "calibration"), measured("all nodes", every, 160, "calibration")]
    rows = validate_machine(tree, [*graphs, measured("one node", one, 90)]).rows.set_index("graph")
    assert rows.loc["one node", "reason_code"] == Reason.NO_MEMORY_PROBE
    known = [*graphs, measured("node", one, 90, "calibration"), measured("again", [("NUMA1", s) for _, s in one], 92)]
    report = validate_machine(tree, known)
    assert limits(report) == {"memory_read": 160e9, "memory_read_of_a_node": 90e9}
    assert report.rows.set_index("graph").loc["again", "forecast_bytes_per_s"] == pytest.approx(90e9)
    proposed = [probe.graph for probe in proposed_probes(tree)]
    assert {"NUMA0 to 0", "NUMA1 to 0", "NUMA0 to 3"} <= set(proposed)


def test_remote_memory_is_reached_over_inter_socket_link():
    tree = with_memory(("NUMA0", "RC0"), ("NUMA1", "RC1"))
    alone = [measured("alone", [("0", "1")], 50, "calibration"), measured("opposite", [("0", "1"), ("1", "0")], 98)]
    remote = measured("remote", [("NUMA1", "0")], 30, "calibration")
    several = measured("several", [("NUMA1", str(gpu)) for gpu in range(4)], 60, "calibration")
    report = validate_machine(tree, [*alone, remote, several])
    assert report.calibration.rates.one_way_bytes_per_s == 50e9
    assert report.calibration.rates.remote_in_bytes_per_s == 30e9
    assert limits(report) == {"remote_memory": 60e9}, "neither a memory limit nor a limit between GPUs"
    across = measured("probe", [(str(gpu), str(gpu + 4)) for gpu in range(4)], 50, "calibration")
    alone.append(measured("far", [("0", "4")], 25, "calibration"))
    judged = [
        measured("two", [("NUMA0", "4"), ("NUMA0", "5")], 60), measured("one", [("NUMA0", "6")], 30, "test"),
        measured("write", [("0", "NUMA1")], 30, "test"), measured("gpus", [("0", "4"), ("1", "5"), ("2", "6")], 50),
        measured("mixed", [("0", "4"), ("NUMA0", "5")], 60),
    ]  # fmt: skip
    unknown = "not judged: no probe tells what the link between root complexes carries"
    blind = validate_machine(tree, [*alone, across, *judged]).rows.set_index("graph")
    assert blind["reason_code"][["two", "one", "write", "gpus", "mixed"]].tolist() == [unknown] * 3 + ["", unknown]
    calibrated = validate_machine(tree, [*alone, across, remote, several, *judged]).rows.set_index("graph")
    assert calibrated["reason_code"][["two", "one", "write", "gpus", "mixed"]].tolist() == [
        "",
        "",
        unknown,
        "",
        unknown,
    ]
    assert calibrated["relative_error"][["two", "one", "gpus"]].abs().max() < 1e-9
    proposed = {probe.graph: probe.flows for probe in proposed_probes(tree)}
    assert proposed["NUMA0 to all on another socket"] == tuple(("NUMA0", str(gpu)) for gpu in range(4, 8))


def test_copies_between_host_memories_are_rejected():
    tree = with_memory(("NUMA0", "RC0"), ("NUMA1", "RC1"))
    with pytest.raises(InputError, match=r"'m': copies NUMA0 to NUMA1, expected a GPU at one end"):
        validate_machine(tree, [measured("m", [("NUMA0", "NUMA1")], 10)])


#: Two GPUs below different switches and one next to the first, as printed by nvbandwidth 0.8.
NVBANDWIDTH_08 = """nvbandwidth Version: v0.8

Running host_to_device_bidirectional_memcpy_ce.
memcpy CE CPU(row) <-> GPU(column) bandwidth (GB/s)
           0         1         2
 0     40.00     40.00     41.00

SUM host_to_device_bidirectional_memcpy_ce 121.00
COEFFICIENT_OF_VARIATION host_to_device_bidirectional_memcpy_ce 0.01

Running device_to_host_bidirectional_memcpy_ce.
memcpy CE CPU(row) <-> GPU(column) bandwidth (GB/s)
           0         1         2
 0     30.00     30.00     31.00

SUM device_to_host_bidirectional_memcpy_ce 91.00

Running device_to_device_memcpy_write_ce.
memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)
           0         1         2
 0       N/A     50.00     50.00
 1     50.00       N/A     50.00
 2     50.00     50.00       N/A

SUM device_to_device_memcpy_write_ce 300.00

Running device_to_device_bidirectional_memcpy_read_ce.
memcpy CE GPU(row) <-> GPU(column) Read1 bandwidth (GB/s)
           0         1         2
 0       N/A     48.00     48.00
 1     48.00       N/A     48.00
 2     48.00     48.00       N/A

SUM device_to_device_bidirectional_memcpy_read_ce_read1 288.00

memcpy CE GPU(row) <-> GPU(column) Read2 bandwidth (GB/s)
           0         1         2
 0       N/A     49.00     49.00
 1     49.00       N/A     49.00
 2     49.00     49.00       N/A

SUM device_to_device_bidirectional_memcpy_read_ce_read2 294.00

memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)
           0         1         2
 0       N/A     97.00     97.00
 1     97.00       N/A     97.00
 2     97.00     97.00       N/A

SUM device_to_device_bidirectional_memcpy_read_ce_total 582.00

Running all_to_host_bidirectional_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0         1         2
 0     20.00     20.00     20.00

SUM all_to_host_bidirectional_memcpy_ce 60.00

Running host_to_all_bidirectional_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0         1         2
 0     25.00     25.00     25.00

SUM host_to_all_bidirectional_memcpy_ce 75.00

Running all_to_one_write_ce.
memcpy CE All Gpus -> GPU(column) total bandwidth (GB/s)
           0         1         2
 0     50.00     50.00     50.00

SUM all_to_one_write_ce 150.00

Running one_to_all_read_ce.
memcpy CE GPU(column) <- All GPUs total bandwidth (GB/s)
           0         1         2
 0     50.00     50.00     50.00

SUM one_to_all_read_ce 150.00

Running device_to_device_latency_sm.
Device to Device Latency SM GPU(row) <-> GPU(column) (ns)
           0         1         2
 0       N/A    800.00    800.00
 1    800.00       N/A    800.00
 2    800.00    800.00       N/A

SUM device_to_device_latency_sm 4800.00
"""


def test_copy_engine_tests_of_nvbandwidth_are_read(tmp_path):
    path = tmp_path / "nv.txt"
    path.write_text(NVBANDWIDTH_08)
    graphs = {graph.name: graph for graph in read_measured_copies(path)}
    alone = [graph for graph in graphs.values() if len(graph.flows) == 1]
    assert len(alone) == 6 and {graph.total_bytes_per_s for graph in alone} == {50e9}
    opposite = [graph for graph in graphs.values() if graph.name.startswith("device_to_device_bidirectional")]
    # The matrix of totals is read, once per pair and direction; the two matrices of single copies are redundant.
    assert len(opposite) == 6 and {graph.total_bytes_per_s for graph in opposite} == {97e9}
    both = graphs["host_to_device_bidirectional_memcpy_ce and back 2"]
    assert both.flows == (("H", "2"), ("2", "H")) and both.total_bytes_per_s == pytest.approx(72e9)
    every = graphs["host_to_all_bidirectional_memcpy_ce and back"]
    assert len(every.flows) == 6 and every.total_bytes_per_s == pytest.approx(135e9) and every.rates_summed
    into = graphs["all_to_one_write_ce 0"]
    assert into.flows == (("1", "0"), ("2", "0")) and (into.program, into.role) == ("unordered_writes", "")
    out = graphs["one_to_all_read_ce 1"]
    assert out.flows == (("1", "0"), ("1", "2")) and out.program == "unordered_reads"
    report = validate_machine(TREE, list(graphs.values()))
    assert report.calibration.rates.two_way_bytes_per_s == 48.5e9
    assert limits(report)["host_both_ways"] == pytest.approx(70e9)
    assert report.calibration.values["memory_both_ways"] == pytest.approx(135e9)
    judged = report.rows[report.rows["judged"]]
    assert len(judged) == 6 and (judged["relative_error"].abs() < 0.01).all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("SUM all_to_one_write_ce 150.00", "SUM all_to_one_write_ce 151.00",
         "the sum of 'all_to_one_write_ce' is 151, but its values add up to 150.00"),
        ("SUM device_to_device_memcpy_write_ce 300.00\n", "", "cut short"),
        ("SUM device_to_device_latency_sm 4800.00\n", "Running x.\n", "the output ends in test 'x'"),
    ],
)  # fmt: skip
def test_truncated_or_inconsistent_nvbandwidth_output_is_rejected(tmp_path, old, new, message):
    path = tmp_path / "nv.txt"
    path.write_text(NVBANDWIDTH_08.replace(old, new))
    with pytest.raises(InputError, match=re.escape(message)):
        read_measured_copies(path)


def test_json_sums_are_compared_with_values(tmp_path):
    path = tmp_path / "nv.json"
    case = '{"name": "all_to_host_memcpy_ce", "bandwidth_matrix": [["40.00", "41.00"]], "sum": %s}'
    path.write_text('{"nvbandwidth": {"testcases": [' + case % "81.0" + "]}}")
    assert read_measured_copies(path)[0].total_bytes_per_s == 81e9
    path.write_text('{"nvbandwidth": {"testcases": [' + case % "90.0" + "]}}")
    with pytest.raises(InputError, match="is 90, but its values add up to 81.00"):
        read_measured_copies(path)


def test_duplicate_or_inconsistent_rocm_output_is_rejected(tmp_path):
    path = tmp_path / "rocm.txt"
    unidirectional, both = ROCM_BANDWIDTH_TEST.split("          Bidirectional copy")
    row = next(line for line in unidirectional.splitlines() if line.split()[:2] == ["1", "27.0"])
    path.write_text(ROCM_BANDWIDTH_TEST.replace(row, f"{row}\n\n{row}"))
    with pytest.raises(InputError, match="row 1 is a duplicate"):
        read_measured_copies(path)
    cell = next(line for line in both.splitlines() if line.split()[:1] == ["2"])
    path.write_text(
        unidirectional + "          Bidirectional copy" + both.replace(cell, cell.replace(cell.split()[2], "1.5", 1))
    )
    with pytest.raises(InputError, match="bidirectional copies of .* expected one rate"):
        read_measured_copies(path)
    transfer = next(line for line in TRANSFER_BENCH.splitlines() if re.match(r"\s*Transfer 00", line.replace("│", " ")))
    path.write_text(TRANSFER_BENCH.replace(transfer, f"{transfer}\n{transfer}", 1))
    with pytest.raises(InputError, match="transfer 00 of 'Test .*' is a duplicate"):
        read_measured_copies(path)


def test_unknown_parquet_columns_are_rejected(tmp_path):
    path = tmp_path / "measured.parquet"
    duckdb.sql(f"COPY (SELECT '0>1' AS communications, 50.0 AS total_gb_per_s, 1 AS rank) TO '{path}' (FORMAT parquet)")
    with pytest.raises(InputError, match="unknown column 'rank'"):
        read_measured_copies(path)


def test_rows_of_one_system_are_checked_against_a_topology(tmp_path):
    result = CliRunner().invoke(
        app, ["topology", "check", "crossed_virtual_switches", str(PUBLIC), "--system", "WRX90 2VS V1"]
    )
    assert result.exit_code in (0, 1) and not isinstance(result.exception, InputError)
    assert "line 0" not in result.output


def test_pause_is_fitted_to_other_machines():
    """The pause is fitted to other machines that are not user-supplied."""
    flows = tuple((str(s), str(t)) for s in range(4) for t in range(4) if s != t)
    numbers = [(int(s), int(t)) for s, t in flows]

    def machine(pause, own=False):
        program = replace(PROGRAMS["ordered_writes"], switch_share=pause)
        rate = total_rate(TREE, numbers, program, EVEN).bytes_per_s
        graphs = [
            MeasuredGraph("alone", (("0", "1"),), 50e9, "ordered_writes"),
            MeasuredGraph("all", flows, rate, "ordered_writes"),
            MeasuredGraph("others", flows, rate, "unordered_reads"),
        ]
        return JudgedMachine(TREE, graphs, validate_machine(TREE, graphs), own), rate

    (none, fast), (much, slow), (own, _) = machine(0.0), machine(0.2), machine(0.1, own=True)
    assert slow < 0.9 * fast
    of_none, of_much, of_own = left_out_rates([none, much, own])
    assert of_none[1] == pytest.approx(slow, rel=0.03) and of_much[1] == pytest.approx(fast, rel=0.05)
    assert np.isfinite(of_own[1])
    assert np.isnan(of_none[[0, 2]]).all(), "no pause in isolated copies and in programs without a pause"
    assert np.isnan(left_out_rates([none, own])[0]).all(), "no pause is fitted to user-supplied machines"


@pytest.fixture(scope="module")
def ordered_rows():
    """Return published graphs of ordered writes in which a GPU sends several copies.

    Each entry has the topology, the graph and the calibration of the machine.
    """
    entries = []
    for machine in public_machines(PUBLIC):
        tree = load_tree(machine.topology)
        graphs = read_measured_copies(PUBLIC, system=machine.system)
        report = validate_machine(tree, graphs, one_way_bytes_per_s=50e9)
        judged = dict(zip(report.rows["graph"], report.rows["judged"], strict=True))
        for graph in graphs:
            several = len({source for source, _ in graph.flows}) < len(graph.flows)
            if judged[graph.name] and several and graph.program == "ordered_writes":
                entries.append((with_host_memory(tree), graph, report.calibration))
    assert len(entries) >= 6
    return entries


def errors_of(rows, program):
    return [
        total_rate(tree, flows_of(tree, graph), program, calibration.rates).bytes_per_s / graph.total_bytes_per_s - 1
        for tree, graph, calibration in rows
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"serialised": False, "random_turns": True, "switch_share": 0.0},
        {"executor": "none", "switch_share": 0.0},
        {"executor": "target"},
        {"executor": "none", "serialised": False, "switch_share": 0.0},
    ],
    ids=["engines without order", "order without engines", "engines of readers", "only link sharing"],
)
def test_published_data_refute_alternatives_to_engines_and_order(ordered_rows, changes):
    program = PROGRAMS["ordered_writes"]
    ours, other = (np.abs(errors_of(ordered_rows, one)) for one in (program, replace(program, **changes)))
    assert ours.max() < 0.15 < other.max()
    assert ours.mean() < 0.6 * other.mean()


def test_published_data_refute_endpoint_capacity_shared_by_directions(ordered_rows):
    """Directions that share one copy rate would reach half the measured bidirectional rate."""
    for system in ("WRX90 2VS V1", "WRX90 2VS V2"):
        graphs = read_measured_copies(PUBLIC, system=system)
        alone = validate_machine(load_tree("crossed_virtual_switches"), graphs).calibration.rates.one_way_bytes_per_s
        opposite = next(graph for graph in graphs if graph.name == "bidir 0<->1")
        assert alone / opposite.total_bytes_per_s - 1 < -0.4


def test_published_data_refute_loss_per_number_of_copies(ordered_rows):
    """A loss fitted to all-to-all copies overestimates a near and a far target."""
    sharing = errors_of(ordered_rows, PROGRAMS["independent"])
    share = {
        graph.name: (max(sum(flow[0] == s for flow in graph.flows) for s, _ in graph.flows), 1 / (1 + error))
        for (_, graph, _), error in zip(ordered_rows, sharing, strict=True)
    }
    copies, kept = next(value for name, value in share.items() if name == "12 all-to-all chip A")
    pair, measured = share["0>4 + 0>2"]
    assert (copies, pair) == (3, 2)
    linear = 1 - (1 - kept) * (pair - 1) / (copies - 1)
    assert linear / measured - 1 > 0.05, "the loss predicts a higher rate of this pair than measured"
    (engine,) = errors_of([row for row in ordered_rows if row[1].name == "0>4 + 0>2"], PROGRAMS["ordered_writes"])
    assert abs(engine) < 0.05
