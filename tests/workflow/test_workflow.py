"""Tests of complete workflow runs in a copy of the project."""

import os
import shutil
import subprocess
import sys

import duckdb
import pytest

import fabricast as fc
from fabricast.results.claims import read_claims
from tests.conftest import REPOSITORY
from tests.running import SMOKE, copy_project, keep_one_public_machine, snakemake

#: Files that depend on the time and the machine of a run.
VOLATILE = ("run.parquet", "fabricast.duckdb", "report.html")


def planned(output):
    """Return the rules in the job table of a dry run."""
    table = output.partition("Job stats:")[2].partition("\n\n")[0]
    rows = (line.split() for line in table.splitlines())
    return {row[0] for row in rows if len(row) == 2 and row[1].isdecimal()} - {"total", "all"}


def contents(folder):
    """Return the bytes of every file that must be identical in equal runs."""
    files = [*(folder / "results").rglob("*.parquet"), *(folder / "reports" / "figures").iterdir()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.name not in VOLATILE}


def test_run_creates_all_outputs(finished):
    for name in ("results/fabricast.duckdb", "results/run_config.yaml", "reports/report.html"):
        assert (finished / name).stat().st_size > 0
    figures = {path.name for path in (finished / "reports" / "figures").iterdir()}
    assert len(figures) == 67
    assert not list(finished.rglob("*.part*"))


def test_tables_contain_expected_values(finished):
    with duckdb.connect(str(finished / "results" / "fabricast.duckdb"), read_only=True) as connection:

        def ask(query):
            return connection.execute(query).fetchall()

        assert ask("SELECT count(*) FROM graph WHERE subset = 'validation'") == [(600,)]
        orphans = "SELECT count(*) FROM communication ANTI JOIN graph USING (graph)"
        assert ask(orphans) == [(0,)]
        assert ask("SELECT count(*) FROM prediction WHERE value <= 0") == [(0,)]
        staggered = ask(
            "SELECT count(*), max(abs(relative_error)) FROM comparison WHERE kind = 'measured' "
            "AND model = 'congestion_factor' AND case_id LIKE '%staggered%'"
        )[0]
        assert staggered[0] == 21
        assert staggered[1] < 0.02
        misses = ask(
            "SELECT split_part(origin, ' ', 1), count(*) FROM comparison WHERE kind = 'measured' "
            "AND model = 'congestion_factor' AND NOT within GROUP BY ALL ORDER BY ALL"
        )
        assert misses == [("fabricast", 4), ("rtx6kpro", 2)], (
            "host copies of three GPUs both ways, and all-to-all probes"
        )
        verdicts = dict(ask("SELECT claim, verdict::VARCHAR FROM claim"))
        assert verdicts["pcie_example_step_two"] == "reproduced"
        assert ask("SELECT met FROM target WHERE target = 'pcie_all_to_all_probes'") == [(False,)]
        assert verdicts["pcie_within_fifteen_percent"] == "not_testable"
        assert verdicts["pcie_reference_time"] == "depends_on_reading"
        assert verdicts["gpucentric_g03"] == "follows_from_inputs"
        weak = ask(
            "SELECT claim FROM claim WHERE verdict IN ('reproduced', 'decided_by_tolerance') AND NOT shown_to_fail "
            "AND evidence NOT IN ('published_inputs', 'recalled_inputs', 'assumed_inputs', 'definition')"
        )
        assert weak == [], "each claim that holds fails for at least one mutation"
        judged = "(SELECT claim FROM claim UNION ALL SELECT target FROM target)"
        rows = f"SELECT count(DISTINCT claim) FROM {{}} ANTI JOIN {judged} USING (claim)"
        for table in ("claim_reading", "claim_baseline", "claim_mutation"):
            assert ask(rows.format(table)) == [(0,)]
        worst = dict(ask("SELECT kind::VARCHAR, count(*) FROM worst_cases WHERE study = 'pcie' GROUP BY kind"))
        assert worst["simulated"] == worst["measured"] == 50
        baselines = "('no_contention', 'postal', 'alpha_beta', 'nccl_estimate', 'sharing_on_the_tree')"
        assert ask(f"SELECT count(*) FROM worst_cases WHERE model IN {baselines}") == [(0,)]
        kinds = dict(ask("SELECT kind::VARCHAR, count(*) FROM comparison GROUP BY kind"))
        assert kinds["simulated"] > 1000
        simulated = ask(
            "SELECT model, min(share_within) FROM error_band WHERE kind = 'simulated' AND tolerance = 0.15 "
            "AND subset = 'storm8.validation' GROUP BY model"
        )
        shares = dict(simulated)
        assert shares["back_pressure"] > 0.98
        assert shares["back_pressure"] > shares["round_robin_upstream"] > shares["max_min"] > shares["no_contention"]
        mixed = "SELECT count(*) FROM error_band WHERE kind = 'simulated' AND study = 'pcie' AND origin NOT LIKE 'packets.%'"
        assert ask(mixed) == [(0,)]
        config = ask("SELECT config->>'$.pcie.tau' FROM run")[0][0]
        assert float(config) == 0.1735


def test_run_opens_from_python(finished):
    run = fc.open_run(finished / "results")
    assert {"claim", "prediction", "claims_by_study"} <= set(run.tables)
    claims = read_claims(REPOSITORY / "config" / "published" / "claims")
    assert len(run["claim"]) == run.sql("SELECT count(*) AS n FROM claim")["n"].iloc[0]
    assert set(run["claim"]["claim"]) | set(run["target"]["target"]) == {claim.claim for claim in claims}
    with run.connect() as connection:
        assert connection.table("study").filter("study = 'pcie'").fetchall()[0][0] == "pcie"
    assert len(run.figures) == 67
    assert run.figure("pcie.slowdown")._repr_svg_().startswith("<?xml")
    assert "reproduced" in run._repr_html_()
    with pytest.raises(fc.InputError, match="did you mean 'claim'"):
        run["claims"]
    with pytest.raises(fc.InputError, match=r"did you mean 'pcie.slowdown'"):
        run.figure("pcie.slowdwn")
    assert fc.open_run(finished / "results" / "fabricast.duckdb") == run


def test_second_run_has_nothing_to_do(finished):
    code, output = snakemake(finished, *SMOKE)
    assert code == 0, output
    assert "Nothing to be done" in output


def test_edits_rerun_only_dependent_rules(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "edited", symlinks=True)
    (folder / "src").unlink()
    shutil.copytree(REPOSITORY / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))

    def touch(*names, text="\n# an edit\n"):
        originals = {folder / name: (folder / name).read_text() for name in names}
        for path, original in originals.items():
            path.write_text(original + text)
        _, output = snakemake(folder, *SMOKE, "--dry-run")
        for path, original in originals.items():
            path.write_text(original)
        return planned(output)

    tables = {"evaluate_claims", "build_database", "write_report", "plot_claims"}
    assert touch("README.md", "src/fabricast/cli/pcie/copies.py", "src/fabricast/api/runs.py") == set()
    assert touch("src/fabricast/report/page.py") == {"write_report"}
    figures = touch("src/fabricast/figures/percs.py")
    assert {rule for rule in figures if not rule.startswith("plot_")} == {"write_report"}
    # A study reruns as a whole, the others do not.
    maxrate = touch("src/fabricast/maxrate/fitting.py")
    assert {"fit_maxrate", "compare_study", "plot_maxrate"} | tables == maxrate
    kernels = touch("src/fabricast/pcie/models/kernels/congestion.py")
    assert {"compile_pcie_kernels", "predict_pcie_graphs", "trace_pcie_example", "evaluate_pcie_probes"} <= kernels
    assert not kernels & {"record_run", "collect_published", "fit_maxrate", "evaluate_percs_loads"}
    # The shared layers rerun every study.
    shared = touch("src/fabricast/inputs/studies.py")
    assert {"compare_study", "evaluate_breakdown", "fit_maxrate", "evaluate_percs_loads"} | tables <= shared
    assert touch("config/studies/smoke.yaml", text="seed: 5\n") >= {
        "generate_pcie_graphs",
        "compare_study",
        "record_run",
    }


def test_shards_do_not_change_results(finished, tmp_path):
    folder = tmp_path / "sharded"
    shutil.copytree(finished, folder, symlinks=True)
    (folder / "shards.yaml").write_text("pcie:\n  shards: 3\npercs:\n  shards: 2\n")
    targets = [
        "results/pcie/storm8.comparison.parquet",
        "results/pcie/storm8.error_band.parquet",
        "results/percs/packets.error_feature.parquet",
        "results/percs/all.comparison.parquet",
        "reports/figures/percs.usage_4d.svg",
    ]
    code, output = snakemake(folder, *targets, *SMOKE, "shards.yaml")
    assert code == 0, output
    for part in ("pcie/storm8.2.reference", "percs/loads.1.network_case", "percs/shards/1.reference"):
        assert (folder / "results" / f"{part}.parquet").exists()
    for name in targets:
        assert (folder / name).read_bytes() == (finished / name).read_bytes(), name


def test_user_supplied_machine_and_graphs_are_predicted(tmp_path):
    folder = copy_project(tmp_path)
    (folder / "machine.xml").write_text(
        '<system><cpu><pci busid="a" class="0x0604" link_speed="16 GT/s" link_width="16">'
        '<pci busid="b" class="0x0302" link_speed="16 GT/s" link_width="16"/>'
        '<pci busid="c" class="0x0302" link_speed="16 GT/s" link_width="16"/></pci></cpu></system>'
    )
    keep_one_public_machine(folder)
    (folder / "graphs.csv").write_text("graph,source,target\n<script>alert(1)</script>,0,1\n")
    (folder / "own.yaml").write_text(
        "pcie:\n  hardware: [split_256_128]\n  graph_sets:\n"
        "    storm8: {topology: storm8, validation_graphs: 20, simulated_graphs: 0}\n"
        "    flat4x2: {topology: flat4x2, validation_graphs: 20, simulated_graphs: 0}\n"
        "    mine: {topology: machine.xml, graphs_file: graphs.csv, bandwidth_gib_per_s: 25.0, tau: 0.0}\n"
        "  schedules: {topologies: [storm8], grids: [[4, 2]], models: [congestion_factor], searched: []}\n"
    )
    code, output = snakemake(
        folder,
        "--configfile",
        "own.yaml",
        "--cores",
        "2",
        "reports/figures/pcie.error_features.svg",
        "results/pcie/mine.prediction.parquet",
    )
    assert code == 0, output
    rows = duckdb.sql(
        f"SELECT case_id, value FROM '{folder}/results/pcie/mine.prediction.parquet' "
        "WHERE case_id LIKE 'mine.%' AND model = 'congestion_factor'"
    ).fetchall()
    assert rows == [("mine.user.<script>alert(1)</script>", pytest.approx(300 / 1024 / 25))]
    # A file that replaces an input is noticed by its content, even if it is older.
    target = ["--configfile", "own.yaml", "--dry-run", "results/pcie/mine.prediction.parquet"]
    assert planned(snakemake(folder, *target)[1]) == set()
    (folder / "graphs.csv").write_text("graph,source,target\nother,1,0\n")
    os.utime(folder / "graphs.csv", (1e9, 1e9))
    assert {"generate_pcie_graphs", "predict_pcie_graphs"} <= planned(snakemake(folder, *target)[1])


def test_your_validation_graphs_get_what_the_study_has(tmp_path):
    """All models, a Python function among them, simulations, error bands, figures and a page with them."""
    folder = copy_project(tmp_path)
    (folder / "halves.py").write_text("def rates(tree, copies):\n    return [1e10 / len(copies)] * len(copies)\n")
    (folder / "own.yaml").write_text(
        "pcie:\n"
        "  models: [congestion_factor, round_robin_upstream, back_pressure, max_min, busiest_link, no_contention, "
        "'halves:rates']\n"
        "  hardware: [split_256_128]\n"
        "  sampled_hardware: {}\n"
        "  graph_sets:\n"
        "    mine: {topology: boards4, validation_graphs: 40, random_graphs: 0}\n"
        "    flat4x2: {simulated_graphs: 0}\n"
        "    storm8: {simulated_graphs: 0}\n"
        "pathvars: {results: results/mine, reports: reports/mine, logs: logs/mine}\n"
    )
    code, output = snakemake(folder, "--configfile", "own.yaml", "--cores", "2")
    assert code == 0, output
    run = fc.open_run(folder / "results" / "mine")
    bands = run.sql("SELECT DISTINCT model FROM error_band WHERE kind = 'simulated'")["model"]
    assert {"congestion_factor", "back_pressure", "halves:rates"} <= set(bands)
    compared = run.sql("SELECT DISTINCT model FROM comparison WHERE study = 'pcie'")["model"]
    assert set(compared) == {"congestion_factor", "round_robin_upstream", "back_pressure", "halves:rates"}
    names = [f"your_machine.mine.{name}" for name in ("error_by_size", "error_distribution", "link_loads", "slowdown")]
    assert list(run.figures) == names
    assert "halves:rates" in run.figure("your_machine.mine.slowdown").path.read_text()
    page = (folder / "reports" / "mine" / "your_machine.html").read_text()
    assert all(f'id="{name}"' in page for name in names)


def test_only_your_graph_sets_run(tmp_path):
    """A configuration with graph sets of the user runs these alone; the page and the tables explain each wait."""
    folder = copy_project(tmp_path)
    (folder / "graphs.csv").write_text("graph,source,target\ngather,1,0\ngather,2,0\n<b>one</b>,0,1\n")
    (folder / "own.yaml").write_text(
        "pcie: {graph_sets: {mine: {topology: pcie5_four_switches, graphs_file: graphs.csv}}}\n"
        "pathvars: {results: results/mine, reports: reports/mine, logs: logs/mine}\n"
    )
    code, output = snakemake(folder, "--configfile", "own.yaml", "--cores", "2")
    assert code == 0, output
    assert "your machine: mine: the slowest of 2 graphs, gather, completes after" in output
    assert "removing 2>0 would shorten it most" in output
    assert not (folder / "results" / "mine" / "breakdown").exists()
    assert not (folder / "results" / "mine" / "pcie" / "storm8.graph.parquet").exists()
    with duckdb.connect(str(folder / "results" / "mine" / "your_machine.duckdb"), read_only=True) as connection:
        rows = connection.execute(
            "SELECT graph, source, slowdown, bottleneck, limited_by, elapsed_without_s < elapsed_s FROM forecast "
            "ORDER BY graph DESC, communication"
        ).fetchall()
        codes = {code for (code,) in connection.execute("SELECT code FROM forecast_warning").fetchall()}
    assert rows == [
        ("mine.user.gather", "1", pytest.approx(2), "endpoint 0 receives", "2>0", True),
        ("mine.user.gather", "2", pytest.approx(2), "endpoint 0 receives", "1>0", True),
        ("mine.user.<b>one</b>", "0", pytest.approx(1), "endpoint 0 sends", "", None),
    ]
    assert "expected_error" in codes
    page = (folder / "reports" / "mine" / "your_machine.html").read_text()
    assert "&lt;b&gt;one" in page
    assert "<b>one" not in page
    everything = planned(snakemake(folder, "all", "--configfile", "own.yaml", "--dry-run")[1])
    assert {"evaluate_breakdown", "build_database", "write_report"} <= everything
    # Direct links and host memory are forecast by the recommended model.
    (folder / "direct.csv").write_text("graph,source,target\na,0,1\na,2,1\nb,H,0\n")
    (folder / "direct.yaml").write_text(
        "pcie: {graph_sets: {nv: {topology: hgx_a100, graphs_file: direct.csv}}}\n"
        "pathvars: {results: results/nv, reports: reports/nv, logs: logs/nv}\n"
    )
    code, output = snakemake(
        folder, "--configfile", "direct.yaml", "--cores", "2", "results/nv/pcie/nv.forecast.parquet"
    )
    assert code == 0, output
    links = duckdb.sql(f"SELECT bottleneck FROM '{folder}/results/nv/pcie/nv.forecast.parquet' ORDER BY ALL").fetchall()
    assert [link for (link,) in links][:2] == ["direct link NVSwitch > 1"] * 2
    # Generated graphs on another tree are the user's too.
    (folder / "generated.yaml").write_text("pcie: {graph_sets: {mine: {topology: boards4, random_graphs: 5}}}\n")
    alone = planned(snakemake(folder, "--configfile", "generated.yaml", "--dry-run")[1])
    assert "forecast_your_copies" in alone and "fit_maxrate" not in alone
    # A built-in topology without link speeds has the rate of the study.
    forecast = "results/pcie/mine.forecast.parquet"
    code, output = snakemake(folder, forecast, "--configfile", "generated.yaml", "--cores", "2")
    assert code == 0, output
    assert duckdb.sql(f"SELECT min(elapsed_s) > 0 FROM '{folder}/{forecast}'").fetchall() == [(True,)]
    # Measurements for another study need that study.
    (folder / "mine.csv").write_text("processes,size_bytes,time_s\n1,8,1e-6\n")
    (folder / "own.yaml").write_text((folder / "own.yaml").read_text() + "maxrate: {measurements: [mine.csv]}\n")
    assert "fit_maxrate" in planned(snakemake(folder, "--configfile", "own.yaml", "--dry-run")[1])


def test_invalid_configuration_and_files_are_one_error_line(tmp_path):
    folder = copy_project(tmp_path)
    code, output = snakemake(folder, "--config", "sed=1")
    assert code != 0
    assert "config: key 'sed' is unknown" in output
    assert not (folder / "results" / "pcie").exists()
    (folder / "graphs.csv").write_text("graph,source,target\na,0,9\n")
    (folder / "own.yaml").write_text("pcie:\n  graph_sets:\n    mine: {topology: storm8, graphs_file: graphs.csv}\n")
    code, output = snakemake(folder, "results/pcie/mine.graph.parquet", "--cores", "1", "--configfile", "own.yaml")
    assert code != 0
    assert "error: graphs.csv:2: target is '9'" in output
    assert not (folder / "results" / "pcie" / "mine.graph.parquet").exists()


@pytest.mark.parametrize("study", ["smoke", "paper"])
def test_dry_run_of_each_study_includes_the_report(tmp_path, study):
    folder = copy_project(tmp_path)
    code, output = snakemake(folder, "--configfile", f"config/studies/{study}.yaml", "--dry-run")
    assert code == 0, output
    assert "write_report" in planned(output)


def test_strict_claims_and_archive(finished):
    from rocrate.rocrate import ROCrate

    command = [sys.executable, "-m", "fabricast.cli", "claims"]
    environment = os.environ | {"PYTHONPATH": str(finished / "src")}

    def claims(*arguments):
        return subprocess.run(
            [*command, *arguments], cwd=finished, env=environment, capture_output=True, text=True, check=False
        )

    lost = claims("--strict")
    assert lost.returncode == 1, "the smoke study does not have the 22,259 simulated graphs of the default study"
    assert "fabricast: lost: pcie_validation_graphs was follows_from_inputs and now is not_testable" in lost.stderr
    refused = claims("--record")
    assert refused.returncode == 2, "a smaller study does not shrink the baseline"
    assert "of the baseline have lost their verdict, such as" in refused.stderr
    baseline = finished / "config" / "published" / "claims_baseline.csv"
    original = baseline.read_text()
    baseline.write_text("claim,verdict\npcie_example_step_one,reproduced\n")
    assert claims("--record").returncode == 0
    assert baseline.read_text().count("\n") > 50
    assert claims("--strict").returncode == 0
    baseline.write_text(original)
    assert claims("--database", "none.duckdb").returncode == 2
    code, output = snakemake(finished, "archive", *SMOKE)
    assert code == 0, output
    crate = ROCrate(finished)
    assert crate.mainEntity.id == "Snakefile"
    files = {entity.id for entity in crate.get_entities() if entity.type == "File"}
    assert {"results/fabricast.duckdb", "reports/report.html", "results/archive/claim.parquet"} <= files
    with duckdb.connect() as connection:
        connection.execute(f"IMPORT DATABASE '{finished / 'results' / 'archive'}'")
        assert connection.execute("SELECT count(*) FROM claim").fetchall()[0][0] > 90
        assert connection.execute("SELECT count(*) FROM claims_by_study").fetchall() == [(5,)]
