"""Message rates that a node limits are no protocol."""

import numpy as np
import pytest
from typer.testing import CliRunner

from fabricast.cli.main import app


def osu(pairs, most_per_s):
    """Return output of osu_mbw_mr of a node with 25 GB/s, 4 million messages per second of a process, and a limit."""
    lines = ["# OSU MPI Multiple Bandwidth / Message Rate Test v7.3", f"# [ pairs: {pairs} ] [ window size: 64 ]"]
    lines.append("# Size                  MB/s        Messages/s")
    for size in 2 ** np.arange(0, 23, 2):
        time = max(pairs / most_per_s, 0.25e-6, pairs * size / 25e9, size / 13e9)
        lines.append(f"{size} {pairs * size / time / 1e6:.2f} {pairs / time:.2f}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("most", "is_limited"), [(66e6, True), (1e12, False)])
def test_the_limit_of_messages_is_named_where_the_formula_fails(tmp_path, most, is_limited):
    files = []
    for pairs in (1, 2, 4, 8, 16, 32):
        files.append(str(tmp_path / f"k{pairs}.out"))
        (tmp_path / f"k{pairs}.out").write_text(osu(pairs, most))
    printed = CliRunner().invoke(app, ["fit", *files]).output
    assert ("at most 66 million messages of 1 B per second" in printed) == is_limited
    assert "messages of n bytes" in printed
    if is_limited:
        again = CliRunner().invoke(app, ["fit", *files, "--smallest-bytes", "2048"]).output
        assert "does not fit" not in again
