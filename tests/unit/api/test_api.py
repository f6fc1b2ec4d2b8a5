"""Public interface of `fabricast`."""

import pydoc
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fabricast as fc
from fabricast.core.errors import InputError
from fabricast.core.warnings import WarningCode
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.topology.paths import link_labels
from fabricast.pcie.topology.regular import regular_tree
from tests.conftest import REPOSITORY
from tests.unit.sources.test_formats import EXAMPLES

BANDWIDTH = "10 GB/s"
TREES = [regular_tree("eight", (2, 2, 2)), regular_tree("flat", (2, 4)), regular_tree("sockets", (2, 2), sockets=2)]


def in_fresh_process(program, cwd=REPOSITORY):
    return subprocess.run([sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, check=True).stdout


def test_import_loads_no_large_libraries_and_changes_no_settings():
    # scikit-learn sets KMP_* in any process that imports it.
    loaded = in_fresh_process("import sys; import fabricast; print(*sys.modules)").split()
    assert not {"numpy", "pandas", "numba", "matplotlib", "duckdb", "snakemake", "sklearn", "pyarrow"} & set(loaded)
    # The optimisers of scipy alone cost half a second.
    loaded = in_fresh_process("import sys; import fabricast as fc; fc.predict; print(*sys.modules)").split()
    assert "pandas" in loaded
    assert "scipy.optimize" not in loaded
    program = (
        "import os, matplotlib\n"
        "def state(): return ({k: v for k, v in os.environ.items() if not k.startswith('KMP_')}, matplotlib.rcParams._get('backend'))\n"
        "before = state()\n"
        "import fabricast as fc\n"
        "for name in dir(fc): getattr(fc, name)\n"
        "tree = fc.load_topology('storm8')\n"
        "fc.predict(tree, fc.all_to_all(tree)); fc.simulate(tree, fc.graph([(0, 1)], size='1 MiB'))\n"
        "print(state() == before)"
    )
    assert in_fresh_process(program) == "True\n"


def test_every_public_name_is_importable_and_documented():
    assert len(pydoc.render_doc(fc).splitlines()) < 60
    for name in dir(fc):
        if not name.startswith("_"):
            assert getattr(fc, name).__doc__, name
    with pytest.raises(AttributeError, match="'predct' .did you mean 'predict'"):
        fc.predct  # noqa: B018


@pytest.mark.slow
def test_example_session_runs(tmp_path):
    """The example session of README.md runs in one process."""
    (tmp_path / "machine.yaml").write_text((REPOSITORY / "config" / "topologies" / "storm8.yaml").read_text())
    program = """
import fabricast as fc
tree = fc.load_topology("machine.yaml")
graphs = fc.halo_exchange(tree, (4, 2), size="300 MiB")
fc.all_to_all(tree); fc.graph([(0, 1), (1, 4)])
times = fc.predict(tree, graphs, bandwidth="11 GiB/s", tau=0.0)
assert {"graph", "communication", "source", "target", "elapsed_s", "slowdown", "bottleneck"} <= set(times)
fc.simulate(tree, graphs); fc.fastest_schedule(tree, graphs)
fc.link_loads("4D-64", mapping="RNM"); fc.what_if("thunderx2", pio_copy=0.84)
fc.select_method("summit_spectrum", "512 KiB")
print(len(times))
"""
    assert in_fresh_process(program, cwd=tmp_path) == "20\n"


pairs = st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda pair: pair[0] != pair[1])


@pytest.mark.slow
@given(st.sampled_from(TREES), st.lists(pairs, min_size=1, max_size=12, unique=True), st.sampled_from(sorted(MODELS)))
def test_explanation_does_not_change_times(tree, chosen, model):
    values = {"tau": 0.1} if "tau" in MODELS[model].parameters else {}
    times = fc.predict(tree, fc.graph(chosen), bandwidth=BANDWIDTH, model=model, **values)
    labels, names = link_labels(tree), tree.endpoint_names
    for (source, target), bottleneck in zip(chosen, times["bottleneck"], strict=True):
        assert bottleneck in [labels[link] for link in tree.route(names[source], names[target])]
    plain = fc.predict(tree, fc.graph(chosen), bandwidth=BANDWIDTH, model=model, explain=False, **values)
    assert plain["elapsed_s"].tolist() == times["elapsed_s"].tolist()


@pytest.mark.parametrize("model", ["congestion_factor", "round_robin_upstream", "back_pressure"])
def test_bottleneck_of_a_blocked_copy_is_on_its_route_and_the_cause_further_on(model):
    # Worked example: copies 0>2 and 1>4 share an upstream port, and 1>4 is limited by the link into endpoint 4.
    # Copy 3>2 uses the remaining bandwidth of the link into endpoint 2.
    copies = [(0, 2), (1, 4), (3, 2), (6, 4)]
    times = fc.predict(TREES[0], fc.graph(copies), bandwidth=BANDWIDTH, tau=0.2, model=model)
    assert times["bottleneck"].tolist() == [
        "link S1 > S0",
        "endpoint 4 receives",
        "endpoint 2 receives",
        "endpoint 4 receives",
    ]
    assert times["caused_by"].tolist() == ["endpoint 4 receives", "", "", ""]
    assert times["limited_by"][0] == "1>4 6>4" or times["limited_by"][0].startswith("1>4")
    alone = fc.predict(TREES[0], fc.graph(copies[:2] + copies[3:]), bandwidth=BANDWIDTH, tau=0.2, model=model)
    assert alone["slowdown"].tolist() == pytest.approx(
        [times["slowdown"][0], times["slowdown"][1], times["slowdown"][3]]
    )
    fair = fc.predict(TREES[0], fc.graph(copies), bandwidth=BANDWIDTH, model="max_min")
    assert fair["bottleneck"].tolist() == [f"endpoint {end} receives" for end in (2, 4, 2, 4)]


def test_bottleneck_of_gathers_scatters_and_sequential_copies(tmp_path):
    tree = TREES[0]
    gather = fc.predict(tree, fc.graph([(source, 0) for source in range(1, 8)]), bandwidth=BANDWIDTH)
    assert set(gather["bottleneck"]) == {"endpoint 0 receives"}
    scatter = fc.predict(tree, fc.graph([(0, target) for target in range(1, 8)]), bandwidth=BANDWIDTH)
    assert scatter["bottleneck"].tolist() == ["endpoint 0 sends"] + [
        f"waits for 0>{target} of GPU 0, assumed order" for target in range(1, 7)
    ]
    (tmp_path / "later.csv").write_text("graph,source,target,size_bytes,start_s\ng,0,1,1e9,0\ng,2,1,1e9,10\n")
    later = fc.predict(tree, fc.read_graphs(tmp_path / "later.csv", tree), bandwidth=BANDWIDTH)
    assert later["limited_by"].tolist() == ["", ""], "the first has ended when the second starts"
    assert later["slowdown"].tolist() == pytest.approx([1, 1])


def test_python_and_command_line_predict_the_same_times(tmp_path):
    from typer.testing import CliRunner

    from fabricast.cli.main import app

    (tmp_path / "g.csv").write_text("graph,source,target\ng,0,1\ng,2,1\ng,3,1\n")
    result = CliRunner().invoke(app, ["predict", "storm8", str(tmp_path / "g.csv"), "-o", str(tmp_path / "out.csv")])
    assert result.exit_code == 0, result.output
    tree = fc.load_topology("storm8")
    predicted = fc.predict(tree, fc.read_graphs(tmp_path / "g.csv", tree))
    written = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    assert written.columns.tolist() == predicted.columns.tolist()
    assert written["elapsed_s"].tolist() == pytest.approx(predicted["elapsed_s"].tolist(), rel=1e-14)
    assert written["bottleneck"].tolist() == predicted["bottleneck"].tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fc.load_topology("strom8"), "did you mean 'storm8'"),
        (lambda: fc.predict(TREES[0], fc.graph([(0, 1)]), model="maxmin", bandwidth=1e9), "did you mean 'max_min'"),
        (lambda: fc.predict(TREES[0], fc.graph([(0, 1)])), "has no link speed"),
        (
            lambda: fc.predict(TREES[0], fc.graph([(0, 1)]), bandwidth="24 GiB"),
            "bandwidth is '24 GiB', expected bytes/s",
        ),
        (
            lambda: fc.predict(TREES[0], fc.graph([(0, 9)]), bandwidth=1e9),
            "graphs contains endpoint number 9, expected 0 to 8",
        ),
        (lambda: fc.simulate("storm8", [("H", 0)]), "contains endpoint number 8, which is host memory"),
        (lambda: fc.graph([]), "expected one or more pairs"),
        (lambda: fc.predict("storm8", [0, 1]), "pairs contains 0, expected pairs of source and target"),
        (lambda: fc.predict("storm8", [(0, 1)], model=3), "model is 3, expected text or a Model"),
        (lambda: fc.graph([(0, 1)], size="big"), "size is 'big'"),
        (lambda: fc.simulate(TREES[0], fc.graph([(0, 1)]), hardware="split_256_127"), "did you mean 'split_256_128'"),
        (
            lambda: fc.simulate(TREES[0], fc.graph([(0, 1)]), generation=3, parameters="x.csv"),
            "parameters excludes generation",
        ),
        (
            lambda: fc.fastest_schedule(TREES[0], fc.graph([(0, 1)]), mode="async", bandwidth=1e9),
            "mode 'async' is unknown",
        ),
        (lambda: fc.what_if("thunderx2", pio_copi=0.5), "did you mean 'pio_copy'"),
        (lambda: fc.what_if("thunder2"), "did you mean 'thunderx2'"),
        (lambda: fc.link_loads("4D-64", mapping="RNN"), "did you mean"),
        (lambda: fc.select_method("sumit_spectrum", 64), "did you mean 'summit_spectrum'"),
        (lambda: fc.select_method("summit_spectrum", 64, nodes=1), "nodes is 1, expected 2"),
        (
            lambda: fc.fit_max_rate(pd.DataFrame({"processes": [1]})),
            "measurements lacks the columns size_bytes, time_s",
        ),
        (lambda: fc.open_run("no/such/folder"), "does not exist"),
        (
            lambda: fc.predict(TREES[0], fc.graph([(0, 1)]), bandwidth=1e9, threads=0),
            "threads is 0, expected 1 to 4,096",
        ),
        (lambda: fc.fastest_schedule(TREES[0], fc.graph([(0, 1)]), bandwidth=1e9, top=0), "top is 0, expected 1"),
        (
            lambda: fc.fastest_schedule(TREES[0], fc.graph([(0, 9)]), bandwidth=1e9),
            "communications contains endpoint number 9",
        ),
        (lambda: fc.fit_max_rate(pd.DataFrame(), draws=1), "draws is 1, expected 20"),
        (lambda: fc.calibrate(TREES[0], pd.DataFrame({"graph": ["a"]})), "probes lacks the columns repetition, source"),
    ],
)
def test_error_messages_contain_the_name_of_the_argument(call, message):
    with pytest.raises(fc.InputError) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_calibrated_parameters_are_accepted_by_predict(tmp_path):
    tree = fc.load_topology("storm8")
    names = tree.endpoint_names

    def probe(kind, pairs):
        ends = fc.simulate(tree, fc.graph(pairs), hardware="split_256_128")
        return pd.DataFrame(
            {
                "graph": kind,
                "repetition": 0,
                "source": [names[s] for s, _ in pairs],
                "target": [names[t] for _, t in pairs],
                "size_bytes": 300 * 2.0**20,
                "elapsed_s": ends["elapsed_s"],
            }
        )

    probes = pd.concat([probe("a", [(0, 1)]), probe("b", [(0, 4)]), probe("c", [(5, 4), (0, 4)])], ignore_index=True)
    parameters = fc.calibrate(tree, probes)
    assert parameters["name"].tolist() == ["bandwidth", "crossing_cost", "tau"]
    assert parameters.attrs["not_determined"] == []
    parameters.to_csv(tmp_path / "p.csv", index=False)
    times = fc.predict(tree, fc.graph([(0, 1)]), model="congestion_factor", parameters=tmp_path / "p.csv")
    assert times["elapsed_s"].iloc[0] == pytest.approx(300 * 2**20 / parameters["value"].iloc[0])
    warnings = [one for one in times.attrs["warnings"] if not one.code.is_note]
    assert [one.text.split(" is not used")[0] for one in warnings] == ["crossing_cost 1.08572"]


def test_fits_mark_parameters_that_the_data_do_not_determine():
    sizes = 2.0 ** np.arange(10, 22)
    frame = pd.DataFrame({"processes": 1, "size_bytes": sizes, "time_s": 1e-6 + sizes / 3e9})
    fit = fc.fit_max_rate(frame, model="maxrate", draws=20).set_index("parameter")
    assert not fit.loc["r_n", "determined"]
    assert np.isnan(fit.loc["r_n", "value"])
    assert fit.loc["s", "low"] <= 1e-6 <= fit.loc["s", "high"]


def test_notebook_output_escapes_names_from_input_files():
    from fabricast.pcie.topology.parts import Vertex
    from fabricast.pcie.topology.tree import PcieTree

    vertices = (Vertex("RC", "root_complex", None), Vertex("<i>&", "endpoint", "RC"), Vertex("1", "endpoint", "RC"))
    tree = PcieTree("<script>", vertices)
    for html in (tree._repr_html_(), fc.predict(tree, fc.graph([(0, 1)]), bandwidth=1e9)._repr_html_()):
        assert "<i>&" not in html
        assert "<script>" not in html
        assert "&lt;i&gt;&amp;" in html
    schedule = fc.fastest_schedule(TREES[0], fc.halo_exchange(TREES[0], (4, 2)), bandwidth=1e9)
    assert "optimal" in schedule._repr_html_()
    ends = fc.predict(TREES[0], fc.all_to_all(TREES[0]), bandwidth=1e9)
    assert ends._repr_html_().count("<rect") == 40, "the number of bars in a timeline is limited"
    assert all(first <= second for first, second in pairwise(sorted(ends["slowdown"])))


@pytest.mark.parametrize("model", [*MODELS, "ports_and_engines", "endpoint_engines"])
@pytest.mark.parametrize(("name", "neutral", "value"), [("tau", 0.0, 0.2), ("crossing_cost", 1.0, 1.5)])
def test_a_parameter_changes_the_forecast_or_is_refused(model, name, neutral, value):
    """A local and a crossing copy with a common target, and a crossing copy alone."""
    tree = fc.load_topology("storm8")
    graphs = [fc.graph(pairs) for pairs in ([(0, 1), (4, 1)], [(0, 4)], [(0, 5), (1, 5), (6, 5)])]

    def times(given):
        return [fc.predict(tree, graph, model=model, explain=False, **{name: given})["elapsed_s"] for graph in graphs]

    before = times(neutral) if model != "endpoint_engines" or name != "tau" else []
    try:
        after = times(value)
    except fc.InputError as error:
        assert f"{name} is not a parameter of '{model}'" in str(error)
        return
    assert any((one != other).any() for one, other in zip(before, after, strict=True))


def test_results_are_displayed_as_a_few_lines():
    cluster = fc.load_cluster("hgx_h100", nodes=2, nic="8x400")
    copies = fc.predict_cluster(cluster, [("node0.gpu0", "node1.gpu0")], size="1 MiB", alternatives=False)
    shown = {
        repr(fc.load_machine("storm8")): "Machine 'storm8': 8 x GPUs",
        repr(cluster): "ClusterMachine: 2 x hgx_h100 (8 GPUs, 8 cards)",
        repr(copies): "1 copy: 0.02316 ms, limited by node0: card nic0 sends",
        repr(fc.cluster_collective("hgx_h100", sizes=["1 MiB"])): "all_reduce, 8 x H100 SXM5 (NVSwitch",
        repr(fc.map_ranks("halo:4x4", network="fat_tree:2,4,2")): "halo of 4x4 ranks",
        repr(fc.reference("H100", sizes=["1 MiB"])): "all_reduce, 8 x H100: ",
    }
    for text, start in shown.items():
        assert text.startswith(start)
        assert len(text.splitlines()) < 30
        assert max(len(line) for line in text.splitlines()) < 200


def test_graphs_are_random_sets_frames_or_lists():
    tree = fc.load_topology("storm8")
    graphs = fc.random_graphs(tree, 20, smallest=2, largest=6, seed=7)
    again = fc.random_graphs(tree, 20, smallest=2, largest=6, seed=7)
    assert len(graphs) == 20 and set(np.diff(graphs.offset)) <= set(range(2, 7))
    assert graphs.source.tolist() == again.source.tolist()
    frame = pd.DataFrame(
        {"graph": ["a", "a", "b"], "source": [0, "1", 2], "target": [1, 2, "4"], "size_bytes": [1e6, 2e6, 3e6]}
    )
    of_frame = fc.predict(tree, frame)
    assert of_frame["graph"].tolist() == ["a", "a", "b"] and of_frame["size_bytes"].tolist() == [1e6, 2e6, 3e6]
    parts = [fc.graph([(0, 1), (1, 2)], size=[1e6, 2e6]), fc.graph([(2, 4)], size=3e6)]
    of_list = fc.predict(tree, parts)
    assert of_list["elapsed_s"].tolist() == of_frame["elapsed_s"].tolist()
    assert of_list["graph"].tolist() == ["graph.1", "graph.1", "graph.2"]
    with pytest.raises(fc.InputError, match="has the columns source, target, expected graph, source, target"):
        fc.predict(tree, frame[["source", "target"]])
    with pytest.raises(fc.InputError, match="smallest is 3, expected 1 to 1"):
        fc.random_graphs(tree, 2, smallest=3, largest=1)


def test_numbers_are_those_of_gpus_and_host_memory_has_a_name():
    with pytest.raises(fc.InputError, match="contains 8, expected endpoint numbers from 0 to 7, or names; 'H' is host"):
        fc.predict("storm8", [(0, 8)])
    assert fc.predict("storm8", [(0, "H")])["target"].tolist() == ["H@RC"]


def test_the_simulator_names_its_rate_of_one_copy():
    warnings = fc.simulate("pcie5_four_switches", [(0, 1)], size="1 MiB").attrs["warnings"]
    assert any("a single copy is simulated at 57.6" in one.text for one in warnings)


def test_simulations_of_staged_copies_say_that_they_are_direct():
    tree = replace(fc.load_topology("pcie5_four_switches"), staged_pairs=(("0", "1"),))
    codes = {
        pair: [warning.code for warning in fc.simulate(tree, [pair], size="1 MiB").attrs["warnings"]]
        for pair in ((0, 1), (2, 3))
    }
    assert WarningCode.STAGED_AS_DIRECT in codes[0, 1] and WarningCode.STAGED_AS_DIRECT not in codes[2, 3]


def test_graphs_are_made_from_names_machines_and_files(tmp_path):
    (tmp_path / "topo.txt").write_text((EXAMPLES / "nvidia_smi_topo.txt").read_text())
    assert len(fc.random_graphs("storm8", 3)) == 3
    machine = fc.load_machine("storm8")
    assert fc.all_to_all(machine).source.size == fc.all_to_all("storm8").source.size == 56
    assert len(fc.collective_step(machine, "ring")) == len(fc.collective_step(machine.tree, "ring"))
    assert fc.all_to_all(tmp_path / "topo.txt").source.size > 0
    with pytest.raises(InputError, match="storm9"):
        fc.all_to_all("storm9")


def test_the_text_of_a_prediction_has_the_time():
    text = repr(fc.predict("storm8", [(0, 1), (2, 3)]))
    assert text.splitlines()[0].split()[:3] == ["source", "target", "elapsed_s"] and "also " in text
