"""Models of users: Python functions that return rates."""

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

import fabricast as fc
from fabricast.config import PcieConfig
from fabricast.core.errors import InputError
from fabricast.core.warnings import WarningCode
from fabricast.pcie.graphs.congestion_graphs import from_pairs
from fabricast.pcie.models.user_model import UserModel, named_function
from fabricast.pcie.tables.predictions import predicted_s
from fabricast.pcie.topology.builtin import load_tree
from fabricast.pcie.topology.files import tree_yaml
from tests.conftest import REPOSITORY

FUNCTION = "def rates(tree, copies):\n    return [1e10 / len(copies)] * len(copies)\n"


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "fair_of_a_user.py").write_text(FUNCTION)
    monkeypatch.chdir(tmp_path)
    return "fair_of_a_user:rates"


def test_rates_change_when_copies_start_and_end(module):
    tree = load_tree("storm8")
    graphs = from_pairs([[(0, 1), (2, 3)]], size_bytes=1e10)
    graphs.size_bytes[1] = 2e10
    assert UserModel(named_function(module)).end_s(tree, graphs).tolist() == [2.0, 3.0]
    assert predicted_s(tree, graphs, module, bandwidth_bytes_per_s=1e10, tau=0.0).tolist() == [2.0, 3.0]


def test_function_is_a_model_of_predict():
    table = fc.predict("storm8", [(0, 1), (2, 1)], model=lambda tree, copies: [5e9] * len(copies), size="5 GB")
    assert np.allclose(table["elapsed_s"], 1.0)


@pytest.mark.parametrize(
    "wrong, text",
    [
        (lambda tree, copies: [], r"returned \[\] for 1 copies"),
        (lambda tree, copies: [0.0], r"returned \[0.0\]"),
        (lambda tree, copies: [float("nan")], "positive rate"),
    ],
)
def test_other_rates_are_refused(wrong, text):
    with pytest.raises(InputError, match=text):
        UserModel(wrong).end_s(load_tree("storm8"), from_pairs([[(0, 1)]], size_bytes=1.0))


@pytest.mark.parametrize("name, text", [("no_such_module:f", "cannot be imported"), ("math:pi", "is no function")])
def test_names_of_no_function_are_refused(name, text):
    with pytest.raises(InputError, match=text):
        named_function(name)


def test_configuration_accepts_a_function_and_refuses_other_names():
    base = yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())["pcie"]
    models = ["congestion_factor", "round_robin_upstream", "back_pressure", "my_models:fair"]
    assert PcieConfig(**base | {"models": models}).models == models
    with pytest.raises(ValidationError, match="my_models"):
        PcieConfig(**base | {"models": [*models, "my_models"]})


def test_a_function_gets_the_bandwidth_of_the_other_models(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "def alone(tree, copies):\n    return [tree.bandwidth_bytes_per_s for _ in copies]\n"
    )
    monkeypatch.chdir(tmp_path)
    tree, graphs = load_tree("storm8"), from_pairs([[(0, 1), (2, 3)]], size_bytes=2e9)
    for bandwidth in (1e9, 4e9):
        mine = predicted_s(tree, graphs, "mine:alone", bandwidth_bytes_per_s=bandwidth, tau=0.0)
        other = predicted_s(tree, graphs, "no_contention", bandwidth_bytes_per_s=bandwidth, tau=0.0)
        assert mine.tolist() == other.tolist() == [2e9 / bandwidth] * 2
    times = fc.predict("pcie5_four_switches", [(0, 1)], model=lambda tree, copies: [tree.bandwidth_bytes_per_s])
    assert any(str(one.text).startswith("bandwidth ") for one in times.attrs["warnings"])
    assert times["slowdown"].tolist() == pytest.approx([1.0])


@pytest.mark.parametrize(("rate", "is_expected"), [(15e9, True), (7e9, False)])
def test_rates_above_those_of_a_link_are_a_warning(rate, is_expected):
    """Two copies share the link of one GPU, whose rate is 15.75 GB/s."""
    table = fc.predict("storm8", [(0, 1), (0, 2)], model=lambda tree, copies: [rate] * len(copies))
    assert (WarningCode.IMPLAUSIBLE_RATE in [one.code for one in table.attrs["warnings"]]) == is_expected


@pytest.mark.parametrize("machine", ["hgx_h100", "dgx1_nvlink"])
def test_a_function_gets_copies_over_direct_links(machine):
    table = fc.predict(machine, [("0", "1"), ("2", "1")], size="5 GB", model=lambda tree, copies: [5e9] * len(copies))
    assert np.allclose(table["elapsed_s"], 1.0)
    assert WarningCode.IMPLAUSIBLE_RATE not in [one.code for one in table.attrs["warnings"]]


def test_a_function_gets_copies_of_pairs_without_peer_access(tmp_path):
    path = tmp_path / "staged.yaml"
    path.write_text(tree_yaml(load_tree("pcie5_four_switches")) + "staged: all\n")
    rate = {"model": lambda tree, copies: [5e9] * len(copies)}
    assert np.allclose(fc.predict(path, [("0", "1")], size="5 GB", **rate)["elapsed_s"], 1.0)
    with pytest.raises(InputError, match="through host memory"):
        fc.predict(path, [("0", "1")], transport="staged", **rate)


@pytest.mark.parametrize("machine", ["hgx_h100", "pcie5_four_switches"])
def test_a_function_gets_the_rates_of_single_copies(machine):
    copies = [("0", "1"), ("2", "3")]
    mine = fc.predict(machine, copies, model=lambda tree, running: [tree.copy_bytes_per_s(*one) for one in running])
    default = fc.predict(machine, copies)
    assert mine["elapsed_s"].tolist() == pytest.approx(default["elapsed_s"].tolist())
