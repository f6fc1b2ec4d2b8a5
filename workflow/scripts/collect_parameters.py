"""Write the published parameters of a study as a table."""

from fabricast.jobs import log_to
from fabricast.parameters import parameter_table, read_parameters
from fabricast.tables import write_table

log_to(snakemake.log[0])
parameters = read_parameters(snakemake.input.parameters)
own = [parameter for parameter in parameters if parameter.study == snakemake.wildcards.study]
write_table(parameter_table(own), "parameter", snakemake.output.parameter)
