"""Configuration of the PCIe study."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field, StringConstraints, field_validator, model_validator

from fabricast.config.section import Section
from fabricast.core.errors import near_names

_MOST_GRAPHS = 1_000_000
#: Bandwidths in GiB/s and sizes in MiB outside these limits are typing errors.
_Bandwidth = Annotated[float, Field(ge=1e-3, le=9e3, allow_inf_nan=False)]
_Size = Annotated[float, Field(ge=1e-6, le=9e8, allow_inf_nan=False)]
#: Names of tables of the study that are not graph sets.
_RESERVED_SETS = ("all", "calibrated", "example", "probes", "published", "trees")


ProgramName = Literal["independent", "ordered_writes", "unordered_reads", "unordered_writes"]


class GraphSet(Section):
    """Congestion graphs on one topology: generated or read from a CSV file."""

    topology: str = Field(description="Built-in topology name, or a .yaml, hwloc .xml or NCCL .xml file.")
    validation_graphs: int = Field(
        0, ge=0, le=_MOST_GRAPHS, description="Number of validation graphs: exhaustive, collective and random ones."
    )
    random_graphs: int = Field(
        0, ge=0, le=_MOST_GRAPHS, description="Number of random graphs of 6 to 16 copies; if omitted, that of `pcie`."
    )
    graphs_file: str | None = Field(
        None, description="CSV file of user-supplied graphs with columns graph,source,target[,size_bytes,start_s]."
    )
    measurements: str | None = Field(
        None,
        description="CSV or Parquet file of concurrent copies measured on this machine. Predictions are validated "
        "against them, with parameters calibrated on its isolated copies.",
    )
    program: ProgramName = Field(
        "independent",
        description="Copy program of the measurements, if the file does not specify it: ordered_writes (PyTorch), "
        "unordered_reads (p2pmark), unordered_writes or independent.",
    )
    parameters: str | None = Field(
        None, description="File with parameters of this machine, as written by 'fabricast calibrate -o'."
    )
    bandwidth_gib_per_s: _Bandwidth | None = Field(
        None,
        description="Rate of an isolated copy on this machine in GiB/s. Default: the study's value for a built-in "
        "topology, the link speed for a file.",
    )
    tau: float | None = Field(
        None,
        ge=0,
        lt=1,
        allow_inf_nan=False,
        description="Root-complex penalty of this machine. Default: the study's value for a built-in topology, 0 for a "
        "file.",
    )
    crossing_cost: float | None = Field(
        None,
        ge=1,
        lt=100,
        allow_inf_nan=False,
        description="Relative time per byte behind the root complex. Default: the study's value for a built-in "
        "topology, 1 for a file.",
    )
    pcie_only: bool = Field(
        False, description="Route copies between directly linked GPUs (NVLink, NVSwitch, xGMI) over PCIe."
    )
    simulated_graphs: int | None = Field(
        None,
        ge=0,
        le=_MOST_GRAPHS,
        description="Number of graphs to simulate at packet level: a stratified sample, all if omitted, none if 0.",
    )

    @model_validator(mode="after")
    def _holds_graphs(self) -> GraphSet:
        if not (self.holds_graphs or self.measurements):
            raise ValueError("holds no graphs: set validation_graphs, random_graphs or graphs_file, or measurements")
        return self

    @property
    def is_yours(self) -> bool:
        """True if the set has a file of the user: of a topology, graphs or measurements."""
        return bool(Path(self.topology).suffix or self.graphs_file or self.measurements)

    @property
    def holds_graphs(self) -> bool:
        """True if the set has congestion graphs in addition to measurements."""
        return bool(self.validation_graphs or self.random_graphs or self.graphs_file)


HardwareName = Literal["no_split", "split_256_128", "split_128_64", "split_256_64"]
ModelName = Literal[
    "back_pressure",
    "congestion_factor",
    "round_robin_upstream",
    "without_head_of_line",
    "without_tau",
    "literal",
    "max_min",
    "busiest_link",
    "no_contention",
    "solo_crossing_penalty",
    "coupling_minimum",
    "group_demand_maximum",
    "group_split_equal",
    "crossing_bonus_literal",
    "all_crossing_penalised",
    "root_complex_ignored",
    "not_work_conserving",
    "two_rounds",
]


#: Python function of a user, in a module that Python finds from the project folder.
_FUNCTION = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"
UserFunction = Annotated[str, StringConstraints(pattern=f"^{_FUNCTION}$")]
#: Models with engines of GPUs, which graphs of links alone do not use.
_OF_MACHINES = ("ports_and_engines", "endpoint_engines")


class SearchedPattern(Section):
    """Pattern that is too large to enumerate."""

    topology: str = Field(description="Topology.")
    grid: list[int] = Field(default_factory=list, description="Process grid; empty for all-to-all.")


class ScheduleConfig(Section):
    """Halo exchanges with all schedules evaluated, and larger ones with a schedule search."""

    topologies: list[str] = Field(description="Topologies on which every grid is enumerated.")
    grids: list[list[int]] = Field(description="Process grids; the first axis varies fastest.")
    models: list[ModelName] = Field(min_length=1, description="Models that evaluate the schedules.")
    searched: list[SearchedPattern] = Field(
        default_factory=list, description="Patterns that are too large to enumerate, each with topology and grid."
    )
    evaluations: int = Field(
        20_000, ge=100, le=10_000_000, description="Maximum number of schedules that a search evaluates."
    )


_VALIDATED = ("congestion_factor", "round_robin_upstream", "back_pressure")


class ProbeRunConfig(Section):
    """Measurement of the probes for this machine's tree."""

    size_bytes: int = Field(default=256_000_000, ge=1, le=2**36, description="Size of each copy in bytes.")
    seconds: float = Field(
        default=5.0,
        gt=0,
        le=3600,
        allow_inf_nan=False,
        description="Maximum duration of a probe in seconds; it ends early once its mean is known within 1 %.",
    )


class PcieConfig(Section):
    """The PCIe study (Martinasso et al., SC16)."""

    graph_sets: dict[str, GraphSet] = Field(description="Graph sets by name; the name is part of graph names.")
    random_graphs: int = Field(
        0,
        ge=0,
        le=_MOST_GRAPHS,
        description="Number of random graphs of 6 to 16 copies in each graph set that does not specify it.",
    )
    models: list[ModelName | UserFunction] = Field(
        min_length=1,
        description="Models of links to evaluate ('fabricast models --all' lists them). `module:function` names a "
        "Python function `rates(tree, copies)` that returns the rate of each running copy in bytes/s; a copy is a pair "
        "of endpoint names, source and target. Only graph sets with validation_graphs evaluate it.",
    )
    hardware: list[HardwareName] = Field(
        description="Hardware settings of the packet-level simulator: packet splitting by the root complex."
    )
    sampled_hardware: dict[HardwareName, int] = Field(
        default_factory=dict,
        description="Additional hardware settings, each with the number of graphs in a stratified sample of every "
        "simulated set.",
    )
    measured: bool = Field(
        default=False,
        description="Run the probes for this machine's tree on its GPUs and add them to tables; needs lstopo and the "
        "group 'cuda'.",
    )
    probe_run: ProbeRunConfig = Field(default_factory=ProbeRunConfig, description="Settings of the probe measurement.")
    ablations: bool = Field(
        True, description="Also compare every single interpretation of the slides with the simulator."
    )
    shards: int = Field(1, ge=1, le=64, description="Number of jobs for the simulation of a graph set.")
    schedules: ScheduleConfig = Field(description="Schedules of halo exchanges.")
    size_mib: _Size = Field(300.0, description="Size of each generated copy in MiB.")
    bandwidth_gib_per_s: _Bandwidth = Field(
        11.6, description="Rate of an isolated copy on built-in topologies in GiB/s."
    )
    tau: float = Field(
        0.1735,
        ge=0,
        lt=1,
        allow_inf_nan=False,
        description="Relative performance reduction for crossing the root complex, on built-in topologies.",
    )

    crossing_cost: float = Field(
        1.0,
        ge=1,
        lt=100,
        allow_inf_nan=False,
        description="Relative time per byte behind the root complex; used by back_pressure.",
    )

    @property
    def simulated_sets(self) -> list[str]:
        """Names of the graph sets for the packet-level simulator."""
        if not self.hardware:
            return []
        return [name for name, entry in self.graph_sets.items() if entry.holds_graphs and entry.simulated_graphs != 0]

    @property
    def simulated_hardware(self) -> dict[str, int | None]:
        """Number of graphs of a set by hardware setting; None for all graphs."""
        every: dict[str, int | None] = dict.fromkeys(self.hardware)
        return every and every | {name: n for name, n in self.sampled_hardware.items() if name not in every}

    @model_validator(mode="before")
    @classmethod
    def _random_graphs_of_sets(cls, values: object) -> object:
        """Copy the number of random graphs to the graph sets that do not specify it; other values are checked later."""
        if not isinstance(values, dict) or not isinstance(sets := values.get("graph_sets"), dict):
            return values
        shared = {"random_graphs": values["random_graphs"]} if "random_graphs" in values else {}
        filled = {name: shared | entry if isinstance(entry, dict) else entry for name, entry in sets.items()}
        return values | {"graph_sets": filled}

    @field_validator("sampled_hardware")
    @classmethod
    def _some_graphs(cls, sampled: dict[HardwareName, int]) -> dict[HardwareName, int]:
        for name, count in sampled.items():
            if not 1 <= count <= _MOST_GRAPHS:
                raise ValueError(f"{name} has {count} graphs, expected 1 to {_MOST_GRAPHS:,}")
        return sampled

    @model_validator(mode="after")
    def _validated_models(self) -> PcieConfig:
        missing = [name for name in _VALIDATED if name not in self.models]
        if self.hardware and missing:
            raise ValueError(f"models lacks {', '.join(missing)}, which simulated hardware needs; or set hardware: []")
        own = [name for name in self.models if ":" in name]
        # Where the user has graph sets, those of the study do not count: a run without targets leaves them out.
        sets = [entry for entry in self.graph_sets.values() if entry.is_yours] or list(self.graph_sets.values())
        if own and not any(entry.validation_graphs for entry in sets):
            raise ValueError(
                f"models has {', '.join(own)}, which only graph sets with validation_graphs evaluate: set it for one"
            )
        return self

    @field_validator("graph_sets")
    @classmethod
    def _names(cls, graph_sets: dict[str, GraphSet]) -> dict[str, GraphSet]:
        for name in graph_sets:
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
                raise ValueError(f"name '{name}': expected letters, digits, '_' and '-' only")
            if name.lower() in ("null", "true", "false", "yes", "no", "on", "off"):
                raise ValueError(f"name '{name}' is a value in YAML, expected another name")
            if name in _RESERVED_SETS:
                raise ValueError(f"name '{name}' is reserved by the study, expected another name")
        if not any(entry.holds_graphs for entry in graph_sets.values()):
            raise ValueError("expected at least one graph set with graphs")
        return graph_sets

    @field_validator("hardware")
    @classmethod
    def _distinct_hardware(cls, hardware: list[HardwareName]) -> list[HardwareName]:
        if len(set(hardware)) != len(hardware):
            raise ValueError("a setting is a duplicate")
        return hardware

    @field_validator("models", mode="before")
    @classmethod
    def _known(cls, models: object) -> object:
        """Name an unknown model; other errors are those of the type."""
        known = get_args(ModelName)
        for name in models if isinstance(models, list) else []:
            if name in _OF_MACHINES:
                raise ValueError(
                    f"'{name}' is a model of measured machines: the study compares it with measured copies by itself, "
                    f"expected models of links such as {', '.join(known[:3])}, or module:function"
                )
            if isinstance(name, str) and name not in known and not re.fullmatch(_FUNCTION, name):
                near = near_names(name, known)
                raise ValueError(f"'{name}' is unknown{near}, expected one of {', '.join(known)}, or module:function")
        return models

    @field_validator("models")
    @classmethod
    def _distinct(cls, models: list[str]) -> list[str]:
        if len(set(models)) != len(models):
            raise ValueError("a model is a duplicate")
        if "congestion_factor" not in models:
            raise ValueError("expected 'congestion_factor' among the models, which claims and figures require")
        return models
