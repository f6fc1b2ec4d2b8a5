"""Values and tables that were accepted or ended in a traceback: each is one line now."""

import dataclasses
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fabricast as fc
from fabricast.cli.main import app
from fabricast.core.errors import InputError
from tests.machines import read_copies

TREE = fc.load_topology("storm8")
NETWORK = (
    "groups: 4\nrouters_per_drawer: 4\ncores_per_router: 1\nll_bytes_per_s: 2.0e+10\nd_bytes_per_s: 1.0e+10\n"
    "injection_bytes_per_s: 5.0e+10\n"
)


def probes(column, value):
    row = {"graph": "a", "repetition": "", "source": "0", "target": "1", "size_bytes": 1e6, "elapsed_s": 1e-4}
    return pd.DataFrame([row | {column: value}])


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 0.0])
@pytest.mark.parametrize("column", ["size_bytes", "elapsed_s"])
def test_calibrate_checks_the_numbers_of_a_table(column, value):
    with pytest.raises(InputError, match=f"{column} of the probes contains values that are not positive numbers"):
        fc.calibrate(TREE, probes(column, value))


def test_numbers_of_functions_are_checked():
    halo = fc.halo_exchange(TREE, (4, 2))
    for latency in (-1.0, np.nan, 1e9):
        with pytest.raises(InputError, match="latency_s is .*, expected 0 to 10 s"):
            fc.fastest_schedule(TREE, halo, latency_s=latency, bandwidth=1e9)
    for tiles in (1.5, -1, 0, np.nan, True):
        with pytest.raises(InputError, match="tiles is "):
            fc.link_loads("4D-64", tiles=tiles)
    with pytest.raises(InputError, match="pattern is array.*, expected text or a path"):
        fc.link_loads(np.ones((4, 4)))
    with pytest.raises(InputError, match="do not delimit 1 copies"):
        dataclasses.replace(fc.graph([(0, 1)]), offset=np.array([0, 5]))
    for copies in (lambda: fc.all_to_all(TREE, size=None), lambda: fc.simulate("storm8", [(0, 1)], size=None)):
        with pytest.raises(InputError, match="size is None, expected a number or text"):
            copies()
    with pytest.raises(InputError, match="start_s is None, expected a number"):
        fc.graph([(0, 1)], start_s=None)
    with pytest.raises(InputError, match="threads is 2.5"):
        fc.predict(TREE, [(0, 1)], bandwidth=1e9, threads=2.5)


def parquet(path, columns):
    pq.write_table(pa.table(columns), path)
    return path


def test_parquet_files_are_checked_like_csv(tmp_path):
    path = tmp_path / "x.parquet"
    lists = {"graph": ["a"], "communications": [["0>1", "1>0"]], "total_gb_per_s": [50.0]}
    with pytest.raises(InputError, match="column 'communications' is of type list<.*>, expected texts or numbers"):
        read_copies(parquet(path, lists))
    with pytest.raises(InputError, match="column 'graph' is of type list<.*>, expected texts or numbers"):
        read_copies(parquet(path, {"graph": [["a", "b"]], "source": ["0"], "target": ["1"], "rate_gb_per_s": [50.0]}))
    empty = {
        "graph": pa.array([], pa.string()),
        "communications": pa.array([], pa.string()),
        "total_gb_per_s": pa.array([], pa.float64()),
    }
    with pytest.raises(InputError, match="contains no rows, expected at least one"):
        read_copies(parquet(path, empty))
    copies = {
        "graph": ["a ", "a"],
        "source": ["0", " 2"],
        "target": ["1", "3"],
        "size_bytes": [1e6, 1e6],
        "start_s": [0.0, None],
    }
    graphs = fc.read_graphs(parquet(path, copies), TREE)
    # Blanks around names do not count, and a missing start is 0; NaN is neither a number nor missing.
    assert graphs.names == ("a",)
    assert (graphs.source.tolist(), graphs.start_s.tolist()) == ([0, 2], [0.0, 0.0])
    with pytest.raises(InputError, match="column 'start_s' contains NaN, expected numbers or missing values"):
        fc.read_graphs(parquet(path, copies | {"start_s": [0.0, float("nan")]}), TREE)


def error_of(*arguments):
    return str(CliRunner().invoke(app, list(map(str, arguments))).exception)


def test_values_that_were_accepted_are_rejected(tmp_path):
    graphs = tmp_path / "graphs.csv"
    graphs.write_text("graph,source,target\na,0,1\n")
    assert "generation is 0, expected 1 to 6" in error_of("simulate", "storm8", graphs, "--generation", "0")
    assert "width is 0, expected" in error_of("simulate", "storm8", graphs, "--generation", "3", "--width", "0")
    for share in ("1_0%", "0x1", "5%%", "nan", ""):
        assert f"--reduce is '{share}', expected a share" in error_of(
            "whatif", "thunderx2", "--reduce", f"pio_copy={share}"
        )
    network = tmp_path / "network.yaml"
    network.write_text(NETWORK.replace("groups: 4", "groups: true"))
    assert "network.yaml:1: key 'groups' is a boolean, expected a number or text" in error_of(
        "network", "loads", "4D-64", "--network", network
    )
    parameters = tmp_path / "p.csv"
    for low, high, message in (
        ("nan", "12.1e9", "ci_low is 'nan'"),
        ("13e9", "12e9", "expected ci_low at most ci_high"),
    ):
        parameters.write_text(
            "study,system,name,value,unit,tag,source,ci_low,ci_high\n"
            f"pcie,storm8,bandwidth,12.0e9,bytes/s,measured,x,{low},{high}\n"
        )
        assert message in error_of("predict", "storm8", graphs, "--parameters", parameters)
    timers = tmp_path / "timers.csv"
    for number in ("-1", "0.5"):
        timers.write_text(f"run_id,region,iter,raw_ns,overhead_ns\nr,mpi_isend,{number},330,30\n")
        assert f"with iter {number}, raw_ns 330" in error_of("breakdown", "derive", "--timers", timers, "--name", "x")


@pytest.mark.parametrize(
    ("column", "values"), [("program", ("torch", "independent")), ("role", ("test", "calibration"))]
)
def test_a_graph_has_one_program_and_one_role(tmp_path, column, values):
    path = tmp_path / "copies.csv"
    path.write_text(f"graph,source,target,rate_gb_per_s,{column}\na,0,1,50,{values[0]}\na,1,2,50,{values[1]}\n")
    with pytest.raises(InputError, match=f"copies.csv:3: {column} is '.*', expected '.*' as in the other rows of 'a'"):
        read_copies(path)


def test_graphs_draw_themselves():
    graphs = fc.graph([(0, 1), (1, 0), (4, 1)], name="<x>")
    assert repr(graphs) == "CongestionGraphs(1 graph, 3 copies)"
    drawing = graphs._repr_html_()
    svg = ElementTree.fromstring(drawing[: drawing.index("</svg>") + 6])
    names = [element.text for element in svg.iter() if element.tag.endswith("text")]
    titles = [element.text for element in svg.iter() if element.tag.endswith("title")]
    assert names == ["0", "1", "4"]
    assert titles == ["<x>: 3 copies", "0 to 1", "1 to 0", "4 to 1"]
    many = fc.all_to_all(fc.load_topology("pcie5_four_switches"))
    assert many._repr_html_().count("<title>") == 57


def test_a_size_for_graphs_with_sizes_is_an_error():
    tree = fc.load_topology("storm8")
    graphs = fc.random_graphs(tree, 3, size="4 MiB")
    assert fc.predict(tree, graphs)["size_bytes"].unique().tolist() == [4 * 2**20]
    with pytest.raises(fc.InputError, match="is for pairs without sizes"):
        fc.predict(tree, graphs, size="16 MiB")


def test_a_model_may_be_named_as_in_the_configuration(tmp_path, monkeypatch):
    (tmp_path / "my_models_of_a_test.py").write_text("def rates(tree, copies):\n    return [1e9] * len(copies)\n")
    monkeypatch.syspath_prepend(tmp_path)
    times = fc.predict("storm8", [(0, 1)], size=1e9, model="my_models_of_a_test:rates")
    assert times["elapsed_s"].tolist() == [1.0]
    with pytest.raises(fc.InputError, match="cannot be imported"):
        fc.predict("storm8", [(0, 1)], model="my_models_of_a_test:others")


def test_keys_of_nested_sections_are_suggested(tmp_path):
    path = tmp_path / "tree.yaml"
    path.write_text(
        "name: one\nvertices:\n  - {name: RC, kind: root_complex}\n  - {name: S, kind: switch, capacty: 2, parent: RC}\n"
    )
    with pytest.raises(fc.InputError, match=r"'vertices.1.capacty' is unknown \(did you mean 'capacity'\?\)"):
        fc.load_topology(path)


def test_published_and_example_systems_have_names():
    assert fc.what_if("integrated_nic", hlp=0.2).share_removed > 0
    with pytest.raises(fc.InputError, match="did you mean 'integrated_nic'"):
        fc.what_if("integrated_nik", hlp=0.2)
