"""Display titles of the public data sets."""

from __future__ import annotations

#: Titles by data set name in config/published/maxrate_measurements.csv, which lists the sources.
DATASET_TITLES = {
    "alaska_ib": "Alaska, InfiniBand",
    "alaska_roce": "Alaska, RoCE",
    "bluewaters_blocking_2": "Blue Waters, one hop, blocking",
    "bluewaters_irecv_1": "Blue Waters, same router",
    "bluewaters_irecv_2": "Blue Waters, one hop",
    "csd3_ib": "CSD3, InfiniBand",
    "lassen_mvapich_gpu": "Lassen, MVAPICH, GPU",
    "lassen_spectrum_cpu": "Lassen, Spectrum MPI, CPU",
    "lassen_spectrum_gpu": "Lassen, Spectrum MPI, GPU",
    "summit_spectrum_gpu": "Summit, Spectrum MPI, GPU",
}


def dataset_title(dataset: str) -> str:
    """Return the title of a data set; user-supplied data sets keep their names.

    >>> dataset_title("csd3_ib"), dataset_title("my_cluster")
    ('CSD3, InfiniBand', 'my_cluster')
    """
    return DATASET_TITLES.get(dataset, dataset)
