"""Calibration of machines with measured copies."""

from dataclasses import replace

import pytest

from fabricast.core.errors import InputError
from fabricast.core.warnings import WarningCode
from fabricast.pcie.engines.forecast import total_rate
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.machines.exclusion import Reason
from fabricast.pcie.machines.validation import validate_machine
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.measurements.probes import probe_csv, proposed_probes
from fabricast.pcie.topology.builtin import load_tree
from fabricast.pcie.topology.memory import root_complex_of
from fabricast.pcie.topology.parts import PeerLink, Vertex
from fabricast.pcie.topology.regular import regular_tree
from fabricast.pcie.topology.tree import PcieTree
from tests.machines import read_copies
from tests.unit.pcie.machines.measured import DUPLEX, TREE, _measured, both_ways, limits, lower_bounds, texts, two_roots


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


def test_rates_above_link_rates_are_not_used_for_calibration():
    """Links of storm8 have 15.75 GB/s: 13 GB/s is plausible, 54 GB/s is of another machine."""
    tree = load_tree("storm8")
    report = validate_machine(tree, _measured(("0>1", 13, "calibration"), ("2>3", 54, "calibration")))
    assert report.calibration.one_way_bytes_per_s == 13e9
    assert dict(zip(report.rows["graph"], report.rows["reason_code"], strict=True))["2>3"] == Reason.BEYOND_LINKS
    with pytest.raises(InputError, match=r"'2>3' reached 54 GB/s, more than the links of 'storm8'"):
        validate_machine(tree, _measured(("2>3", 54, "calibration")))
    host = validate_machine(tree, _measured(("0>1", 13, "calibration"), ("H>0 H>1", 900, ""))).rows.iloc[1]
    assert host["reason_code"] == Reason.BEYOND_LINKS


@pytest.mark.parametrize("role", ["", "few_flows", "test_few_flows"])
def test_isolated_copies_and_bidirectional_pairs_calibrate_in_any_class(role):
    rows = [("0>1", 54, role), ("0>4", 38, role), ("0>1 1>0", 105, role), ("0>1 2>3", 108, role)]
    result = validate_machine(load_tree("flat4x2"), _measured(*rows))
    rates = result.calibration
    assert (rates.one_way_bytes_per_s, rates.two_way_bytes_per_s, rates.crossing_bytes_per_s) == pytest.approx(
        (54e9, 52.5e9, 38e9)
    )
    assert result.rows["judged"].tolist() == [False, False, False, True]


def test_excluded_rows_and_test_rows_are_not_used_for_calibration():
    rows = [("0>1", 20, "impossible_over_line_rate"), ("0>1 1>0", 20, "collapse"), ("0>1", 21, "test")]
    known = [("2>3", 54, ""), ("0>1 2>3", 108, "")]
    result = validate_machine(load_tree("flat4x2"), _measured(*rows, *known))
    assert result.calibration.one_way_bytes_per_s == pytest.approx(54e9)
    assert "no bidirectional pair" in result.calibration.sources["two_way"]
    assert result.rows["judged"].tolist() == [False, False, True, False, True]


def test_bidirectional_pairs_calibrate_unmeasured_isolated_rate():
    result = validate_machine(load_tree("flat4x2"), _measured(("0>1 1>0", 105, ""), ("0>1 2>3", 108, "")))
    rates = result.calibration
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
    assert (calibrated.calibration.one_way_bytes_per_s, calibrated.calibration.crossing_bytes_per_s) == pytest.approx(
        (57e9, 38e9)
    )
    assert calibrated.rows["reason_code"].tolist() == ["calibration", "", Reason.BEYOND_LINKS]
    no_other = validate_machine(load_tree("direct8"), _measured(*rows))
    assert no_other.rows["reason_code"].tolist() == ["calibration", Reason.BEYOND_LINKS, ""]


def test_slow_path_class_does_not_slow_other_classes():
    """Crossing, inter-socket and host-memory copies have separate rates."""
    rows = [
        ("0>1", 55, ""),
        ("0>2", 50, ""),
        ("0>4", 25, ""),
        ("H>0", 54, ""),
        ("0>H", 53, ""),
        ("H>0 H>1 H>2 H>3", 100, "calibration"),
    ]
    judged = [
        ("2>0", 50, "test"),
        ("4>1", 25, "test"),
        ("H>3", 54, "test"),
        ("3>H", 53, "test"),
        ("0>1 H>2", 108, "test"),
        ("0>2 4>6", 100, "test"),
        ("H>0 H>2", 100, "test"),
    ]
    report = validate_machine(load_tree("pcie5_four_switches"), _measured(*rows, *judged))
    rates = report.calibration
    assert [rates.of_class(way) for way in ("local", "crossing", "between_roots", "host_in", "host_out")] == [
        None,
        50e9,
        25e9,
        54e9,
        53e9,
    ]
    assert report.rows["judged"].tolist() == [False] * 6 + [True] * 7
    assert report.rows["relative_error"].abs().max() < 1e-9


def test_duplex_cost_is_calibrated_within_one_path_class():
    """Bidirectional pairs are compared with isolated copies of the same path class."""
    local = [("0>1", 55, ""), ("0>1 1>0", 104.5, ""), ("0>4", 40, ""), ("0>4 4>0", 76, "")]
    assert validate_machine(TREE, _measured(*local)).calibration.two_way_bytes_per_s == 52.25e9
    across = validate_machine(TREE, _measured(local[0], *local[2:])).calibration
    assert across.two_way_bytes_per_s == pytest.approx(55e9 * 38 / 40)
    assert across.sources["two_way"] == "1 measured, bidirectional pairs across the root complex"


def test_narrow_link_calibrates_full_width_link():
    """One of four GPUs has eight lanes and half the rate, whichever GPU was measured."""
    tree = regular_tree("mixed", (4,))
    vertices = tuple(replace(v, capacity=0.5) if v.name == "0" else v for v in tree.vertices)
    tree = replace(tree, vertices=vertices)
    for measured_alone in ([("H>0", 12.5, "")], [("H>1", 25, "")], [("H>0", 12.5, ""), ("H>1", 25, "")]):
        judged = [("H>1", 25, "test"), ("H>0", 12.5, "test"), ("0>1", 12.5, "test")]
        graphs = [replace(g, name=str(n)) for n, g in enumerate(_measured(*measured_alone, *judged))]
        report = validate_machine(tree, graphs)
        assert report.calibration.one_way_bytes_per_s == 25e9
        assert report.rows["relative_error"].abs().max() < 1e-9


def test_concurrent_pairs_calibrate_root_complex_capacity():
    tree = load_tree("direct8")
    alone, four = ("0>1", 20, "calibration"), ("0>1 2>3 4>5 6>7", 45, "calibration")
    others = [("0>1 2>3", 40, ""), ("0>4 1>5 2>6", 45, ""), ("0>1 1>2 2>3 3>0", 50, "")]
    blind = validate_machine(tree, _measured(alone, *others))
    assert blind.rows["judged"].tolist() == [False, True, True, True]
    assert any("affects 3 graphs" in text for text in texts(blind, WarningCode.ROOT_COMPLEX_UNMEASURED))
    report = validate_machine(tree, _measured(alone, four, *others))
    assert report.calibration.one_way_bytes_per_s == 20e9, "concurrent copies are not isolated copies"
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
    assert report.calibration.between_roots_bytes_per_s == pytest.approx(9e9, rel=0.04)
    assert lower_bounds(report) == {"root_complex_link_both_ways": 18e9}
    assert report.rows["judged"].tolist() == [False, False, True, False]


@pytest.mark.parametrize("across", [("0>1", "01", "2"), ("0>1", "0", "1")])
def test_slow_bidirectional_pairs_at_root_complex_do_not_set_duplex_cost(across):
    """Peer copies reach 26 GB/s isolated and 33 GB/s bidirectional.

    They cross one root complex, or are between two. Bidirectional host copies reach 48 GB/s on each GPU.
    """
    pair, first, second = across
    back = f"{pair[-1]}>{pair[0]}"
    rows = [
        (pair, 25.8, "calibration"),
        (f"{pair} {back}", 33, "calibration"),
        ("H>0", 26.2, "calibration"),
        ("0>H", 26.2, "calibration"),
        ("H>0 0>H", 48, "calibration"),
        ("H>1 1>H", 48, ""),
    ]
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
    rows = [
        ("0>1", 26.4, "calibration"),
        ("H>0", 26.4, "calibration"),
        ("H>0 H>1 H>2 H>3", 52.8, "calibration"),
        ("H>0 H>2 H>3", 79.2, ""),
    ]
    report = validate_machine(tree, _measured(*rows))
    assert limits(report) == {} and lower_bounds(report) == {"memory_read": 52.8e9}
    assert not report.rows["judged"].iloc[-1], "a measured 52.8 GB/s does not validate 79.2 GB/s"


def test_bidirectional_limits_do_not_calibrate_single_directions():
    tree, pairs = two_roots("0123", "4567"), ("0>4 4>0 1>5 5>1 2>6 6>2 3>7 7>3", 46, "calibration")
    rows = [
        ("0>1", 26.4, "calibration"),
        ("0>4", 16.5, "calibration"),
        pairs,
        ("0>4 1>5 2>6 7>3", 33.6, ""),
        ("0>5 5>0 1>6 6>1", 46, ""),
    ]
    result = validate_machine(tree, _measured(*rows)).rows
    assert result["judged"].tolist()[3:] == [False, True]
    memory = [
        ("0>1", 25.1, "calibration"),
        ("0>H", 26.4, "calibration"),
        (" ".join(f"H>{n} {n}>H" for n in range(4)), 174, "calibration"),
        ("H>0 0>H H>1 1>H", 87.2, ""),
    ]
    result = validate_machine(tree, _measured(*memory)).rows
    assert result["reason_code"].iloc[-1] == Reason.NO_MEMORY_PROBE


def test_random_order_does_not_imply_unknown_link():
    tree = two_roots("01", "23", switches=True)
    rows = [
        ("0>1", 25, "calibration"),
        ("0>1 1>0", 48, "calibration"),
        ("0>2", 13, "calibration"),
        ("0>2 2>0", 26, "calibration"),
        ("0>2 1>3", 26, "calibration"),
        ("0>2 2>0 1>3 3>1", 52, "calibration"),
    ]
    every = tuple((s, t) for s in "0123" for t in "0123" if s != t)
    all_to_all = MeasuredGraph("all", every, 45e9, "ordered_writes")
    result = validate_machine(tree, [*_measured(*rows), all_to_all]).rows.iloc[-1]
    assert result["judged"] and result["low_bytes_per_s"] < result["high_bytes_per_s"]


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


def test_direct_link_copies_do_not_calibrate_pcie_rate():
    report = validate_machine(load_tree("hgx_a100"), _measured(("0>1", 250, "calibration"), ("H>0", 25, "calibration")))
    assert report.calibration.one_way_bytes_per_s == 25e9
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


@pytest.mark.slow
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
    path.write_text(
        "\n".join(line + ("50" if number else "") for number, line in enumerate(probe_csv(probes).splitlines())) + "\n"
    )
    graphs = read_copies(path)
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
        assert report.calibration.one_way_bytes_per_s == pytest.approx(56e9)
        assert report.calibration.two_way_bytes_per_s == pytest.approx(54e9, rel=1e-3)
