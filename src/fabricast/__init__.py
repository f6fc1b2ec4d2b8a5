"""Forecast communication on dense accelerator servers and the networks behind them.

The package walks one chain for every study: topology, congestion graphs,
predictions, references, comparisons, claims, tables, figures, report.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
