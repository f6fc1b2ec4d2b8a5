"""Tests of the report in a headless browser without network access."""

import base64
import re
import subprocess
import sys
import zipfile

import duckdb
import pandas as pd
import pytest

from fabricast.report.page import Picture, write_report
from fabricast.results.claim_record import VERDICT_WORDS
from fabricast.results.database import build_database
from fabricast.results.tables import write_table
from tests.report.conftest import open_page
from tests.running import SMOKE, snakemake


def open_report(finished, browser, **keywords):
    page, problems = open_page(browser, finished / "reports" / "report.html", **keywords)
    page.wait_for_function("document.documentElement.dataset.pictures === 'shown'")
    return page, problems


@pytest.mark.parametrize("width", [390, 1280])
def test_report_shows_every_figure_offline(finished, browser, width):
    page, problems = open_report(finished, browser, viewport={"width": width, "height": 900})
    names = {path.stem for path in (finished / "reports" / "figures").glob("*.svg")}
    assert set(page.locator("img[data-picture]").evaluate_all("all => all.map(i => i.dataset.picture)")) == names
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    shown = page.locator("img[data-picture]").evaluate_all("all => all.map(i => [i.naturalWidth, i.clientWidth])")
    assert all(natural > 0 and on_page > 0 for natural, on_page in shown)
    assert page.locator(".card").count() == 7
    assert page.locator(".card .paper").count() == 7
    links = page.locator("nav a").all()
    assert len(links) >= 10
    for link in links:
        if width == 390:
            # A click on a link closes the menu, perhaps after the next command of the test.
            page.locator(".menu[aria-expanded=false]").click()
        link.click()
        page.locator(link.get_attribute("href")).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert problems == []


def test_report_is_small_and_paints_early(finished, browser):
    path = finished / "reports" / "report.html"
    assert path.stat().st_size <= 4e6
    page, _ = open_report(finished, browser, viewport={"width": 1280, "height": 900})
    # Text is painted before the figures are decompressed.
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert painted < page.evaluate("performance.now()")
    assert not page.locator("td, th, li, p").filter(has_text=re.compile(r"[0-9][.][0-9]+e[+-][0-9]")).count(), (
        "no 1.67962e+06"
    )
    for table in page.locator("table").all():
        rows = table.locator("tbody tr:visible").count()
        assert rows <= 6 or table.locator("tbody tr").count() == rows <= 8, table.get_attribute("id")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_is_accessible(finished, browser, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page, problems = open_report(finished, browser, viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    violations = [v["id"] for v in Axe().run(page).response["violations"] if v["impact"] in ("serious", "critical")]
    assert violations == []
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator(".theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    assert problems == []


def test_report_prints_completely(finished, browser, tmp_path):
    page, problems = open_report(finished, browser)
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert (tmp_path / "report.pdf").read_bytes()[:5] == b"%PDF-"
    page.emulate_media(media="print")
    assert not page.locator(".side").is_visible()
    claims = page.locator("#claim-table tbody tr")
    assert claims.last.is_visible(), "rows beyond the fifteenth are printed"
    # Queries and interpretations are printed only if expanded, because they would fill half of all pages.
    query = claims.locator("details", has_text="SQL").first
    assert not query.is_visible()
    query.evaluate("(fold) => { fold.open = true }")
    assert query.locator("code").is_visible()
    assert problems == []


def test_print_is_light_and_states_omitted_rows(finished, browser):
    page, _ = open_report(finished, browser, color_scheme="dark")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.wait_for_selector("html[data-pictures=shown]")
    page.emulate_media(media="print", color_scheme="dark")
    ink = page.evaluate("getComputedStyle(document.querySelector('#overview h1')).color")
    assert all(int(part) < 80 for part in re.findall(r"\d+", ink)), ink
    content_before = "element => getComputedStyle(element, '::before').content"
    rows = page.locator(".more:not(#claims .more)").first
    assert "The first 8 of" in rows.evaluate(content_before)
    # Print headers contain plain names, because buttons are not repeated on the next page.
    head = page.locator("#claim-table thead th").nth(2)
    assert "Expected" in head.evaluate(content_before) and not head.locator("span").is_visible()
    assert page.locator("main").evaluate(content_before) == "none", "all figures are loaded"
    page.evaluate("delete document.documentElement.dataset.pictures")
    assert "print again" in page.locator("main").evaluate(content_before)


def test_the_page_is_short_and_small(finished, browser):
    """At most 4 MB and about 12,000 px; fonts of other machines may differ by a few percent."""
    page, _ = open_report(finished, browser, viewport={"width": 1280, "height": 900})
    # The statements of each paper are an open table of at most six visible rows.
    assert page.evaluate("document.documentElement.scrollHeight") < 16_000
    assert (finished / "reports" / "report.html").stat().st_size < 4e6


def test_measured_machines_are_listed_by_gpu(finished, browser):
    page, _ = open_report(finished, browser)
    read = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent.trim()))"
    rates, collectives = (table.locator("tbody tr").evaluate_all(read) for table in page.locator("#by_gpu table").all())
    (row,) = [row for row in rates if row[0] == "RTX 4090"]
    assert row[1] == "5"
    assert 25.0 < float(row[3]) < 28.0
    assert {row[3] for row in collectives if row[0] == "RTX 4090"} == {"direct", "host memory"}


def test_explorers_react_to_selections(finished, browser):
    page, problems = open_report(finished, browser, viewport={"width": 1280, "height": 900})
    for fold in page.locator("details:has(> .explorer) > summary").all():
        fold.click()
    page.locator("#explorer-maxrate svg").wait_for()
    page.locator("#explorer-percs svg").first.wait_for()
    network = page.locator("#explorer-percs")
    assert "busiest link: 214.7 ms (D)" in network.inner_text()
    cases = network.locator("select option").all_inner_texts()
    assert "4D-64, DEF, indirect" in cases
    assert not [case for case in cases if "MCnear" in case and "BNM" in case], "only computed cases are offered"
    network.locator("select").select_option("4D-64, DEF, indirect")
    page.wait_for_function("document.querySelector('#explorer-percs').textContent.includes('17.32 ms (D)')")
    ink = "document.querySelector('#explorer-percs svg text').getAttribute('fill')"
    before = page.evaluate(ink)
    page.click(".theme")
    page.wait_for_function(f"{ink} !== '{before}'")
    assert network.locator("select").input_value() == "4D-64, DEF, indirect", "the selection survives a change of theme"
    assert "17.32 ms (D)" in network.inner_text()
    drawn = page.locator("#explorer-maxrate svg").inner_html()
    page.locator("#explorer-maxrate select").nth(0).select_option("Blue Waters, one hop, 16 processes")
    page.wait_for_timeout(300)
    assert page.locator("#explorer-maxrate svg").inner_html() != drawn
    assert problems == []


def test_claims_are_filtered_sorted_and_linked(finished, browser):
    page, problems = open_report(finished, browser, viewport={"width": 1280, "height": 900})
    rows, visible = page.locator("#claim-table tbody tr"), page.locator("#claim-table tbody tr:visible")
    total = rows.count()
    assert visible.count() == 0, "the table is behind a fold"
    page.click("nav a[href='#claims']")
    visible.first.wait_for()
    assert visible.count() == 6
    assert page.inner_text("#found") == f"{total} claims"
    page.fill("#search", "random node")
    matches = page.locator("#claim-table tbody tr[data-filtered=false]").count()
    assert 0 < matches < total
    assert page.inner_text("#found") == f"{matches} of {total} claims"
    assert visible.count() == min(matches, 8)
    page.fill("#search", "")
    page.select_option("#study", "percs")
    assert set(visible.locator("td.s").all_inner_texts()) == {"Two-level networks"}
    page.select_option("#study", "")
    page.select_option("#evidence", "independent_fit")
    assert set(visible.evaluate_all("all => all.map(row => row.dataset.evidence)")) == {"independent_fit"}
    page.select_option("#evidence", "")
    deviating = page.locator(".pill[value=depends_on_reading]")
    deviating.click()
    assert str(page.locator("#claim-table tr[data-verdict=depends_on_reading]").count()) in deviating.inner_text()
    assert set(visible.evaluate_all("all => all.map(row => row.dataset.verdict)")) == {"depends_on_reading"}
    deviating.click()
    page.locator("#claims .more button").click()
    assert visible.count() == total
    heads = page.locator("#claim-table thead th")
    heads.nth(4).locator("button").click()
    # Reproduced claims come first, claims that are not testable last.
    verdicts = rows.evaluate_all("all => all.map(row => row.dataset.verdict)")
    assert verdicts == sorted(verdicts, key=list(VERDICT_WORDS).index)
    assert heads.nth(4).get_attribute("aria-sort") == "ascending"
    assert heads.nth(2).locator("button").count() == heads.nth(3).locator("button").count() == 0, (
        "columns with mixed units cannot be sorted"
    )
    # One button clears all filters.
    assert not page.is_visible("#clear")
    page.select_option("#study", "pcie")
    deviating.click()
    page.click("#clear")
    assert page.inner_text("#found") == f"{total} claims"
    assert not page.is_visible("#clear")
    page.locator("#errors > details > summary").click()
    errors = page.locator("#errors table").first
    number = errors.locator("thead th").all_inner_texts().index("n")
    errors.locator("thead th").nth(number).locator("button").click()
    values = errors.locator(f"tbody td:nth-child({number + 1})").evaluate_all(
        "all => all.map(cell => +cell.dataset.value)"
    )
    assert values == sorted(values)
    assert len(set(values)) > 1
    headline = page.text_content("#maxrate .headline")
    assert re.match(r"Of \d+ tested statements of the Max-rate study, \d+ hold", headline)
    counts = page.locator("#verdicts tbody td.r").all_inner_texts()
    assert sum(int(count) for count in counts if count.strip()) == total
    assert page.locator("[id^=target-]").count() > 20, "targets are not counted with published statements"
    assert page.locator("#targets li a").count() >= 1
    links = page.locator("#claim-table a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    assert len(links) > 40
    assert all(page.locator(f"[id='{link[1:]}']").count() == 1 for link in set(links)), "claims link to their figures"
    assert problems == []


def test_snakemake_report_opens_offline(finished, browser, tmp_path):
    code, output = snakemake(finished, *SMOKE, "--report", "reports/report.zip")
    assert code == 0, output
    zipfile.ZipFile(finished / "reports" / "report.zip").extractall(tmp_path)
    (page_path,) = tmp_path.rglob("report.html")
    page, problems = open_page(browser, page_path)
    page.get_by_text("Results", exact=True).click()
    page.get_by_text("pcie", exact=True).click()
    for title in ("Link loads on the tree", "Worked example", "Predicted slowdown", "Predicted against measured"):
        page.get_by_text(title, exact=True).wait_for()
    assert problems == []


def test_script_tags_in_names_are_escaped(browser, tmp_path):
    hostile = "<script>window.hostile = 1</script>"
    claim = {
        "claim": "c",
        "study": "pcie",
        "statement": hostile,
        "source": "s",
        "verdict": "model_differs",
        "note": hostile,
        "primary_reading": "",
        "source_words": hostile,
        "relation": "equals",
        "low": 1.0,
        "high": 1.0,
        "unit": hostile,
        "rounding": 0.0,
        "observed": 2.0,
        "evidence": "definition",
        "readings": 1,
        "holds_in": 0.0,
        "shown_to_fail": True,
    }
    write_table(pd.DataFrame([claim]), "claim", tmp_path / "claim.parquet")
    study = {"study": "pcie", "title": hostile, "authors": "a", "year": 2016, "venue": "v", "tolerance": 0.1}
    write_table(pd.DataFrame([study]), "study", tmp_path / "study.parquet")
    tables = {name: [tmp_path / f"{name}.parquet"] for name in ("claim", "study")}
    build_database(tables, tmp_path / "hostile.duckdb")
    drawing = tmp_path / "x.svg"
    drawing.write_bytes(base64.b64decode("PHN2ZyB4bWxucz0naHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmcnLz4="))
    write_report(tmp_path / "hostile.duckdb", [Picture(drawing, "pcie", hostile, hostile)], tmp_path / "r.html")
    page, problems = open_page(browser, tmp_path / "r.html")
    assert page.evaluate("window.hostile") is None
    assert hostile in page.locator("#claims").text_content()
    assert problems == []


def test_printed_claims_have_whole_names_on_a_pipe(finished):
    command = [
        sys.executable,
        "-m",
        "fabricast.cli",
        "claims",
        "--database",
        str(finished / "results" / "fabricast.duckdb"),
    ]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line for line in lines if line.startswith("│")]
    assert len(rows) > 100 and max(map(len, lines)) <= 150
    with duckdb.connect(str(finished / "results" / "fabricast.duckdb"), read_only=True) as connection:
        names = [name for (name,) in connection.sql("SELECT claim FROM claim").fetchall()]
    assert names and all(any(f"│ {name} " in row for row in rows) for name in names)
    assert all(row.endswith("│") for row in rows)
