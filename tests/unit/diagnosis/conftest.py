"""Fixtures of diagnoses."""

import pytest

import fabricast as fc
from fabricast.core.errors import InputError


@pytest.fixture
def causes(tmp_path):
    """Return a function that writes files and returns the causes of a diagnosis by name."""

    def diagnose(files, **known):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        diagnosis = fc.diagnose([tmp_path / name for name in files], **known)
        assert len(diagnosis.findings) <= 10
        gains = [finding.rank for finding in diagnosis.findings]
        assert gains == sorted(gains, reverse=True)
        return {finding.cause: finding for finding in reversed(diagnosis.findings)}

    return diagnose


@pytest.fixture
def first(tmp_path):
    """Return a function that writes texts to files and returns their diagnosis: the first answer to a user."""

    def diagnose(*texts, **options):
        paths = [tmp_path / f"{number}.txt" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        return fc.diagnose(paths, **options)

    return diagnose


@pytest.fixture
def causes_of_text(first):
    """Return a function that returns the names of the causes of a text; none of a text of no known program."""

    def names(text):
        try:
            return [one.cause for one in first(text).findings]
        except InputError:
            return []

    return names


@pytest.fixture
def answer(tmp_path):
    """Return a function that returns the diagnosis of a report of a user, a page of Markdown."""

    def of(text):
        path = tmp_path / "report.md"
        path.write_text(text)
        return fc.diagnose(path)

    return of
