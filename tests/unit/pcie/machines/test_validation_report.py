"""Measured copies in tables, their error report, and warnings about contradictions."""

from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fabricast.cli.main import app
from fabricast.core.errors import InputError
from fabricast.core.warnings import WarningCode
from fabricast.pcie.engines.forecast import total_rate
from fabricast.pcie.graphs.collectives import collective_pairs
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.graphs.rates import Rates
from fabricast.pcie.machines.validation import validate_machine
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.tables.measured_errors import error_rows, feature_rows
from fabricast.pcie.topology.builtin import load_tree
from tests.machines import measured, read_copies
from tests.unit.pcie.machines.measured import PUBLIC, TREE, _measured, texts


def test_contradictions_with_topology_are_reported():
    graphs = [
        MeasuredGraph("alone", (("0", "1"),), 50e9, "independent"),
        MeasuredGraph("two", (("0", "4"), ("1", "5")), 95e9, "independent"),
        MeasuredGraph("slow", (("2", "6"),), 49e9, "independent", "test"),
        MeasuredGraph("spread", (("0", "4"), ("4", "0"), ("1", "2")), 60e9, "ordered_writes"),
    ]
    result = validate_machine(TREE, graphs)
    assert any("'two'" in text for text in texts(result, WarningCode.RATE_BEYOND_LINKS))
    hazard = [
        MeasuredGraph("alone", (("0", "1"),), 50e9, "independent"),
        MeasuredGraph("h", (("0", "4"), ("1", "8")), 5e9, "ordered_writes"),
    ]
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
    (graph,) = read_copies(path, program="torch")
    assert graph.total_bytes_per_s == pytest.approx((2e9 / 0.04 + 2e9 / 0.02) / 2)
    assert (graph.repetitions, graph.program, graph.flows) == (2, "ordered_writes", (("0", "1"), ("2", "3")))
    duckdb.read_csv(str(path), all_varchar=True).write_parquet(str(tmp_path / "m.parquet"))
    (again,) = read_copies(tmp_path / "m.parquet", program="torch")
    assert (again.total_bytes_per_s, again.flows) == (graph.total_bytes_per_s, graph.flows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph,x\na,1\n", "unknown"),
        ("graph,role\na,test\n", "has no columns of copies"),
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
    for arguments, source in (([], "median share of the links"), (["--bandwidth", "50GB/s"], "option --bandwidth")):
        result = CliRunner().invoke(app, ["validate", "pcie5_four_switches", str(tmp_path / "m.csv"), *arguments])
        assert result.exit_code == 1, "the only graph contradicts the topology"
        assert f"({source}" in result.output
    assert "one way: 50 GB/s" in result.output


def test_repeated_copy_without_repetition_number_is_rejected(tmp_path):
    path = tmp_path / "measured.csv"
    path.write_text("graph,source,target,rate_gb_per_s\na,0,1,55\na,1,0,55\na,0,1,54\n")
    with pytest.raises(InputError, match=r"measured\.csv:4: graph 'a' copies 0 to 1 a second time in one repetition"):
        read_copies(path)


def test_topology_is_checked_against_copies(tmp_path):
    known = "graph,communications,program,role,total_gb_per_s\nalone,0>4 1>5,torch,calibration,112.5\n"
    path = tmp_path / "measured.csv"
    for rows, code, said in (
        ("one uplink,0>2 1>6,torch,,56.4\n", 0, "none of 2 graphs contradicts the topology"),
        ("", 0, "none of 1 graphs contradicts the topology"),
        ("one uplink,0>2 1>6,torch,,112.0\n", 1, "the topology is not that of the machine"),
    ):
        path.write_text(known + rows)
        result = CliRunner().invoke(app, ["topology", "check", "crossed_virtual_switches", str(path)])
        assert result.exit_code == code, result.output
        assert said in result.output


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
    assert len(read_copies(tmp_path / "p2p.txt")) == 2, "the connectivity matrix has no rates"

    def rates(domain):
        buses = dict(zip("01234567", ("1a", "3b", "4c", "5d", "6e", "7f", "8a", "9b"), strict=True))
        vertices = [
            replace(v, label=f"{domain}:{buses[v.name]}:00.0" if v.name in buses and domain else "")
            for v in TREE.vertices
        ]
        graphs = measured(replace(TREE, vertices=tuple(vertices)), tmp_path / "p2p.txt").graphs
        return {graph.flows[0]: graph.total_bytes_per_s / 1e9 for graph in graphs}

    as_printed = {("0", "1"): 20, ("1", "0"): 24}
    assert rates("0000") == {("1", "0"): 20, ("0", "1"): 24}
    assert rates("") == as_printed, "a topology without addresses"
    assert rates("0001") == as_printed, "another machine of the same model"
    (tmp_path / "p2p.txt").write_text(P2P.replace("pciBusID: 3b", "pciBusID: ff"))
    with pytest.raises(
        InputError, match="GPU 0 of the measurements has the PCI address 0000:ff:00.0, which 'flat4x2' does not have"
    ):
        rates("0000")


def test_rates_in_another_unit_are_reported():
    gbit = validate_machine(TREE, _measured(("0>1", 440, ""), ("0>1 2>3", 880, "")))
    assert any("Gbit/s" in text for text in texts(gbit, WarningCode.IMPLAUSIBLE_RATE))
    slow = validate_machine(load_tree("pcie5_four_switches"), _measured(("0>1", 6.9, ""), ("0>1 2>3", 13.8, "")))
    assert any(
        "10.9% of the link rate of pcie5_four_switches" in text for text in texts(slow, WarningCode.IMPLAUSIBLE_RATE)
    )
    assert not validate_machine(load_tree("pcie5_four_switches"), _measured(("0>1", 55, ""))).warnings


def test_contradictory_parameters_are_reported():
    report = validate_machine(TREE, _measured(("0>1", 55, ""), ("0>2", 54, ""), ("2>3", 12, ""), ("0>1 2>3", 108, "")))
    assert any("1 of 3" in text and "'2>3'" in text for text in texts(report, WarningCode.CALIBRATION_CONTRADICTED))
    agreeing = validate_machine(TREE, _measured(("0>1", 55, ""), ("0>2", 54, ""), ("0>1 2>3", 108, "")))
    assert not agreeing.warnings


def _machine_that_slows_down(generator, count):
    """Draw random graphs with max-min fair rates, minus 4 % for each copy beyond the first."""
    rates = Rates(50e9, 50e9)
    measured = [MeasuredGraph("alone", (("0", "1"),), 50e9, "independent", "calibration")]
    for number in range(count):
        drawn = generator.permutation(8 * 7)[: generator.integers(2, 9)]
        flows = [(int(pair // 7), int(pair % 7 + (pair % 7 >= pair // 7))) for pair in drawn]
        rate = total_rate(TREE, flows, PROGRAMS["independent"], rates).bytes_per_s * (1 - 0.04 * (len(flows) - 1))
        names = tuple((str(source), str(target)) for source, target in flows)
        measured.append(MeasuredGraph(f"g{number}", names, rate, "independent"))
    return measured


@pytest.mark.slow
def test_errors_of_measured_copies_have_histogram_and_features():
    """Each error is in its bin, and the number of copies explains the errors."""
    measured = _machine_that_slows_down(np.random.default_rng(5), 60)
    rows = validate_machine(TREE, measured, one_way_bytes_per_s=50e9).rows
    rows = rows.assign(packets_bytes_per_s=np.nan)
    histogram = error_rows(rows, "m")
    sums = histogram.groupby(["model", "subset"])["communications"].sum().unstack()
    assert (sums["all"] == 60).all()
    assert (sums.drop(columns="all").sum(axis=1) == sums["all"]).all()
    models = {"ports_and_engines", "endpoint_engines", "sharing_on_the_tree", "no_contention"}
    assert set(sums.index) == models, "packets were not simulated"
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


@pytest.mark.slow
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
    steps = collective_pairs(name, 8)
    for pairs in steps:
        assert len({target for _, target in pairs}) == len(pairs) or name == "tree"
        assert all(source != target for source, target in pairs)
    holds = {rank: {rank} for rank in range(8)}
    for pairs in steps * (7 if name == "ring" else 1):
        before = {rank: set(own) for rank, own in holds.items()}
        for source, target in pairs:
            holds[target] |= before[source]
    assert all(own == set(range(8)) for own in holds.values())
    with pytest.raises(InputError):
        collective_pairs("star", 8)
    with pytest.raises(InputError):
        collective_pairs(name, 1)


def test_unknown_parquet_columns_are_rejected(tmp_path):
    path = tmp_path / "measured.parquet"
    duckdb.sql(f"COPY (SELECT '0>1' AS communications, 50.0 AS total_gb_per_s, 1 AS rank) TO '{path}' (FORMAT parquet)")
    with pytest.raises(InputError, match="unknown column 'rank'"):
        read_copies(path)


@pytest.mark.slow
def test_rows_of_one_system_are_checked_against_a_topology(tmp_path):
    result = CliRunner().invoke(
        app, ["topology", "check", "crossed_virtual_switches", str(PUBLIC), "--system", "WRX90 2VS V1"]
    )
    assert result.exit_code in (0, 1) and not isinstance(result.exception, InputError)
    assert "line 0" not in result.output


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("", (80e9, "total")),
        ("total", (80e9, "total")),
        ("sum", (80e9, "sum_of_copies")),
        ("mean_per_copy", (160e9, "sum_of_copies")),
        ("mean_per_flow", (160e9, "sum_of_copies")),
        ("sum_of_readers", (80e9, "sum_of_targets")),
        ("sum_of_writers", (80e9, "sum_of_sources")),
        ("last_listed", (80e9, "last_listed")),
    ],
)
def test_kind_of_a_rate_is_respected(tmp_path, kind, expected):
    path = tmp_path / "m.csv"
    path.write_text(f"graph,communications,total_gb_per_s,kind\ntwo,0>4 1>5,80,{kind}\n")
    (graph,) = read_copies(path)
    assert (graph.total_bytes_per_s, graph.statistic) == expected


def test_unknown_kind_of_a_rate_is_rejected(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("graph,communications,total_gb_per_s,kind\ntwo,0>4 1>5,80,median\n")
    with pytest.raises(
        InputError,
        match=r"m.csv:2: kind is 'median', expected total, sum, mean_per_copy, "
        r"sum_of_readers, sum_of_writers, last_listed or nothing",
    ):
        read_copies(path)
    path.write_text("graph,source,target,rate_gb_per_s,kind\ntwo,0,4,40,total\n")
    with pytest.raises(InputError, match=r"m.csv:2: kind is 'total', expected nothing"):
        read_copies(path)
