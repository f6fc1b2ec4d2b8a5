"""Check that numbers in texts have a source: a query, claim, parameter or setting."""

import re

import pytest

from fabricast.core.resources import published
from fabricast.figures.catalogue.captions import caption_files
from fabricast.pcie.packets.hardware import HARDWARE
from fabricast.results.claims import read_claims
from tests.conftest import REPOSITORY

CLAIMS = read_claims(published() / "claims")
NUMBER = re.compile(r"(?<![\w.^/-])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w^])")
#: Versions of programs: with three parts, or after the name of a program.
_VERSION = r"\b\d+\.\d+\.\d+\b|\b(?:NCCL|CUDA|nccl-tests|hwloc|TransferBench|nvbandwidth|driver) \d+(?:\.\d+)*(?: to \d+(?:\.\d+)*)?"
#: A page that another test compares with the recorded results, and a page whose numbers are versions of formats.
_NO_RESULTS = ("docs/studies/results.md", "docs/reference/file_formats.md")
#: Numbers that are not results, with their meaning.
OTHERS = {
    3.11: "a version of Python",
    605: "counted in tests/unit/pcie/graphs/test_graphs.py",
    3.8: "an item of docs/studies/slide_items.csv",
}


def value(text):
    return float(text.rstrip(",").replace(",", ""))


def prose(text):
    """Remove code, addresses, formulas and generated results from Markdown text."""
    for pattern in (
        r"<!-- (errors|studies|machines):.*?<!-- end of \1 -->",
        _VERSION,
        r"```.*?```",
        r"`[^`]*`",
        r"\[doi:[^]]*\]",
        r"\$\$.*?\$\$",
        r"\$.*?\$",
    ):
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text)


def texts():
    yield from ((f"note of {one.claim}", one.note) for one in CLAIMS)
    yield from ((f"caption {name}", text) for name, text in caption_files().items())
    for path in (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))):
        name = str(path.relative_to(REPOSITORY))
        if not {"_build", "_generated", "generated"} & set(path.parts) and name not in _NO_RESULTS:
            yield name, prose(path.read_text())


@pytest.fixture(scope="module")
def backed():
    """Return the numbers in claims, published files, configuration and simulated hardware."""
    numbers = {x for one in CLAIMS for x in (one.value, one.low, one.high) if x is not None}
    files = [*published().glob("*.csv"), REPOSITORY / "config" / "config.yaml", REPOSITORY / "config" / "studies"]
    content = [one.statement for one in CLAIMS]
    content += [path.read_text() for path in files if path.is_file()]
    numbers |= {value(number) for text in content for number in NUMBER.findall(text)}
    for hardware in HARDWARE.values():
        numbers |= {float(hardware.payload_bytes), float(hardware.header_bytes)}
        numbers.add(round(hardware.payload_bytes / (hardware.payload_bytes + hardware.header_bytes), 3))
    return numbers | OTHERS.keys()


def notable(text, match):
    """Return whether a number may be a result.

    Decimals, percentages and large numbers may be results; years are not.
    """
    number = value(match.group())
    percent = text[match.end() : match.end() + 2].lstrip().startswith("%")
    return (not 1990 <= number <= 2030) and ("." in match.group().rstrip(".") or percent or number >= 100)


@pytest.mark.parametrize(("name", "text"), list(texts()), ids=lambda part: part[:40] if isinstance(part, str) else "")
def test_numbers_have_a_source(name, text, backed):
    loose = [
        f"{match.group()}: ...{text[max(0, match.start() - 30) : match.end() + 20]}..."
        for match in NUMBER.finditer(text)
        if notable(text, match) and value(match.group()) not in backed
    ]
    assert loose == [], name


def test_scan_detects_a_number_without_source(backed):
    text = "random nodes take 37.8 ms"
    (match,) = NUMBER.finditer(text)
    assert notable(text, match)
    assert value(match.group()) not in backed
