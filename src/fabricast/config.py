"""The configuration: checked, described, and the source of schema and documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from fabricast.errors import InputError
from fabricast.files import write_text
from fabricast.yaml_files import validate

__all__ = [
    "BreakdownConfig",
    "Config",
    "GpuCentricConfig",
    "GpuRunConfig",
    "GraphSet",
    "MaxRateConfig",
    "PairsConfig",
    "PcieConfig",
    "PercsConfig",
    "ScheduleConfig",
    "checked_config",
    "config_markdown",
    "config_schema",
]


_MOST_GRAPHS = 1_000_000
#: Bandwidths in GiB/s and sizes in MiB beyond these are typing errors.
_Bandwidth = Annotated[float, Field(ge=1e-3, le=9e3, allow_inf_nan=False)]
_Size = Annotated[float, Field(ge=1e-6, le=9e8, allow_inf_nan=False)]
#: Parts of the study's tables that are not graph sets.
_RESERVED_SETS = ("all", "calibrated", "example", "probes", "published", "trees")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GraphSet(_Strict):
    """Congestion graphs on one topology: generated ones, or your own from a CSV file."""

    topology: str = Field(description="Built-in topology, or a .yaml, hwloc .xml or NCCL .xml file.")
    validation_graphs: int = Field(
        0, ge=0, le=_MOST_GRAPHS, description="Number of validation graphs: exhaustive, collective and random ones."
    )
    stress_graphs: int = Field(
        0, ge=0, le=_MOST_GRAPHS, description="Number of random graphs of 6 to 16 communications."
    )
    graphs_file: str | None = Field(
        None, description="CSV with columns graph,source,target[,size_bytes,start_s], for your own graphs."
    )
    parameters: str | None = Field(
        None, description="Parameters of this machine, as 'fabricast calibrate -o' writes them."
    )
    bandwidth_gib_per_s: _Bandwidth | None = Field(
        None,
        description="Bandwidth of one copy alone on this machine; of a built-in topology the "
        "study's value if left out, of a file what its links tell.",
    )
    tau: float | None = Field(
        None,
        ge=0,
        lt=1,
        allow_inf_nan=False,
        description="Root-complex penalty of this machine; of a built-in "
        "topology the study's value if left out, of a file 0.",
    )
    crossing_cost: float | None = Field(
        None,
        ge=1,
        lt=100,
        allow_inf_nan=False,
        description="Time per byte behind the root complex, relative; of a "
        "built-in topology the study's value if left out, of a file 1.",
    )
    pcie_only: bool = Field(
        False,
        description="Let copies between GPUs that NVLink, NVSwitch or xGMI joins take the PCIe tree all the same.",
    )
    simulated_graphs: int | None = Field(
        None,
        ge=0,
        le=_MOST_GRAPHS,
        description="Graphs to simulate packet by packet: a stratified sample, all if left out, none if 0.",
    )

    @model_validator(mode="after")
    def _holds_graphs(self) -> GraphSet:
        if not (self.validation_graphs or self.stress_graphs or self.graphs_file):
            raise ValueError("holds no graphs: set validation_graphs, stress_graphs or graphs_file")
        return self


HardwareName = Literal["no_split", "split_256_128", "split_128_64", "split_256_64"]
ModelName = Literal[
    "back_pressure", "congestion_factor", "round_robin_upstream", "without_head_of_line", "without_tau", "literal",
    "max_min", "busiest_link", "no_contention", "solo_crossing_penalty", "coupling_minimum", "group_demand_maximum",
    "group_split_equal", "crossing_bonus_literal", "all_crossing_penalised", "root_complex_ignored",
    "not_work_conserving", "two_rounds",
]  # fmt: skip


class SearchedPattern(_Strict):
    """A pattern too large to enumerate."""

    topology: str = Field(description="Topology.")
    grid: list[int] = Field(default_factory=list, description="Process grid; empty for all-to-all.")


class ScheduleConfig(_Strict):
    """Halo exchanges of which every schedule is evaluated, and larger ones that are searched."""

    topologies: list[str] = Field(description="Topologies on which every grid is enumerated.")
    grids: list[list[int]] = Field(description="Process grids, the first axis fastest.")
    models: list[ModelName] = Field(min_length=1, description="Models under which schedules are evaluated.")
    searched: list[SearchedPattern] = Field(
        default_factory=list, description="Patterns too large to enumerate, each with topology and grid."
    )
    evaluations: int = Field(20_000, ge=100, le=10_000_000, description="Schedules that a search evaluates at most.")


_VALIDATED = ("congestion_factor", "round_robin_upstream", "back_pressure")


class PcieConfig(_Strict):
    """The PCIe study (Martinasso et al., SC16)."""

    graph_sets: dict[str, GraphSet] = Field(description="Graph sets by name; the name is part of graph names.")
    models: list[ModelName] = Field(min_length=1, description="Models to evaluate; 'fabricast models' explains them.")
    hardware: list[HardwareName] = Field(
        description="Hardware settings of the packet-level simulator: how the root complex cuts packets."
    )
    ablations: bool = Field(
        True, description="Hold every single reading of the slides against the simulator too, beside the models."
    )
    shards: int = Field(1, ge=1, le=64, description="Jobs over which the simulation of a graph set is spread.")
    schedules: ScheduleConfig = Field(description="Schedules of halo exchanges.")
    size_mib: _Size = Field(300.0, description="Size of each generated communication in MiB.")
    bandwidth_gib_per_s: _Bandwidth = Field(
        11.6, description="Bandwidth of one copy alone in GiB/s, on built-in topologies."
    )
    tau: float = Field(
        0.1735, ge=0, lt=1, allow_inf_nan=False,
        description="Performance reduction for crossing the root complex, on built-in topologies.",
    )  # fmt: skip

    crossing_cost: float = Field(
        1.0,
        ge=1,
        lt=100,
        allow_inf_nan=False,
        description="Time per byte behind the root complex, relative; used by back_pressure.",
    )

    @model_validator(mode="after")
    def _validated_models(self) -> PcieConfig:
        missing = [name for name in _VALIDATED if name not in self.models]
        if self.hardware and missing:
            raise ValueError(f"hardware is simulated, so models needs {', '.join(missing)} too; or set hardware: []")
        return self

    @field_validator("graph_sets")
    @classmethod
    def _names(cls, graph_sets: dict[str, GraphSet]) -> dict[str, GraphSet]:
        for name in graph_sets:
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
                raise ValueError(f"name '{name}': expected letters, digits, '_' and '-' only")
            if name in _RESERVED_SETS:
                raise ValueError(f"name '{name}' is used by the study itself, expected another")
        if not graph_sets:
            raise ValueError("expected at least one graph set")
        return graph_sets

    @field_validator("hardware")
    @classmethod
    def _distinct_hardware(cls, hardware: list[HardwareName]) -> list[HardwareName]:
        if len(set(hardware)) != len(hardware):
            raise ValueError("a setting is a duplicate")
        return hardware

    @field_validator("models")
    @classmethod
    def _distinct(cls, models: list[ModelName]) -> list[ModelName]:
        if len(set(models)) != len(models):
            raise ValueError("a model is a duplicate")
        if "congestion_factor" not in models:
            raise ValueError("expected 'congestion_factor' among the models: claims and figures rest on it")
        return models


class BreakdownConfig(_Strict):
    """The breakdown study (Zambre et al., ICPP 2019)."""

    systems: list[str] = Field(
        default_factory=list, description="Further systems: names of config/systems, or your YAML files like those."
    )
    measured: bool = Field(
        False, description="Measure an MPI message on this machine and take it into tables; needs the group 'measure'."
    )
    iterations: int = Field(20_000, ge=100, le=10_000_000, description="Samples of each measured region.")
    samples: int = Field(
        20_000, ge=100, le=10_000_000, description="Draws of the Monte Carlo over the spreads of components."
    )


class PairsConfig(_Strict):
    """Pairs of processes on this machine that exchange messages."""

    paths: list[Literal["shared_memory", "tcp"]] = Field(
        default=["shared_memory", "tcp"],
        description="How messages travel: shared memory, loopback TCP.",
    )
    sizes: list[int] = Field(
        default_factory=lambda: [2**i for i in range(3, 22)], description="Message sizes in bytes."
    )
    bursts: int = Field(default=4, ge=1, le=10_000, description="Repetitions of every size; noisy ones are not used.")
    seconds: float = Field(default=0.02, gt=0, le=10, allow_inf_nan=False, description="Time of each burst.")
    pairs: int | None = Field(
        default=None, ge=1, le=100_000, description="Most pairs, whatever the cores; half of the cores if left out."
    )
    launcher: Literal["mpiexec", "mpirun", "srun"] = Field(default="mpiexec", description="What starts the processes.")
    environment: dict[str, str] = Field(
        default_factory=dict, description="Further variables for MPI, such as an eager limit."
    )


class MaxRateConfig(_Strict):
    """The max-rate study (Gropp et al., EuroMPI 2016)."""

    measurements: list[str] = Field(
        default_factory=list,
        description="Your measurements: CSV with columns processes,size_bytes,time_s and, if wanted, dataset, system, "
        "path, convention (round_trip, one_way, windowed), spread; or what nodecomm, BenchPress, OSU, IMB or netgauge "
        "printed.",
    )
    datasets: list[str] | None = Field(None, description="Published data sets to fit; all if left out.")
    measured: bool = Field(
        False, description="Measure pairs of processes here and fit them too; needs the group 'measure' and two cores."
    )
    pairs: PairsConfig = Field(default_factory=PairsConfig, description="The measured pairs.")
    starts: int = Field(8, ge=1, le=1000, description="Random starts of each fit.")
    draws: int = Field(60, ge=20, le=100_000, description="Bootstrap draws behind the intervals of parameters.")


class GpuRunConfig(_Strict):
    """The measured run on a GPU."""

    sizes: list[int] = Field(
        default_factory=lambda: [4**i for i in range(1, 15)], min_length=2, description="Bytes of copies."
    )
    bursts: int = Field(default=3, ge=1, le=10_000, description="Repetitions of every cell, spread over the run.")
    seconds: float = Field(default=0.02, gt=0, le=10, allow_inf_nan=False, description="Time of each burst.")
    power_seconds: float = Field(
        default=1.0,
        ge=0,
        le=60,
        allow_inf_nan=False,
        description="Time over which each power is taken; 0 leaves them out.",
    )
    ordinal: int = Field(default=0, ge=0, le=1024, description="Which of the visible GPUs.")

    @field_validator("sizes")
    @classmethod
    def _sizes_in_range(cls, sizes: list[int]) -> list[int]:
        if min(sizes) < 1 or max(sizes) > 2**32:
            raise ValueError("expected sizes of 1 byte to 4 GiB")
        if len(set(sizes)) < 2:
            raise ValueError("expected two different sizes, for a start-up time and a rate")
        return sorted(set(sizes))


class GpuCentricConfig(_Strict):
    """The GPU-centric study (Froening, GTC 2016)."""

    draws: int = Field(
        default=2000, ge=100, le=1_000_000, description="Draws of the assumed parameters behind each robustness share."
    )
    measured: bool = Field(
        default=False, description="Measure a GPU of this machine and take it into tables; needs the group 'cuda'."
    )
    gpu_run: GpuRunConfig = Field(default_factory=GpuRunConfig, description="The measured run.")


WorkloadName = Literal[
    "2D-64", "4D-64", "MChalf-64", "MCnear-64", "MCrand-64", "MCstride-64", "2D-300", "4D-300", "MChalf-300",
]  # fmt: skip
BlockedName = Literal["2D-64", "4D-64", "MChalf-64", "2D-300", "4D-300", "MChalf-300"]


class PercsConfig(_Strict):
    """The study of two-level direct networks (Bhatele et al., SC11)."""

    workloads: list[WorkloadName] = Field(
        default=["2D-64", "4D-64", "MChalf-64", "MCnear-64", "MCrand-64", "MCstride-64", "2D-300", "4D-300",
                 "MChalf-300"],
        min_length=1, description="Patterns, on 64 or 300 supernodes; 4D-64 is always among them.",
    )  # fmt: skip
    seeds: int = Field(default=30, ge=1, le=1000, description="Random mappings of each kind.")
    sensitivity: bool = Field(default=True, description="Vary gateways, parallel links, open grids and placements too.")
    simulated: list[BlockedName] = Field(
        default=["2D-64", "4D-64", "MChalf-64"],
        min_length=1,
        description="Patterns that are simulated packet by packet.",
    )
    simulated_seeds: int = Field(
        default=2, ge=1, le=1000, description="Random mappings of each kind that are simulated."
    )
    packet_kib: float = Field(
        default=512.0, ge=1, le=1e6, allow_inf_nan=False, description="Largest packet of the simulation."
    )
    window: int = Field(default=256, ge=1, le=1_000_000, description="Packets in flight of each router.")
    shards: int = Field(default=1, ge=1, le=64, description="Jobs over which link loads and the simulation are spread.")
    searched: list[BlockedName] = Field(
        default=["4D-64"], min_length=1, description="Patterns for which a mapping is searched."
    )
    proposals: int = Field(default=2_000_000, ge=1000, le=10_000_000_000, description="Swaps that a search tries.")

    @model_validator(mode="after")
    def _evaluated(self) -> PercsConfig:
        if "4D-64" not in self.workloads:
            raise ValueError("expected '4D-64' among the workloads: claims and figures rest on it")
        missing = [name for name in (*self.simulated, *self.searched) if name not in self.workloads]
        if missing:
            raise ValueError(f"'{missing[0]}' is simulated or searched, so workloads needs it too")
        if self.simulated_seeds > self.seeds:
            raise ValueError(f"simulated_seeds is {self.simulated_seeds}, expected at most seeds = {self.seeds}")
        return self


class Config(_Strict):
    """A run of fabricast."""

    seed: int = Field(20161113, ge=0, le=2**63 - 1, description="Root seed of everything random.")
    bootstrap_resamples: int = Field(
        2000, ge=100, le=100_000, description="Resamples behind each 95 % interval of the error bands."
    )
    pcie: PcieConfig = Field(description="The PCIe study.")
    breakdown: BreakdownConfig = Field(description="The breakdown study.")
    maxrate: MaxRateConfig = Field(description="The max-rate study.")
    gpucentric: GpuCentricConfig = Field(default_factory=GpuCentricConfig, description="The GPU-centric study.")
    percs: PercsConfig = Field(default_factory=PercsConfig, description="The study of two-level direct networks.")
    pathvars: dict[Literal["results", "reports", "logs"], str] = Field(
        default_factory=dict,
        description="Folders of results, reports and logs, so that studies do not overwrite each other.",
    )


def checked_config(values: Mapping[str, Any]) -> Config:
    """Check a merged Snakemake configuration.

    Parameters
    ----------
    values : mapping
        Plain values.

    Returns
    -------
    Config
        The checked configuration.

    Raises
    ------
    InputError
        On the first key that does not fit, with what was found and expected.

    Examples
    --------
    >>> checked_config({"seeed": 1})
    Traceback (most recent call last):
    fabricast.errors.InputError: config: key 'pcie' is missing
    """
    try:
        return validate(Config, json.loads(json.dumps(values)))
    except InputError as error:
        raise InputError(f"config: {error}") from error


_GUIDE = """

`topologies/` holds the built-in trees, `published/` the numbers of the papers with tag and source.

## Your own machine

```yaml
pcie:
  graph_sets:
    mine: {topology: machine.xml, graphs_file: graphs.csv, parameters: machine.parameters.csv}
pathvars: {results: results/mine, reports: reports/mine, logs: logs/mine}
```

Without `parameters` the bandwidth comes from the links of the file, tau is 0 and the crossing cost
1; the table `parameter` says so (system `graph_set.mine`). A file without link speeds needs
`parameters` or `bandwidth_gib_per_s`. Two topologies need two names: the name of an XML file is
that of the topology.

## In a workflow of yours

```python
module fabricast:
    snakefile: "fabricast/Snakefile"
    config: {"breakdown": {"samples": 5000}}  # what differs from config/config.yaml, {} for nothing
    pathvars: results="network/results", reports="network/reports", logs="network/logs",

use rule * from fabricast as fabricast_*
```

## Shards

`snakemake --profile profiles/slurm --configfile shards.yaml` with `pcie: {shards: 8}` and
`percs: {shards: 8}` spreads the heavy rules over eight jobs each; results do not depend on the
number of shards. Partition and account go into the profile.
`scripts/slurm_check.sh DATABASE` tries all this on a SLURM of two virtual nodes. Ctrl-C once cancels
the jobs of a run; after a second one `squeue --me --name ID` shows what is left and `scancel --name
ID` cancels it, ID being the SLURM run ID that Snakemake prints first.

## A measured GPU

`make measured` writes `results/gpucentric/this_gpu.csv` (every burst), `.parameters.csv` (for
`fabricast select --measured`) and `.probes.csv` (concurrent copies, for the PCIe study), or says
why it measured nothing. `gpucentric: {measured: true}` takes them into tables, figures and report;
`snakemake measured --forcerun measure_gpucentric` measures again, and `runs/` keeps every run. Host
times hold about a microsecond of Python for each call; parameters are cleared of it. GPUs before
sm_75 (V100, K20) and older drivers need `cuda-bindings` 12 and its NVRTC.
"""


def config_schema() -> str:
    """Return the JSON schema of the configuration as text."""
    return json.dumps(Config.model_json_schema(), indent=2) + "\n"


def config_markdown() -> str:
    """Return config/README.md: every parameter, generated from the models."""
    lines = [
        "# Configuration",
        "",
        "Generated from `src/fabricast/config.py`; do not edit. `config.yaml` is the default study,",
        "`studies/smoke.yaml` and `studies/paper.yaml` override it:",
        "`snakemake --configfile config/studies/smoke.yaml`.",
        "",
        "Paths are relative to the working directory. Unknown keys are refused.",
    ]
    for model, title in (
        (Config, "Top level"),
        (PcieConfig, "`pcie`"),
        (GraphSet, "`pcie.graph_sets.NAME`"),
        (ScheduleConfig, "`pcie.schedules`"),
        (SearchedPattern, "`pcie.schedules.searched[]`"),
        (BreakdownConfig, "`breakdown`"),
        (MaxRateConfig, "`maxrate`"),
        (PairsConfig, "`maxrate.pairs`"),
        (GpuCentricConfig, "`gpucentric`"),
        (GpuRunConfig, "`gpucentric.gpu_run`"),
        (PercsConfig, "`percs`"),
    ):
        lines += [
            "",
            f"## {title}",
            "",
            str(model.__doc__),
            "",
            "| key | type | default | meaning |",
            "|---|---|---|---|",
        ]
        for name, field in model.model_fields.items():
            default = field.get_default(call_default_factory=True)
            if field.is_required():
                shown = "required"
            else:
                shown = "below" if isinstance(default, BaseModel) else f"`{json.dumps(default)}`"
            kind = _type_name(model.model_json_schema()["properties"][name])
            lines.append(f"| `{name}` | {kind} | {shown} | {field.description} |")
    return "\n".join(lines) + _GUIDE


def _type_name(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type_name(option) for option in schema["anyOf"])
    if "$ref" in schema:
        return "section"
    if schema.get("type") == "object":
        return "mapping of sections"
    if schema.get("type") == "array":
        item = _type_name(schema.get("items", {}))
        return {"string": "list of names", "section": "list of sections"}.get(
            item, f"list of {item}s" if not item.startswith("list") else f"list of {item.replace('list', 'lists', 1)}"
        )
    return str(schema.get("type", "value"))


def _write_generated_files() -> None:
    """Write config/README.md and the schema; run by hand after a change of the models."""
    repository = Path(__file__).parents[2]
    write_text(repository / "config" / "README.md", config_markdown())
    write_text(repository / "workflow" / "schemas" / "config.schema.json", config_schema())


if __name__ == "__main__":
    _write_generated_files()
