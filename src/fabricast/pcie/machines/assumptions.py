"""Assumptions that forecasts of graphs depend on, as a value: the number of graphs, and the first one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fabricast.core.warnings import CodedWarning, WarningCode


@dataclass(frozen=True)
class Assumptions:
    """Number of graphs that depend on each assumption, and the name of the first one.

    >>> some = Assumptions.of("a", [WarningCode.RANDOM_ORDER]) + Assumptions.of("b", [WarningCode.RANDOM_ORDER])
    >>> some.counts[WarningCode.RANDOM_ORDER]
    (2, 'a')
    """

    counts: Mapping[WarningCode, tuple[int, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: str, codes: Iterable[WarningCode], count: int = 1) -> Assumptions:
        """Return the assumptions of one graph, or of several of which it is the first."""
        return cls(dict.fromkeys(codes, (count, graph)) if count else {})

    def __add__(self, other: Assumptions) -> Assumptions:
        counts = dict(self.counts)
        for code, (count, example) in other.counts.items():
            before, first = counts.get(code, (0, example))
            counts[code] = (before + count, first)
        return Assumptions(counts)

    def __contains__(self, code: WarningCode) -> bool:
        return code in self.counts

    def warnings(self, texts: Mapping[WarningCode, str]) -> Iterator[CodedWarning]:
        """Yield a warning for each assumption, in the order of their texts."""
        for code, text in texts.items():
            if code in self.counts:
                count, example = self.counts[code]
                subject = f"{count} graphs, for example " if count > 1 else "graph "
                yield CodedWarning(code, f"{subject}'{example}': {text}")
