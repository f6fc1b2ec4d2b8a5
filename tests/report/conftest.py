"""Fixtures of report tests: a headless browser without network access."""

from pathlib import Path

import pytest

from tests.conftest import require_tool

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-default-apps",
    "--disable-extensions",
    "--no-default-browser-check",
    "--host-resolver-rules=MAP * ~NOTFOUND",
]


@pytest.fixture(scope="package")
def browser():
    executable = require_tool("chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, headless=True, args=FLAGS)
        yield chromium
        chromium.close()


def open_page(browser, path, **keywords):
    """Open a local page; collect console errors and external requests."""
    page = browser.new_page(**keywords)
    problems = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else problems.append(r.url))
    page.goto(Path(path).as_uri())
    return page, problems
