"""Configuration of the max-rate study."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fabricast.config.section import Section

__all__ = ["MaxRateConfig", "PairsConfig"]


class PairsConfig(Section):
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


class MaxRateConfig(Section):
    """The max-rate study (Gropp et al., EuroMPI 2016)."""

    measurements: list[str] = Field(
        default_factory=list,
        description="Your measurements: CSV or Parquet with columns processes,size_bytes,time_s and, if wanted, "
        "dataset, system, path, convention (round_trip, one_way, windowed), spread; or what nodecomm, BenchPress, OSU, "
        "IMB or netgauge printed.",
    )
    datasets: list[str] | None = Field(None, description="Published data sets to fit; all if left out.")
    measured: bool = Field(
        False, description="Measure pairs of processes here and fit them too; needs the group 'measure' and two cores."
    )
    pairs: PairsConfig = Field(default_factory=PairsConfig, description="The measured pairs.")
    starts: int = Field(8, ge=1, le=1000, description="Starts of each fit; those read off the data come first.")
    draws: int = Field(60, ge=20, le=100_000, description="Bootstrap draws behind the intervals of parameters.")
