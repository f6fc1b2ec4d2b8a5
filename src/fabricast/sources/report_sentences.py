"""Reader of sentences in which an author states that a setting of NCCL ends a hang or an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from fabricast.core.facts import Content, Quantity
from fabricast.core.short_text import shortened
from fabricast.inputs.gpus import gpus_named_in
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "sentences of a report"
#: Settings that switch a path of data off, and what is then not used; the first of a sentence decides.
_SETTINGS = {
    "NCCL_P2P_DISABLE": "direct copies between GPUs",
    "NCCL_IB_DISABLE": "InfiniBand or RoCE cards",
    "NCCL_SHM_DISABLE": "shared memory",
    "NCCL_NVLS_ENABLE": "NVLink SHARP (NVLS)",
    "NCCL_CUMEM_ENABLE": "memory that NCCL allocates by cuMem",
}
_SETTING = re.compile(rf"\b({'|'.join(_SETTINGS)})\b[`\"' ]{{0,3}}(?:=|to|set to)[`\"' ]{{0,3}}([01])\b")
_CURED = re.compile(
    r"\b(?:works?(?! around)|worked|working|fix(?:e[sd])?|resolve[sd]?|solve[sd]?|help(?:s|ed)|work-?around|cure[sd]?"
    r"|runs? (?:fine|well|successfully)|succeed(?:s|ed)|successful(?:ly)?|(?<!is )pass(?:es|ed)|no longer hangs?"
    r"|goes away|disappear(?:s|ed)|finish(?:es|ed)|completes?)\b",
    re.IGNORECASE,
)
#: Words of a sentence that denies a cure, asks for one, or recommends a test.
_NO_CURE = re.compile(
    r"\?|\b(?:not|never|neither|nor|no (?:effect|luck|difference|change)|without (?:success|effect)|fail(?:s|ed)?|try"
    r"|please|see if|whether|could|can you|should|would|may|might|sometimes|unless|even (?:with|when|if)|still|usually"
    r"|often|remov\w+|unset\w*|dropp\w+|delet\w+|by default|because|release notes"
    r"|if (?!(?:I|we)\b|[`\"']{0,3}NCCL_|(?:I |we )?(?:set|setting)))\b"
    r"|n[’']t\b|(?:^|:\s)\W*fixed\b",
    re.IGNORECASE,
)
#: A failure that a setting ends, in one phrase: "resolves the deadlock", "the hang disappears".
_ENDED = re.compile(
    r"\b(?:fix|resolv|solv|cur|avoid|prevent|end|stop|work)\w{0,6}(?:\s?around)? (?:[\w`'-]{1,20} ){0,3}?"
    r"(?:hang\w{0,3}|deadlocks?|freez\w{1,5}|timeouts?|crash\w{0,4}|errors?|issues?|problems?|corruption)\b"
    r"|\bno longer (?:hangs?|crash(?:es)?|freezes?|times? out)"
    r"|\b(?:hangs?|crash(?:es)?|deadlocks?|errors?|issues?|problems?|timeouts?) (?:\w{1,12} ){0,2}?"
    r"(?:gone|goes away|disappears?|disappeared|fixed|resolved|solved)\b",
    re.IGNORECASE,
)
#: End of the words before a setting with which something happens, and what happens without it.
_WITH = re.compile(r"\b(?:when|with|if|once)(?: (?:I|we))?(?: (?:set|setting))?[`\"' ]*$", re.IGNORECASE)
_WITHOUT = re.compile(r"\b(?:without (?:it|this|that|them)|otherwise)\b.*", re.IGNORECASE)
#: A wish to know the reason of a cure.
_ASKS = re.compile(
    r"(?:I|we|ideally|it would|still)\b.{0,40}?\b(?:figure out|understand|know|find out|wonder\w*)\b"
    r".{0,20}?\b(?:why|what|how)\b"
)
_COSTS = re.compile(
    r"\b(?:slow\w*|perform\w*|bandwidth|speed|throughput|latency|temporary|work-?around)\b", re.IGNORECASE
)
#: Failures that a setting can end.
_FAILS = re.compile(
    r"\b(?:hang(?:s|ing)?|hung|stuck|deadlock\w{0,3}|freez\w{1,5}|froze|timed? ?out|timeouts?|crash\w{0,4}"
    r"|(?<!0 )(?<!no )errors?|fail(?:s|ed|ure)|wrong|corrupt\w{0,5}|garbage|NaN|infinite|(?<!no )(?:issue|problem))\b",
    re.IGNORECASE,
)
#: A failure of the author, whose sentence stands among the first lines, and what makes a line no sentence.
_TOLD = re.compile(
    r"\b(?:hangs?|hanging|hung|stuck|deadlocks?|freez\w{1,5}|froze|timed? ?out|timeouts?|timing out|crash\w{0,4}"
    r"|fail(?:s|ed|ing|ure)?|fallen off|falls off|lost|disappear\w{0,2}|unusable|corrupt\w{0,5})\b",
    re.IGNORECASE,
)
_NOT_TOLD = re.compile(r"\b(?:no|none|not|never|without|if|when it|fixed|0 failed)\b|\?\s*$", re.IGNORECASE)
_OUTPUT = re.compile(r"[<>=|{}\\]|^\[ ?ID\]|\d:\d|\[\s*\d|0x|^\W*\w+:\s|/\w+/|\.\w{1,3}:\d")
_WORD = re.compile(r"[A-Za-z]{2,}")
_FIRST_LINES, _FEWEST_WORDS = 6, 4
#: Ends of sentences: not the point of "2.18" or "e.g.".
_ENDS = re.compile(r"(?<=[.!?;])\s+(?=[A-Z`\"'(*])")
_MOST_QUOTED = 160
#: Words of a sentence about another machine.
_OF_OTHERS = re.compile(
    r"\b(?:compar\w+|versus|vs|than|instead|previous\w*|another|other|friend\w*|upgrad\w+|replac\w+|old|older"
    r"|earlier|unlike|similar|buy\w*|plan\w*)\b",
    re.IGNORECASE,
)
#: Lines that are searched for the model of the GPUs, and the longest of them in characters.
_MOST_SENTENCES, _LONGEST_SENTENCE = 2000, 600


def _cures(text: Text) -> Iterator[tuple[int, list[str], str]]:
    """Yield line, settings and sentence of each statement that settings end a failure."""
    if not any(name in text.raw for name in _SETTINGS):
        return
    for number, line in text.lines(lambda line: "NCCL_" in line):
        for whole in _ENDS.split(line):
            head, _, rest = whole.partition(", but ")
            # Whoever asks for the reason of a cure, or for a cheaper one, states it; other doubts deny it.
            if rest and _ASKS.match(rest) is None and _COSTS.search(rest) is None:
                continue
            sentence = head if _ASKS.match(rest) is not None else whole
            # A line of a log is no sentence, and a command has no word of a cure.
            is_cure = _CURED.search(sentence) is not None or _ENDED.search(sentence) is not None
            if "NCCL INFO" in sentence or not is_cure or _NO_CURE.search(sentence) is not None:
                continue
            if _fails_with_setting(sentence):
                continue
            off = [match[1] for match in _SETTING.finditer(sentence) if match[2] == _value(match[1])]
            if off:
                yield number, list(dict.fromkeys(off)), whole.strip()


def _fails_with_setting(sentence: str) -> bool:
    """Return whether a sentence names a failure with a setting, which the setting does not end."""
    setting = _SETTING.search(sentence)
    if setting is None:
        return False
    before, behind = (_ENDED.sub("", part) for part in (sentence[: setting.start()], sentence[setting.end() :]))
    fails_with = _WITH.search(before) is not None and _FAILS.search(before) is not None
    if fails_with and _CURED.search(before) is None:
        return True
    return _FAILS.search(_WITHOUT.sub("", behind)) is not None


def _value(name: str) -> str:
    """Return the value that switches a path of data off."""
    return "1" if name.endswith("_DISABLE") else "0"


def stated_failure(text: Text) -> str:
    """Return the first sentence at the beginning of a text in which its author states a failure."""
    for line in islice((line for line in text.raw.splitlines() if line.strip()), _FIRST_LINES):
        words = line.strip().lstrip("#> ").replace("not usable", "unusable")
        is_sentence = len(_WORD.findall(words)) >= _FEWEST_WORDS and _OUTPUT.search(words) is None
        if is_sentence and _TOLD.search(words) is not None and _NOT_TOLD.search(words) is None:
            return shortened(words, _MOST_QUOTED)
    return ""


def stated_gpu(text: Text) -> str:
    """Return the only model of GPUs that the sentences of a text name; empty if they name none or several."""
    named: set[str] = set()
    for line in text.raw.splitlines()[:_MOST_SENTENCES]:
        is_sentence = len(line) <= _LONGEST_SENTENCE and len(_WORD.findall(line)) >= _FEWEST_WORDS
        models = gpus_named_in(line) if is_sentence and _OUTPUT.search(line) is None else set()
        if models and _OF_OTHERS.search(line) is not None:
            return ""
        named |= models
    return named.pop().upper() if len(named) == 1 else ""


def _is_report(text: Text) -> bool:
    return next(_cures(text), None) is not None and _FAILS.search(text.raw) is not None


def _read(text: Text) -> Iterator[Reading]:
    for number, names, sentence in islice(_cures(text), 1):
        settings = " ".join(f"{name}={_value(name)}" for name in names)
        paths = " or ".join(_SETTINGS[name] for name in names)
        quoted = shortened(sentence, _MOST_QUOTED)
        words = f'the author states that {settings} ends the failure: it is one of {paths} ("{quoted}")'
        cause = (f"cured_by_setting {names[0]}",)
        yield Reading([text.fact(Quantity.CAUSE, words, number, _PROGRAM, subject=cause)], line=number)


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "the text of a report, with its logs",
    "It hangs. Setting NCCL_P2P_DISABLE=1 fixes the problem.",
    _is_report,
    _read,
    "report.txt",
    versions="a setting of NCCL that ends a hang or an error, as the author states",
)
