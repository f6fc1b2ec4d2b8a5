"""Tests of bottlenecks and limiting copies: properties over random graphs, four trees and all models."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fabricast as fc
from fabricast.pcie.graphs.congestion_graphs import from_pairs
from fabricast.pcie.machines.engine_model import ENGINE_MODELS
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.removals import removals
from fabricast.pcie.topology.builtin import load_tree
from fabricast.pcie.topology.paths import link_labels

TREES = {name: load_tree(name) for name in ("storm8", "flat4x2", "boards4", "cascade8")}
PAIRS = st.tuples(st.integers(0, 7), st.integers(1, 7)).map(lambda pair: (pair[0], (pair[0] + pair[1]) % 8))
GRAPHS = st.lists(PAIRS, min_size=1, max_size=8, unique=True)


def predicted(tree, pairs, model, **options):
    """Return the forecast of one graph; only some models accept a tau."""
    if model in MODELS and "tau" in MODELS[model].parameters:
        options["tau"] = 0.1735
    return fc.predict(tree, from_pairs([pairs], size_bytes=1e9), model=model, bandwidth=12e9, **options)


@pytest.mark.slow
@given(st.sampled_from([*MODELS, *ENGINE_MODELS]), st.sampled_from(sorted(TREES)), GRAPHS)
def test_explanation_holds_when_the_limiting_copies_are_removed(model, tree_name, pairs):
    tree = TREES[tree_name]
    options = {"program": "independent"} if model in ENGINE_MODELS else {}
    labels = link_labels(tree)
    for number, row in enumerate(predicted(tree, pairs, model, **options).to_dict("records")):
        route = [labels[link] for link in tree.route(row["source"], row["target"])]
        assert row["bottleneck"] in route
        assert row["caused_by"] not in route
        entries = row["limited_by"].split()
        assert bool(entries) == (row["slowdown"] > 1 + 1e-9)
        if not entries:
            assert np.isnan(row["elapsed_without_s"])
            continue
        texts = [f"{source}>{target}" for source, target in pairs]
        others = [place for place in range(len(pairs)) if place != number]
        alone = {place: row_without(tree, pairs, model, number, place, options) for place in others}
        if "+" in entries[0]:
            assert min(alone.values()) >= row["elapsed_s"] * (1 - 2e-9)
            together = {texts.index(text) for text in entries[0].split("+")}
            assert row_without(tree, pairs, model, number, together, options) == pytest.approx(row["elapsed_without_s"])
        else:
            first = alone[texts.index(entries[0])]
            assert first == pytest.approx(row["elapsed_without_s"])
            assert min(alone.values()) >= first * (1 - 1e-9)
        assert row["elapsed_without_s"] < row["elapsed_s"]


def row_without(tree, pairs, model, number, removed, options):
    removed = {removed} if isinstance(removed, int) else removed
    kept = [place for place in range(len(pairs)) if place not in removed]
    times = predicted(tree, [pairs[place] for place in kept], model, explain=False, **options)
    return times["elapsed_s"].iloc[kept.index(number)]


def test_halo_copy_is_limited_by_the_copy_that_leaves_by_the_same_link():
    tree = TREES["storm8"]
    times = fc.predict(tree, fc.halo_exchange(tree, (4, 2)), model="congestion_factor").iloc[0]
    assert (times["source"], times["target"]) == ("0", "1")
    assert (times["bottleneck"], times["caused_by"]) == ("endpoint 0 sends", "link S0 > RC")
    assert times["limited_by"] == "0>4"
    isolated_s = times["elapsed_s"] / times["slowdown"]
    assert times["elapsed_without_s"] / isolated_s == pytest.approx(1.49, abs=0.01)


def test_two_equal_bottlenecks_are_limited_by_copies_together():
    times = fc.predict(TREES["storm8"], [(0, 1), (0, 2), (3, 1)], model="max_min")
    assert times["limited_by"].iloc[0] == "0>2+3>1"
    assert times["elapsed_without_s"].iloc[0] * 2 == pytest.approx(times["elapsed_s"].iloc[0])


def test_many_limiting_copies_are_all_listed():
    texts = fc.predict("storm8", [(source, 0) for source in range(1, 8)] * 3)["limited_by"].tolist()
    assert max(len(text.replace("+", " ").split(" ")) for text in texts) > 8
    assert all(re.fullmatch(r"\d>0", copy) for text in texts for copy in text.replace("+", " ").split(" ") if copy)


def test_graphs_of_many_copies_have_no_limiting_copies():
    graphs = from_pairs([[(0, 1)] * 257, [(0, 1), (2, 1)]], size_bytes=1e9)
    times = fc.predict("storm8", graphs)
    assert set(times["limited_by"][:257]) == {""}
    assert times["limited_by"][257:].tolist() == ["2>1", "0>1"]
    assert "limiting_copies_omitted" in [warning.code for warning in times.attrs["warnings"]]


def test_removals_reevaluate_only_graphs_with_a_slow_copy():
    graphs = from_pairs([[(0, 1)], [(0, 1), (2, 1)]], size_bytes=1.0)
    seen = []

    def times(some):
        seen.extend(some.names)
        return np.ones(some.source.size)

    removals(graphs, np.array([1.0, 2.0, 2.0]), np.array([False, True, True]), times)
    assert set(seen) == {"1"}


def test_simulated_copies_to_one_gpu_limit_each_other():
    found = fc.simulate(
        "storm8", from_pairs([[(1, 0), (2, 0)]], size_bytes=1e6), limited_by=True, generation=3, width=16
    )
    assert found["limited_by"].tolist() == ["2>0", "1>0"]


@pytest.mark.slow
@given(st.sampled_from(sorted(TREES)), GRAPHS)
def test_simulated_removals_shorten_the_copy(tree_name, pairs):
    tree = TREES[tree_name]
    found = fc.simulate(tree, from_pairs([pairs], size_bytes=1e6), limited_by=True, generation=3, width=16)
    texts = [f"{source}>{target}" for source, target in pairs]
    for number, row in enumerate(found.to_dict("records")):
        if not (entries := row["limited_by"].split()):
            assert np.isnan(row["elapsed_without_s"])
            continue
        removed = {texts.index(text) for text in entries[0].split("+")}
        kept = [place for place in range(len(pairs)) if place not in removed]
        without = fc.simulate(
            tree, from_pairs([[pairs[place] for place in kept]], size_bytes=1e6), generation=3, width=16
        )
        assert without["elapsed_s"][kept.index(number)] == row["elapsed_without_s"] < row["elapsed_s"] * 0.99


def test_large_graphs_of_a_random_order_are_not_evaluated_without_each_copy():
    """Each removal needs many draws: 240 copies would take minutes."""
    tree = fc.load_topology("flat4x4_gen5")
    for program, is_explained in (("ordered_writes", False), ("independent", True)):
        graphs = fc.graph([(one, other) for one in range(9) for other in range(9) if one != other], size="64 MiB")
        times = fc.predict(tree, graphs, program=program, limited_by=True)
        assert times["limited_by"].str.len().gt(0).any() == is_explained
        codes = [warning.code for warning in times.attrs["warnings"]]
        assert ("limiting_copies_omitted" in codes) != is_explained
