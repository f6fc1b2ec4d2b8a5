"""Files of figures: one for each format asked for, with equal bytes on every run."""

import io
import re
import zlib
from contextlib import nullcontext

import matplotlib.pyplot as plt
import pytest
from fontTools.ttLib import TTFont
from matplotlib.axis import Axis
from matplotlib.text import Text

from fabricast.config import Config
from fabricast.figures import style
from fabricast.figures.drawing import texts_laid_out_once, ticks_found_once
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


def crowded():
    """Axes of two scales and sizes, texts that are alike but for their font, side, turn or lines."""
    figure, axes = plt.subplots(2, 2, figsize=(5, 4), sharex="col", width_ratios=(1, 3))
    for place, one in enumerate(axes.flat):
        one.plot([1.0, 20.0, 3000.0], [2e-6, place + 1, 4.5], label="line")
        one.set(title="line", ylabel="line\nline")
    axes[0, 1].set_xscale("log")
    axes[1, 1].set_yscale("log")
    axes[1, 1].set_xlabel("line")
    axes[1, 0].tick_params("x", rotation=60)
    for size, side, turn, spacing in ((6, "left", 0, 1), (9, "left", 0, 1), (9, "right", 90, 1), (9, "right", 90, 2)):
        axes[0, 0].text(0.5, 0.5, "line", size=size, ha=side, rotation=turn)
        axes[0, 0].text(0.5, 0.7, "line\nof two", size=size, ha=side, rotation=turn, linespacing=spacing)
    axes[0, 1].text(5, 1, "a text that is wrapped " * 4, wrap=True)
    figure.legend(loc="outside lower center")
    return figure


def test_what_is_found_once_gives_the_same_bytes(tmp_path, monkeypatch):
    files = [tmp_path / f"figure.{ending}" for ending in STARTS]
    with paper_style(), texts_laid_out_once():
        save_figure(crowded(), *files)
        # Another of the same texts finds them known.
        save_figure(crowded(), *files)
    found_once = [file.read_bytes() for file in files]
    monkeypatch.setattr(style, "ticks_found_once", nullcontext)
    with paper_style():
        save_figure(crowded(), *files)
    assert found_once == [file.read_bytes() for file in files]


def test_matplotlib_is_as_before_afterwards_even_if_drawing_fails():
    before = Axis._update_ticks, Text._get_layout
    with pytest.raises(OSError, match="full"), ticks_found_once(), texts_laid_out_once():
        assert Axis._update_ticks is not before[0]
        assert Text._get_layout is not before[1]
        raise OSError("full")
    assert (Axis._update_ticks, Text._get_layout) == before


def test_fonts_in_a_pdf_have_outlines_of_the_letters_used_and_nothing_to_lay_them_out(tmp_path):
    content = saved(tmp_path)["pdf"]
    streams = re.findall(rb"/Length1 \d+.*?stream\r?\n(.*?)\r?\nendstream", content, re.DOTALL)
    fonts = [TTFont(io.BytesIO(zlib.decompress(stream))) for stream in streams]
    assert len(fonts) == 1
    (font,) = fonts
    assert {"b", "e", "i", "l", "n", "s", "t", "y", "z"} <= set(font.getGlyphOrder())
    assert "Q" not in font.getGlyphOrder()
    assert not {"GDEF", "GPOS", "GSUB", "kern"} & set(font.keys())
    assert len(font["glyf"].glyphs) == len(font.getGlyphOrder())


def test_formats_are_the_known_ones_with_svg_among_them():
    sections = {"pcie": {}, "breakdown": {}, "maxrate": {}}
    assert Config.model_fields["figure_formats"].get_default(call_default_factory=True) == list(STARTS)
    with pytest.raises(ValueError, match="expected svg among them"):
        Config.model_validate({"figure_formats": ["png"]} | sections)
    with pytest.raises(ValueError, match="'svg', 'pdf' or 'png'"):
        Config.model_validate({"figure_formats": ["svg", "jpeg"]} | sections)
