"""Tests of the figure lint, and lint of the figures of a run."""

from matplotlib.figure import Figure

from tests.figure_lint import text_problems


def faulty():
    figure = Figure(figsize=(4, 3))
    axes, second_axes = figure.subplots(1, 2)
    axes.bar([0, 1], [1.0, 0.9], color=["white", "#CC79A7"], label="bars")
    axes.legend(loc="upper left")
    axes.text(1, 0.4, "pale", color="white", ha="center")
    axes.text(0.5, 0.2, "one text", ha="center")
    axes.text(0.5, 0.2, "another", ha="center")
    axes.text(1.2, 0.6, "crosses the frame")
    figure.text(-0.05, 0.5, "outside")
    figure.text(0.1, 0.01, "small", fontsize=6)
    second_axes.set_title("fine")
    return figure


def test_every_kind_of_problem_is_reported():
    problems = "\n".join(text_problems(faulty()))
    for kind in (
        "leaves the figure",
        "has 6 pt",
        "lies on 'another'",
        "crosses the frame",
        "a legend lies on",
        "'pale' is too pale",
    ):
        assert kind in problems, kind


def test_readable_figure_has_no_problems():
    figure = Figure(figsize=(4, 3), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], label="line")
    axes.bar([0.5], [0.4], color="#0072B2")
    axes.text(0.5, 0.2, "white on blue", color="white", ha="center")
    axes.set_xticks([0, 1], ["a long slanted label", "another long label"], rotation=45)
    figure.legend(loc="outside lower center")
    assert text_problems(figure) == []


def test_figures_of_a_run_have_no_problems(finished):
    logs = sorted((finished / "logs").glob("plot_*.log"))
    assert len(logs) >= 6
    problems = [line for log in logs for line in log.read_text().splitlines() if line.startswith("figure ")]
    assert problems == []
