"""What draws the explorers of the page."""

import subprocess
import sys

import pytest
import vl_convert

from fabricast.report.explorers import explorer_script


def test_the_script_is_bundled_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICAST_CACHE_DIR", str(tmp_path))
    script = explorer_script()
    assert "</script" not in script
    assert "vegaEmbed" in script
    (kept,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert vl_convert.__version__ in kept.parent.name
    with monkeypatch.context() as context:
        context.setattr(vl_convert, "javascript_bundle", lambda snippet: pytest.fail("bundled again"))
        assert explorer_script() == script
    kept.unlink()
    assert explorer_script() == script


def test_the_page_is_written_without_kernels():
    # The last step of a study, which nothing runs beside: to load numba would take a tenth of it.
    program = "import sys, fabricast.report.page; print('numba' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
