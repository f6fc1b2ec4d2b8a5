"""What each study asks, how its model answers, and what this run says: sentences made from queries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
from pydantic import BaseModel, ConfigDict

from fabricast.inputs.yaml_files import load_model

__all__ = ["Answer", "Story", "answers_of", "answers_text", "machine_answers", "stories", "study_name"]

_FILE = "stories.yaml"


class Story(BaseModel):
    """A study for its readers.

    Parameters
    ----------
    short : str
        Its name in menus.
    question : str
        What it asks, in one sentence.
    model : str
        The model, in two sentences.
    answers : list of str
        Each a query that gives one sentence, or nothing if the run did not compute it.
    terms : dict of str to str
        What abbreviations of its figures and tables mean.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    short: str
    question: str
    model: str
    answers: list[str]
    terms: dict[str, str]


class _Stories(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    machines: str
    stories: dict[str, Story]


@dataclass(frozen=True)
class Answer:
    """A sentence of a run, and the query that made it."""

    sentence: str
    query: str


@cache
def _file() -> _Stories:
    return load_model(Path(__file__).with_name(_FILE), _Stories)


def stories() -> dict[str, Story]:
    """Return the story of every study, in the order of the page.

    Examples
    --------
    >>> stories()["maxrate"].short
    'Max-rate'
    """
    return _file().stories


def study_name(study: str) -> str:
    """Return what menus and tables call a study; a name that is none is returned as it is.

    Examples
    --------
    >>> study_name("percs"), study_name("")
    ('Two-level networks', '')
    """
    return stories()[study].short if study in stories() else study


def answers_of(connection: duckdb.DuckDBPyConnection, study: str) -> list[Answer]:
    """Return what a run says on the question of a study.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        The run's database.
    study : str
        Key of `stories`.

    Returns
    -------
    list of Answer
        Without those that the run did not compute.
    """
    found = []
    for query in stories()[study].answers:
        rows: list[tuple[Any, ...]] = connection.execute(query).fetchall()
        if rows and rows[0][0] is not None:
            found.append(Answer(str(rows[0][0]), query))
    return found


def machine_answers(connection: duckdb.DuckDBPyConnection) -> list[Answer]:
    """Return how far forecasts and measured copies of each machine of the user agree.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        The run's database.

    Returns
    -------
    list of Answer
        By the name of the machine; empty if the run has none.
    """
    query = _file().machines
    rows: list[tuple[str]] = connection.execute(query).fetchall()
    return [Answer(sentence, query) for (sentence,) in rows]


def answers_text(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return lines for a terminal: one a machine of the user, then each study's name and first answer of the run."""
    return [f"your machine {answer.sentence}" for answer in machine_answers(connection)] + [
        f"{story.short}: {answer.sentence}"
        for study, story in stories().items()
        for answer in answers_of(connection, study)[:1]
    ]
