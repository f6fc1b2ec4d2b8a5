"""Calibration of host-memory and inter-socket limits with probes."""

from dataclasses import replace

import numpy as np
import pytest

from fabricast.core.errors import InputError
from fabricast.core.warnings import WarningCode
from fabricast.pcie.machines.exclusion import Reason
from fabricast.pcie.machines.validation import validate_machine
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.measurements.probes import proposed_probes
from fabricast.pcie.topology.builtin import load_tree
from fabricast.pcie.topology.memory import with_host_memory
from fabricast.pcie.topology.parts import MemoryNode, Vertex
from fabricast.pcie.topology.tree import PcieTree
from tests.unit.pcie.machines.measured import _measured, both_ways, limits, lower_bounds, measured, texts, two_roots


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
    rates = validate_machine(tree, [alone, host, peers]).calibration
    assert rates.two_way_bytes_per_s == pytest.approx(53e9)


def test_socket_and_memory_probes_are_proposed():
    tree = replace(load_tree("two_sockets_host"), peer_links=())
    proposed = {probe.graph: probe.flows for probe in proposed_probes(tree)}
    assert proposed["between root complexes"] == (("0", "4"), ("1", "5"), ("2", "6"), ("3", "7"))
    assert set(proposed["between root complexes both ways"]) == set(both_ways(proposed["between root complexes"]))
    assert len(proposed["all below RC0 and host both ways"]) == 8
    assert proposed["host and one both ways"] == (("H", "0"), ("0", "H"))
    assert "between root complexes" not in {probe.graph for probe in proposed_probes(load_tree("flat4x2"))}


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
    assert reasons(("H>0 H>1", 110, "calibration"), four, six) == [unknown, unknown]
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


def test_remote_memory_copies_are_limited_per_gpu():
    rows = [
        ("0>1", 26.4, "calibration"),
        ("NUMA0>2", 20, "calibration"),
        ("2>NUMA0", 18, "calibration"),
        ("NUMA0>2 NUMA0>3", 26.3, "calibration"),
        ("2>NUMA0 3>NUMA0", 26.2, "test"),
    ]
    report = validate_machine(two_roots("01", "23", switches=True), _measured(*rows))
    assert report.rows["relative_error"].iloc[3:].abs().max() < 0.02
    assert not texts(report, WarningCode.CALIBRATION_CONTRADICTED)


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


def with_memory(*nodes):
    return replace(
        load_tree("two_sockets_host"), peer_links=(), memory_nodes=tuple(MemoryNode(*node) for node in nodes)
    )


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
    assert report.calibration.one_way_bytes_per_s == 50e9
    assert report.calibration.remote_in_bytes_per_s == 30e9
    assert limits(report) == {"remote_memory": 60e9}, "neither a memory limit nor a limit between GPUs"
    across = measured("probe", [(str(gpu), str(gpu + 4)) for gpu in range(4)], 50, "calibration")
    alone.append(measured("far", [("0", "4")], 25, "calibration"))
    judged = [
        measured("two", [("NUMA0", "4"), ("NUMA0", "5")], 60),
        measured("one", [("NUMA0", "6")], 30, "test"),
        measured("write", [("0", "NUMA1")], 30, "test"),
        measured("gpus", [("0", "4"), ("1", "5"), ("2", "6")], 50),
        measured("mixed", [("0", "4"), ("NUMA0", "5")], 60),
    ]
    unknown = Reason.NO_INTER_SOCKET_PROBE
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


def test_copies_of_one_gpu_need_no_probe_of_several_gpus():
    """The link of a GPU limits all its copies of one direction together; both directions need their probe."""
    tree = load_tree("one_gpu_gen5")
    up, down = ("H", "0"), ("0", "H")
    alone = [MeasuredGraph("alone", (up,), 54e9, "independent", "calibration")]
    pair = MeasuredGraph("both ways", (up, down), 80e9, "independent", "calibration")
    rows = [
        MeasuredGraph("three up", (up,) * 3, 54e9, "independent"),
        MeasuredGraph("two each way", (up, up, down, down), 80e9, "independent"),
    ]
    blind = validate_machine(tree, [*alone, *rows]).rows.set_index("graph")
    assert blind["judged"].to_dict() == {"alone": False, "three up": True, "two each way": False}
    assert blind.loc["two each way", "reason_code"] == Reason.NO_MEMORY_PROBE
    assert blind.loc["two each way", "high_bytes_per_s"] == pytest.approx(108e9, rel=0.05)
    known = validate_machine(tree, [*alone, pair, *rows]).rows.set_index("graph")
    assert known.loc[["three up", "two each way"], "forecast_bytes_per_s"].tolist() == pytest.approx([54e9, 80e9])
