"""Configuration of the max-rate study."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fabricast.config.section import Section


class PairsConfig(Section):
    """Measurement of messages between pairs of processes on this machine."""

    paths: list[Literal["shared_memory", "tcp"]] = Field(
        default=["shared_memory", "tcp"], description="Transports to measure: shared memory, loopback TCP."
    )
    sizes: list[int] = Field(
        default_factory=lambda: [2**i for i in range(3, 22)], description="Message sizes in bytes."
    )
    bursts: int = Field(
        default=4, ge=1, le=10_000, description="Repetitions of every size; noisy repetitions are excluded."
    )
    seconds: float = Field(
        default=0.02, gt=0, le=10, allow_inf_nan=False, description="Duration of each burst in seconds."
    )
    pairs: int | None = Field(
        default=None, ge=1, le=100_000, description="Maximum number of pairs; half the number of cores if omitted."
    )
    launcher: Literal["mpiexec", "mpirun", "srun"] = Field(
        default="mpiexec", description="Command that starts the processes."
    )
    environment: dict[str, str] = Field(
        default_factory=dict, description="Additional environment variables for MPI, such as an eager limit."
    )


class MaxRateConfig(Section):
    """The max-rate study (Gropp et al., EuroMPI 2016)."""

    measurements: list[str] = Field(
        default_factory=list,
        description="User-supplied measurements: CSV or Parquet with columns processes,size_bytes,time_s and the "
        "optional columns dataset, system, path, convention (round_trip, one_way, windowed), spread; or output of "
        "nodecomm, BenchPress, OSU, IMB or netgauge.",
    )
    datasets: list[str] | None = Field(None, description="Published data sets to fit; all if omitted.")
    measured: bool = Field(
        False,
        description="Measure and fit pairs of processes on this machine; needs the group 'measure' and two cores.",
    )
    pairs: PairsConfig = Field(default_factory=PairsConfig, description="Settings of the measured pairs.")
    starts: int = Field(
        8, ge=1, le=1000, description="Starting points of each fit; starting points derived from the data come first."
    )
    draws: int = Field(60, ge=20, le=100_000, description="Bootstrap samples for the intervals of parameters.")
