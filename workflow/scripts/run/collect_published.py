"""Write the tables of studies and of published and simulator parameters."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

import pandas as pd

from fabricast.inputs.parameters import parameter_table, read_parameters
from fabricast.pcie.packets.hardware import hardware_parameters
from fabricast.percs.parameters import network_parameters
from fabricast.results.tables import write_table

write_table(pd.read_csv(snakemake.input.studies), "study", snakemake.output.study)
for study, constants in {"pcie": hardware_parameters, "percs": network_parameters}.items():
    parameters = [*read_parameters(snakemake.input.parameters), *constants()]
    write_table(
        parameter_table([own for own in parameters if own.study == study]), "parameter", snakemake.output[study]
    )
