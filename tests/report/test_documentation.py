"""Tests of the documentation site: built without warnings, opened without network access."""

import html
import json
import os
import re
import subprocess
import sys

import duckdb
import pytest

import fabricast
from tests.conftest import REPOSITORY
from tests.report.conftest import open_page


@pytest.fixture(scope="module")
def site(finished):
    """Build the site with figures and verdicts of the smoke study and executed notebooks."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", "docs/_build/html"]
    environment = os.environ | {"PYTHONPATH": str((finished / "src").resolve())}
    result = subprocess.run(command, cwd=finished, env=environment, capture_output=True, text=True, timeout=3600)
    assert result.returncode == 0, result.stderr
    return finished / "docs" / "_build" / "html"


def check_public_names_and_studies(site):
    for name in dir(fabricast):
        if not name.startswith("_"):
            assert (site / "reference" / "generated" / f"fabricast.{name}.html").is_file(), name
    commands = (site / "reference" / "command_line.html").read_text()
    assert all(f"fabricast {name}" in commands for name in ("predict", "collective", "diagnose", "topology import"))
    for study in ("pcie", "breakdown", "maxrate", "gpucentric", "percs"):
        text = (site / "studies" / f"{study}.html").read_text()
        assert "evidence" in text
        assert text.count("<math") >= 1
        assert text.count('class="figure"') >= 5
        for picture in re.findall(r'src="\.\./(_static/figures/[^"]+)"', text):
            assert (site / picture).is_file()


def check_gallery(site, finished):
    text = (site / "gallery.html").read_text()
    names = {path.name for path in (finished / "reports" / "figures").glob("*.svg")}
    assert set(re.findall(r'src="_static/figures/([^"]+)"', text)) == names
    with duckdb.connect(str(finished / "results" / "fabricast.duckdb"), read_only=True) as connection:
        queries = re.findall(r"SELECT \* FROM [^\n<]+", html.unescape(re.sub(r"<[^>]+>", "", text)))
        assert len(queries) >= len(names), "every figure lists the tables that it is drawn from"
        for query in set(queries):
            connection.execute(query).fetchone()


def check_search_and_formulas(site, browser):
    page, problems = open_page(browser, site / "studies" / "pcie.html", viewport={"width": 390, "height": 800})
    assert page.locator("math").count() >= 3
    assert page.locator("math").first.bounding_box()["width"] > 5
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert problems == []
    page, problems = open_page(browser, site / "search.html")
    page.goto(page.url + "?q=bottleneck")
    page.wait_for_selector("#search-results li")
    assert page.locator("#search-results li").count() >= 3
    assert problems == []


#: One page of each kind in light colours: front, tutorial, how-to, reference, explanation; two of them in dark ones.
KINDS = {
    "light": ("index", "notebooks/first_forecast", "howto/validate_machine", "reference/tables", "studies/pcie"),
    "dark": ("index", "studies/pcie"),
}


def check_accessibility(site, browser):
    from axe_playwright_python.sync_playwright import Axe

    for scheme, names in KINDS.items():
        for name in names:
            view = {"viewport": {"width": 1280, "height": 900}, "color_scheme": scheme}
            page, _ = open_page(browser, site / f"{name}.html", **view)
            found = [v for v in Axe().run(page).response["violations"] if v["impact"] in ("serious", "critical")]
            assert found == [], (name, scheme, [(v["id"], v["nodes"][0]["html"][:200]) for v in found])
            page.close()


def check_rows_and_drawings(site, browser):
    """Rows of parameter tables are at most 60 px high, and each explanation has a drawing of its model."""
    for study in ("pcie", "breakdown", "maxrate", "gpucentric", "percs", "collectives", "clusters"):
        page, _ = open_page(browser, site / "studies" / f"{study}.html", viewport={"width": 1280, "height": 900})
        drawings = page.locator("img[src*='/models/'], img[src*='_images/']")
        assert drawings.count() >= 1, study
        assert drawings.first.evaluate("image => image.naturalWidth") > 300
        rows = page.locator("#parameters-and-sources tbody tr, #constants tbody tr")
        assert rows.count() >= 3, study
        assert max(row.bounding_box()["height"] for row in rows.all()) <= 60, study
        page.close()


def check_notebook(site):
    text = (site / "notebooks" / "own_machine.html").read_text()
    assert "PCIe tree machine" in text
    assert "Timeline of graph" in text
    assert "largest error against the packet-level simulator" in text
    results = {
        "first_forecast": "endpoint 4 receives",
        "measured_machine": "GPU 3 sends 13.1 GB/s",
        "all_reduce": "NCCL_P2P_LEVEL=SYS",
        "paper_figure": "image/png",
        "own_machine": "limited_by",
        "claim_checked": "without_head_of_line",
        "fastest_schedule": "saved",
        "ddp": "for each step, unless backward computation hides it",
        "four_nodes": "has a block of 4x2 of the grid",
        "slow_cluster": "node02 sends without GPUDirect RDMA",
        "own_model": "default_s",
    }
    pages = sorted(path.stem for path in (REPOSITORY / "docs" / "notebooks").glob("*.md") if path.stem != "index")
    assert pages == sorted(results)
    for name, result in results.items():
        text = (site / "notebooks" / f"{name}.html").read_text()
        assert "Traceback" not in text, name
        link = re.search(rf'href="\.\./(_downloads/[0-9a-f]+/{name}\.ipynb)"', text)
        assert link is not None, name
        cells = json.loads((site / link[1]).read_text())["cells"]
        outputs = json.dumps([output.get("data", output) for cell in cells for output in cell.get("outputs", [])])
        assert result in outputs, name


def test_site_is_complete_and_works_offline(site, finished, request):
    # One test, since each process that runs tests would build the site again.
    check_public_names_and_studies(site)
    check_gallery(site, finished)
    check_notebook(site)
    browser = request.getfixturevalue("browser")
    check_search_and_formulas(site, browser)
    check_accessibility(site, browser)
    check_rows_and_drawings(site, browser)
