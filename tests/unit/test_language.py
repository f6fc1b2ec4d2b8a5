"""Plain English: docstrings, messages and help texts use the terms of the field."""

import ast
import io
import re
import tokenize

import pytest

from tests.conftest import REPOSITORY

FILES = sorted(
    path
    for folder in ("src", "workflow", "scripts", "benchmarks", "tests")
    for path in (REPOSITORY / folder).rglob("*.py")
)
#: First words of headings that do not name their subject.
RIDDLES = re.compile(r"(What|Which|How|Who|Whose|Where|Say|Let|Have|Tell|Give)\b")
#: Words with a standard term of the field: see the writing rules in CONTRIBUTING.md.
PRIVATE = re.compile(
    r"\b(told|tells?|telling|untold|nobody|stands?|carry|carries|carried|holds? back|held back|takes?|taken|gives?|given"
    r"|judged|ways?|opposite|alone|apart|beside|own|found|doors?|house|room)\b",
    re.IGNORECASE,
)
#: Terms of the field that contain such a word, names in code, and quotations.
TERMS = re.compile(
    r"``[^`]*``|`[^`]*`|\"[^\"]*\"|'[^']*'|one-way|two-way|both[- ]ways|one way|two ways|not found|way_of",
    re.IGNORECASE,
)

#: Queries and the names of parameters are code.
SQL = re.compile(r"\b(SELECT|CREATE|COPY|INSERT|FROM)\b")
PARAMETER = re.compile(r"\s*[\w*]+(, [\w*]+)* : ")


def docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and (doc := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), doc


def sentences(source):
    """Yield line and text of each string with blanks, without examples."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.STRING and " " in token.string and not SQL.search(token.string):
            for number, line in enumerate(token.string.splitlines()):
                if not line.strip().startswith((">>>", "...")) and not PARAMETER.match(line):
                    yield token.start[0] + number, line


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_docstrings_start_with_a_noun_or_an_imperative(path):
    for line, doc in docstrings(ast.parse(path.read_text())):
        assert not RIDDLES.match(doc), f"{path}:{line}: {doc.splitlines()[0]}"
        assert len(doc.splitlines()[0]) <= 120, f"{path}:{line}: {doc.splitlines()[0]}"


@pytest.mark.parametrize(
    "path", [path for path in FILES if "tests" not in path.parts], ids=lambda path: str(path.relative_to(REPOSITORY))
)
def test_texts_for_readers_use_the_terms_of_the_field(path):
    for line, text in sentences(path.read_text()):
        words = PRIVATE.findall(TERMS.sub("", text))
        assert not words, f"{path}:{line}: {words[0]}: {text.strip()}"
