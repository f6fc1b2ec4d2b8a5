"""Published statements as checkable entries: what config/published/claims holds."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from fabricast.core.errors import InputError
from fabricast.core.resources import published
from fabricast.inputs.studies import study_names
from fabricast.inputs.yaml_files import load_model

__all__ = ["BY_CONSTRUCTION", "EVIDENCE", "Claim", "Evidence", "Reading", "Tolerance", "read_claims"]

Relation = Literal["equals", "at_least", "at_most", "between", "first"]
Evidence = Literal[
    "independent_measurement", "independent_fit", "own_simulator", "in_sample", "published_inputs", "recalled_inputs",
    "assumed_inputs", "definition",
]  # fmt: skip
EVIDENCE: tuple[Evidence, ...] = get_args(Evidence)
#: Evidence with which a row cannot fail, or fails only by an error of arithmetic.
BY_CONSTRUCTION: tuple[Evidence, ...] = ("published_inputs", "recalled_inputs", "assumed_inputs", "definition")

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_MUTATION = re.compile(r"(\w+)\.(\w+) = (.+)", re.DOTALL)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Tolerance(_Strict):
    """How far an observed value may lie from a statement, and why."""

    value: float = Field(gt=0, allow_inf_nan=False)
    reason: Literal["authors", "ours"]
    because: str
    version: int = Field(1, ge=1)


class Reading(_Strict):
    """One defensible way to read what the source of a claim leaves open.

    Parameters
    ----------
    name : str
        Its members, one an axis.
    values : dict
        What stands for each placeholder of the query.
    default : bool
        Whether the verdict of the claim rests on it.
    """

    name: str
    values: dict[str, str]
    default: bool


class Claim(_Strict):
    """One published statement, and the query that observes it in a run.

    Parameters
    ----------
    claim, study, statement, source, figure, note
        What is said where, and the figure that shows it.
    relation, value, low, high, unit
        ``equals``, ``at_least`` and ``at_most`` have a ``value``, ``between`` has ``low`` and ``high``, ``first``
        is a rank of 1. All numbers are those of the statement, in its own unit.
    rounding : float
        Half a unit of the last digit that the source prints.
    tolerance : Tolerance, optional
        Beyond rounding; of ``ours`` a verdict that hangs on it says so.
    evidence : str
        What a verdict rests on.
    query : str, optional
        Gives one number in the unit; ``{name}`` stands for a value of ``where`` or of a reading.
    where : dict
        Values of placeholders that have one reading only.
    readings : dict
        By axis its members, each with the text that stands in the query; the first is the default.
    equal : dict
        By axis the members of which the source prefers none: the claim holds only if it holds for all of them.
    baselines : dict
        By name of a trivial alternative either other values of placeholders, or a query.
    mutation : str, optional
        ``table.column = expression``: a wrong model or wrong data, with which a claim that holds has to fail.
    over_phases : bool
        Whether the query reads ``share_within`` of a simulated reference, which has a range over phases.
    share_of_draws : str, optional
        Query of the share of draws of assumed values with which the statement holds.
    """

    claim: str = Field(pattern=r"^[a-z0-9_]+$")
    study: str
    statement: str
    source: str
    relation: Relation
    value: float | None = Field(None, allow_inf_nan=False)
    low: float | None = Field(None, allow_inf_nan=False)
    high: float | None = Field(None, allow_inf_nan=False)
    unit: str
    rounding: float = Field(0.0, ge=0)
    tolerance: Tolerance | None = None
    evidence: Evidence
    query: str | None = None
    where: dict[str, str] = Field(default_factory=dict)
    readings: dict[str, dict[str, str]] = Field(default_factory=dict)
    equal: dict[str, list[str]] = Field(default_factory=dict)
    baselines: dict[str, dict[str, str] | str] = Field(default_factory=dict)
    mutation: str | None = None
    over_phases: bool = False
    share_of_draws: str | None = None
    note: str = ""
    figure: str | None = Field(None, pattern=r"^[a-z]+\.[a-z0-9_]+$")

    @field_validator("readings", mode="before")
    @classmethod
    def _named_members(cls, readings: Any) -> Any:
        # A list of members stands for members that are their own text.
        if not isinstance(readings, dict):
            return readings
        return {
            axis: {str(name): str(name) for name in members} if isinstance(members, list) else members
            for axis, members in readings.items()
        }

    @model_validator(mode="after")
    def _complete(self) -> Claim:
        studies = study_names(published() / "studies.csv")
        if self.study not in studies:
            raise ValueError(f"study is '{self.study}', expected one of {', '.join(studies)}")
        given = {name for name in ("value", "low", "high") if getattr(self, name) is not None}
        wanted = {"between": {"low", "high"}, "first": set()}.get(self.relation, {"value"})
        if given != wanted and (given or self.query is not None):
            raise ValueError(f"relation '{self.relation}' needs {' and '.join(sorted(wanted)) or 'no bound'}")
        if self.query is None and not self.note:
            raise ValueError("a claim without a query needs a 'note' that says why")
        used = set(_PLACEHOLDER.findall(self.query or ""))
        known = self.where.keys() | self.readings.keys()
        if self.query is not None and used != known:
            raise ValueError(
                f"the query's placeholders are {sorted(used)}, 'where' and 'readings' have {sorted(known)}"
            )
        for axis, members in self.equal.items():
            if not set(members) <= self.readings.get(axis, {}).keys():
                raise ValueError(f"'equal' names members of '{axis}' that 'readings' has not")
        for name, change in self.baselines.items():
            if isinstance(change, dict) and not change.keys() <= known:
                raise ValueError(f"baseline '{name}' changes what the query has not")
        if self.mutation is not None and not _MUTATION.fullmatch(self.mutation):
            raise ValueError(f"mutation is '{self.mutation}', expected 'table.column = expression'")
        return self

    @property
    def of_ours(self) -> bool:
        """Whether the statement is this project's own, beyond its sources."""
        return self.source.startswith("fabricast")

    @property
    def bounds(self) -> tuple[float, float]:
        """The statement's own lower and upper bound; infinite where it has none."""
        if self.relation == "first":
            return 1.0, 1.0
        if self.relation == "between":
            assert self.low is not None and self.high is not None
            return self.low, self.high
        if self.value is None:
            return -float("inf"), float("inf")
        low = self.value if self.relation in ("equals", "at_least") else -float("inf")
        return low, self.value if self.relation in ("equals", "at_most") else float("inf")

    def all_readings(self) -> list[Reading]:
        """Return every combination of the members of all axes, the default ones first."""
        axes = list(self.readings)
        found = []
        for members in itertools.product(*(self.readings[axis] for axis in axes)):
            default = all(
                member in self.equal.get(axis, [next(iter(self.readings[axis]))])
                for axis, member in zip(axes, members, strict=True)
            )
            values = {axis: self.readings[axis][member] for axis, member in zip(axes, members, strict=True)}
            found.append(Reading(name=", ".join(members), values=self.where | values, default=default))
        return sorted(found, key=lambda reading: not reading.default)

    def query_with(self, values: dict[str, str], query: str | None = None) -> str:
        """Return a query with values for its placeholders."""
        text = query or self.query
        assert text is not None
        return _PLACEHOLDER.sub(lambda match: values[match[1]], text)

    def mutated(self, query: str) -> str:
        """Return a query that sees the wrong data of the mutation."""
        assert self.mutation is not None
        match = _MUTATION.fullmatch(self.mutation)
        assert match is not None
        table, column, expression = match.groups()
        return f"WITH {table} AS (SELECT * REPLACE ({expression} AS {column}) FROM main.{table}) {query}"


class _ClaimFile(_Strict):
    claims: list[Claim]

    @model_validator(mode="before")
    @classmethod
    def _expanded(cls, content: Any) -> Any:
        if not isinstance(content, dict) or not isinstance(content.get("claims"), list):
            return content
        return {**content, "claims": [entry for item in content["claims"] for entry in _instances(item)]}


def _instances(item: Any) -> list[Any]:
    """Return one claim for each entry of ``each``, whose values take the place of ``<name>`` in all texts."""
    if not isinstance(item, dict) or "each" not in item:
        return [item]
    rest = {key: value for key, value in item.items() if key != "each"}
    text = repr(rest)
    for entry in item["each"]:
        # A comma in a text without quotes ends it: what follows is read as a key.
        unused = [key for key in entry if f"<{key}>" not in text]
        if unused:
            raise ValueError(f"an entry of 'each' has the key '{unused[0]}', which no text uses as <{unused[0]}>")
    return [_substituted(rest, {key: str(value) for key, value in entry.items()}) for entry in item["each"]]


def _substituted(value: Any, values: dict[str, str]) -> Any:
    if isinstance(value, str):
        return re.sub(r"<(\w+)>", lambda match: values.get(match[1], match[0]), value)
    if isinstance(value, dict):
        return {key: _substituted(entry, values) for key, entry in value.items()}
    return [_substituted(entry, values) for entry in value] if isinstance(value, list) else value


def read_claims(folder: Path | str) -> list[Claim]:
    """Read the claims of all studies.

    Parameters
    ----------
    folder : Path or str
        With one YAML file a study.

    Returns
    -------
    list of Claim
        In the order of the files' names and their entries.

    Raises
    ------
    InputError
        If a file is not as expected, or two claims have one name.

    Examples
    --------
    >>> claims = read_claims(published() / "claims")
    >>> next(claim.relation for claim in claims if claim.claim == "pcie_reference_time")
    'equals'
    """
    claims: list[Claim] = []
    for path in sorted(Path(folder).glob("*.yaml")):
        entries = load_model(path, _ClaimFile).claims
        for entry in entries:
            if entry.study != path.stem:
                raise InputError(f"claim '{entry.claim}' is of study '{entry.study}'", path=path)
        claims += entries
    names = [entry.claim for entry in claims]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"claim '{twice}' is a duplicate", path=folder)
    return claims
