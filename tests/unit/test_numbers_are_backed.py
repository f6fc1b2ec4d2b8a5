"""No text of ours states a number that no query, claim, parameter or setting stands behind."""

import re

import pytest

from fabricast.core.resources import published
from fabricast.figures.catalogue.captions import caption_files
from fabricast.pcie.packets.hardware import HARDWARE
from fabricast.results.claims import read_claims
from tests.conftest import REPOSITORY

CLAIMS = read_claims(published() / "claims")
NUMBER = re.compile(r"(?<![\w.^/-])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w^])")
#: Numbers that are no result: what they are.
OTHERS = {3.11: "a version of Python"}


def value(text):
    return float(text.rstrip(",").replace(",", ""))


def prose(text):
    """Markdown without code, addresses, formulas, and results that a script writes from a recorded run."""
    for pattern in (r"<!-- results.*?<!-- end of results -->", r"```.*?```", r"`[^`]*`", r"\[doi:[^]]*\]", r"\$.*?\$"):
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text)


def texts():
    yield from ((f"note of {one.claim}", one.note) for one in CLAIMS)
    yield from ((f"caption {name}", text) for name, text in caption_files().items())
    for path in (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))):
        if not {"_build", "_generated", "generated"} & set(path.parts):
            yield str(path.relative_to(REPOSITORY)), prose(path.read_text())


@pytest.fixture(scope="module")
def backed():
    """Numbers of statements, of published files, of the configuration and of the simulated hardware."""
    known = {x for one in CLAIMS for x in (one.value, one.low, one.high) if x is not None}
    files = [*published().glob("*.csv"), REPOSITORY / "config" / "config.yaml", REPOSITORY / "config" / "studies"]
    content = [one.statement for one in CLAIMS]
    content += [path.read_text() for path in files if path.is_file()]
    known |= {value(number) for text in content for number in NUMBER.findall(text)}
    for hardware in HARDWARE.values():
        known |= {float(hardware.payload_bytes), float(hardware.header_bytes)}
        known.add(round(hardware.payload_bytes / (hardware.payload_bytes + hardware.header_bytes), 3))
    return known | OTHERS.keys()


def notable(text, match):
    """Whether a number could be a result: with a point, a percentage, or large; years are none."""
    number = value(match.group())
    percent = text[match.end() : match.end() + 2].lstrip().startswith("%")
    return (not 1990 <= number <= 2030) and ("." in match.group().rstrip(".") or percent or number >= 100)


@pytest.mark.parametrize(("name", "text"), list(texts()), ids=lambda part: part[:40] if isinstance(part, str) else "")
def test_numbers_are_backed(name, text, backed):
    loose = [
        f"{match.group()}: ...{text[max(0, match.start() - 30) : match.end() + 20]}..."
        for match in NUMBER.finditer(text)
        if notable(text, match) and value(match.group()) not in backed
    ]
    assert loose == [], name


def test_the_scan_finds_a_loose_number(backed):
    text = "random nodes take 37.8 ms"
    (match,) = NUMBER.finditer(text)
    assert notable(text, match)
    assert value(match.group()) not in backed
