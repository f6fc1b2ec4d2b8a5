"""Configuration of the study of collective operations."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fabricast.config.section import Section


class CollectiveMachineConfig(Section):
    """Machine of the user with logs of nccl-tests."""

    topology: str = Field(description="Built-in name, or file as for `fabricast topology import`.")
    logs: list[str] = Field(min_length=1, description="Logs of nccl-tests, each with one table of an operation.")
    pairs: str = Field("", description="Measured copies of the machine, such as output of p2pBandwidthLatencyTest.")
    cpu: str = Field("", description="Processor, such as `AMD EPYC`.")
    gpu: str = Field("", description="GPU model; by default that of the log.")
    numa: list[int] = Field(default_factory=list, description="NUMA node of each rank; by default one per socket.")
    nccl_version: str = Field("", description="Version of NCCL; by default that of the log.")
    transport: Literal["", "p2p", "shm"] = Field("", description="Transport of all hops; by default NCCL's rule.")


class CollectivesConfig(Section):
    """The study of NCCL's collective operations on PCIe machines."""

    measured: bool = Field(
        default=False,
        description="Run all_reduce of nccl-tests on the GPUs of this machine and add it to tables; needs "
        "all_reduce_perf in PATH.",
    )
    machines: dict[str, CollectiveMachineConfig] = Field(
        default_factory=dict, description="Machines of the user, whose logs are compared with forecasts."
    )
