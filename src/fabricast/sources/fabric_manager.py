"""Reader of the logs of NVIDIA's fabric manager and IMEX service, without which GPUs behind NVSwitches do not start."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.nvidia_smi import short_address
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "fabric manager"
_LINE = re.compile(
    r"^\[[A-Z][a-z]{2} \d{1,2} \d{4} [\d:]{8}\] \[(INFO|WARNING|ERROR|CRITICAL)\] \[tid \d{1,9}\] (.{1,400})"
)
_ADDRESS = r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_SWITCH = re.compile(rf"NVSwitch (non-)?fatal error (\d{{1,6}}) .{{0,80}}?(?:pci|pci bus id) {_ADDRESS}")
#: Fatal errors in other words, for example "detected NVLink fatal error on GPU pci bus id 00000000:BB:00.0 link 6".
_FATAL = re.compile(rf"\bdetected\b.{{0,40}}?(?<!non-)\bfatal error(?:.{{0,120}}?{_ADDRESS})?", re.IGNORECASE)
_TRAINING = re.compile(rf"NVLink training failed .{{0,80}}?{_ADDRESS}")
#: Messages of the service (systemd) and of its first lines.
_SERVICE = re.compile(
    r"Job for nvidia-fabricmanager\.service failed|nvidia-fabricmanager\.service: .{0,80}(?:FAILURE|Failed with result)"
    r"|Failed to start .{0,20}[Ff]abric ?[Mm]anager"
)
_RUNS, _ADVICE = "Active: active (running)", re.compile(r"\b[Ii]f\b")
_UNIT = re.compile(r"^\W{0,4}([\w@.-]{1,80})\.service\b - ")
_NO_SWITCH = re.compile(r"NV_WARN_NOTHING_TO_DO")
_ONLY_WITH_SWITCHES = (
    "only machines with NVSwitches (HGX, DGX) need it: disable it elsewhere (systemctl disable --now "
    "nvidia-fabricmanager); on a machine with NVSwitches, 'lspci | grep -i nvidia' must list them"
)
_READ_LOG = (
    "read /var/log/fabricmanager.log; its version must be that of the driver; machines without NVSwitches (PCIe cards, "
    "GeForce) do not need it"
)
_ADDRESSES = "No matching network interface"
_NODES = (
    "/etc/nvidia-imex/nodes_config.cfg must list an address of every host of the NVLink domain, this one among them"
)
_VERSIONS = re.compile(r"version ([\d.]{3,20}) don't match with driver version ([\d.]{3,20}\d)")


def _is_log(text: Text) -> bool:
    if "] [tid " in text.raw and any(_LINE.match(line) for _, line in text.lines()):
        return True
    is_likely = "abric" in text.raw or "match with driver version" in text.raw
    return is_likely and next(_of_service(text), None) is not None


def _read(text: Text) -> Iterator[Reading]:
    facts = list(_of_service(text))
    who = "the IMEX service" if "IMEX" in text.raw else "the fabric manager"
    for number, line in text.lines(lambda line: "] [tid " in line):
        if (match := _LINE.match(line)) is None or match[1] == "INFO":
            continue
        words = match[2].strip()
        if (found := _SWITCH.search(words)) is not None and not found[1]:
            state = f"fatal error of an NVSwitch or its NVLinks (SXid {found[2]})"
            subject = (short_address(found[3]),)
            facts.append(text.fact(Quantity.GPU_STATE, state, number, _PROGRAM, subject=subject))
        elif (found := _TRAINING.search(words)) is not None:
            subject = (short_address(found[1]),)
            facts.append(text.fact(Quantity.GPU_STATE, "its NVLinks do not start", number, _PROGRAM, subject=subject))
        elif _ADDRESSES in words:
            state = "the IMEX service finds none of the addresses of its configuration on this host"
            facts.append(text.fact(Quantity.CAUSE, state, number, _PROGRAM, subject=("imex_addresses", _NODES)))
        elif _VERSIONS.search(words) is not None:
            continue
        elif match[1] in ("ERROR", "CRITICAL") and (found := _FATAL.search(words)) is not None:
            state = f'a fatal error that the fabric manager states: "{words[:160]}"'
            device = short_address(found[1]) if found[1] else "a GPU or NVSwitch"
            facts.append(text.fact(Quantity.GPU_STATE, state, number, _PROGRAM, subject=(device,)))
        elif match[1] in ("ERROR", "CRITICAL"):
            note = f'{who} states: "{words[:160]}"'
            facts.append(text.fact(Quantity.NOTE, note, number, _PROGRAM))
    healthy = text.fact(Quantity.NOTE, "no error in the log of the fabric manager", 0, _PROGRAM)
    yield Reading(facts or [healthy])


def _runs(text: Text) -> bool:
    """Return whether systemctl states that the service runs; the text may have the status of other services."""
    unit = ""
    for _, line in text.lines():
        if (match := _UNIT.match(line)) is not None:
            unit = match[1]
        elif _RUNS in line and (not unit or "fabricmanager" in unit):
            return True
    return False


def _of_service(text: Text) -> Iterator[Fact]:
    """Yield why the service does not start: its version, no NVSwitch, or a reason that its log names."""
    for number, line in text.lines(lambda line: "don't match with driver version" in line):
        if (versions := _VERSIONS.search(line)) is not None:
            words = (
                f"the fabric manager {versions[1]} does not fit the driver {versions[2]}, so that NVLinks do not start"
            )
            yield text.fact(Quantity.CAUSE, words, number, _PROGRAM, subject=("fabric_manager",))
            return
    if _runs(text):
        # Older lines of its status are from before the last start.
        return
    lines = [row for row in text.lines(lambda line: "abric" in line) if _ADVICE.search(row[1]) is None]
    for pattern, words, subject in (
        (_NO_SWITCH, "the fabric manager finds no NVSwitch, and does not start", ("no_nvswitch", _ONLY_WITH_SWITCHES)),
        (_SERVICE, "the service of the fabric manager does not start", ("fabric_manager_service", _READ_LOG)),
    ):
        place = next((number for number, line in lines if pattern.search(line) is not None), None)
        if place is not None:
            yield text.fact(Quantity.CAUSE, words, place, _PROGRAM, subject=subject)
            return


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "cp /var/log/fabricmanager.log .",
    "[Nov 24 2026 08:11:09] [ERROR] [tid 4140] detected NVSwitch fatal error 20034 on fid 0 on pci 00000000:88:00.0",
    _is_log,
    _read,
    "fabric_manager.log",
    versions="`/var/log/fabricmanager.log`, `systemctl status nvidia-fabricmanager`: errors of NVSwitches, "
    "NVLinks that do not start, versions that do not fit",
    is_per_host=True,
)
