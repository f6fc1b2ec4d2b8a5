"""Files of figures: one for each format asked for, with equal bytes on every run."""

import matplotlib.pyplot as plt
import pytest

from fabricast.config import Config
from fabricast.figures.style import paper_style, save_figure

STARTS = {"svg": b"<?xml", "pdf": b"%PDF-", "png": b"\x89PNG"}


def saved(folder):
    with paper_style():
        figure, axes = plt.subplots()
        axes.plot([1.0, 2.0], [3.0, 5.0], label="line")
        axes.set_xlabel("size (bytes)")
        axes.legend()
        save_figure(figure, *(folder / f"figure.{ending}" for ending in STARTS))
    assert not plt.fignum_exists(figure.number), "a figure that is saved is closed"
    return {path.suffix[1:]: path.read_bytes() for path in folder.iterdir()}


def test_every_format_has_the_same_bytes_on_every_run(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = saved(tmp_path / "one"), saved(tmp_path / "two")
    assert {ending: content[: len(STARTS[ending])] for ending, content in one.items()} == STARTS
    assert one == two


def test_formats_are_the_known_ones_with_svg_among_them():
    sections = {"pcie": {}, "breakdown": {}, "maxrate": {}}
    assert Config.model_fields["figure_formats"].get_default(call_default_factory=True) == list(STARTS)
    with pytest.raises(ValueError, match="expected svg among them"):
        Config.model_validate({"figure_formats": ["png"]} | sections)
    with pytest.raises(ValueError, match="'svg', 'pdf' or 'png'"):
        Config.model_validate({"figure_formats": ["svg", "jpeg"]} | sections)
