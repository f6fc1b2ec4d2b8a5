"""Question, model and answers of each study; answers are sentences built by queries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
from pydantic import BaseModel, ConfigDict

from fabricast.inputs.yaml_files import load_model

_FILE = "stories.yaml"


class Story(BaseModel):
    """Summary of a study for readers of the report."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    short: str  # Short name for menus
    claim: str = ""  # Claim that README.md quotes; it is the first one in the section of the study
    question: str  # Question of the study, in one sentence
    model: str  # Description of the model, in two sentences
    answers: list[str]  # Queries that return one sentence each, or NULL if the run did not compute the answer
    terms: dict[str, str]  # Explanations of abbreviations in figures and tables
    labels: str = ""  # Abbreviations that most figures of the study use


class _Stories(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    forecasts: str
    machines: str
    stories: dict[str, Story]


@dataclass(frozen=True)
class Answer:
    """Sentence about the results of a run, and its query."""

    sentence: str
    query: str


@cache
def _file() -> _Stories:
    return load_model(Path(__file__).with_name(_FILE), _Stories)


def stories() -> dict[str, Story]:
    """Return the summary of every study, in the order of the report.

    >>> stories()["maxrate"].short
    'Max-rate'
    """
    return _file().stories


def study_name(study: str) -> str:
    """Return the short name of a study; unknown names are returned unchanged.

    >>> study_name("percs"), study_name("")
    ('Two-level networks', '')
    """
    return stories()[study].short if study in stories() else study


def answers_of(connection: duckdb.DuckDBPyConnection, study: str) -> list[Answer]:
    """Return the answers of a run to the question of a study."""
    answers = []
    for query in stories()[study].answers:
        rows: list[tuple[Any, ...]] = connection.execute(query).fetchall()
        if rows and rows[0][0] is not None:
            answers.append(Answer(str(rows[0][0]), query))
    return answers


def machine_answers(connection: duckdb.DuckDBPyConnection) -> list[Answer]:
    """Return the forecast of each user-supplied graph set, and the agreement with each user-supplied measurement."""
    answers = []
    for query in (_file().forecasts, _file().machines):
        rows: list[tuple[str]] = connection.execute(query).fetchall()
        answers += [Answer(sentence, query) for (sentence,) in rows]
    return answers


def answers_text(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return one line per user-supplied graph set or machine, then one line per study, for a terminal."""
    return [f"your machine: {answer.sentence}" for answer in machine_answers(connection)] + [
        f"{story.short}: {answer.sentence}"
        for study, story in stories().items()
        for answer in answers_of(connection, study)[:1]
    ]
