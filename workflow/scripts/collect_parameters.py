"""Write the parameters of a study as a table: published ones, and constants of its generators and simulators."""

from fabricast.inputs.parameters import parameter_table, read_parameters
from fabricast.pcie.packet_hardware import hardware_parameters
from fabricast.percs.parameters import network_parameters
from fabricast.results.tables import write_table
from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])
constants = {"pcie": hardware_parameters, "percs": network_parameters}
parameters = read_parameters(snakemake.input.parameters) + constants[snakemake.wildcards.study]()
own = [parameter for parameter in parameters if parameter.study == snakemake.wildcards.study]
write_table(parameter_table(own), "parameter", snakemake.output.parameter)
