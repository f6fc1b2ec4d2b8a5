"""Reader of ``nvidia-smi -q -x``, whose elements become the lines of ``nvidia-smi -q``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Quantity
from fabricast.sources import nvidia_smi
from fabricast.sources.text import Format, Reading, Text
from fabricast.sources.xml_elements import Element, parse_part, xml_root

_ROOT, _END = "nvidia_smi_log", "</nvidia_smi_log>"
_UUID = re.compile(r"<uuid>(GPU-[\w-]{4,60})</uuid>")
#: Parts whose length differs between GPUs, and lists of clocks.
_LEFT_OUT = ("processes", "accounted_processes", "supported_clocks", "vgpu_processes")
#: Titles of sections and fields in the text whose words are not those of the element.
_TITLES = {
    "attached_gpus": "Attached GPUs",
    "pcie_gen": "PCIe Generation",
    "link_widths": "Link Width",
    "max_link_gen": "Max",
    "current_link_gen": "Current",
    "max_device_link_gen": "Device Max",
    "max_link_width": "Max",
    "current_link_width": "Current",
    "replay_counter": "Replays Since Reset",
    "bar1_memory_usage": "BAR1 Memory Usage",
    "ecc_errors": "ECC Errors",
    "gpu_util": "Gpu",
    "mig_mode": "MIG Mode",
    "current_mig": "Current",
    "remapped_row_unc": "Uncorrectable Error",
    "remapped_row_pending": "Pending",
    "remapped_row_failure": "Remapping Failure Occurred",
    "pending_blacklist": "Pending Page Blacklist",
    "pending_retirement": "Pending Page Blacklist",
}
#: Beginnings of the reasons for reduced clocks of old and new drivers, and what the text has for them.
_REASONS = ("clocks_event_reason_", "clocks_throttle_reason_")
_ACRONYMS = {word: word.upper() for word in ("hw", "sw", "gpu", "sram", "dram", "tpc")}


def _title(tag: str) -> str:
    """Return the words that the text has for an element."""
    if tag in _TITLES:
        return _TITLES[tag]
    for beginning in _REASONS:
        tag = tag.removeprefix(beginning)
    return " ".join(_ACRONYMS.get(word, word.capitalize()) for word in tag.split("_"))


def _lines(element: Element, depth: int) -> Iterator[tuple[int, str]]:
    """Yield the number and text of the lines below an element."""
    for child in element.children:
        if child.tag in _LEFT_OUT:
            continue
        if child.tag == "gpu" and depth == 0:
            yield child.line, f"GPU {child.attributes.get('id', '')}"
        elif child.children:
            yield child.line, f"{'    ' * depth}{_title(child.tag)}"
        else:
            yield child.line, f"{'    ' * depth}{_title(child.tag)} : {' '.join(child.text.split())}"
        yield from _lines(child, depth + 1)


def _check_one_host(text: Text) -> None:
    """Raise an error if a later document has none of the GPUs of the first, as that of another host."""
    machines = [set(_UUID.findall(document)) for document in text.raw.split(_END)]
    found = [gpus for gpus in machines if gpus]
    if any(not gpus & found[0] for gpus in found):
        raise text.error("has reports of several hosts, expected one host in a file")


def _last_document(text: Text) -> Text:
    """Return the last complete document of a text: ``--loop`` appends them; without one, the cut document."""
    end = text.raw.rfind(_END)
    begin = text.raw.rfind(f"<{_ROOT}", 0, end) if end >= 0 else text.raw.find(f"<{_ROOT}")
    raw = text.raw[begin : end + len(_END) if end >= 0 else None]
    first = text.raw.count("\n", 0, begin) + 1
    numbers = tuple(text.place(first + line).line for line in range(raw.count("\n") + 1))
    return Text(text.path, raw, numbers=numbers, host=text.host)


def _read(text: Text) -> Iterator[Reading]:
    _check_one_host(text)
    document = _last_document(text)
    root, problem = parse_part(document)
    lines = [(root.line, nvidia_smi.QUERY), *_lines(root, 0)]
    numbers = tuple(document.place(number).line for number, _ in lines)
    query = "\n".join(line for _, line in lines)
    reading = nvidia_smi.read_query(Text(text.path, query, numbers=numbers, host=text.host))
    if text.raw.count(_END) > 1:
        note = f"the last of {text.raw.count(_END)} reports of 'nvidia-smi -q -x' is read"
        reading.facts.append(document.fact(Quantity.NOTE, note, 1, "nvidia-smi"))
    if problem is not None:
        line = document.place(problem.line or 1).line
        reason = f"{problem.reason}; only the elements before this line are read"
        reading.problems.append(InputError(reason, path=text.path, line=line))
    yield reading


FORMAT = Format(
    "nvidia-smi -q -x",
    Content.GPUS,
    "nvidia-smi -q -x > gpus.xml",
    "<current_link_gen>4</current_link_gen>",
    lambda text: xml_root(text) == _ROOT,
    _read,
    "nvidia_smi_q.xml",
    versions="the fields that are read of `nvidia-smi -q`",
    is_per_host=True,
)
