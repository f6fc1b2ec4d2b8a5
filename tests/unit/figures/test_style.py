"""Files of figures: one for each format asked for, with equal bytes on every run."""

import io
import re
import zlib

import matplotlib.pyplot as plt
import pytest
from fontTools.ttLib import TTFont

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


def test_fonts_in_a_pdf_have_outlines_of_the_letters_used_and_nothing_to_lay_them_out(tmp_path):
    content = saved(tmp_path)["pdf"]
    streams = re.findall(rb"/Length1 \d+.*?stream\r?\n(.*?)\r?\nendstream", content, re.DOTALL)
    fonts = [TTFont(io.BytesIO(zlib.decompress(stream))) for stream in streams]
    assert len(fonts) == 1
    (font,) = fonts
    assert {"b", "e", "i", "l", "n", "s", "t", "y", "z"} <= set(font.getGlyphOrder())
    assert "Q" not in font.getGlyphOrder()
    assert not {"GDEF", "GPOS", "GSUB"} & set(font.keys())
    assert len(font["glyf"].glyphs) == len(font.getGlyphOrder())


def test_formats_are_the_known_ones_with_svg_among_them():
    sections = {"pcie": {}, "breakdown": {}, "maxrate": {}}
    assert Config.model_fields["figure_formats"].get_default(call_default_factory=True) == list(STARTS)
    with pytest.raises(ValueError, match="expected svg among them"):
        Config.model_validate({"figure_formats": ["png"]} | sections)
    with pytest.raises(ValueError, match="'svg', 'pdf' or 'png'"):
        Config.model_validate({"figure_formats": ["svg", "jpeg"]} | sections)
