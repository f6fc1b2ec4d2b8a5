"""Write the published parameters of a study as a table."""

from fabricast.inputs.parameters import parameter_table, read_parameters
from fabricast.results.tables import write_table
from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])
parameters = read_parameters(snakemake.input.parameters)
own = [parameter for parameter in parameters if parameter.study == snakemake.wildcards.study]
write_table(parameter_table(own), "parameter", snakemake.output.parameter)
