"""Every argument of every public function with values of other kinds: a result, or one `InputError`."""

import inspect
import itertools
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fabricast as fc
from tests.fuzz.doors import GRAPHS, MEASUREMENTS, PAIR_TABLE, PROBES

TREE = fc.load_topology("storm8")
PAIRS = [(0, 1)]
#: Valid arguments of each function; files are written by the fixture.
CALLS = {
    "all_to_all": {"tree": TREE},
    "calibrate": {"tree": TREE, "probes": "probes.csv"},
    "cluster_collective": {"node": "hgx_h100", "operation": "all_reduce", "sizes": [1e6], "nodes": 2, "nic": "8x400"},
    "collective": {"tree": "pcie5_four_switches", "operation": "all_reduce", "sizes": [1e6], "cpu": "amd"},
    "collective_step": {"tree": TREE, "name": "ring"},
    "fastest_schedule": {"tree": TREE, "communications": fc.halo_exchange(TREE, (2, 2)), "bandwidth": 1e10, "top": 1},
    "fit_max_rate": {"measurements": "messages.csv", "draws": 20},
    "graph": {"pairs": PAIRS},
    "halo_exchange": {"tree": TREE, "grid": (2, 2)},
    "host_copies": {"tree": TREE},
    "link_loads": {"pattern": "2D-64"},
    "load_cluster": {"files": "hgx_h100", "nodes": 2, "nic": "8x400"},
    "load_machine": {"files": "storm8"},
    "load_topology": {"source": "storm8"},
    "map_ranks": {"pattern": "ring:16", "proposals": 10},
    "map_tasks": {"pattern": "2D-64", "proposals": 10},
    "network_loads": {"pattern": "ring:16"},
    "predict_cluster": {"cluster": fc.load_cluster("hgx_h100", nodes=2, nic="8x400"), "copies": [(0, 8)], "size": 1e6},
    "predict": {"tree": TREE, "graphs": PAIRS, "size": 1e6, "bandwidth": 1e10},
    "random_graphs": {"tree": TREE, "count": 3},
    "read_graphs": {"path": "graphs.csv", "tree": TREE},
    "reference": {"gpu": "H100"},
    "select_method": {"system": "k20_extoll", "size": 1e6},
    "simulate_network": {"pattern": "ring:16,4 KiB", "network": "fat_tree:2,8,4"},
    "simulate": {"tree": TREE, "graphs": PAIRS, "size": 1e5},
    "validate_machine": {"tree": "storm8", "measured": "pairs.csv"},
}
#: Values by kind; functions, because iterators are used up.
KINDS = {
    "array of two dimensions": lambda: np.ones((2, 2)),
    "array without dimension": lambda: np.array(2),
    "array of objects": lambda: np.array([None, "a"], dtype=object),
    "masked array": lambda: np.ma.array([1.0, 2.0], mask=[0, 1]),
    "masked value": lambda: np.ma.masked,
    "tuples of tuples": lambda: ((1,), (2,)),
    "nested lists": lambda: [[[(0, 1)]]],
    "set": lambda: {1, 2},
    "generator of wrong elements": lambda: (one for one in [object(), None]),
    "endless iterator": itertools.count,
    "endless pairs": lambda: itertools.repeat((0, 1)),
    "nan": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "negative": lambda: -1,
    "large": lambda: 10**400,
    "small integer": lambda: np.int8(1),
    "complex": lambda: 1j,
    "decimal": lambda: Decimal("nan"),
    "fraction": lambda: Fraction(1, 3),
    "empty list": list,
    "list of None": lambda: [None],
    "data frame": lambda: pd.DataFrame({"a": [1]}),
    "no time": lambda: pd.NaT,
    "half of a character": lambda: "\ud800",
    "zero byte": lambda: "a\0b",
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    contents = {"graphs.csv": GRAPHS, "messages.csv": MEASUREMENTS, "pairs.csv": PAIR_TABLE, "probes.csv": PROBES}
    for name, text in contents.items():
        Path(name).write_text(text)


def test_all_functions_with_plain_arguments_are_called():
    functions = {name for name in dir(fc) if inspect.isfunction(getattr(fc, name))}
    # Of the others, the arguments are files, objects of other functions, or those of functions above.
    others = {"compare_breakdown", "diagnose", "diagnose_collective", "network_card_copies", "open_run", "what_if"}
    assert functions == CALLS.keys() | others


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_values_of_other_kinds_give_a_result_or_one_line(name, files):
    function, tried = getattr(fc, name), 0
    function(**CALLS[name])
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
            continue
        for make in KINDS.values():
            tried += 1
            try:
                function(**(CALLS[name] | {parameter.name: make()}))
            except fc.InputError as error:
                assert "\n" not in str(error)
    assert tried >= len(KINDS)
