"""Plain English: docstrings, messages and help texts use the terms of the field."""

import ast
import re

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
#: Terms of the field that contain such a word, names in code, and quotations within a text.
TERMS = re.compile(
    r"``[^`]*``|`[^`]*`|(?<!\w)\"[^\"]*\"(?!\w)|(?<!\w)'[^']*'(?!\w)|one-way|two-way|both[- ]ways"
    # Statements of slides, and output of other programs.
    r"|one way|two ways|not found|no (?:socket )?interface found|devices? (?:were )?found|interface \(\?:found|way_of|could be judged"
    r"|A remote load takes|Found \(|Shutting down, this might take",
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
    """Yield line and text of each string with blanks, without examples; the parts of formatted strings are strings."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            if SQL.search(node.value):
                continue
            for number, line in enumerate(node.value.splitlines()):
                if not line.strip().startswith((">>>", "...")) and not PARAMETER.match(line):
                    yield node.lineno + number, line


def test_words_are_recognised_in_messages_and_docstrings():
    texts = ['"nobody tells what it carries"', 'f"row {x} was told apart"', '"""Return what nobody told."""']
    for text in texts:
        assert any(PRIVATE.search(TERMS.sub("", line)) for _, line in sentences(text)), text
    for text in ("\"expected 'house' here\"", '"rates one way and both ways"'):
        assert not any(PRIVATE.search(TERMS.sub("", line)) for _, line in sentences(text)), text


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
