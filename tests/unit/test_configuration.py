"""Configuration: generated documentation, checks of keys and values."""

import math

import pytest

from fabricast import config as configuration
from fabricast.config import documentation
from fabricast.core.errors import InputError
from fabricast.inputs.yaml_files import load_model
from fabricast.pcie.models.catalogue import MODELS
from tests.conftest import REPOSITORY


def test_generated_files_are_up_to_date():
    regenerate = "run: python -m fabricast.config"
    assert (REPOSITORY / "config" / "README.md").read_text() == documentation.config_markdown(), regenerate
    schema = (REPOSITORY / "workflow" / "schemas" / "config.schema.json").read_text()
    assert schema == documentation.config_schema(), regenerate


def test_every_study_file_fits_the_configuration():
    base = load_model(REPOSITORY / "config" / "config.yaml", configuration.Config).model_dump(mode="json")
    assert set(base["pcie"]["models"]) <= set(MODELS)
    assert set(configuration.pcie.ModelName.__args__) == set(MODELS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sed": 1}, "key 'sed' is unknown"),
        ({"seed": "x"}, "key 'seed' is 'x'"),
        ({"pcie": {"graph_sets": {}, "models": ["congestion_factor"]}}, "at least one graph set"),
        (
            {
                "pcie": {
                    "graph_sets": {"all": {"topology": "storm8", "random_graphs": 1}},
                    "models": ["congestion_factor"],
                }
            },
            "'all'",
        ),
        (
            {
                "pcie": {
                    "graph_sets": {"a/b": {"topology": "storm8", "random_graphs": 1}},
                    "models": ["congestion_factor"],
                }
            },
            "a/b",
        ),
        ({"pcie": {"graph_sets": {"a": {"topology": "storm8"}}, "models": ["congestion_factor"]}}, "no graphs"),
        ({"pcie": {"graph_sets": {"a": {"topology": "storm8", "random_graphs": 1}}, "models": ["magic"]}}, "magic"),
        (
            {"pcie": {"graph_sets": {"a": {"topology": "storm8", "random_graphs": 1}}, "models": ["max_min"]}},
            "congestion_factor",
        ),
    ],
)
def test_invalid_configuration_is_rejected_in_one_line(change, message):
    base = load_model(REPOSITORY / "config" / "config.yaml", configuration.Config).model_dump(mode="json")
    with pytest.raises(InputError) as caught:
        configuration.checked_config(base | change)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sets_without_a_number_of_random_graphs_use_the_common_one():
    base = load_model(REPOSITORY / "config" / "config.yaml", configuration.Config).model_dump(mode="json")
    sets = {"mine": {"topology": "boards4"}, "few": {"topology": "boards4", "random_graphs": 2}}
    checked = configuration.checked_config(base | {"pcie": base["pcie"] | {"graph_sets": sets, "random_graphs": 7}})
    assert {name: entry.random_graphs for name, entry in checked.pcie.graph_sets.items()} == {"mine": 7, "few": 2}
    with pytest.raises(InputError, match="random_graphs"):
        configuration.checked_config(base | {"pcie": base["pcie"] | {"random_graphs": -1}})


@pytest.mark.parametrize(
    ("study", "key", "value"),
    [
        ("pcie", "size_mib", math.inf),
        ("pcie", "bandwidth_gib_per_s", math.inf),
        ("pcie", "crossing_cost", 1e308),
        ("pcie", "tau", math.nan),
        ("percs", "seeds", 10**9),
        ("percs", "packet_kib", math.inf),
        ("maxrate", "draws", 10**12),
        ("breakdown", "samples", 10**18),
    ],
)
def test_out_of_range_numbers_in_the_configuration_are_rejected(study, key, value):
    values = load_model(REPOSITORY / "config" / "config.yaml", configuration.Config).model_dump(mode="json")
    values[study][key] = value
    with pytest.raises(InputError, match=rf"key '{study}\.{key}' is "):
        configuration.checked_config(values)
    values[study].pop(key)
    values["pcie"]["graph_sets"]["storm8"]["validation_graphs"] = 10**9
    with pytest.raises(InputError, match="validation_graphs"):
        configuration.checked_config(values)


def test_functions_of_users_need_graphs_that_evaluate_them():
    path = REPOSITORY / "config" / "config.yaml"
    values = load_model(path, configuration.Config).model_dump(mode="json")
    values["pcie"]["models"] = ["congestion_factor", "mine:rates"]
    values["pcie"]["hardware"] = []
    values["pcie"]["graph_sets"] = {"lab": {"topology": "storm8", "random_graphs": 5}}
    with pytest.raises(InputError, match="which only graph sets with validation_graphs evaluate"):
        configuration.checked_config(values)
    values["pcie"]["graph_sets"]["lab"]["validation_graphs"] = 5
    assert "mine:rates" in configuration.checked_config(values).pcie.models
    # Sets of the study do not count where the user has sets, which alone run.
    values["pcie"]["graph_sets"]["own"] = {"topology": "lab.yaml", "graphs_file": "graphs.csv"}
    with pytest.raises(InputError, match="which only graph sets with validation_graphs evaluate"):
        configuration.checked_config(values)
    del values["pcie"]["graph_sets"]["own"]
    for name, message in (
        ("ports_and_engines", "is a model of measured machines"),
        ("mine.rates", "'mine.rates' is unknown, expected one of"),
        ("max_mn", "did you mean 'max_min'"),
    ):
        values["pcie"]["models"] = ["congestion_factor", name]
        with pytest.raises(InputError, match=message):
            configuration.checked_config(values)
