"""The model endpoint_engines of predict: programs of graphs, host memory, direct links, rates from measurements."""

from dataclasses import replace

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli import app
from fabricast.core.errors import InputError, PeerLinkError
from fabricast.pcie.engines.forecast import copy_times, total_rate
from fabricast.pcie.engines.links import LinkRates
from fabricast.pcie.graphs.congestion_graphs import from_arcs
from fabricast.pcie.graphs.files import graph_blocks, read_graphs
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.machines.calibration import Calibration
from fabricast.pcie.machines.shared_limits import limits_of
from fabricast.pcie.machines.validation import validate_machine
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.measurements.probes import proposed_probes
from fabricast.pcie.packets.programs import hardware_with_rates, simulate_copies, tree_with_rates
from fabricast.pcie.topology.files import load_tree
from fabricast.pcie.topology.memory import root_complex_of, with_host_memory
from fabricast.pcie.topology.parts import PeerLink, direct_rates
from tests.unit.pcie.test_measured_copies import DUPLEX, EVEN, IN_TURNS, ORDERED, TREE, arcs, simulated

#: One copy alone of these bytes takes a second.
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
@given(arcs, st.sampled_from([EVEN, DUPLEX]), st.sampled_from([ORDERED, IN_TURNS]))
def test_single_copies_end_as_in_the_plain_simulation(flows, rates, program):
    expected = len(flows) * rates.one_way_bytes_per_s / simulated(TREE, flows, program, rates, 1)
    assert times(flows, program, rates).end_s.max() == pytest.approx(expected, rel=1e-4)


@settings(max_examples=40, deadline=None)
@given(arcs, st.sampled_from(sorted(PROGRAMS)), st.data())
def test_no_copy_ends_before_it_could_and_later_issue_never_frees_a_link_it_uses(flows, program, data):
    start_s = data.draw(st.lists(st.floats(0, 5), min_size=len(flows), max_size=len(flows)))
    found = times(flows, PROGRAMS[program], start_s=start_s)
    assert (found.earliest_s >= np.array(start_s) + 1 - 1e-9).all()
    assert (found.earliest_s <= found.end_s + 1e-9).all()
    assert (found.end_s <= found.latest_s + 1e-9).all()
    assert found.latest_s.max() <= max(start_s) + len(flows) * (1 + PROGRAMS[program].switch_share * 20) + 1e-6


def test_copies_issued_one_after_the_other_run_alone():
    found = times([(0, 1), (0, 4), (2, 1)], PROGRAMS["unordered_writes"], start_s=[0, 1, 2.5])
    assert found.end_s == pytest.approx([1, 2, 3.5])
    assert (found.earliest_s == found.latest_s).all()


def test_an_engine_waits_for_what_is_issued_and_takes_it_then():
    # Three copies of one source in turns: the one that is issued late does not hold up the others.
    found = times([(0, 1), (0, 4), (0, 5)], IN_TURNS, start_s=[3, 0, 0])
    assert found.end_s == pytest.approx([4, 1, 2])


def test_many_repeats_of_a_graph_reach_the_total_rate_of_validate():
    flows = [(0, 1), (0, 4), (2, 1)]
    repeats = 40
    ends = times([flow for _ in range(repeats) for flow in flows], ORDERED).end_s
    total = total_rate(TREE, flows, ORDERED, EVEN, repeats=repeats).bytes_per_s
    assert len(flows) * repeats * EVEN.one_way_bytes_per_s / ends.max() == pytest.approx(total, rel=0.05)


def test_the_program_column_decides_and_rows_of_a_graph_agree(tmp_path):
    path = tmp_path / "graphs.csv"
    path.write_text(
        "graph,source,target,program,size_bytes\n"
        "pytorch,0,1,torch,5e10\npytorch,0,4,torch,5e10\nalone,0,1,independent,5e10\nalone,0,4,independent,5e10\n"
        "untold,0,1,,5e10\n"
    )
    graphs = read_graphs(path, TREE, size_bytes=1.0, programs=True)
    assert graphs.programs == ("ordered_writes", "independent", "")
    found = predict(graphs)
    assert found["elapsed_s"].iloc[0] == pytest.approx(1) and found["elapsed_s"].iloc[1] > 2
    assert found["elapsed_s"].iloc[2:4].tolist() == pytest.approx([2, 2])
    assert found["slowdown"].iloc[2] == pytest.approx(2)
    assert any("graph 'untold': no program is named" in note for note in found.attrs["notes"])
    every = predict(read_graphs(path, TREE, size_bytes=1.0, programs=True), model="max_min", tau=0.0)
    assert any("programs of graphs are for model" in note for note in every.attrs["notes"])
    with pytest.raises(InputError, match="column 'program' is unknown"):
        read_graphs(path, TREE, size_bytes=1.0)
    path.write_text("graph,source,target,program\na,0,1,torch\nb,0,1,torch\na,1,0,p2pmark\n")
    with pytest.raises(InputError, match=r"graphs.csv:4: program is 'p2pmark', expected that of the first row"):
        read_graphs(path, TREE, size_bytes=1.0, programs=True)
    path.write_text("graph,source,target,program\na,0,1,nccl\n")
    with pytest.raises(InputError, match=r"graphs.csv:2: .*program.*nccl"):
        read_graphs(path, TREE, size_bytes=1.0, programs=True)


def test_programs_and_host_memory_are_read_in_blocks_as_at_once(tmp_path, monkeypatch):
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
    with pytest.raises(InputError, match="source is 'H'.*host memory is for the model endpoint_engines"):
        read_graphs(path, TREE, size_bytes=SIZE)
    path.write_text("graph,source,target\none,H,H@RC\n")
    with pytest.raises(InputError, match="copies H to H@RC, expected a GPU at one end"):
        read_graphs(path, MEMORY, size_bytes=SIZE)
    everybody = fc.host_copies(TREE, size=SIZE)
    with pytest.raises(InputError, match="no probe tells what memory carries for several GPUs"):
        predict(everybody)
    measured = tmp_path / "measured.csv"
    measured.write_text(
        "graph,communications,role,total_gb_per_s\nalone,0>1,,50\nread,H>0 H>1 H>4 H>5,calibration,80\n"
    )
    found = fc.predict(TREE, everybody, model="endpoint_engines", program="independent", measurements=measured)
    # Eight copies of a second each through memory that serves 80 of 50 GB/s.
    assert found["elapsed_s"].tolist() == pytest.approx([8 * 50 / 80] * 8)
    assert any(note.startswith("memory read 80 GB/s: 1 measured") for note in found.attrs["notes"])
    with pytest.raises(InputError, match="no probe tells what memory carries for several GPUs"):
        fc.predict(TREE, fc.host_copies(TREE, to_host=True), model="endpoint_engines", measurements=measured)


def test_memory_limits_do_not_hold_back_copies_between_gpus():
    """Memory that serves 40 GB/s takes nothing from copies beside it; the total of all is not its own."""
    limits = Calibration(EVEN, {"memory_read": 40e9}, {}, frozenset())
    flows = [("H", "0"), ("H", "1"), ("4", "5")]
    tree, shared = limits_of(limits, MEMORY, flows)
    numbers = [(8, 0), (8, 1), (4, 5)]
    found = copy_times(
        tree, numbers, PROGRAMS["independent"], EVEN, limits=shared, size_bytes=np.full(3, SIZE), start_s=np.zeros(3)
    )
    assert found.end_s == pytest.approx([2.5, 2.5, 1])
    graphs = [
        MeasuredGraph("alone", (("0", "1"),), 50e9, "independent"),
        MeasuredGraph("read", (("H", "0"), ("H", "1")), 40e9, "independent", "calibration"),
        MeasuredGraph("mixed", tuple(flows), 90e9, "independent"),
    ]
    rows = validate_machine(TREE, graphs).rows.set_index("graph")
    assert rows.loc["mixed", "judged"] and rows.loc["mixed", "forecast_bytes_per_s"] > 45e9


def test_direct_links_are_taken_where_the_topology_tells_their_rate():
    flows = fc.graph([(0, 4), (1, 2)], size=SIZE)
    joined = replace(TREE, peer_links=(PeerLink("NVLink", ("0", "4"), 200e9),))
    found = predict(flows, tree=joined, program="independent")
    assert found["elapsed_s"].tolist() == pytest.approx([0.25, 1])
    assert any("at the rate that the topology tells" in note for note in found.attrs["notes"])
    assert predict(flows, tree=joined, program="independent", pcie_only=True)["elapsed_s"].tolist() == [1, 1]
    untold = replace(TREE, peer_links=(PeerLink("NVLink", ("0", "4")),))
    with pytest.raises(PeerLinkError, match="does not tell its rate"):
        predict(flows, tree=untold)
    # Through a switch all that a GPU sends shares its port; two pairs do not share anything.
    switch = replace(TREE, peer_links=(PeerLink("NVSwitch", ("0", "1", "2", "3"), 100e9),))
    both = predict(fc.graph([(0, 1), (0, 2), (3, 1)], size=SIZE), tree=switch, program="independent")
    assert both["elapsed_s"].tolist() == pytest.approx([1, 1, 1])
    apart = predict(fc.graph([(0, 1), (1, 0), (2, 3)], size=SIZE), tree=switch, program="independent")
    assert apart["elapsed_s"].tolist() == pytest.approx([0.5] * 3)
    with pytest.raises(InputError, match="bytes_per_s of NVLink between 0, 4 is 1, expected"):
        replace(TREE, peer_links=(PeerLink("NVLink", ("0", "4"), 1.0),))


def test_rates_of_direct_links_are_kept_in_files(tmp_path):
    path = tmp_path / "machine.yaml"
    text = "name: machine\npeer_links:\n  - {kind: NVLink, endpoints: ['0', '1'], bytes_per_s: 50.0e+9}\nvertices:\n"
    text += "  - {name: RC, kind: root_complex}\n" + "".join(
        f"  - {{name: '{k}', kind: endpoint, parent: RC}}\n" for k in range(2)
    )
    path.write_text(text)
    assert direct_rates(load_tree(path).peer_links)["1", "0"] == 50e9
    shown = CliRunner().invoke(app, ["topology", "show", str(path)]).stdout
    assert "50 GB/s each way" in shown


def test_between_root_complexes_without_a_probe_the_range_says_so():
    tree = replace(load_tree("two_sockets_host"), peer_links=())
    first, *_ = names = tree.accelerator_names
    here = [name for name in names if root_complex_of(tree, name) == root_complex_of(tree, first)]
    there = [name for name in names if name not in here]
    pairs = [(tree.endpoint_number[s], tree.endpoint_number[t]) for s, t in zip(here, there, strict=False)]
    assert len(pairs) >= 2
    several = predict(fc.graph(pairs[:2], size=SIZE), tree=tree, bandwidth="20 GB/s", program="independent")
    assert (several["earliest_s"] < several["elapsed_s"] - 0.1).any()
    assert any("nothing tells what the link between root complexes carries" in note for note in several.attrs["notes"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--program", "torch"], "program is given, and only model 'endpoint_engines' takes it"),
        (["--model", "endpoint_engines", "--tau", "0.1"], "tau is no parameter of 'endpoint_engines'"),
        (["--model", "endpoint_engines", "--program", "nccl"], "program 'nccl'"),
        (["--model", "endpoint_engines", "--system", "x"], "system is given without measurements"),
        (["--model", "endpoint_engines", "--measurements", "none.csv"], "none.csv"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(tmp_path, options, message):
    (tmp_path / "graphs.csv").write_text("graph,source,target\na,0,1\n")
    found = CliRunner().invoke(app, ["predict", "storm8", str(tmp_path / "graphs.csv"), *options])
    assert found.exit_code != 0
    assert message in str(found.exception or found.output)


def test_measurements_exclude_other_rates(tmp_path):
    with pytest.raises(InputError, match="excludes bandwidth: both tell the rates of copies"):
        predict(fc.graph([(0, 1)]), measurements=tmp_path / "measured.csv")


def test_the_model_is_listed():
    assert "endpoint_engines" in CliRunner().invoke(app, ["models"]).stdout


def test_predict_and_validate_agree_on_a_public_machine():
    """With the same measurements, single rounds of few copies take what validate forecasts of their total."""
    from fabricast.core.resources import published

    tree, system = load_tree("crossed_virtual_switches"), "WRX90 2VS V1"
    path = published() / "pcie_concurrent_copies.csv"
    judged = fc.validate_machine(tree, path, system=system).rows
    few = judged[judged["judged"] & (judged["graph_class"] == "few copies") & (judged["flows"] > 1)]
    assert len(few) > 3
    for row in few.to_dict("records"):
        flows = [tuple(map(int, arc.split(">"))) for arc in row["communications"].split()]
        if len({s for s, _ in flows}) < len(flows) or len({t for _, t in flows}) < len(flows):
            continue
        found = fc.predict(
            tree, fc.graph(flows, size="10 GB"), model="endpoint_engines", program=row["program"], measurements=path,
            system=system,
        )  # fmt: skip
        rate = found["size_bytes"].sum() / found["elapsed_s"].max()
        assert rate == pytest.approx(row["forecast_bytes_per_s"], rel=0.02)


def test_rates_bound_what_two_directions_cost():
    rates = LinkRates(50e9, 40e9)
    both = times([(0, 1), (1, 0)], PROGRAMS["independent"], rates)
    assert both.end_s == pytest.approx([1.25, 1.25])


@pytest.mark.parametrize("program", ["unordered_writes", "unordered_reads"])
def test_memory_has_no_engine_and_host_copies_do_not_wait_for_those_between_gpus(program):
    """Two reads of memory run at once, and beside a copy between GPUs of the same engine."""
    numbers = [(8, 0), (8, 4), (0, 1)]
    found = copy_times(MEMORY, numbers, PROGRAMS[program], EVEN, size_bytes=np.full(3, SIZE), start_s=np.zeros(3))
    assert found.end_s == pytest.approx([1, 1, 1])


def test_probes_ask_for_reads_other_directions_and_two_sizes():
    probes = {probe.graph: probe for probe in proposed_probes(load_tree("crossed_virtual_switches"))}
    assert probes["back PIX"].flows == tuple((t, s) for s, t in probes["alone PIX"].flows)
    assert probes["read PHB"].program == probes["near and far, read"].program == "unordered_reads"
    assert probes["small all-to-all below a switch"].size_share == 1 / 16
    (a, c), (b, d) = probes["one uplink to two switches"].flows
    tree = load_tree("crossed_virtual_switches")
    routes = [tree.route(*flow) for flow in ((a, c), (b, d))]
    # The uplink is the one that both use; destinations have ports of their own.
    shared = set(routes[0]) & set(routes[1])
    assert [tree.link_names[link][2] for link in shared] == ["pcie_up"]
    assert tree.vertex(c).parent != tree.vertex(a).parent
    sockets = {probe.graph: probe for probe in proposed_probes(replace(load_tree("two_sockets_host"), peer_links=()))}
    assert [len(sockets[f"{count} pairs between root complexes"].flows) for count in (2, 3)] == [2, 3]
    assert sockets["host to all below RC1"].role == "test" and len(sockets["host to all"].flows) == 8


def test_a_copy_alone_with_the_role_test_is_judged_and_gives_no_parameter():
    graphs = [
        MeasuredGraph("alone", (("0", "1"),), 50e9, "unordered_writes", "calibration"),
        MeasuredGraph("back", (("1", "0"),), 40e9, "unordered_writes", "test"),
    ]
    found = validate_machine(TREE, graphs)
    assert found.calibration.rates.one_way_bytes_per_s == 50e9
    back = found.rows.set_index("graph").loc["back"]
    assert back["judged"] and back["relative_error"] == pytest.approx(0.25)


@pytest.mark.parametrize("program", sorted(PROGRAMS))
@pytest.mark.parametrize(
    "flows", [[(0, 1), (0, 4), (2, 1)], [(0, 1), (1, 0), (0, 4), (4, 0)], [(a, b) for a in range(4) for b in range(4) if a != b]]
)  # fmt: skip
def test_packets_of_single_copies_end_as_the_engine_model_says(program, flows):
    """The same engines and order in flows and in packets: alike where nothing is random, on the mean where it is."""
    rates = LinkRates(50e9, 50e9)
    hardware, tree = hardware_with_rates(rates), tree_with_rates(TREE, rates)
    graphs = replace(from_arcs([flows], size_bytes=2**24), programs=(program,))
    packets = simulate_copies(tree, graphs, hardware)
    flowing = copy_times(TREE, flows, PROGRAMS[program], rates, size_bytes=graphs.size_bytes, start_s=graphs.start_s)
    allowed = 0.15 if PROGRAMS[program].is_random else 0.002
    assert packets.end_s.max() == pytest.approx(flowing.end_s.max(), rel=allowed)
    assert packets.end_s.mean() == pytest.approx(flowing.end_s.mean(), rel=allowed)
    assert (packets.earliest_s <= packets.end_s).all() and (packets.end_s <= packets.latest_s).all()


def test_simulate_takes_programs_of_a_file(tmp_path):
    path = tmp_path / "graphs.csv"
    path.write_text("graph,source,target,program\npytorch,0,1,torch\npytorch,0,4,torch\nfree,0,1,\nfree,0,4,\n")
    result = CliRunner().invoke(
        app, ["simulate", "storm8", str(path), "--size-mib", "16", "-o", str(tmp_path / "out.csv")]
    )
    assert result.exit_code == 0, result.output
    found = duckdb.read_csv(str(tmp_path / "out.csv")).df()
    first, second, one, other = found["elapsed_s"]
    assert second == pytest.approx(2 * first, rel=0.15) and one == pytest.approx(other, rel=1e-3)
    assert one == pytest.approx(2 * first, rel=0.02), "both share the link of their source"
