"""Calibrate the models on simulated probes."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

import pandas as pd

from fabricast.api.machine_inputs import load_topology
from fabricast.core.units import MIB
from fabricast.pcie.tables.packets import calibration_rows
from fabricast.results.tables import write_table

values = snakemake.params
keywords = {"size_bytes": values.size_mib * MIB, "seed": values.seed}
frames = [calibration_rows(load_topology(name), values.hardware, **keywords) for name in values.topologies]
write_table(pd.concat(frames), "parameter", snakemake.output.parameter)
