"""Tests of the scripts of the explorers."""

import subprocess
import sys

import pytest
import vl_convert

from fabricast.report.explorers import explorer_script


@pytest.mark.slow
def test_script_bundle_is_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICAST_CACHE_DIR", str(tmp_path))
    script = explorer_script()
    assert "</script" not in script
    assert "vegaEmbed" in script
    (cached,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert vl_convert.__version__ in cached.parent.name
    with monkeypatch.context() as context:
        context.setattr(vl_convert, "javascript_bundle", lambda snippet: pytest.fail("bundled again"))
        assert explorer_script() == script
    cached.unlink()
    assert explorer_script() == script


@pytest.mark.slow
def test_report_module_does_not_import_numba():
    # Writing the report is the last, sequential step of a run: importing numba would delay its end.
    program = "import sys, fabricast.report.page; print('numba' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
