"""Measurements on a GPU: driver calls against a fake driver, and evaluation of a run."""

import os
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from fabricast.core.errors import InputError
from fabricast.figures.gpucentric import plot_this_gpu
from fabricast.figures.style import paper_style
from fabricast.gpucentric.measured.files import measure_to_file
from fabricast.gpucentric.measured.power_meters import ProcessorMeter, mean_power_w
from fabricast.gpucentric.measured.runs import CELL_COLUMNS, PATTERNS
from fabricast.gpucentric.measured.tables import gpu_parameters, gpu_probes, gpu_tables, read_cells, write_derived
from fabricast.gpucentric.parameters import read_measured, read_values
from fabricast.gpucentric.selector import select
from fabricast.inputs.parameters import parameter_table
from fabricast.pcie.tables.probes import probe_tables, read_probes
from fabricast.results.tables import read_table
from fabricast.runtime.machine import pin_to_local_cores
from tests.conftest import REPOSITORY
from tests.running import SMOKE, copy_project, snakemake

GPU = "Some GPU"
START_UP_S, RATE = 8e-6, 2.5e10
SIZES = [4.0, 4096.0, 2.0**20, 2.0**24]
POWERS = {
    "idle": 50.0,
    "GPU polls, CPU sleeps": 80.0,
    "GPU polls, CPU polls": 80.0,
    "copies": 75.0,
    "stores": 90.0,
    "computes": 300.0,
}


def cell(quantity, item, value, unit, **place):
    row = {
        "gpu": GPU,
        "quantity": quantity,
        "item": item,
        "memory": "",
        "clock": "host",
        "size_bytes": 0,
        "copies": 1,
        "burst": 0,
        "samples": 9,
        "p05": value,
        "p50": value,
        "p95": value,
        "unit": unit,
    }
    return row | place


def run_rows():
    """Return a run of a machine that the models describe exactly, with a slower second burst."""
    rows = [
        cell("time", "call", 2e-7, "s"),
        cell("time", "launch", 2.2e-6, "s"),
        cell("time", "launch and wait", 9.4e-6, "s"),
        cell("time", "query", 7e-7, "s"),
        cell("time", "load", 1e-6, "s", memory="pinned", clock="device", size_bytes=4),
        cell("rate", "store", 2e10, "bytes/s", memory="pinned", clock="device", size_bytes=2**24),
    ]
    for way in ("host_to_device", "device_to_host"):
        for size in SIZES:
            rows.append(cell("time", way, START_UP_S + size / RATE, "s", memory="pinned", size_bytes=size))
            rows.append(cell("time", way, 3 * (START_UP_S + size / RATE), "s", memory="pageable", size_bytes=size))
    # Total rate of all copies relative to the rate of a single copy.
    rates = {
        "single to the GPU": 1.0,
        "single to the host": 1.0,
        "both directions": 2.0,
        "two to the GPU": 1.0,
        "two to the host": 1.0,
        "two per direction": 2.0,
    }
    for name, share in rates.items():
        copies = len(PATTERNS.get(name, (0,)))
        rows.append(
            cell(
                "rate", name, share * RATE, "bytes/s", memory="pinned", clock="device", size_bytes=2**26, copies=copies
            )
        )
    rows += [cell("power", state, watts, "W", memory="gpu", clock="counter") for state, watts in POWERS.items()]
    rows += [
        cell("power", "GPU polls, CPU sleeps", 60.0, "W", memory="processors", clock="counter"),
        cell("power", "GPU polls, CPU polls", 85.0, "W", memory="processors", clock="counter"),
    ]
    slower = [{**row, "burst": 1, "p50": row["p50"] * (0.8 if row["quantity"] == "rate" else 1.25)} for row in rows]
    return pd.DataFrame(rows + slower)


@pytest.fixture
def run_file(tmp_path):
    path = tmp_path / "this_gpu.csv"
    path.write_text("# Some GPU\n" + run_rows()[["gpu", *CELL_COLUMNS]].to_csv(index=False))
    return path


def test_cells_contain_the_best_burst(run_file):
    cells = read_cells(run_file)
    assert len(cells) == len(run_rows()) / 2
    assert (cells["bursts"] == 2).all()
    assert cells["spread"].to_numpy() == pytest.approx(0.25)
    launch = cells[cells["item"] == "launch"]
    assert launch["value"].tolist() == [2.2e-6]
    assert cells[cells["item"] == "two per direction"]["value"].tolist() == [2 * RATE]


def test_parameters_of_a_synthetic_run_are_recovered(run_file):
    parameters = {row.name: row for row in gpu_parameters(read_cells(run_file))}
    expected = {
        "launch": 2e-6,
        "context_switch": 7e-6,
        "query_time": 5e-7,
        "copy_start_up": START_UP_S,
        "copy_rate": RATE,
        "gpu_idle_power": 50,
        "gpu_copy_power": 25,
        "gpu_store_power": 40,
        "gpu_compute_power": 250,
        "cpu_poll_power": 25,
    }
    assert {name: row.value for name, row in parameters.items()} == pytest.approx(expected)
    assert {row.tag for row in parameters.values()} == {"measured"}
    assert all(GPU in row.source for row in parameters.values())


def test_parameters_without_power_are_times_and_rates_only(run_file):
    cells = read_cells(run_file)
    names = [row.name for row in gpu_parameters(cells[cells["quantity"] != "power"])]
    assert names == ["launch", "context_switch", "query_time", "copy_start_up", "copy_rate"]


def test_measured_values_replace_only_assumed_values(run_file, tmp_path):
    path = tmp_path / "parameters.csv"
    table = parameter_table(gpu_parameters(read_cells(run_file)))
    path.write_text(table.to_csv(index=False))
    measured = read_measured(path)
    assert "cpu_poll_power" not in measured, "the talk publishes this number"
    assert len(measured) == 9
    default, with_measured = (select("k20_extoll", 2**22, measured=given) for given in (None, measured))
    assert with_measured.time_s < default.time_s, "copies are five times as fast"
    unchanged = {name: read_values("k20_extoll")[name] for name in measured}
    assert select("k20_extoll", 2**22, measured=unchanged) == default
    with pytest.raises(InputError, match="expected k20_extoll for user-supplied parameters"):
        select("lassen_spectrum", 2**22, measured=measured)
    for old, new, message in (
        (",s,", ",us,", "expected a positive number in s"),
        ("launch,", "lunch,", "'lunch' is not a parameter of"),
    ):
        path.write_text(table.to_csv(index=False).replace(old, new))
        with pytest.raises(InputError, match=message):
            read_measured(path)


def test_models_predict_concurrent_copies_as_probes(run_file, tmp_path):
    path = tmp_path / "probes.csv"
    gpu_probes(read_cells(run_file)).to_csv(path, index=False)
    probes = read_probes(path)
    assert [probe.pattern for probe in probes] == list(PATTERNS)
    tables = probe_tables(probes, ["max_min", "no_contention"], size_bytes=2**26, tau=0.0)
    assert set(tables.reference["origin"]) == {f"this_machine {GPU}"}
    both = tables.prediction.merge(tables.reference, on="case_id", suffixes=("", "_measured"))
    fair = both[both["model"] == "max_min"]
    assert (fair["value"] / fair["value_measured"]).to_numpy() == pytest.approx(1)
    alone = both[both["model"] == "no_contention"].set_index("case_id")
    ratios = sorted((alone["value"] / alone["value_measured"]).round(6).tolist())
    assert ratios == [1, 2, 2, 2]


def test_tables_contain_copies_and_their_fit(run_file):
    tables = gpu_tables(run_file)
    assert set(tables.reference["item"]) == {
        f"{w}.{m}" for w in ("host_to_device", "device_to_host") for m in ("pinned", "pageable")
    }
    both = tables.prediction.merge(tables.reference, on=["case_id", "item"], suffixes=("", "_measured"))
    assert len(both) == 4 * len(SIZES)
    assert (both["value"] / both["value_measured"]).to_numpy() == pytest.approx(1)
    assert not tables.gpucentric_measurement.duplicated(
        ["quantity", "item", "memory", "clock", "size_bytes", "copies"]
    ).any()


def test_figure_shows_copies_concurrency_and_power_if_measured(run_file):
    tables = gpu_tables(run_file)
    cells = tables.gpucentric_measurement
    with paper_style():
        whole = plot_this_gpu(cells, tables.prediction)
        without = plot_this_gpu(cells[cells["quantity"] != "power"], tables.prediction)
    assert [axes.get_xlabel() for axes in whole.axes][2] == "mean power\nof the GPU (W)"
    assert len(without.axes) == 2
    assert [bar.get_width() for bar in whole.axes[1].patches] == pytest.approx([1, 0.5, 0.5, 0.5])
    assert len(whole.axes[0].get_lines()) == 2 * 4, "points and a fit of four kinds of copies"
    plt.close("all")


def test_invalid_runs_are_rejected_with_line_number(run_file):
    text = run_file.read_text()
    run_file.write_text(text.replace("time,launch,", "lime,launch,", 1))
    with pytest.raises(InputError, match=r"this_gpu.csv:4: quantity is 'lime'"):
        read_cells(run_file)


def test_machine_without_a_gpu_is_reported_in_one_line_without_failure(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("fabricast.gpucentric.measured.files.unavailable_reason", lambda: "no CUDA driver was found")
    cells, parameters, probes = (tmp_path / name for name in ("cells.csv", "parameters.csv", "probes.csv"))
    plan = {"sizes": [4, 64], "bursts": 1, "seconds": 0.001, "power_seconds": 0}
    assert measure_to_file(cells, tmp_path / "runs", **plan) == "no CUDA driver was found"
    assert capfd.readouterr().err == "nothing measured: no CUDA driver was found\n"
    write_derived(cells, parameters, probes)
    for path, read in ((cells, gpu_tables), (parameters, read_measured), (probes, read_probes)):
        with pytest.raises(
            InputError, match="contains no rows, .*nothing measured: no CUDA driver.*--forcerun measure_gpucentric"
        ):
            read(path)


def test_last_run_is_reused_without_a_gpu(run_file, tmp_path, monkeypatch):
    monkeypatch.setattr("fabricast.gpucentric.measured.files.unavailable_reason", lambda: "no CUDA driver was found")
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "gpu.20260101T000000000000.csv").write_text("older")
    (runs / "gpu.20261121T000000000000.csv").write_text(run_file.read_text())
    reason = measure_to_file(tmp_path / "again.csv", runs, sizes=[4, 64], bursts=1, seconds=0.001, power_seconds=0)
    assert reason == "no CUDA driver was found"
    assert (tmp_path / "again.csv").read_text() == run_file.read_text()


def test_process_is_pinned_to_cores_near_the_gpu(tmp_path):
    cores = os.sched_getaffinity(0)
    first = min(cores)
    (tmp_path / "0000:0a:00.0").mkdir()
    (tmp_path / "0000:0a:00.0" / "local_cpulist").write_text(f"{first},4000-4003\n")
    with pin_to_local_cores("0000:0A:00.0", tmp_path) as where:
        assert os.sched_getaffinity(0) == {first}
        assert where == "on the 1 cores next to it"
    assert os.sched_getaffinity(0) == cores
    with pin_to_local_cores("0000:0B:00.0", tmp_path) as where:
        assert os.sched_getaffinity(0) == cores
        assert where == "on any core"


def test_mean_power_of_a_stepwise_counter_is_between_its_updates():
    class Stepping:
        has_counter = True

        def __init__(self):
            self.start = time.perf_counter()

        def read(self):
            # 100 W, with a counter that is updated every 50 ms.
            return 100 * 0.05 * int((time.perf_counter() - self.start) / 0.05)

    powers = mean_power_w(time.sleep, 0.27, Stepping(), ProcessorMeter(Path("/nowhere")))
    assert powers["gpu"] == pytest.approx(100, rel=0.15)

    class Standing:
        has_counter = True

        def read(self):
            return 7.0

    assert mean_power_w(time.sleep, 0.05, Standing(), ProcessorMeter(Path("/nowhere"))) == {}


def test_power_is_measured_without_samples_of_the_thread(monkeypatch):
    now = [100.0]

    class Rising:
        has_counter = True

        def read(self):
            return 40 * now[0]

    def work(seconds):
        now[0] += seconds

    # A clock of the test's own: a busy machine cannot come between a reading and its time.
    monkeypatch.setattr("fabricast.gpucentric.measured.power_meters.time.perf_counter", lambda: now[0])
    powers = mean_power_w(work, 0.1, Rising(), ProcessorMeter(Path("/nowhere")))
    assert powers["gpu"] == pytest.approx(40)


def test_processor_energy_accounts_for_counter_overflow(tmp_path):
    zones = {
        "intel-rapl:0": ("package-0", 900),
        "intel-rapl:1": ("package-1", 100),
        "intel-rapl:0:0": ("core", 5),
        "intel-rapl:2": ("psys", 1),
    }
    for name, (zone, used) in zones.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "name").write_text(f"{zone}\n")
        (tmp_path / name / "energy_uj").write_text(f"{used}\n")
        (tmp_path / name / "max_energy_range_uj").write_text("1000\n")
    meter = ProcessorMeter(tmp_path)
    assert meter.readable
    before = meter.counters_uj()
    assert before == [900, 100], "zones inside a package and the platform zone are not counted"
    assert meter.energy_j(before, [50, 400]) == pytest.approx((150 + 300) * 1e-6)
    assert not ProcessorMeter(tmp_path / "nothing").readable


def measure_with(driver, folder, ordinal=0, **environment):
    """Run the measurement in a separate process that loads the fake driver."""
    program = (
        "from fabricast.gpucentric.measured.files import measure_to_file\n"
        "from fabricast.gpucentric.measured.tables import write_derived\n"
        f"print(measure_to_file('cells.csv', 'runs', sizes=[4, 4096, 2**20], bursts=2, seconds=0.002, ordinal={ordinal},\n"
        "                      power_seconds=0.1))\n"
        "write_derived('cells.csv', 'parameters.csv', 'probes.csv')"
    )
    variables = os.environ | {"LD_LIBRARY_PATH": str(driver), "PYTHONPATH": str(REPOSITORY / "src")} | environment
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=variables, capture_output=True, text=True, timeout=3600
    )


@pytest.mark.slow
@pytest.mark.parametrize("ordinal", [0, 1])
def test_driver_accepts_all_calls(fake_driver, tmp_path, ordinal):
    result = measure_with(fake_driver, tmp_path, ordinal, FAKE_GPUS="2")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "None\n"
    cells = read_cells(tmp_path / "cells.csv")
    assert set(cells["gpu"]) == {"Fake GPU"}
    times = cells[(cells["size_bytes"] == 2**20) & (cells["quantity"] == "time")].set_index(["clock", "item", "memory"])
    kinds = set(times.loc["host"].index)
    host = {(way, memory) for way in ("host_to_device", "device_to_host") for memory in ("pinned", "pageable")}
    assert kinds == host | {("device_to_device", ""), ("peer", "")}
    assert set(times.loc["device"].index) == {kind for kind in kinds if kind[1] != "pageable"}
    # The fake driver copies synchronously, so both clocks measure the same copies in s.
    both = times.loc["host"]["value"].div(times.loc["device"]["value"]).dropna()
    assert both.between(0.02, 50).all(), both
    powers = cells[cells["quantity"] == "power"].set_index(["item", "memory"])["value"]
    assert powers.xs("gpu", level="memory").size == 6
    # The bounds are wide because the measurements are short and other tests run concurrently: this checks the unit.
    assert powers.xs("gpu", level="memory").between(20, 80).all(), "the fake counter increases by 40 W"
    assert len(read_probes(tmp_path / "probes.csv")) == len(PATTERNS)
    assert {"copy_start_up", "copy_rate"} <= read_measured(tmp_path / "parameters.csv").keys()
    assert np.isfinite(cells["value"]).all()
    assert len(list((tmp_path / "runs").iterdir())) == 1


@pytest.mark.slow
def test_first_gpu_is_measured_if_the_second_is_full(fake_driver, tmp_path):
    result = measure_with(fake_driver, tmp_path, FAKE_GPUS="2", FAKE_FULL_PEER="1")
    assert result.returncode == 0, result.stderr
    assert "peer" not in set(read_cells(tmp_path / "cells.csv")["item"])


@pytest.mark.slow
def test_gpus_without_energy_counter_or_nvml_are_measured(fake_driver, tmp_path):
    sampled = measure_with(fake_driver, tmp_path, FAKE_NO_COUNTER="1")
    assert sampled.returncode == 0, sampled.stderr
    cells = read_cells(tmp_path / "cells.csv")
    assert cells[(cells["quantity"] == "power") & (cells["memory"] == "gpu")]["value"].to_numpy() == pytest.approx(40)
    blind = measure_with(fake_driver, tmp_path, FAKE_NO_NVML="1")
    assert blind.returncode == 0, blind.stderr
    assert "power measurements are skipped: NVML does not report the power of 0000:00:00.0" in blind.stderr
    assert not (read_cells(tmp_path / "cells.csv")["quantity"] == "power").any()


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"FAKE_FAILURE": "100"}, "the CUDA driver does not start: no CUDA-capable device is detected"),
        ({"FAKE_GPUS": "0"}, "the CUDA driver sees no GPU"),
    ],
)
def test_driver_without_a_gpu_is_reported_in_one_line(fake_driver, tmp_path, environment, reason):
    result = measure_with(fake_driver, tmp_path, **environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{reason}\n"
    assert result.stderr == f"nothing measured: {reason}\n"


@pytest.mark.slow
def test_workflow_with_a_measured_gpu(fake_driver, tmp_path, monkeypatch):
    folder = copy_project(tmp_path)
    (folder / "gpu.yaml").write_text(
        "gpucentric: {measured: true, gpu_run: {sizes: [4, 4096, 1048576], bursts: 1, seconds: 0.001, power_seconds: 0.02}}\n"
    )
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_driver))
    files = [
        "results/gpucentric/this_gpu.parameters.csv",
        "results/gpucentric/all.comparison.parquet",
        "results/pcie/probes.reference.parquet",
    ]
    code, output = snakemake(folder, *files, *SMOKE, "gpu.yaml", "--cores", "2")
    assert code == 0, output
    comparison, probes = (read_table(folder / name) for name in files[1:])
    fake_gpu = comparison[comparison["origin"] == "Fake GPU"]
    assert len(fake_gpu) == 3 * 5
    assert set(fake_gpu["kind"]) == {"measured"}
    assert (probes["origin"] == "this_machine Fake GPU").sum() == len(PATTERNS)
