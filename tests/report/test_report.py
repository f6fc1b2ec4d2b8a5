"""The report in a real browser, without a network."""

import base64
import zipfile

import pandas as pd
import pytest

from fabricast.report.page import Picture, write_report
from fabricast.results.claims import EVIDENCE
from fabricast.results.database import build_database
from fabricast.results.tables import write_table
from tests.report.conftest import open_page
from tests.running import SMOKE, snakemake


@pytest.mark.parametrize("width", [390, 1280])
def test_report_shows_every_figure_without_a_network(finished, browser, width):
    page, problems = open_page(browser, finished / "reports" / "report.html", viewport={"width": width, "height": 900})
    images = page.evaluate("Array.from(document.images).map(i => [i.complete, i.naturalWidth, i.clientWidth])")
    assert len(images) == 52
    assert all(complete and natural > 0 and shown > 0 for complete, natural, shown in images)
    assert page.locator("#claims tbody tr").count() >= 12
    for anchor in page.locator("nav a").all():
        anchor.click()
        assert page.locator(anchor.get_attribute("href")).is_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert problems == []


def test_report_is_accessible_and_explorers_act(finished, browser):
    from axe_playwright_python.sync_playwright import Axe

    page, problems = open_page(browser, finished / "reports" / "report.html", viewport={"width": 1280, "height": 900})
    page.locator("#explorer-maxrate svg").wait_for(timeout=20_000)
    page.locator("#explorer-percs svg").first.wait_for(timeout=20_000)
    serious = [v for v in Axe().run(page).response["violations"] if v["impact"] in ("serious", "critical")]
    assert serious == []
    network = page.locator("#explorer-percs")
    assert "busiest link: 214.7 ms (D)" in network.inner_text()
    cases = network.locator("select option").all_inner_texts()
    assert "4D-64, DEF, indirect" in cases
    assert not [case for case in cases if "MCnear" in case and "BNM" in case], "only what was computed is offered"
    network.locator("select").select_option("4D-64, DEF, indirect")
    page.wait_for_function("document.querySelector('#explorer-percs').textContent.includes('17.32 ms (D)')")
    drawn = page.locator("#explorer-maxrate svg").inner_html()
    page.locator("#explorer-maxrate select").nth(0).select_option("bluewaters_irecv_2, 16 processes")
    page.wait_for_timeout(300)
    assert page.locator("#explorer-maxrate svg").inner_html() != drawn
    total = page.locator("#claim-table tbody tr").count()
    page.fill("#search", "random node deviates")
    shown = page.locator("#claim-table tbody tr:visible").count()
    assert page.locator("#evidence-table tbody tr").count() == len(EVIDENCE)
    first = page.locator("#claims p").first.inner_text()
    assert first.startswith("independent data reproduce"), "the headline counts independent data alone"
    assert 0 < shown < total
    assert page.inner_text("#found") == f"{shown} of {total}"
    links = page.locator("#claim-table a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    assert len(links) > 40
    assert all(page.locator(f"[id='{link[1:]}']").count() == 1 for link in set(links)), (
        "every claim leads to its figure"
    )
    assert problems == []


def test_snakemake_report_works_offline(finished, browser, tmp_path):
    code, output = snakemake(finished, *SMOKE, "--report", "reports/report.zip")
    assert code == 0, output
    zipfile.ZipFile(finished / "reports" / "report.zip").extractall(tmp_path)
    (page_path,) = tmp_path.rglob("report.html")
    page, problems = open_page(browser, page_path)
    page.get_by_text("Results", exact=True).click()
    page.get_by_text("pcie", exact=True).click()
    for title in ("Link loads on the tree", "Worked example", "Predicted slowdown", "Predicted against measured"):
        page.get_by_text(title, exact=True).wait_for(timeout=10_000)
    assert problems == []


def test_hostile_names_appear_as_text(browser, tmp_path):
    hostile = "<script>window.hostile = 1</script>"
    claim = {
        "claim": "c", "study": "pcie", "statement": hostile, "of_ours": False, "source": "s", "verdict": "deviates", "note": hostile,
        "relation": "equals", "low": 1.0, "high": 1.0, "unit": hostile, "rounding": 0.0, "observed": 2.0,
        "evidence": "definition", "readings": 1, "holds_in": 0.0, "shown_to_fail": True,
    }  # fmt: skip
    write_table(pd.DataFrame([claim]), "claim", tmp_path / "claim.parquet")
    study = {"study": "pcie", "title": hostile, "authors": "a", "year": 2016, "venue": "v", "tolerance": 0.1}
    write_table(pd.DataFrame([study]), "study", tmp_path / "study.parquet")
    tables = {name: tmp_path / f"{name}.parquet" for name in ("claim", "study")}
    build_database(tables, tmp_path / "hostile.duckdb")
    drawing = tmp_path / "x.svg"
    drawing.write_bytes(base64.b64decode("PHN2ZyB4bWxucz0naHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmcnLz4="))
    write_report(tmp_path / "hostile.duckdb", [Picture(drawing, "pcie", hostile, hostile)], tmp_path / "r.html")
    page, problems = open_page(browser, tmp_path / "r.html")
    assert page.evaluate("window.hostile") is None
    assert hostile in page.inner_text("#claims")
    assert problems == []
