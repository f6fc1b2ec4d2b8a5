"""Tests of the inventory of slide items: each place exists, and each item that is not done says why."""

import csv
import re

import pytest
import yaml

from fabricast.config import checked_config
from fabricast.core.resources import published
from fabricast.figures.catalogue import figures_of
from fabricast.inputs.studies import study_names
from fabricast.results.claims import read_claims
from fabricast.results.tables import table_names
from tests.conftest import REPOSITORY

PATH = REPOSITORY / "docs" / "studies" / "slide_items.csv"
ROWS = list(csv.DictReader(PATH.open(encoding="utf-8")))
STUDIES = ("pcie", "breakdown", "maxrate", "gpucentric", "percs")


def published_names():
    """Return the first cell of each row of the published tables, and the names of components and observations."""
    names = set()
    for path in published().glob("*.csv"):
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        for row in csv.DictReader(lines):
            names |= {row[key] for key in ("name", "component", "observation", "metric") if row.get(key)}
    return names


@pytest.fixture(scope="module")
def places(settings):
    """Return the names that each kind of place may have."""
    return {
        "claim": {claim.claim for claim in read_claims(published() / "claims")},
        "figure": {f"{study}.{name}" for study in STUDIES for name in figures_of(study, settings)},
        "table": set(table_names()),
        "parameter": published_names(),
    }


@pytest.fixture(scope="module")
def settings():
    """Return the configuration of the default study."""
    return checked_config(yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text(encoding="utf-8")))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: re.sub(r"\W+", "_", row["item"])[:40])
def test_places_of_an_item_exist(row, places):
    for place in row["where"].split():
        kind, _, name = place.partition(":")
        if kind == "file":
            assert (REPOSITORY / name).is_file(), place
        else:
            assert name in places[kind], place


def test_states_need_places_and_reasons():
    for row in ROWS:
        assert row["state"] in ("done", "answered", "source", "part", "absent"), row
        assert bool(row["reason"]) == (row["state"] != "done"), row
        assert row["where"] or row["state"] in ("source", "absent"), row
        assert row["state"] != "answered" or "claim:" in row["where"], row


def test_all_papers_have_items_of_most_kinds():
    assert list(dict.fromkeys(row["study"] for row in ROWS)) == list(STUDIES)
    assert set(STUDIES) < set(study_names(published() / "studies.csv"))
    for study in STUDIES:
        kinds = {row["kind"] for row in ROWS if row["study"] == study}
        assert {"number", "statement", "figure"} <= kinds
    assert len({(row["study"], row["item"]) for row in ROWS}) == len(ROWS)
