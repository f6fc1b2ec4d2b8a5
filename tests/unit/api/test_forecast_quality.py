"""Tests of what a forecast says about its own quality: expected error, and contradicted measurements."""

from dataclasses import replace

import pandas as pd
import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.core.resources import published
from fabricast.core.warnings import WarningCode
from fabricast.pcie.machines.engine_model import ENGINE_MODELS
from fabricast.pcie.machines.expected_errors import SOCKET_ROUTES, expected_errors, graph_classes, unprobed_errors
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.tables.forecast_errors import forecast_errors
from fabricast.pcie.tables.forecast_errors import unprobed_errors as unprobed_table
from fabricast.pcie.tables.measured_copies import public_machines


def codes(table):
    return [warning.code for warning in table.attrs["warnings"]]


@pytest.mark.slow
def test_stored_errors_are_those_of_the_public_measurements():
    path = published() / "forecast_errors.csv"
    stored = pd.read_csv(path, comment="#")
    found = forecast_errors(public_machines(published() / "pcie_concurrent_copies.csv"))
    keys = ["graph_class", "model", "graphs"]
    assert stored[keys].to_dict("records") == found[keys].to_dict("records"), "run scripts/forecast_errors.py"
    for column in ("median", "within_band", "worst"):
        assert stored[column].tolist() == pytest.approx(found[column].tolist(), abs=2e-3), column
    assert {*MODELS, *ENGINE_MODELS} == set(stored["model"])


@pytest.mark.slow
def test_stored_ratios_without_probes_are_those_of_the_public_measurements():
    found = unprobed_table(public_machines(published() / "pcie_concurrent_copies.csv"))
    pd.testing.assert_frame_equal(
        pd.read_csv(published() / "unprobed_errors.csv", comment="#"), found, check_exact=False, rtol=2e-3
    )
    errors = unprobed_errors()
    # The earliest time is a lower bound, up to the scatter of measured rates.
    assert all(0.95 < error.lowest <= error.median <= error.highest for error in errors.values())
    assert found.set_index("limit").loc["link between root complexes", "in_range"] == 1.0


def probed_sockets(tmp_path):
    """Return a machine with two sockets whose link a probe measured."""
    copies = {"0>4": 50.0, "4>0": 50.0, "0>1": 50.0, "4>5": 50.0, "0>4 1>5 2>6 3>4": 60.0}
    rows = [f"{name},{name},,{rate},calibration" for name, rate in copies.items()]
    path = tmp_path / "copies.csv"
    path.write_text("\n".join(["graph,communications,program,total_gb_per_s,role", *rows]) + "\n")
    return ["two_sockets_direct7", str(path)]


def test_several_copies_between_sockets_have_the_range_of_their_reverse_direction(tmp_path):
    machine = probed_sockets(tmp_path)
    times = fc.predict(machine, [(1, 5), (2, 6)], size="1 GB")
    (text,) = [one.text for one in times.attrs["warnings"] if one.code is WarningCode.EXPECTED_ERROR]
    error = unprobed_errors()[SOCKET_ROUTES]
    assert "routes between root complexes are unknown" in text
    assert f"({error.graphs} graphs of {error.machines} machine" in text
    assert (times["latest_s"] / times["elapsed_s"]).tolist() == pytest.approx([error.highest] * 2)
    assert (times["earliest_s"] * error.highest / times["elapsed_s"]).tolist() == pytest.approx([1.0] * 2)
    single = fc.predict(machine, [(1, 5), (6, 2)], size="1 GB")
    assert WarningCode.INTER_SOCKET_ROUTES not in codes(single)


@pytest.mark.parametrize(
    ("topology", "copies", "limit"),
    [
        ("one_gpu_gen5", [("H", 0), (0, "H")], "host memory"),
        ("two_sockets_direct7", [(0, 4), (1, 5)], "link between root complexes"),
    ],
)
def test_a_forecast_without_a_probe_states_how_far_measured_copies_were(topology, copies, limit):
    # With the rate of a single copy; without it, the errors of several copies are unknown.
    times = fc.predict(topology, copies, bandwidth="51.8 GB/s")
    (text,) = [one.text for one in times.attrs["warnings"] if one.code is WarningCode.EXPECTED_ERROR]
    assert f"without a probe of the {limit}" in text and f"({unprobed_errors()[limit].graphs} graphs" in text


def test_start_up_times_of_measured_copies_are_as_the_warning_states():
    rates = pd.read_csv(published() / "host_copy_rates.csv", comment="#")
    probes = rates[(rates["program"] == "fabricast probes") & (rates["copies"] != "both ways")]
    rate = probes.pivot_table(index="size_bytes", columns=["gpu", "copies"], values="median_gb_per_s")
    added = rate.max() / rate - 1
    assert added.loc[2**20].dropna().between(0.10, 0.35).all() and added.loc[4 * 2**20].max() < 0.06
    text = str(fc.predict("one_gpu_gen5", [("H", 0)], size=2**20).attrs["warnings"])
    assert "10 to 35 % at 1 MiB" in text


def test_default_model_has_the_smallest_errors():
    errors = expected_errors()
    default = "ports_and_engines"
    for graphs in ("few copies", "many copies of a GPU"):
        assert errors[graphs, default].within_band >= max(errors[graphs, model].within_band for model in MODELS)
        assert errors[graphs, default].median <= min(errors[graphs, model].median for model in MODELS) + 1e-9


@pytest.mark.parametrize(
    ("copies", "expected"),
    [
        ([(0, 1)], "few copies"),
        ([(0, 1), (0, 4)], "few copies"),
        ([(0, 1), (0, 4), (0, 5)], "many copies of a GPU"),
        ([("H", 0)], "host copies"),
    ],
)
def test_the_expected_error_of_a_class_is_stated_for_measured_machines(copies, expected, measured_machine):
    for machine, words in ((measured_machine, "measured graphs within 15 %"), ("storm8", "unknown, no copies of this")):
        times = fc.predict(machine, copies)
        (note,) = [warning for warning in times.attrs["warnings"] if warning.code is WarningCode.EXPECTED_ERROR]
        assert expected in note.text and "ports_and_engines" in note.text and words in note.text
    # A rate by option is no measurement.
    times = fc.predict("storm8", copies, bandwidth="1 GB/s", tau=0.4)
    assert any("unknown, no copies of this machine" in str(one) for one in times.attrs["warnings"])


def test_class_of_copies_between_sockets_and_over_direct_links():
    assert graph_classes(fc.load_topology("hgx_a100"), fc.graph([(0, 1)])) == {"direct links"}
    sockets = fc.load_topology("dual4x2")
    assert graph_classes(sockets, fc.graph([(0, 4)])) == {"between root complexes"}
    # Pairs of dgx1_nvlink without a link copy over PCIe; those of two sockets cross the link between these.
    linked = fc.load_topology("dgx1_nvlink")
    pairs = [(s, t) for s in linked.accelerator_names for t in linked.accelerator_names if s < t]
    over = [next(pair for pair in pairs if linked.peer_link(*pair)), next(p for p in pairs if not linked.peer_link(*p))]
    assert linked.path_class(*over[1]) == "SYS"
    assert graph_classes(linked, fc.graph(over, tree=linked)) == {"direct links", "between root complexes"}
    assert graph_classes(linked, fc.graph(over[:1], tree=linked)) == {"direct links"}


def test_forecast_that_contradicts_its_measurements_says_so(tmp_path):
    # Seven GPUs reach 26 GB/s; copies of GPU 6 are slow by different amounts, which one slow link does not explain.
    path = tmp_path / "pairs.csv"
    rates = {(s, t): 3.93 + 3 * min(s, t) if 6 in (s, t) else 26 for s in range(7) for t in range(7) if s != t}
    rows = [f"{s} to {t},{s}>{t},{rate}" for (s, t), rate in rates.items()]
    path.write_text("graph,communications,total_gb_per_s\n" + "\n".join(rows) + "\n")
    tree = fc.load_topology("flat4x2")
    times = fc.predict(tree, [(0, 1), (6, 0)], measurements=path)
    (warning,) = [one for one in times.attrs["warnings"] if one.code is WarningCode.MEASUREMENT_CONTRADICTED]
    assert "isolated copy 6>0, but the measurements have 3.93 GB/s" in warning.text
    assert WarningCode.MEASUREMENT_CONTRADICTED not in codes(fc.predict(tree, [(0, 1), (2, 3)], measurements=path))
    everyone = fc.predict(tree, [(6, 0), (6, 1), (2, 6)], measurements=path)
    (warning,) = [one for one in everyone.attrs["warnings"] if one.code is WarningCode.MEASUREMENT_CONTRADICTED]
    assert "all 3 such copies use GPU 6" in warning.text


MEASURED_PAIRS = [f"{s} to {t},{s}>{t},25" for s in range(8) for t in range(8) if s != t]


@pytest.mark.parametrize(
    ("row", "copies", "other"),
    [
        ("three,0>1 2>3 4>5,40", [(2, 3), (0, 1), (4, 5)], [(0, 1), (2, 3)]),
        ("both ways,0>1 1>0,20", [(1, 0), (0, 1)], [(0, 1), (2, 3)]),
        ("ring,0>1 1>2 2>3 3>0,30", [(0, 1), (1, 2), (2, 3), (3, 0)], [(0, 1), (1, 2), (2, 3)]),
    ],
)
@pytest.mark.parametrize("model", ["ports_and_engines", "endpoint_engines"])
def test_forecast_of_a_measured_graph_names_a_different_measured_rate(tmp_path, row, copies, other, model):
    """All single copies are as measured, only several at a time are slower."""
    path = tmp_path / "measured.csv"
    pairs = [*MEASURED_PAIRS, "pair,4>5 5>4,46", "pair 2,2>3 3>2,46", "pair 3,6>7 7>6,46"]
    path.write_text("\n".join(["graph,communications,total_gb_per_s", *pairs, row]) + "\n")
    tree = fc.load_topology("flat4x2")
    warnings = fc.predict(tree, copies, measurements=path, model=model).attrs["warnings"]
    (found,) = [one.text for one in warnings if one.code is WarningCode.MEASUREMENT_CONTRADICTED]
    name, _, rate = row.split(",")
    assert f"have {rate} GB/s in total for the same copies, graph '{name}' (line 61)" in found
    assert any("the measurements contradict the forecast" in one.text for one in warnings)
    # Other copies are not compared, nor are those that remain if one copy is removed to find what limits the others.
    assert WarningCode.MEASUREMENT_CONTRADICTED not in codes(fc.predict(tree, other, measurements=path, model=model))
    more = [*copies, (6, 7)]
    assert WarningCode.MEASUREMENT_CONTRADICTED not in codes(fc.predict(tree, more, measurements=path, model=model))


def test_forecast_of_a_measured_graph_that_agrees_has_no_warning(tmp_path):
    path = tmp_path / "measured.csv"
    path.write_text("graph,communications,total_gb_per_s\n" + "\n".join([*MEASURED_PAIRS, "two,0>1 2>3,49"]) + "\n")
    found = fc.predict("flat4x2", [(0, 1), (2, 3)], measurements=path)
    assert WarningCode.MEASUREMENT_CONTRADICTED not in codes(found)
    # A row that its file excludes is not compared.
    rows = [f"{row}," for row in MEASURED_PAIRS]
    path.write_text("\n".join(["graph,communications,total_gb_per_s,role", *rows, "two,0>1 2>3,20,collapse"]) + "\n")
    found = fc.predict("flat4x2", [(0, 1), (2, 3)], measurements=path)
    assert WarningCode.MEASUREMENT_CONTRADICTED not in codes(found)


def contradicted(*arguments, **values):
    warnings = fc.predict(*arguments, **values).attrs["warnings"]
    return [one.text for one in warnings if one.code is WarningCode.MEASUREMENT_CONTRADICTED]


def test_the_printed_forecast_is_compared_with_measurements_of_another_program(tmp_path):
    """One GPU to three others: one after the other by default, at the same time if they are independent."""
    singles = ["a,0>1,46,", "b,0>2,46,", "c,0>3,46,"]
    path, copies = tmp_path / "measured.csv", [(0, 1), (0, 2), (0, 3)]
    for rate, programs, expected in ((46, "", False), (138, "", True), (138, "listed_order", True)):
        rows = [*singles, f"g,0>1 0>2 0>3,{rate},{programs}"]
        path.write_text("\n".join(["graph,communications,total_gb_per_s,program", *rows]) + "\n")
        found = contradicted("mi300x", copies, measurements=path)
        assert bool(found) is expected, (rate, programs)
        if expected and not programs:
            assert "have 138 GB/s" in found[0] and "46 GB/s (program listed_order, measured independent)" in found[0]


def test_measurements_over_direct_links_are_not_compared_with_pcie(tmp_path):
    path = tmp_path / "measured.csv"
    path.write_text("graph,communications,total_gb_per_s\na,0>1,250\nb,2>3,250\ng,0>1 2>3,60\n")
    assert contradicted("hgx_a100", [("0", "1"), ("2", "3")], measurements=path)
    path.write_text("graph,communications,total_gb_per_s\na,0>1,23\nb,2>3,23\nc,0>5,20\ng,0>1 2>3,28\n")
    assert not contradicted("dgx1_nvlink", [("0", "1"), ("2", "3")], measurements=path, pcie_only=True)


def test_copies_that_do_not_start_together_are_not_compared(tmp_path):
    path = tmp_path / "measured.csv"
    path.write_text("graph,communications,total_gb_per_s\n" + "\n".join([*MEASURED_PAIRS, "g,0>1 2>3,20"]) + "\n")
    tree = fc.load_topology("flat4x2")
    assert contradicted(tree, [(0, 1), (2, 3)], measurements=path)
    for values in ({"start_s": [0, 1.0]}, {"size": [2**20, 2**28]}):
        assert not contradicted(tree, fc.graph([(0, 1), (2, 3)], **values), measurements=path)


def test_measured_graphs_of_pairs_without_peer_access_are_compared(tmp_path):
    path = tmp_path / "measured.csv"
    tree = replace(fc.load_topology("pcie5_four_switches"), staged_pairs=(("0", "1"), ("2", "3")))
    path.write_text("graph,communications,total_gb_per_s\na,0>1,20\nb,2>3,20\nc,4>5,50\ng,0>1 2>3,5\n")
    assert any("have 5 GB/s in total" in text for text in contradicted(tree, [(0, 1), (2, 3)], measurements=path))
    # Direct measurements are no reference for copies that are staged on request.
    path.write_text("graph,communications,total_gb_per_s\na,0>1,50\nb,2>3,50\ng,0>1 2>3,100\n")
    direct = fc.load_topology("pcie5_four_switches")
    assert not contradicted(direct, [(0, 1), (2, 3)], measurements=path, transport="staged")


def test_models_are_listed_with_their_use_and_error():
    output = CliRunner().invoke(app, ["models"]).output
    first = output.splitlines()[:3]
    assert first[0].startswith("ports_and_engines") and "recommended" in first[0]
    assert "few copies: median error" in first[1] and "many copies of a GPU: median error" in first[2]
    assert all(name in CliRunner().invoke(app, ["models", "--all"]).output for name in MODELS)
