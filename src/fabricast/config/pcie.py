"""Configuration of the PCIe study."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from fabricast.config.section import Section

__all__ = ["GraphSet", "PcieConfig", "ProbeRunConfig", "ScheduleConfig", "SearchedPattern"]

_MOST_GRAPHS = 1_000_000
#: Bandwidths in GiB/s and sizes in MiB beyond these are typing errors.
_Bandwidth = Annotated[float, Field(ge=1e-3, le=9e3, allow_inf_nan=False)]
_Size = Annotated[float, Field(ge=1e-6, le=9e8, allow_inf_nan=False)]
#: Parts of the study's tables that are not graph sets.
_RESERVED_SETS = ("all", "calibrated", "example", "probes", "published", "trees")


ProgramName = Literal["independent", "ordered_writes", "unordered_reads", "unordered_writes"]


class GraphSet(Section):
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
    measurements: str | None = Field(
        None,
        description="CSV or Parquet of copies that were measured together on this machine; forecasts are held against "
        "them, with parameters from its copies alone.",
    )
    program: ProgramName = Field(
        "independent",
        description="How the measuring program copied, where the file does not say: ordered_writes (PyTorch), "
        "unordered_reads (p2pmark), unordered_writes or independent.",
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
        if not (self.holds_graphs or self.measurements):
            raise ValueError("holds no graphs: set validation_graphs, stress_graphs or graphs_file, or measurements")
        return self

    @property
    def holds_graphs(self) -> bool:
        """Whether it has congestion graphs, beside measurements."""
        return bool(self.validation_graphs or self.stress_graphs or self.graphs_file)


HardwareName = Literal["no_split", "split_256_128", "split_128_64", "split_256_64"]
ModelName = Literal[
    "back_pressure", "congestion_factor", "round_robin_upstream", "without_head_of_line", "without_tau", "literal",
    "max_min", "busiest_link", "no_contention", "solo_crossing_penalty", "coupling_minimum", "group_demand_maximum",
    "group_split_equal", "crossing_bonus_literal", "all_crossing_penalised", "root_complex_ignored",
    "not_work_conserving", "two_rounds",
]  # fmt: skip


class SearchedPattern(Section):
    """A pattern too large to enumerate."""

    topology: str = Field(description="Topology.")
    grid: list[int] = Field(default_factory=list, description="Process grid; empty for all-to-all.")


class ScheduleConfig(Section):
    """Halo exchanges of which every schedule is evaluated, and larger ones that are searched."""

    topologies: list[str] = Field(description="Topologies on which every grid is enumerated.")
    grids: list[list[int]] = Field(description="Process grids, the first axis fastest.")
    models: list[ModelName] = Field(min_length=1, description="Models under which schedules are evaluated.")
    searched: list[SearchedPattern] = Field(
        default_factory=list, description="Patterns too large to enumerate, each with topology and grid."
    )
    evaluations: int = Field(20_000, ge=100, le=10_000_000, description="Schedules that a search evaluates at most.")


_VALIDATED = ("congestion_factor", "round_robin_upstream", "back_pressure")


class ProbeRunConfig(Section):
    """The measured run of the probes of this machine's tree."""

    size_bytes: int = Field(default=256_000_000, ge=1, le=2**36, description="Bytes of each copy.")
    seconds: float = Field(
        default=5.0,
        gt=0,
        le=3600,
        allow_inf_nan=False,
        description="Longest time of a probe; it ends early once its mean is known within 1 %.",
    )


class PcieConfig(Section):
    """The PCIe study (Martinasso et al., SC16)."""

    graph_sets: dict[str, GraphSet] = Field(description="Graph sets by name; the name is part of graph names.")
    models: list[ModelName] = Field(min_length=1, description="Models to evaluate; 'fabricast models' explains them.")
    hardware: list[HardwareName] = Field(
        description="Hardware settings of the packet-level simulator: how the root complex cuts packets."
    )
    sampled_hardware: dict[HardwareName, int] = Field(
        default_factory=dict,
        description="Further settings, each on a stratified sample of so many graphs of every simulated set.",
    )
    measured: bool = Field(
        default=False,
        description="Run the probes of this machine's tree on its GPUs and take them into tables; needs lstopo and the "
        "group 'cuda'.",
    )
    probe_run: ProbeRunConfig = Field(default_factory=ProbeRunConfig, description="The measured run.")
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

    @property
    def simulated_sets(self) -> list[str]:
        """Graph sets that the packet-level simulator runs."""
        if not self.hardware:
            return []
        return [name for name, entry in self.graph_sets.items() if entry.holds_graphs and entry.simulated_graphs != 0]

    @property
    def simulated_hardware(self) -> dict[str, int | None]:
        """Every setting with the graphs of a set that it simulates; None for all of them."""
        every: dict[str, int | None] = dict.fromkeys(self.hardware)
        return every and every | {name: n for name, n in self.sampled_hardware.items() if name not in every}

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
        if not any(entry.holds_graphs for entry in graph_sets.values()):
            raise ValueError("expected at least one graph set with graphs")
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
