"""Claims: published statements in config/published/claims that a run can check."""

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

Relation = Literal["equals", "at_least", "at_most", "between", "first"]
Evidence = Literal[
    "independent_measurement",
    "independent_fit",
    "own_simulator",
    "in_sample",
    "published_inputs",
    "recalled_inputs",
    "assumed_inputs",
    "definition",
]
EVIDENCE: tuple[Evidence, ...] = get_args(Evidence)
#: Evidence that follows from the inputs: such claims can fail only by an arithmetic error.
BY_CONSTRUCTION: tuple[Evidence, ...] = ("published_inputs", "recalled_inputs", "assumed_inputs", "definition")

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_MUTATION = re.compile(r"(\w+)\.(\w+) = (.+)", re.DOTALL)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Tolerance(_Strict):
    """Accepted deviation of an observed value from a statement, with its justification."""

    value: float = Field(gt=0, allow_inf_nan=False)
    reason: Literal["authors", "ours"]
    because: str
    version: int = Field(1, ge=1)


class Reading(_Strict):
    """An interpretation of what the source of a claim leaves open."""

    name: str  # Chosen member of each axis, separated by commas
    values: dict[str, str]  # Value of each placeholder of the query
    primary: bool  # Whether the words of the source allow this interpretation; the verdict is based on these


class Claim(_Strict):
    """A published statement, and the query that evaluates it in a run."""

    #: Identifier, study, wording and source of the statement, the figure that shows it, and a comment.
    claim: str = Field(pattern=r"^[a-z0-9_]+$")
    study: str
    statement: str
    source: str
    #: Bounds of the statement, in the unit of the statement. ``equals``, ``at_least`` and ``at_most`` have a ``value``,
    #: ``between`` has ``low`` and ``high``, ``first`` requires rank 1.
    relation: Relation
    value: float | None = Field(None, allow_inf_nan=False)
    low: float | None = Field(None, allow_inf_nan=False)
    high: float | None = Field(None, allow_inf_nan=False)
    unit: str
    rounding: float = Field(0.0, ge=0)  # Half a unit of the last digit that the source prints
    #: Accepted deviation in addition to rounding. If the reason is ``ours`` and the deviation exceeds rounding, the
    #: verdict is ``decided_by_tolerance``.
    tolerance: Tolerance | None = None
    evidence: Evidence  # Kind of evidence for the verdict
    #: SQL query that returns one number in the unit. ``{name}`` is replaced by a value of `where` or `readings`.
    query: str | None = None
    where: dict[str, str] = Field(default_factory=dict)  # Values of placeholders with only one interpretation
    #: Interpretations: for each axis its members, and the text of each member in the query.
    readings: dict[str, dict[str, str]] = Field(default_factory=dict)
    #: For each axis the members that the words of the source select. Of an axis without an entry the words select none:
    #: if its members disagree, the verdict is ``depends_on_reading``.
    primary: dict[str, list[str]] = Field(default_factory=dict)
    source_words: str = ""  # Words of the source that select the primary members, or for a target the reason
    #: True if the source has neither a number nor a comparison ("good enough"): any value depends on the reading.
    unquantified: bool = False
    #: Trivial alternatives by name: other values of placeholders, or another query.
    baselines: dict[str, dict[str, str] | str] = Field(default_factory=dict)
    #: ``table.column = expression``: a wrong model or wrong data for which the claim must fail.
    mutation: str | None = None
    #: Whether the query reads ``share_within`` of a simulated reference, which has a range over arbiter phases.
    over_phases: bool = False
    #: Whether the source itself assumes the statement, and relaxes it: measurements do not contradict it.
    is_assumption: bool = False
    #: Query that returns the share of samples of the assumed values for which the statement is true.
    share_of_draws: str | None = None
    note: str = ""
    figure: str | None = Field(None, pattern=r"^[a-z]+\.[a-z0-9_]+$")

    @field_validator("readings", mode="before")
    @classmethod
    def _named_members(cls, readings: Any) -> Any:
        # A list is shorthand for members whose text in the query equals their name.
        if not isinstance(readings, dict):
            return readings
        return {
            axis: {str(name): str(name) for name in members} if isinstance(members, list) else members
            for axis, members in readings.items()
        }

    @field_validator("primary", mode="before")
    @classmethod
    def _lists(cls, primary: Any) -> Any:
        if not isinstance(primary, dict):
            return primary
        return {axis: members if isinstance(members, list) else [members] for axis, members in primary.items()}

    @model_validator(mode="after")
    def _complete(self) -> Claim:
        studies = study_names(published() / "studies.csv")
        if self.study not in studies:
            raise ValueError(f"study is '{self.study}', expected one of {', '.join(studies)}")
        given = {name for name in ("value", "low", "high") if getattr(self, name) is not None}
        wanted = {"between": {"low", "high"}, "first": set()}.get(self.relation, {"value"})
        if given != wanted and (given or self.query is not None):
            raise ValueError(f"relation '{self.relation}' requires {' and '.join(sorted(wanted)) or 'no bound'}")
        if self.evidence in BY_CONSTRUCTION and self.tolerance is not None and self.tolerance.reason == "ours":
            raise ValueError("a tolerance of ours requires independent evidence: the inputs either agree or do not")
        if self.query is None and not self.note:
            raise ValueError("a claim without a query requires a 'note' with the reason")
        used = set(_PLACEHOLDER.findall(self.query or ""))
        placeholders = self.where.keys() | self.readings.keys()
        if self.query is not None and used != placeholders:
            raise ValueError(
                f"the placeholders of the query are {sorted(used)}, expected those of 'where' and 'readings': "
                f"{sorted(placeholders)}"
            )
        for axis, members in self.primary.items():
            if not members or not set(members) <= self.readings.get(axis, {}).keys():
                raise ValueError(f"'primary' contains members of '{axis}' that are missing in 'readings'")
        if bool(self.primary) != bool(self.source_words):
            raise ValueError("'primary' and 'source_words' require each other: the words select the members")
        for name, change in self.baselines.items():
            if isinstance(change, dict) and not change.keys() <= placeholders:
                raise ValueError(f"baseline '{name}' changes a placeholder that is not in the query")
        if self.mutation is not None and not _MUTATION.fullmatch(self.mutation):
            raise ValueError(f"mutation is '{self.mutation}', expected 'table.column = expression'")
        return self

    @property
    def of_ours(self) -> bool:
        """True if the statement is this project's, not one of a publication."""
        return self.source.startswith("fabricast")

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound of the statement; infinite if unbounded."""
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
        """Return all combinations of the members of all axes, primary interpretations first."""
        axes = list(self.readings)
        readings = []
        for members in itertools.product(*(self.readings[axis] for axis in axes)):
            primary = all(member in self.primary.get(axis, members) for axis, member in zip(axes, members, strict=True))
            values = {axis: self.readings[axis][member] for axis, member in zip(axes, members, strict=True)}
            readings.append(Reading(name=", ".join(members), values=self.where | values, primary=primary))
        return sorted(readings, key=lambda reading: not reading.primary)

    def query_with(self, values: dict[str, str], query: str | None = None) -> str:
        """Return a query with its placeholders replaced by values."""
        text = query or self.query
        assert text is not None
        return _PLACEHOLDER.sub(lambda match: values[match[1]], text)

    def mutated(self, query: str) -> str:
        """Return a query that reads the mutated table instead of the original."""
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
    """Return one claim per entry of ``each``, with ``<name>`` replaced by its values."""
    if not isinstance(item, dict) or "each" not in item:
        return [item]
    rest = {key: value for key, value in item.items() if key != "each"}
    text = repr(rest)
    for entry in item["each"]:
        # In YAML flow style a comma ends an unquoted text, and the rest of the text becomes a key.
        unused = [key for key in entry if f"<{key}>" not in text]
        if unused:
            raise ValueError(f"an entry of 'each' has the key '{unused[0]}', but no text contains <{unused[0]}>")
    return [_substituted(rest, {key: str(value) for key, value in entry.items()}) for entry in item["each"]]


def _substituted(value: Any, values: dict[str, str]) -> Any:
    if isinstance(value, str):
        return re.sub(r"<(\w+)>", lambda match: values.get(match[1], match[0]), value)
    if isinstance(value, dict):
        return {key: _substituted(entry, values) for key, entry in value.items()}
    return [_substituted(entry, values) for entry in value] if isinstance(value, list) else value


def read_claims(folder: Path | str) -> list[Claim]:
    """Read the claims of all studies.

    >>> claims = read_claims(published() / "claims")
    >>> next(claim.relation for claim in claims if claim.claim == "pcie_reference_time")
    'equals'
    """
    claims: list[Claim] = []
    for path in sorted(Path(folder).glob("*.yaml")):
        entries = load_model(path, _ClaimFile).claims
        for entry in entries:
            if entry.study != path.stem:
                raise InputError(f"the study of claim '{entry.claim}' is '{entry.study}'", path=path)
        claims += entries
    names = [entry.claim for entry in claims]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise InputError(f"claim '{duplicate}' is a duplicate", path=folder)
    return claims
