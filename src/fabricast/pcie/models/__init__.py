"""Models of the SC16 paper and their variants: catalogue, evaluation, parameters, bottlenecks."""
