"""Effect of faster components on the time of small messages (what-if analysis)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fabricast.breakdown.components import GROUPS, METRICS, System, form, read_system_file, read_systems
from fabricast.breakdown.whatif import reduce_components, share_of
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.resources import published

__all__ = ["WhatIf", "load_system", "what_if"]


@dataclass(frozen=True)
class WhatIf:
    """Effect of component reductions on a total time.

    Parameters
    ----------
    system, metric : str
        Name of the system and of the total.
    before_ns, after_ns : float
        Total in ns before and after the reductions.
    share_removed : float
        Removed fraction of the total.
    speedup : float
        Total before divided by total after the reductions.
    shares : pandas.DataFrame
        Columns part, share: share of each component and group in the total, the upper bound of what a reduction of
        this component can remove.
    assumed : tuple of str
        Components with assumed times, which are neither published nor measured.
    """

    system: str
    metric: str
    before_ns: float
    after_ns: float
    share_removed: float
    speedup: float
    shares: pd.DataFrame
    assumed: tuple[str, ...]

    def _repr_html_(self) -> str:
        return (
            f"<p>{METRICS[self.metric]}: {self.before_ns:.2f} ns, then {self.after_ns:.2f} ns "
            f"({self.share_removed:.2%} removed, {self.speedup:.4f} times as fast)</p>"
            + self.shares.to_html(index=False, formatters={"share": "{:.2%}".format})
        )


def load_system(name: str | Path) -> System:
    """Return a published system, or read a system from YAML.

    Parameters
    ----------
    name : str or Path
        Name of a published system (thunderx2), or .yaml file.

    Returns
    -------
    System
        Component times of the system.

    Raises
    ------
    InputError
        If the name is unknown or the file is invalid.

    Examples
    --------
    >>> load_system("thunderx2").posts_per_completion
    64
    """
    if str(name).lower().endswith((".yaml", ".yml")):
        if not Path(name).is_file():
            raise InputError("does not exist", path=name)
        return read_system_file(name)
    systems = {system.system: system for system in read_systems(published() / "breakdown_components.csv")}
    if str(name) not in systems:
        raise unknown_name("system", str(name), systems, otherwise=" or a .yaml file")
    return systems[str(name)]


def what_if(system: str | Path | System, *, metric: str = "latency", **reductions: float) -> WhatIf:
    """Compute how faster components change the total time of a small message.

    Component times add up. A reduction of one component does not change the others.

    Parameters
    ----------
    system : str, Path or System
        Name of a published system (thunderx2), .yaml file, or system.
    metric : str, default 'latency'
        Total time: injection, injection_llp, latency or latency_llp.
    **reductions : float
        Fraction, 0 to 1, to remove from components or groups, such as ``pio_copy=0.84``.

    Returns
    -------
    WhatIf
        Totals before and after the reductions, and the share of each component and group.

    Raises
    ------
    InputError
        If a name is unknown or a reduction is not between 0 and 1.

    References
    ----------
    Zambre et al., "Breaking Band: A breakdown of high-performance communication", ICPP 2019,
    https://doi.org/10.1145/3337821.3337910: T' = T - y X.

    Examples
    --------
    >>> import fabricast as fc
    >>> round(fc.what_if("thunderx2", metric="injection", hlp=0.2).share_removed, 4)
    0.0645
    """
    machine = system if isinstance(system, System) else load_system(system)
    outcome = reduce_components(machine, metric, reductions)
    weights = form(metric, machine.posts_per_completion)
    parts = [name for name, members in GROUPS.items() if any(member in weights for member in members)]
    return WhatIf(
        system=machine.system, metric=metric, before_ns=outcome.before_ns, after_ns=outcome.after_ns,
        share_removed=outcome.share_removed, speedup=outcome.speedup_ratio,
        shares=pd.DataFrame({"part": parts, "share": [share_of(machine, metric, name) for name in parts]}),
        assumed=tuple(
            name for name in weights if name in machine.components and machine.components[name].tag == "assumed"
        ),
    )  # fmt: skip
