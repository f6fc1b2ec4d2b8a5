"""Comparisons that a researcher makes: mappings of tasks, slowdowns of models and simulation, functions of users."""

import numpy as np
import pytest

import fabricast as fc


def test_named_mappings_and_the_search_are_compared_by_their_busiest_link(tmp_path):
    found = fc.map_tasks("2D-64", proposals=5000)
    times = found.times.set_index("mapping")["time_s"]
    assert {"DEF", "BSM", "RNM", "search"} <= set(times.index)
    assert times["search"] == found.time_s <= times.drop("search").min()
    loads = fc.link_loads("2D-64", mapping="BSM").query("routing == 'direct' and bottleneck")
    assert times["BSM"] == pytest.approx(loads["time_s"].iloc[0])
    assert found.packets_s >= found.time_s * (1 - 1e-9)
    # Every router of a full network holds as many ranks as it has cores.
    counts = np.bincount(found.router_of_rank, minlength=found.routers)
    assert counts.max() == found.ranks_per_node and counts.sum() == found.nodes * found.ranks_per_node
    assert [path.exists() for path in found.write(tmp_path / "best", [f"n{i}" for i in range(found.routers)])]
    with pytest.raises(fc.InputError, match="expected one for each of the 2,048 routers"):
        found.write(tmp_path / "other", ["n0"])
    with pytest.raises(fc.InputError, match="two-level direct networks: map_tasks maps it"):
        fc.map_ranks("2D-64")


def test_slowdowns_of_models_and_simulation_compare():
    tree = fc.load_topology("storm8")
    graph = [(0, 1), (2, 1), (6, 7)]
    simulated = fc.simulate(tree, graph, generation=3, width=16)["slowdown"]
    assert simulated.tolist() == pytest.approx([2, 2, 1], rel=1e-3)
    assert simulated.tolist() == pytest.approx(fc.predict(tree, graph, model="max_min")["slowdown"].tolist(), rel=1e-3)


@pytest.mark.parametrize("name", ["tau", "crossing_cost"])
def test_a_function_of_the_user_has_no_parameters_of_other_models(name):
    with pytest.raises(fc.InputError, match="is not a parameter of a function of yours"):
        fc.predict("storm8", [(0, 1)], model=lambda tree, copies: np.full(len(copies), 1e9), **{name: 1.2})


def test_a_valid_description_without_measurements_is_called_valid(tmp_path):
    with pytest.raises(fc.InputError, match="describe a valid machine of 8 GPUs, but have no measured copies"):
        fc.validate_machine("storm8")
