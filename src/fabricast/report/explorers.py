"""Interactive figures of the report as Vega-Lite specifications with embedded data."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import altair as alt
import pandas as pd

from fabricast.figures.colours import COLOURS
from fabricast.figures.percs_cases import plain_cases
from fabricast.inputs.files import write_text
from fabricast.maxrate.datasets import dataset_title
from fabricast.maxrate.models import MODEL_TITLES
from fabricast.runtime.caches import cache_folder

_MOST_ROWS = 6000
_SIZE_LABEL = (
    "datum.value >= 1048576 ? datum.value / 1048576 + ' MiB' : datum.value >= 1024 ? datum.value / 1024 + ' KiB' : "
    "datum.value + ' B'"
)
#: Lower limit of the logarithmic axis of link counts, and its ticks; the limit is below 1, so that one link is visible.
_ONE_LINK, _TICKS = 0.7, [10**power for power in range(7)]


def explorer_script() -> str:
    """Return the JavaScript bundle of Vega, Vega-Lite and Vega-Embed.

    The bundle defines ``window.vegaEmbed``. It is cached by the version of vl-convert.
    """
    # The bundle depends only on the version and needs a second to build.
    folder = cache_folder(f"vega-{version('vl-convert-python')}")
    cached = folder / "vega_embed.js" if folder else None
    if cached is not None and cached.is_file():
        return cached.read_text(encoding="utf-8")
    import vl_convert

    # The text "</script" would end the script element of the page.
    script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script")
    if cached is not None:
        write_text(cached, script)
    return script


def _specification(chart: Any) -> dict[str, Any]:
    specification: dict[str, Any] = chart.to_dict()
    # The page sets colours by theme and layout by width; settings of altair would override both.
    specification["background"] = "transparent"
    specification.pop("config", None)
    return specification


def _whole_cases(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the first complete cases with at most `_MOST_ROWS` rows in total."""
    ends = table.groupby(column, sort=False).size().cumsum()
    return table[table[column].isin(ends.index[ends <= _MOST_ROWS])].reset_index(drop=True)


def maxrate_explorer(measurement: pd.DataFrame, prediction: pd.DataFrame) -> dict[str, Any]:
    """Return an explorer of measured and modelled times by data set and model."""
    rows = prediction[prediction["study"] == "maxrate"]
    parts = rows["case_id"].str.rsplit("/", n=2, expand=True)
    modelled = pd.DataFrame(
        {"d": parts[0], "k": parts[1].astype(int), "n": parts[2].astype(float), "m": rows["model"], "t": rows["value"]}
    )
    wide = modelled.pivot_table(index=["d", "k", "n"], columns="m", values="t", sort=True).reset_index()
    measured = measurement.rename(columns={"dataset": "d", "processes": "k", "size_bytes": "n", "time_s": "measured"})
    table = measured[["d", "k", "n", "measured"]].merge(wide, on=["d", "k", "n"], how="left")
    # Only models that are fitted to every data set, so that no choice leads to an empty figure.
    models = [name for name in wide.columns if name not in ("d", "k", "n") and table[name].notna().all()]
    table = table[["d", "k", "n", "measured", *models]]
    for name in ("measured", *models):
        # Five digits exceed the resolution of the figure.
        table[name] = (table[name] * 1e6).map(lambda value: float(f"{value:.5g}") if value == value else None)
    # A single choice of data set and process count, because not every combination was measured.
    processes = table["k"].map(lambda k: f"{k} process{'' if k == 1 else 'es'}")
    table["c"] = table["d"].map(dataset_title) + ", " + processes
    table = _whole_cases(table.sort_values(["d", "k", "n"], ignore_index=True), "c").drop(columns=["d", "k"])
    cases = list(dict.fromkeys(table["c"]))
    default_case = next((name for name in cases if name.startswith(dataset_title("bluewaters_irecv_2"))), cases[0])
    case = alt.param("data_set", value=default_case, bind=alt.binding_select(options=cases, name="data set "))
    model = alt.param(
        "model",
        value="refined" if "refined" in models else models[0],
        bind=alt.binding_select(options=models, labels=[MODEL_TITLES[name] for name in models], name="model "),
    )
    base = (
        alt.Chart(table)
        .transform_filter(alt.datum.c == case)
        .transform_calculate(modelled=f"datum[{model.name}]")
        .encode(
            x=alt.X(
                "n:Q",
                scale=alt.Scale(type="log", base=2),
                title="message size",
                axis=alt.Axis(labelExpr=_SIZE_LABEL, labelOverlap="greedy", labelSeparation=8),
            )
        )
    )
    tips = [
        alt.Tooltip("n:Q", title="bytes"),
        alt.Tooltip("measured:Q", title="measured (µs)"),
        alt.Tooltip("modelled:Q", title="modelled (µs)", format=".4g"),
    ]
    points = base.mark_point(filled=True, size=45, opacity=1, color=COLOURS[0]).encode(
        y=alt.Y("measured:Q", scale=alt.Scale(type="log"), title="time (µs)"), tooltip=tips
    )
    line = base.mark_line(color=COLOURS[1]).encode(y=alt.Y("modelled:Q", scale=alt.Scale(type="log")))
    chart = (
        (points + line)
        .add_params(case, model)
        .properties(
            width="container",
            height=300,
            autosize=alt.AutoSizeParams(type="fit", contains="padding", resize=True),
            title=alt.Title(
                alt.ExprRef("[data_set, 'points: measured; line: the chosen model']"), fontSize=12, anchor="start"
            ),
        )
    )
    return _specification(chart)


def network_explorer(case: pd.DataFrame, histogram: pd.DataFrame) -> dict[str, Any]:
    """Return an explorer of link loads by pattern, mapping and routing."""
    plain = plain_cases(case)
    table = histogram.merge(plain, on="case_id")
    table = table[table["links"] > 0]
    table = pd.DataFrame(
        {
            "w": table["workload"],
            "m": table["mapping"],
            "r": table["routing"],
            "c": table["class"],
            "a": (table["lower_bytes"] / 2**20).round(3),
            "b": (table["upper_bytes"] / 2**20).round(3),
            "l": table["links"],
            "t": [
                f"busiest link: {t * 1e3:.4g} ms ({k})"
                for t, k in zip(table["bottleneck_s"], table["bottleneck_class"], strict=True)
            ],
        }
    ).sort_values(["w", "m", "r", "c", "a"], ignore_index=True)

    # A single choice of pattern, mapping and routing, because not every combination was computed.
    table["w"] = table["w"] + ", " + table["m"] + ", " + table["r"]
    table = _whole_cases(table, "w").drop(columns=["m", "r"])
    cases = list(dict.fromkeys(table["w"]))
    default_case = "4D-64, DEF, direct" if "4D-64, DEF, direct" in cases else cases[0]
    chosen = alt.param(
        "pattern", value=default_case, bind=alt.binding_select(options=cases, name="pattern, mapping, routing ")
    )
    base = alt.Chart(table).transform_filter(alt.datum.w == chosen)
    panels = []
    for name, colour in zip(("LL", "LR", "D"), COLOURS, strict=False):
        class_data = base.transform_filter(alt.datum.c == name)
        # Rectangles instead of bars: bars would extend the load axis to zero and hide a narrow range of loads.
        bars = class_data.mark_rect(color=colour).encode(
            x=alt.X(
                "a:Q",
                title=f"load of {name} links (MiB)",
                scale=alt.Scale(zero=False),
                axis=alt.Axis(tickCount=4, labelOverlap="greedy", labelSeparation=8),
            ),
            x2="b:Q",
            y=alt.Y(
                "l:Q",
                title="links (logarithmic)",
                scale=alt.Scale(type="log", domainMin=_ONE_LINK),
                axis=alt.Axis(values=_TICKS, format=",d"),
            ),
            y2=alt.datum(_ONE_LINK),
            tooltip=[
                alt.Tooltip("a:Q", title="from (MiB)"),
                alt.Tooltip("b:Q", title="to (MiB)"),
                alt.Tooltip("l:Q", title="links"),
                alt.Tooltip("t:N", title="time"),
            ],
        )
        panels.append(bars.properties(height=170))
    title = (
        base.transform_aggregate(t="min(t)", groupby=["w"])
        .mark_text(align="left", fontSize=13)
        .encode(text="t:N", x=alt.value(0))
        .properties(height=20, width=250, view=alt.ViewBackground(stroke=None))
    )
    # report.js sets the width of the panels and their arrangement.
    chart = (
        alt.vconcat(title, alt.concat(*panels, columns=3))
        .add_params(chosen)
        .properties(padding={"left": 8, "top": 5, "right": 20, "bottom": 8})
    )
    return _specification(chart)
