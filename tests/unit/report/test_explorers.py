"""What draws the explorers of the page."""

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
