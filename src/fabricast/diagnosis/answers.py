"""Answers of the parts of a diagnosis so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from fabricast.core.facts import Content, Facts
from fabricast.core.findings import Finding
from fabricast.core.warnings import CodedWarning


@dataclass
class Answers:
    """Answers so far."""

    findings: list[Finding] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[CodedWarning] = field(default_factory=list)
    within: list[str] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)
    uncompared: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    compared: int = 0


def paths_of(facts: Facts, content: Content) -> set[str]:
    """Return the files with facts of a content."""
    return {block.place.path for block in facts.blocks_of(content) if block.facts}
