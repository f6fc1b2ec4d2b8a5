#!/usr/bin/env python3
"""update_readme.py [DATABASE]: write the claims of a default study and the errors of forecasts to docs and README.md.

The claims of a finished run go to docs/default_claims.csv and docs/studies/results.md. Without a database, the pages
are rewritten from docs/default_claims.csv and config/published; a test compares them.
"""

import csv
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import duckdb
import pandas as pd

from fabricast.clusters.errors import recorded_errors as recorded_errors_of_copies
from fabricast.collectives.clusters.cluster import node_of
from fabricast.collectives.clusters.errors import median_errors, most_public_nodes, recorded_cluster_errors
from fabricast.collectives.evidence.errors import recorded_errors
from fabricast.collectives.expected import STATE_COLUMNS, expected_error
from fabricast.core.resources import published
from fabricast.inputs.csv_files import read_csv
from fabricast.nccl.costs import Operation
from fabricast.pcie.machines.expected_errors import default_errors
from fabricast.pcie.measurements.measured_graph import FEW_COPIES, MANY_COPIES
from fabricast.report.stories import stories
from fabricast.results.claim_record import TARGET_RESULT, VERDICT_WORDS, bound_text, headline, holds_text, observed_text
from fabricast.sources.formats import FORMATS

REPOSITORY = Path(__file__).parents[1]
CLAIMS = REPOSITORY / "docs" / "default_claims.csv"
README = REPOSITORY / "README.md"
RESULTS = REPOSITORY / "docs" / "studies" / "results.md"
BEGIN_STUDIES, END_STUDIES = "<!-- studies: written by scripts/update_readme.py -->\n", "<!-- end of studies -->\n"
BEGIN_FORMATS, END_FORMATS = "<!-- formats: written by scripts/update_readme.py -->\n", "<!-- end of formats -->\n"
BEGIN_MACHINES, END_MACHINES = "<!-- machines: written by scripts/update_readme.py -->\n", "<!-- end of machines -->\n"
BEGIN, END = "<!-- errors: written by scripts/update_readme.py -->\n", "<!-- end of errors -->\n"
ERRORS = REPOSITORY / "docs" / "reference" / "forecast_errors.md"
FORMATS_PAGE = REPOSITORY / "docs" / "reference" / "file_formats.md"
#: First lines of the page of errors.
_ABOUT_ERRORS = """# Errors of forecasts

This page lists the errors of forecasts by class of machine and copies. Others published these measurements, except
those of the H100 and H200. A case is a set of copies, or one size of a collective. Sets are excluded if a limit that
they need was not measured, or if their publisher states that the rates collapsed. NCCL's estimate is the time of its
cost table. For few copies, fair sharing of links is as good; the model helps where a GPU has many copies at a time.

"""
#: Studies of README.md: publication, DOI, and a sentence with the value of a claim and its range over readings.
STUDIES = {
    "pcie": (
        "Martinasso et al.: A PCIe congestion-aware performance model for densely populated accelerator servers, SC16",
        "10.1109/SC.2016.62",
        (
            "The paper reports 95 % of copies within 15 %. Our packet simulator finds {value} ({low} to {high}, "
            "depending on how the slides are read)."
        ),
    ),
    "breakdown": (
        "Zambre et al.: Breaking Band: A breakdown of high-performance communication, ICPP 2019",
        "10.1145/3337821.3337910",
        (
            "The modelled latency is {value} off; the paper states 5 %. All component times are quoted from memory, so "
            "the agreement tests nothing."
        ),
    ),
    "maxrate": (
        (
            "Gropp, Olson, Samfass: Modeling MPI communication performance on SMP nodes: Is it time to retire the ping "
            "pong test, EuroMPI 2016"
        ),
        "10.1145/2966884.2966919",
        (
            "The talk states that a ping-pong test misses what many processes of a node do. On numbers of processes "
            "left out of the fits of a run on Blue Waters, the ping-pong form has {ping_pong} the error of the refined "
            "form. The node "
            "of the talk reaches 5.7 GB/s; fits of three public runs find {low} to {high}."
        ),
    ),
    "gpucentric": (
        (
            "Froening: Towards efficient communication methods and models for scalable GPU-centric computing systems, "
            "GTC 2016 (S6357, a talk)"
        ),
        "",
        (
            "The talk states that MPI beats transfers that the GPU starts for large payloads; those from host memory "
            "are not compared. This holds in {value} of random draws of the parameters that we assume."
        ),
    ),
    "percs": (
        "Bhatele et al.: Avoiding hot-spots on two-level direct networks, SC11",
        "10.1145/2063384.2063486",
        (
            "The paper states that random nodes are the best mapping with direct routes. The best other mapping needs "
            "{multicast} the time of random nodes for the multicast, {value} for the 4D stencil ({low} to {high}, "
            "depending on the reading) and {two} for the 2D stencil: above 1× the statement holds."
        ),
    ),
}
#: Classes of measured copies in README.md, with their model and the baseline that shares links fairly.
COPIES = {
    "few copies": "few copies (at most 2 from and 2 to a GPU)",
    "many copies of a GPU": "many copies of a GPU (all-to-all, one GPU from or to all)",
    "direct links": "8 GPUs with NVSwitch (one machine)",
    "host copies": "host memory and one GPU (H100, H200; measured by us)",
}
#: Classes of single copies on machines without measurements.
UNMEASURED = {
    "direct copies": "not measured: one direct copy, from the GPU model",
    "staged copies": "not measured: one copy through host memory",
    "staged copies, both ways": "not measured: both copies of a pair through host memory",
    "copies over NVLink": "not measured: one copy over NVLink or NVSwitch",
    "copies over xGMI": "not measured: one copy over xGMI (MI300X, MI350X)",
}
#: Classes of collective operations in README.md; the others are in cluster_model_errors.csv.
CLUSTERS = {
    "one node": "one node with NVLink",
    "InfiniBand or RoCE": "nodes with InfiniBand or RoCE",
    "Slingshot": "nodes with Slingshot, up to 64",
}
#: Transports of all_reduce in words, and its class of sizes in README.md.
TRANSPORTS, LARGEST = {"P2P": "direct copies (P2P)", "SHM": "through host memory (SHM)"}, "from 1 MiB"
#: Columns of the table of errors in README.md after the class and its number of cases.
ERROR_COLUMNS = ("median error", "within 15 %", "worst", "median error of a simpler forecast", "fitted constants")


def export(database: Path) -> None:
    """Write the claims of a run without machine-dependent columns."""
    with duckdb.connect(str(database), read_only=True) as connection:
        connection.sql(
            "SELECT claim, study, statement, false AS is_target, relation, low, high, unit, observed, observed_low, "
            "observed_high, verdict::VARCHAR AS verdict, evidence, readings, holds_in, share_of_draws, shown_to_fail "
            "FROM claim UNION ALL SELECT target, study, statement, true, relation, low, high, unit, observed, "
            f"observed_low, observed_high, {TARGET_RESULT}, evidence, readings, holds_in, NULL, shown_to_fail "
            "FROM target ORDER BY study, is_target, claim"
        ).write_csv(str(CLAIMS))


def results(claims: list[dict[str, str]]) -> str:
    """Return the page of results that is generated from the claims."""
    published_claims = [row for row in claims if row["is_target"] == "false"]
    by_study = {study: [row for row in published_claims if row["study"] == study] for study in stories()}
    lines = [
        "# Results of the default study",
        "",
        "This page lists how published statements compare with the default study. The verdict is that of the primary",
        "reading: the one that the words of the source select. `fabricast claims` prints all, the report the words.",
        "",
    ]
    for study, rows in by_study.items():
        if rows:
            text = headline(((row["verdict"], row["evidence"]) for row in rows), stories()[study].short)
            lines.append(f"- {text[0].upper()}{text[1:]}.")
    verdicts = [verdict for verdict in VERDICT_WORDS if any(row["verdict"] == verdict for row in published_claims)]
    lines += ["", f"| study | {' | '.join(VERDICT_WORDS[verdict] for verdict in verdicts)} |"]
    lines.append(f"|---|{'---|' * len(verdicts)}")
    for study, rows in by_study.items():
        counts = Counter(row["verdict"] for row in rows)
        if rows:
            lines.append(f"| {stories()[study].short} | {' | '.join(str(counts[v] or '') for v in verdicts)} |")
    for title, verdict in (
        ("Contradicted by the source's numbers or by measurements", "source_contradicted"),
        ("Our model differs", "model_differs"),
        ("Depends on the reading", "depends_on_reading"),
        ("Reproduced", "reproduced"),
    ):
        subset = [row for row in published_claims if row["verdict"] == verdict]
        lines += ["", f"## {title}", "", *_table(subset)]
    lines += ["", "## Targets of this project", "", *_table([row for row in claims if row["is_target"] == "true"])]
    return "\n".join(lines) + "\n"


def _table(rows: list[dict[str, str]]) -> list[str]:
    """Return the rows of a table of claims or targets."""
    lines = ["| statement | expected | this run | all readings | evidence |", "|---|---|---|---|---|"]
    for row in rows:
        unit = row["unit"]
        low, high = _number(row["observed_low"]), _number(row["observed_high"])
        spread = "" if low is None or low == high else f"{observed_text(low, '')} to {observed_text(high, unit)}"
        holds = holds_text(int(row["readings"]), _number(row["holds_in"]), _number(row["share_of_draws"]))
        cells = [
            row["statement"],
            bound_text(row["relation"], _number(row["low"]), _number(row["high"]), unit),
            observed_text(_number(row["observed"]), unit) + {"missed": " (missed)"}.get(row["verdict"], ""),
            "; ".join(filter(None, (spread, f"holds in {holds}" if holds else ""))),
            row["evidence"].replace("_", " "),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _number(text: str) -> float | None:
    return float(text) if text else None


def errors(claims: list[dict[str, str]]) -> str:
    """Return the table of the errors of forecasts on measured machines."""
    lines = [f"| measured | cases | {' | '.join(ERROR_COLUMNS)} |", "|---|---|---|---|---|---|---|"]
    names = ["graph_class", "model", "graphs", "median", "within_band", "worst", "sharing_median"]
    rows = read_csv(published() / "forecast_errors.csv", names)
    copies = {row["graph_class"]: row for row in rows if row["model"] == "ports_and_engines"}
    of_many = next(row["observed"] for row in claims if row["claim"] == "pcie_copies_many_left_out_median")
    for graph_class, title in COPIES.items():
        ours = copies[graph_class]
        fitted = "the pause below, in a few graphs" if graph_class == FEW_COPIES else "none"
        if graph_class == MANY_COPIES:
            fitted = f"a pause, from these machines; {float(of_many):.1f} % if the machine is left out"
        lines.append(
            f"| {title} | {ours['graphs']} | {ours.number('median'):.1%} | {ours.number('within_band'):.0%} "
            f"| {ours.number('worst'):.0%} | {ours.number('sharing_median'):.1%}, fair sharing of links | {fitted} |"
        )
    for name, title in UNMEASURED.items():
        error = default_errors()[name]
        lines.append(
            f"| {title} | {error.figures} | {error.median:.1%} | {error.within_band:.0%} | {error.worst:.0%} "
            f"| {error.link_median:.0%}, payload share of the link | shares, from other machines |"
        )
    lines += [
        f"| collectives, {CLUSTERS[row['machine_class']]}, from 1 MiB | {row['rows']} | {row.number('median'):.1%} "
        f"| {row.number('within_band'):.0%} | {row.number('worst'):.0%} | {row.number('nccl'):.0%}, NCCL's estimate "
        f"| from other machines; {row.number('with_two_rows'):.1%} with two rows of the machine |"
        for row in recorded_cluster_errors()
        if row["machine_class"] in CLUSTERS and row["operations"] == "collectives" and row["size_class"] == LARGEST
    ]
    lines += [
        f"| copies between nodes: {row['pattern']} | {row['rows']} | {row.number('median'):.1%} | | "
        f"{row.number('worst'):.0%} | | {row['fitted']} |"
        for row in recorded_errors_of_copies()
    ]
    estimates = {
        row["transport"]: row.number("median")
        for row in recorded_errors()
        if row["size_class"] == LARGEST and row["forecast"] == "NCCL's estimate"
    }
    for row in read_csv(published() / "collectives" / "state_errors.csv", STATE_COLUMNS):
        if row["size_class"] == LARGEST:
            lines.append(
                f"| all_reduce, {TRANSPORTS[row['transport']]}, from 1 MiB, {row['state']} | {row['rows']} "
                f"| {row.number('median'):.1%} | {row.number('within_band'):.0%} | {row.number('worst'):.0%} "
                f"| {estimates[row['transport']]:.0%}, NCCL's estimate | from other machines |"
            )
    return _with_blanks("\n".join(lines)) + "\n"


def _most_nodes() -> int:
    """Return the largest number of nodes of the public clusters with InfiniBand or RoCE."""
    return most_public_nodes(replace(node_of("hgx_h100"), nodes=2), Operation.ALL_REDUCE)


def _all_reduce() -> str:
    """Return the errors of all_reduce on PCIe machines with measured pairs, by transport."""
    direct, staged = (expected_error(is_measured=True, transport=name, size_bytes=2.0**26) for name in ("P2P", "SHM"))
    assert direct is not None and staged is not None
    return f"{direct.median:.1%} direct, {staged.median:.1%} through host memory"


def machines() -> str:
    """Return the table of supported machines with the median errors of their forecasts."""
    names = ["graph_class", "model", "median"]
    copies = {
        row["graph_class"]: row.number("median")
        for row in read_csv(
            published() / "forecast_errors.csv", names, ("graphs", "within_band", "worst", "sharing_median")
        )
        if row["model"] == "ports_and_engines"
    }
    nominal = {name: default_errors()[name].median for name in UNMEASURED}
    clusters = {
        row["machine_class"]: row.number("median")
        for row in recorded_cluster_errors()
        if row["operations"] == "collectives" and row["size_class"] == LARGEST
    }
    estimates = {
        row["machine_class"]: row.number("nccl")
        for row in recorded_cluster_errors()
        if row["operations"] == "collectives" and row["size_class"] == LARGEST and row["nccl"]
    }
    between_nodes = {row["pattern"]: row.number("median") for row in recorded_errors_of_copies()}
    messages = between_nodes["MPI messages of 1 to 4 MiB of several processes"]
    copied = f"{between_nodes['all-to-all of 32 MiB and more']:.1%} all-to-all, {messages:.1%} MPI messages, in sample"
    sends = between_nodes["NCCL's sendrecv of 32 MiB and more"]
    infiniband = (
        f"{clusters['InfiniBand or RoCE']:.1%} up to {_most_nodes()} nodes (NCCL's estimate: "
        f"{estimates['InfiniBand or RoCE']:.1%}); with Slingshot {clusters['Slingshot']:.1%} up to 64 nodes"
    )
    bound = "unknown: the time is a lower bound"
    of_interpolation = pd.read_csv(published() / "collectives" / "cluster_errors.csv", comment="#")
    interpolated = of_interpolation[of_interpolation["band"] == LARGEST].set_index("network")["median"]
    of_medians = sorted(one.median for one in median_errors([2.0**power for power in range(22, 34)]))
    of_nodes = (
        f"all_reduce from 4 MiB {of_medians[0]:.1%} to {of_medians[-1]:.1%} by size with several public nodes of the "
        f"class, otherwise {clusters['one node']:.1%}"
    )
    between = "NCCL or RCCL collectives from 1 MiB, between public measurements"
    rows = [
        (
            "GPUs behind PCIe switches or root ports (workstations, RTX, L40S, A100 PCIe), pairs measured",
            "copies that run together",
            f"{copies[FEW_COPIES]:.1%} ({copies[MANY_COPIES]:.1%} if a GPU has many, in sample)",
        ),
        ("the same machines, pairs measured", "all_reduce of 64 MiB", _all_reduce()),
        (
            "the same machines, nothing measured",
            "one copy",
            f"{nominal['direct copies']:.1%} direct, {nominal['staged copies']:.1%} through host memory",
        ),
        (
            "one node with NVLink or NVSwitch (HGX, DGX, GH200)",
            "copies; NCCL collectives from 1 MiB",
            f"copies {copies['direct links']:.1%} (one machine); {of_nodes}",
        ),
        (
            "several nodes with InfiniBand or RoCE (`--node hgx_h100 --nodes 4 --nic 8x400`)",
            "NCCL collectives from 1 MiB",
            infiniband,
        ),
        ("the same nodes", "copies between nodes", f"{copied}; {sends:.0%} for NCCL's sendrecv"),
        (
            "one node of MI300X, MI325X or MI350X (xGMI)",
            f"one copy; {between}",
            f"one copy {nominal['copies over xGMI']:.1%} (three machines); collectives {interpolated['one node']:.1%}",
        ),
        ("nodes over TCP", between, f"{interpolated['Ethernet']:.0%}"),
        ("fat trees, dragonflies, two-level networks", "link loads, order of hosts", bound),
    ]
    lines = ["| your machine | forecasts | median error |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return _with_blanks("\n".join(lines)) + "\n"


#: Further claims in the sentences of studies.
_OTHER_CLAIMS = {
    "multicast": "percs_random_nodes_multicast",
    "two": "percs_random_nodes_2d",
    "ping_pong": "maxrate_ping_pong",
}
#: Figure of each study in README.md.
_FIGURES = {
    "pcie": "pcie.error_distribution",
    "breakdown": "breakdown.accuracy",
    "maxrate": "maxrate.rates",
    "gpucentric": "gpucentric.curves",
    "percs": "percs.times_small",
}


def studies(claims: list[dict[str, str]]) -> str:
    """Return the table of publications with one result of the default study each, and the command of a figure."""
    of = {row["claim"]: row for row in claims}
    lines = ["| paper | what it states, and what holds here | a figure |", "|---|---|---|"]
    for study, (publication, doi, sentence) in STUDIES.items():
        row = of[stories()[study].claim]
        value = (
            f"{float(row['share_of_draws']):.0%}" if row["share_of_draws"] else _rounded(row["observed"], row["unit"])
        )
        low, high = (_rounded(row[end], row["unit"]) if row[end] else "" for end in ("observed_low", "observed_high"))
        link = f", [doi:{doi}](https://doi.org/{doi})" if doi else ""
        more = {key: _rounded(of[claim]["observed"], "times") for key, claim in _OTHER_CLAIMS.items()}
        result = sentence.format(value=value, low=low, high=high, **more)
        lines.append(
            f"| {publication}{link} | {_with_blanks(result)} | `snakemake reports/figures/{_FIGURES[study]}.svg` |"
        )
    return "\n".join(lines) + "\n"


def _with_blanks(text: str) -> str:
    """Return text with a blank before each percent sign."""
    return text.replace("%", " %").replace("  %", " %")


def _rounded(number: str, unit: str) -> str:
    """Return a number with three significant digits and its unit."""
    return observed_text(float(f"{float(number):.3g}"), unit)


def with_tables(readme: str, claims: list[dict[str, str]]) -> str:
    """Return README.md with updated tables of machines and studies."""
    for begin, end, text in ((BEGIN_MACHINES, END_MACHINES, machines()), (BEGIN_STUDIES, END_STUDIES, studies(claims))):
        before, rest = readme.split(begin)
        readme = before + begin + "\n" + text + end + rest.split(end)[1]
    return readme


def formats() -> str:
    """Return the table of the formats of the registry, by content."""
    contents = list(dict.fromkeys(one.content for one in FORMATS))
    lines = ["| content | program | versions | written by, for example |", "|---|---|---|---|"]
    for one in sorted(FORMATS, key=lambda one: contents.index(one.content)):
        command = f"`{one.command}`" if " " in one.command else one.command
        cells = (str(one.content), one.program, one.versions, command)
        escaped = [cell.replace("|", r"\|") for cell in cells]
        lines.append(f"| {' | '.join(escaped)} |")
    return "\n".join(lines) + "\n"


def with_formats(page: str) -> str:
    """Return the page of file formats with an updated table."""
    before, rest = page.split(BEGIN_FORMATS)
    return before + BEGIN_FORMATS + "\n" + formats() + END_FORMATS + rest.split(END_FORMATS)[1]


def error_page(claims: list[dict[str, str]]) -> str:
    """Return the page of the errors of forecasts."""
    return f"{_ABOUT_ERRORS}{BEGIN}\n{errors(claims)}{END}"


def read_claims() -> list[dict[str, str]]:
    """Return the claims of the last recorded default study."""
    with CLAIMS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    """Export the claims if a database is specified, then write the page of results and README.md."""
    if len(sys.argv) > 1:
        export(Path(sys.argv[1]))
    RESULTS.write_text(results(read_claims()), encoding="utf-8")
    ERRORS.write_text(error_page(read_claims()), encoding="utf-8")
    FORMATS_PAGE.write_text(with_formats(FORMATS_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    README.write_text(with_tables(README.read_text(encoding="utf-8"), read_claims()), encoding="utf-8")


if __name__ == "__main__":
    main()
