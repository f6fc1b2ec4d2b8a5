"""Model endpoint_engines: copy programs, host memory, direct links and measured rates."""

from dataclasses import replace

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.core.errors import InputError, PeerLinkError
from fabricast.core.warnings import WarningCode
from fabricast.inputs.pair_rates import direct_link_share
from fabricast.pcie.engines.forecast import copy_times, total_rate
from fabricast.pcie.graphs.congestion_graphs import from_pairs
from fabricast.pcie.graphs.files import graph_blocks, read_graphs
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.graphs.rates import Estimate, Limit, Rates
from fabricast.pcie.machines.measured_rates import CONTRADICTS, MEASURED_RATE
from fabricast.pcie.machines.shared_limits import limits_of
from fabricast.pcie.machines.validation import validate_machine
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.measurements.probes import proposed_probes
from fabricast.pcie.packets.programs import hardware_with_rates, simulate_copies, tree_with_rates
from fabricast.pcie.topology.builtin import load_tree
from fabricast.pcie.topology.files import write_tree
from fabricast.pcie.topology.memory import root_complex_of, with_host_memory
from fabricast.pcie.topology.parts import PeerLink, direct_rates
from tests.unit.diagnosis.pasted import peer_test
from tests.unit.pcie.engines.test_engine_forecasts import IN_TURNS, ORDERED, simulated
from tests.unit.pcie.machines.measured import DUPLEX, EVEN, TREE, pairs

#: Bytes that an isolated copy moves in one second.
SIZE = 50e9
MEMORY = with_host_memory(TREE)


def times(flows, program, rates=EVEN, start_s=None, **options):
    start = np.zeros(len(flows)) if start_s is None else np.array(start_s, dtype=np.float64)
    size = np.full(len(flows), rates.one_way_bytes_per_s)
    return copy_times(TREE, flows, program, rates, size_bytes=size, start_s=start, **options)


def predict(graphs, **options):
    options = {"bandwidth": "50 GB/s", "model": "endpoint_engines", **options}
    return fc.predict(options.pop("tree", TREE), graphs, **options)


@settings(max_examples=40, deadline=None)
@given(pairs, st.sampled_from([EVEN, DUPLEX]), st.sampled_from([ORDERED, IN_TURNS]))
def test_single_copies_match_plain_simulation(flows, rates, program):
    expected = len(flows) * rates.one_way_bytes_per_s / simulated(TREE, flows, program, rates, 1)
    assert times(flows, program, rates).end_s.max() == pytest.approx(expected, rel=1e-4)


@settings(max_examples=40, deadline=None)
@given(pairs, st.sampled_from(sorted(PROGRAMS)), st.data())
def test_completion_times_are_within_bounds(flows, program, data):
    start_s = data.draw(st.lists(st.floats(0, 5), min_size=len(flows), max_size=len(flows)))
    completion = times(flows, PROGRAMS[program], start_s=start_s)
    assert (completion.earliest_s >= np.array(start_s) + 1 - 1e-9).all()
    assert (completion.earliest_s <= completion.end_s + 1e-9).all()
    assert (completion.end_s <= completion.latest_s + 1e-9).all()
    assert completion.latest_s.max() <= max(start_s) + len(flows) * (1 + PROGRAMS[program].switch_share * 20) + 1e-6


def test_consecutive_copies_do_not_share_bandwidth():
    program = replace(PROGRAMS["unordered_writes"], switch_share=0.0)
    completion = times([(0, 1), (0, 4), (2, 1)], program, start_s=[0, 1, 2.5])
    assert completion.end_s == pytest.approx([1, 2, 3.5])
    assert (completion.earliest_s == completion.latest_s).all()


def test_late_copy_does_not_delay_other_copies_of_engine():
    # Three copies of one source in round-robin order: the copy issued late does not delay the others.
    completion = times([(0, 1), (0, 4), (0, 5)], IN_TURNS, start_s=[3, 0, 0])
    assert completion.end_s == pytest.approx([4, 1, 2])


def test_repeated_graph_reaches_total_rate_of_validate():
    flows = [(0, 1), (0, 4), (2, 1)]
    repeats = 40
    ends = times([flow for _ in range(repeats) for flow in flows], ORDERED).end_s
    total = total_rate(TREE, flows, ORDERED, EVEN, repeats=repeats).bytes_per_s
    assert len(flows) * repeats * EVEN.one_way_bytes_per_s / ends.max() == pytest.approx(total, rel=0.05)


def test_program_column_is_used_and_consistent_within_a_graph(tmp_path):
    path = tmp_path / "graphs.csv"
    path.write_text(
        "graph,source,target,program,size_bytes\n"
        "pytorch,0,1,torch,5e10\npytorch,0,4,torch,5e10\nalone,0,1,independent,5e10\nalone,0,4,independent,5e10\n"
        "untold,0,1,,5e10\nuntold,0,2,,5e10\n"
    )
    graphs = read_graphs(path, TREE, size_bytes=1.0, programs=True)
    assert graphs.programs == ("ordered_writes", "independent", "")
    prediction = predict(graphs)
    assert prediction["elapsed_s"].iloc[0] == pytest.approx(1) and prediction["elapsed_s"].iloc[1] > 2
    assert prediction["elapsed_s"].iloc[2:4].tolist() == pytest.approx([2, 2])
    assert prediction["slowdown"].iloc[2] == pytest.approx(2)
    assert any(
        one.code == WarningCode.DEFAULT_PROGRAM and "graph 'untold'" in one.text for one in prediction.attrs["warnings"]
    )
    every = predict(read_graphs(path, TREE, size_bytes=1.0, programs=True), model="max_min")
    assert WarningCode.PROGRAMS_IGNORED in [one.code for one in every.attrs["warnings"]]
    with pytest.raises(InputError, match="column 'program' is unknown"):
        read_graphs(path, TREE, size_bytes=1.0)
    path.write_text("graph,source,target,program\na,0,1,torch\nb,0,1,torch\na,1,0,p2pmark\n")
    with pytest.raises(InputError, match=r"graphs.csv:4: program is 'p2pmark', expected the program of the first row"):
        read_graphs(path, TREE, size_bytes=1.0, programs=True)
    path.write_text("graph,source,target,program\na,0,1,nccl\n")
    with pytest.raises(InputError, match=r"graphs.csv:2: .*program.*nccl"):
        read_graphs(path, TREE, size_bytes=1.0, programs=True)


def test_programs_and_host_memory_are_equal_when_read_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("fabricast.pcie.graphs.files._BLOCK_BYTES", 64)
    names = ["torch", "", "p2pmark"]
    text = "".join(f"g{k},H,{k % 8},{names[k % 3]}\ng{k},{k % 8},{(k + 1) % 8},{names[k % 3]}\n" for k in range(30))
    path = tmp_path / "graphs.csv"
    path.write_text("graph,source,target,program\n" + text)
    whole = read_graphs(path, MEMORY, size_bytes=1.0, programs=True)
    parts = [graphs for graphs, _ in graph_blocks(path, MEMORY, size_bytes=1.0, programs=True).blocks]
    assert len(parts) > 3
    assert [name for part in parts for name in part.programs] == list(whole.programs)
    assert np.concatenate([part.source for part in parts]).tolist() == whole.source.tolist()
    parquet = tmp_path / "graphs.parquet"
    duckdb.sql(f"COPY (FROM read_csv('{path}', all_varchar = true)) TO '{parquet}' (FORMAT parquet)")
    again = read_graphs(parquet, MEMORY, size_bytes=1.0, programs=True)
    assert again.programs == whole.programs and again.source.tolist() == whole.source.tolist()


def test_host_memory_is_an_endpoint_and_several_gpus_need_a_probe(tmp_path):
    path = tmp_path / "graphs.csv"
    path.write_text("graph,source,target\none,H,3\nboth,H@RC,0\n")
    graphs = read_graphs(path, MEMORY, size_bytes=SIZE, programs=True)
    assert predict(graphs)["elapsed_s"].tolist() == pytest.approx([1, 1])
    with pytest.raises(InputError, match="source is 'H'.*host memory requires a model with engines"):
        read_graphs(path, TREE, size_bytes=SIZE)
    path.write_text("graph,source,target\none,H,H@RC\n")
    with pytest.raises(InputError, match="copies H to H@RC, expected a GPU at one end"):
        read_graphs(path, MEMORY, size_bytes=SIZE)
    everybody = fc.host_copies(TREE, size=SIZE)
    unlimited = predict(everybody)
    assert WarningCode.MEMORY_CAPACITY_UNKNOWN in [one.code for one in unlimited.attrs["warnings"]]
    measured = tmp_path / "measured.csv"
    measured.write_text(
        "graph,communications,role,total_gb_per_s\nalone,0>1,,50\nread,H>0 H>1 H>4 H>5,calibration,80\n"
    )
    prediction = fc.predict(TREE, everybody, model="endpoint_engines", program="independent", measurements=measured)
    # Eight copies of 50 GB each from memory of 80 GB/s.
    assert prediction["elapsed_s"].tolist() == pytest.approx([8 * 50 / 80] * 8)
    assert any(str(one).startswith("memory read 80 GB/s: 1 measured") for one in prediction.attrs["warnings"])
    written = fc.predict(TREE, fc.host_copies(TREE, to_host=True), model="endpoint_engines", measurements=measured)
    assert WarningCode.MEMORY_CAPACITY_UNKNOWN in [one.code for one in written.attrs["warnings"]]


def test_memory_limits_do_not_slow_copies_between_gpus():
    """A memory limit of 40 GB/s applies to host copies, not to concurrent copies between GPUs."""
    limits = replace(EVEN, estimates={Limit.MEMORY_READ: Estimate(40e9, "")})
    flows = [("H", "0"), ("H", "1"), ("4", "5")]
    tree, shared = limits_of(limits, MEMORY, flows)
    numbers = [(8, 0), (8, 1), (4, 5)]
    completion = copy_times(
        tree, numbers, PROGRAMS["independent"], EVEN, limits=shared, size_bytes=np.full(3, SIZE), start_s=np.zeros(3)
    )
    assert completion.end_s == pytest.approx([2.5, 2.5, 1])
    graphs = [
        MeasuredGraph("alone", (("0", "1"),), 50e9, "independent"),
        MeasuredGraph("read", (("H", "0"), ("H", "1")), 40e9, "independent", "calibration"),
        MeasuredGraph("mixed", tuple(flows), 90e9, "independent"),
    ]
    rows = validate_machine(TREE, graphs).rows.set_index("graph")
    assert rows.loc["mixed", "judged"] and rows.loc["mixed", "forecast_bytes_per_s"] > 45e9


def test_direct_links_of_known_rate_are_used():
    flows = fc.graph([(0, 4), (1, 2)], size=SIZE)
    joined = replace(TREE, peer_links=(PeerLink("NVLink", ("0", "4"), 200e9),))
    prediction = predict(flows, tree=joined, program="independent")
    # The public share of a bridge or mesh.
    assert prediction["elapsed_s"].tolist() == pytest.approx([0.25 / direct_link_share("NVLink").median, 1])
    assert WarningCode.DIRECT_LINK_RATE_NOMINAL in [one.code for one in prediction.attrs["warnings"]]
    assert predict(flows, tree=joined, program="independent", pcie_only=True)["elapsed_s"].tolist() == [1, 1]
    unknown_rate = replace(TREE, peer_links=(PeerLink("NVLink", ("0", "4")),))
    with pytest.raises(PeerLinkError, match="whose rate is missing"):
        predict(flows, tree=unknown_rate)
    # All copies that a GPU sends share its NVSwitch port; disjoint pairs share nothing.
    switch = replace(TREE, peer_links=(PeerLink("NVSwitch", ("0", "1", "2", "3"), 100e9),))
    switched = direct_link_share("NVSwitch").median
    both = predict(fc.graph([(0, 1), (0, 2), (3, 1)], size=SIZE), tree=switch, program="independent")
    assert both["elapsed_s"].tolist() == pytest.approx([1 / switched] * 3)
    disjoint = predict(fc.graph([(0, 1), (1, 0), (2, 3)], size=SIZE), tree=switch, program="independent")
    assert disjoint["elapsed_s"].tolist() == pytest.approx([0.5 / switched] * 3)
    with pytest.raises(InputError, match="bytes_per_s of NVLink between 0, 4 is 1, expected"):
        replace(TREE, peer_links=(PeerLink("NVLink", ("0", "4"), 1.0),))


def test_direct_link_rates_are_read_from_files(tmp_path):
    path = tmp_path / "machine.yaml"
    text = "name: machine\npeer_links:\n  - {kind: NVLink, endpoints: ['0', '1'], bytes_per_s: 50.0e+9}\nvertices:\n"
    text += "  - {name: RC, kind: root_complex}\n" + "".join(
        f"  - {{name: '{k}', kind: endpoint, parent: RC}}\n" for k in range(2)
    )
    path.write_text(text)
    assert direct_rates(load_tree(path).peer_links)["1", "0"] == 50e9
    shown = CliRunner().invoke(app, ["topology", "show", str(path)]).stdout
    assert "50 GB/s per direction" in shown


def test_unmeasured_inter_socket_link_yields_range_and_warning():
    tree = replace(load_tree("two_sockets_host"), peer_links=())
    first, *_ = names = tree.accelerator_names
    here = [name for name in names if root_complex_of(tree, name) == root_complex_of(tree, first)]
    there = [name for name in names if name not in here]
    pairs = [(tree.endpoint_number[s], tree.endpoint_number[t]) for s, t in zip(here, there, strict=False)]
    assert len(pairs) >= 2
    several = predict(fc.graph(pairs[:2], size=SIZE), tree=tree, bandwidth="20 GB/s", program="independent")
    assert (several["earliest_s"] < several["elapsed_s"] - 0.1).any()
    assert WarningCode.INTER_SOCKET_RANGE in [one.code for one in several.attrs["warnings"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--model", "max_min", "--program", "torch"],
            "program is only supported by ports_and_engines and endpoint_engines",
        ),
        (["--model", "endpoint_engines", "--tau", "0.1"], "tau is not a parameter of 'endpoint_engines'"),
        (["--model", "endpoint_engines", "--program", "nccl"], "program 'nccl'"),
        (["--model", "endpoint_engines", "--system", "x"], "system is specified without measurements"),
        (["--model", "endpoint_engines", "--measurements", "none.csv"], "none.csv"),
    ],
)
def test_incompatible_options_are_rejected(tmp_path, options, message):
    (tmp_path / "graphs.csv").write_text("graph,source,target\na,0,1\n")
    result = CliRunner().invoke(app, ["predict", "storm8", str(tmp_path / "graphs.csv"), *options])
    assert result.exit_code != 0
    assert message in str(result.exception or result.output)


def test_a_rate_by_option_is_used_instead_of_the_measured_one(tmp_path):
    path = tmp_path / "measured.csv"
    path.write_text("graph,communications,total_gb_per_s\nalone,0>1,20\nhost,H>0,10\n")
    flows = fc.graph([(0, 1)], size=SIZE)
    both = fc.predict(TREE, flows, measurements=path, bandwidth=SIZE / 4, program="independent")
    texts = [one.text for one in both.attrs["warnings"] if one.code is WarningCode.MEASUREMENT_CONTRADICTED]
    assert "by option, but 20 GB/s" in texts[0] and "the option is used" in texts[0]
    # Other measured rates remain.
    host = fc.predict(TREE, fc.graph([("H", 0)], size=SIZE, tree=TREE), measurements=path, bandwidth=SIZE / 4)
    assert host["elapsed_s"].tolist() == pytest.approx([SIZE / 10e9])
    same = fc.predict(TREE, flows, measurements=path, bandwidth="20 GB/s")
    assert WarningCode.MEASUREMENT_CONTRADICTED not in {one.code for one in same.attrs["warnings"]}


def test_model_is_listed():
    assert "endpoint_engines" in CliRunner().invoke(app, ["models"]).stdout


@pytest.mark.slow
def test_predict_and_validate_agree_on_a_published_machine():
    """Single rounds of few copies reach the total rate that validate forecasts."""
    from fabricast.core.resources import published

    tree, system = load_tree("crossed_virtual_switches"), "WRX90 2VS V1"
    path = published() / "pcie_concurrent_copies.csv"
    judged = fc.validate_machine(tree, path, system=system).rows
    few = judged[judged["judged"] & (judged["graph_class"] == "few copies") & (judged["flows"] > 1)]
    assert len(few) > 3
    for row in few.to_dict("records"):
        flows = [tuple(map(int, pair.split(">"))) for pair in row["communications"].split()]
        if len({s for s, _ in flows}) < len(flows) or len({t for _, t in flows}) < len(flows):
            continue
        prediction = fc.predict(
            tree,
            fc.graph(flows, size="10 GB"),
            model="endpoint_engines",
            program=row["program"],
            measurements=path,
            system=system,
        )
        rate = prediction["size_bytes"].sum() / prediction["elapsed_s"].max()
        # A measurement that contradicts the forecast is printed in its place.
        name = "measured_bytes_per_s" if abs(row["relative_error"]) > CONTRADICTS else "forecast_bytes_per_s"
        assert rate == pytest.approx(row[name], rel=0.02)


def test_bidirectional_rate_limits_both_directions():
    rates = Rates(50e9, 40e9)
    both = times([(0, 1), (1, 0)], PROGRAMS["independent"], rates)
    assert both.end_s == pytest.approx([1.25, 1.25])


@pytest.mark.parametrize("program", ["unordered_writes", "unordered_reads"])
def test_host_copies_do_not_wait_for_gpu_engines(program):
    """Two reads of host memory run at the same time as a copy between GPUs."""
    numbers = [(8, 0), (8, 4), (0, 1)]
    completion = copy_times(MEMORY, numbers, PROGRAMS[program], EVEN, size_bytes=np.full(3, SIZE), start_s=np.zeros(3))
    assert completion.end_s == pytest.approx([1, 1, 1])


def test_probes_include_reads_reverse_direction_and_two_sizes():
    probes = {probe.graph: probe for probe in proposed_probes(load_tree("crossed_virtual_switches"))}
    assert probes["back PIX"].flows == tuple((t, s) for s, t in probes["alone PIX"].flows)
    assert probes["read PHB"].program == probes["near and far, read"].program == "unordered_reads"
    assert probes["small all-to-all below a switch"].size_share == 1 / 16
    (a, c), (b, d) = probes["one uplink to two switches"].flows
    tree = load_tree("crossed_virtual_switches")
    routes = [tree.route(*flow) for flow in ((a, c), (b, d))]
    # Both copies share only the uplink; the destinations have separate ports.
    shared = set(routes[0]) & set(routes[1])
    assert [tree.link_names[link][2] for link in shared] == ["pcie_up"]
    assert tree.vertex(c).parent != tree.vertex(a).parent
    sockets = {probe.graph: probe for probe in proposed_probes(replace(load_tree("two_sockets_host"), peer_links=()))}
    assert [len(sockets[f"{count} pairs between root complexes"].flows) for count in (2, 3)] == [2, 3]
    assert sockets["host to all below RC1"].role == "test" and len(sockets["host to all"].flows) == 8


def test_isolated_copy_with_role_test_is_validated_and_not_used_for_calibration():
    graphs = [
        MeasuredGraph("alone", (("0", "1"),), 50e9, "unordered_writes", "calibration"),
        MeasuredGraph("back", (("1", "0"),), 40e9, "unordered_writes", "test"),
    ]
    report = validate_machine(TREE, graphs)
    assert report.calibration.one_way_bytes_per_s == 50e9
    back = report.rows.set_index("graph").loc["back"]
    assert back["judged"] and back["relative_error"] == pytest.approx(0.25)


@pytest.mark.parametrize("program", sorted(PROGRAMS))
@pytest.mark.parametrize(
    "flows",
    [
        [(0, 1), (0, 4), (2, 1)],
        [(0, 1), (1, 0), (0, 4), (4, 0)],
        [(a, b) for a in range(4) for b in range(4) if a != b],
    ],
)
def test_packet_simulation_of_single_copies_matches_engine_model(program, flows):
    """Both models agree for deterministic programs, and on average for random ones."""
    rates = Rates(50e9, 50e9)
    hardware, tree = hardware_with_rates(rates), tree_with_rates(TREE, rates)
    graphs = replace(from_pairs([flows], size_bytes=2**24), programs=(program,))
    packets = simulate_copies(tree, graphs, hardware)
    flowing = copy_times(TREE, flows, PROGRAMS[program], rates, size_bytes=graphs.size_bytes, start_s=graphs.start_s)
    allowed = 0.15 if PROGRAMS[program].is_random else 0.002
    assert packets.end_s.max() == pytest.approx(flowing.end_s.max(), rel=allowed)
    assert packets.end_s.mean() == pytest.approx(flowing.end_s.mean(), rel=allowed)
    assert (packets.earliest_s <= packets.end_s).all() and (packets.end_s <= packets.latest_s).all()


def test_simulate_uses_programs_of_file(tmp_path):
    path = tmp_path / "graphs.csv"
    path.write_text("graph,source,target,program\npytorch,0,1,torch\npytorch,0,4,torch\nfree,0,1,\nfree,0,4,\n")
    result = CliRunner().invoke(
        app, ["simulate", "storm8", str(path), "--size", "16MiB", "-o", str(tmp_path / "out.csv")]
    )
    assert result.exit_code == 0, result.output
    rows = duckdb.read_csv(str(tmp_path / "out.csv")).df()
    first, second, one, other = rows["elapsed_s"]
    assert second == pytest.approx(2 * first, rel=0.15) and one == pytest.approx(other, rel=1e-3)
    assert one == pytest.approx(2 * first, rel=0.02), "both share the link of their source"


def test_copies_that_were_measured_have_their_measured_time(tmp_path):
    """One slow pair, and pairs between sockets that share what no probe shows."""
    topology = tmp_path / "machine.yaml"
    write_tree(load_tree("pcie5_four_switches"), topology)
    rates = [[40.0] * 8 for _ in range(8)]
    rates[0][4] = 8.0
    measured = tmp_path / "p2p.txt"
    measured.write_text(peer_test(rates))
    alone = fc.predict([topology, measured], "0>4", size="8 GB")
    columns = ["elapsed_s", "earliest_s", "latest_s"]
    assert alone[columns].iloc[0].tolist() == pytest.approx([1.0] * 3, rel=1e-3)
    assert alone["slowdown"].tolist() == [1.0] and alone["caused_by"].tolist() == [MEASURED_RATE]
    beside = fc.predict([topology, measured], "0>4 2>6", size="8 GB").set_index(["source", "target"])
    assert beside.loc[("0", "4"), "elapsed_s"] == pytest.approx(1.0, rel=1e-3)
    assert beside.loc[("2", "6"), "elapsed_s"] < 0.5
    other = fc.predict([topology, measured], "1>5", size="8 GB")
    assert other["elapsed_s"].tolist() == pytest.approx([0.2], rel=0.02) and other["caused_by"].tolist() != [
        MEASURED_RATE
    ]
