"""Tests of the PCIe explorer: results bitwise identical to the package, and its controls."""

import re

import numpy as np
import pytest

import fabricast as fc
from fabricast.pcie.graphs.congestion_graphs import from_pairs
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import evaluate
from fabricast.pcie.topology.builtin import load_tree
from fabricast.pcie.topology.paths import link_labels
from tests.report.conftest import open_page

TREES = ("storm8", "flat4x2", "crossed_virtual_switches", "dgx1", "flat4x4")
EVALUATE = """([name, model, graphs, values]) => {
  const root = document.getElementById("explorer-pcie"), { data } = root;
  const found = root.evaluate(data.trees.find((one) => one.name === name), data.models.find((one) => one.name === model), graphs, values);
  return [found.end_s, found.initial_rho, found.phases, found.bottleneck, found.caused_by].map((values) => Array.from(values));
}"""


def explorer(finished, browser):
    page, problems = open_page(browser, finished / "reports" / "report.html", viewport={"width": 1280, "height": 900})
    page.locator("#explorer-pcie svg").wait_for()
    return page, problems


def random_graphs(generator, endpoints, count):
    graphs_of_pairs = []
    for _ in range(count):
        pairs = generator.integers(0, endpoints, size=(int(generator.integers(1, 13)), 2)).tolist()
        graphs_of_pairs.append([(s, t) for s, t in pairs if s != t] or [(0, 1)])
    graphs = from_pairs(graphs_of_pairs, size_bytes=1.0)
    sizes = generator.choice([1e6, 3e8, 1.5e8, 7.7e7], size=graphs.source.size)
    return from_pairs(graphs_of_pairs, size_bytes=sizes)


@pytest.mark.parametrize("tree_name", TREES)
def test_page_results_are_bitwise_identical_to_the_package(finished, browser, tree_name):
    page, problems = explorer(finished, browser)
    tree, generator = load_tree(tree_name), np.random.default_rng(20161113)
    models = page.evaluate("document.getElementById('explorer-pcie').data.models.map((model) => model.name)")
    assert {"congestion_factor", "back_pressure", "round_robin_upstream", "max_min"} <= set(models)
    for model in models[1:]:
        graphs = random_graphs(generator, len(tree.endpoint_names), 2000 // len(TREES))
        values = {"bandwidth": 12.455e9, "tau": 0.1735, "crossing_cost": 1.12}
        given = {
            "offset": graphs.offset.tolist(),
            "source": graphs.source.tolist(),
            "target": graphs.target.tolist(),
            "size_bytes": graphs.size_bytes.tolist(),
        }
        ends, factors, phases, bottlenecks, causes = page.evaluate(EVALUATE, [tree_name, model, given, values])
        expected = evaluate(
            tree,
            graphs,
            MODELS[model],
            bandwidth_bytes_per_s=values["bandwidth"],
            tau=values["tau"],
            crossing_cost=values["crossing_cost"],
            explain=True,
        )
        assert ends == expected.end_s.tolist(), model
        assert factors == expected.initial_rho.tolist(), model
        assert phases == expected.phases.tolist(), model
        assert bottlenecks == expected.bottleneck.tolist(), model
        assert causes == expected.caused_by.tolist(), model
    assert problems == []


def test_the_recommended_model_is_the_default_with_the_results_of_predict(finished, browser):
    """On every tree of the page: times, bottlenecks and causes are those of `fabricast predict`."""
    page, problems = explorer(finished, browser)
    trees = page.evaluate("document.getElementById('explorer-pcie').data.trees.map((tree) => tree.name)")
    assert len(trees) > 15
    generator = np.random.default_rng(20161113)
    for name in trees:
        tree = load_tree(name)
        graphs = random_graphs(generator, len(tree.endpoint_names), 30)
        values = {"bandwidth": 12.455e9, "tau": 0.1735, "crossing_cost": 1.12}
        given = {
            "offset": graphs.offset.tolist(),
            "source": graphs.source.tolist(),
            "target": graphs.target.tolist(),
            "size_bytes": graphs.size_bytes.tolist(),
        }
        ends, _, _, bottlenecks, causes = page.evaluate(EVALUATE, [name, "ports_and_engines", given, values])
        expected = fc.predict(
            tree,
            graphs,
            bandwidth=values["bandwidth"],
            tau=values["tau"],
            crossing_cost=values["crossing_cost"],
            pcie_only=True,
            limited_by=False,
        )
        labels = link_labels(tree)
        assert ends == pytest.approx(expected["elapsed_s"].tolist(), rel=1e-12), name
        # The page names the link at which a copy waits for an earlier one of its GPU.
        texts = [
            re.sub(r"waits for \S+ of GPU (\S+), .*", r"endpoint \1 sends", text) for text in expected["bottleneck"]
        ]
        assert [labels[link] for link in bottlenecks] == texts, name
        assert [labels[link] if link >= 0 else "" for link in causes] == expected["caused_by"].astype(str).tolist(), (
            name
        )
    assert problems == []


def test_copies_are_added_changed_and_removed(finished, browser):
    page, problems = explorer(finished, browser)
    root = page.locator("#explorer-pcie")
    rows = root.locator("tbody tr")
    root.locator("select").nth(0).select_option(label="storm8, 8 endpoints")
    assert [row.split("\t")[0] for row in rows.all_inner_texts()] == ["0 → 2", "1 → 4", "3 → 2", "6 → 4"]
    assert "link S1 > S0\tendpoint 4 receives\t1 → 4" in rows.first.inner_text()
    limited_by = fc.predict("storm8", [(0, 2), (1, 4), (3, 2), (6, 4)])["limited_by"].astype(str)
    shown = [row.split("\t")[6] for row in rows.all_inner_texts()]
    assert shown == [", ".join(copy.replace(">", " → ") for copy in copies.split()) for copies in limited_by]
    root.get_by_role("button", name="Remove all").click()
    assert rows.count() == 0
    root.get_by_role("button", name="endpoint 0").click()
    assert "From 0" in root.inner_text()
    root.get_by_role("button", name="endpoint 2").press("Enter")
    assert rows.locator("td").all_inner_texts()[3] == "1.00"
    root.get_by_role("button", name="endpoint 3").click()
    root.get_by_role("button", name="endpoint 2").click()
    assert {cells.split("\t")[3] for cells in rows.all_inner_texts()} == {"2.00"}
    assert "endpoint 2 receives" in rows.first.inner_text(), "both copies are limited by the link into 2"
    before = rows.first.inner_text()
    root.get_by_label("size in MiB").fill("600")
    assert rows.first.inner_text() != before
    root.get_by_role("button", name="Remove 0 to 2").click()
    assert rows.count() == 1
    root.locator("select").nth(1).select_option(label=MODELS["back_pressure"].title)
    assert root.get_by_label("crossing cost").is_visible()
    assert problems == []
