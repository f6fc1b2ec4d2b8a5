"""Tests of figure files: all configured formats, bitwise identical on every run."""

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
    assert not plt.fignum_exists(figure.number), "a saved figure is closed"
    return {path.suffix[1:]: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_files_are_bitwise_identical_on_every_run(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    first, second = saved(tmp_path / "one"), saved(tmp_path / "two")
    assert {ending: content[: len(STARTS[ending])] for ending, content in first.items()} == STARTS
    assert first == second


def test_unknown_formats_and_missing_svg_are_rejected():
    sections = {"pcie": {}, "breakdown": {}, "maxrate": {}}
    assert Config.model_fields["figure_formats"].get_default(call_default_factory=True) == ["svg"]
    with pytest.raises(ValueError, match="expected svg among them"):
        Config.model_validate({"figure_formats": ["png"]} | sections)
    with pytest.raises(ValueError, match="'svg', 'pdf' or 'png'"):
        Config.model_validate({"figure_formats": ["svg", "jpeg"]} | sections)


def test_names_of_users_are_no_formulas(tmp_path):
    with paper_style():
        figure, axes = plt.subplots()
        axes.plot([0, 1], label=r"$\foo$")
        axes.set(title=r"$\frac{a", xlabel="$")
        axes.set_xticks([0, 1], [r"$\bar$", r"$x^{$"])
        axes.set_yscale("symlog", linthresh=1e-3)
        axes.legend()
        save_figure(figure, tmp_path / "names.svg")
    assert (tmp_path / "names.svg").stat().st_size > 1000
    labels = {text.get_text(): text.get_parse_math() for text in axes.get_yticklabels()}
    assert labels[r"$\mathdefault{10^{-1}}$"]
    assert not any(text.get_parse_math() for text in axes.get_xticklabels())
