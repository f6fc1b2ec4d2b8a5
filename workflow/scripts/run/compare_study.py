"""Compare the predictions of a study with its references."""

from fabricast.runtime.jobs import log_to

log_to(snakemake.log[0])

from fabricast.inputs.studies import study_tolerance
from fabricast.results.comparisons import compare, error_bands
from fabricast.results.tables import read_table, write_table

tolerance = study_tolerance(snakemake.input.studies, snakemake.wildcards.study)
reference = read_table(*snakemake.input.reference)
comparison = compare(read_table(*snakemake.input.prediction), reference, tolerance=tolerance)
bands = error_bands(comparison, resamples=snakemake.params.resamples, seed=snakemake.params.seed)
write_table(comparison, "comparison", snakemake.output.comparison)
write_table(bands, "error_band", snakemake.output.error_band)
