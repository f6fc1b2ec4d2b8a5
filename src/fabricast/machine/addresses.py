"""GPUs of several programs as endpoints of one topology: by PCI address in every printed form, then by number."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fabricast.core.errors import InputError
from fabricast.core.facts import Block
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.pcie.topology.tree import PcieTree

#: Domain, bus, device and function; the bus may be printed with 0x, the domain with four or eight digits.
_PRINTED = re.compile(
    r"(?:0x)?(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,2})(?::([0-9a-fA-F]{1,2})(?:\.[0-9a-fA-F])?)?\s*$"
)


def _parts(address: str) -> tuple[int | None, int, int | None] | None:
    """Return domain, bus and device of an address; parts that are not printed are None."""
    match = _PRINTED.match(address.strip())
    if match is None:
        return None
    first, bus, device = match.groups()
    if device is None and first is not None:
        # Two numbers are bus and device.
        return None, int(first, 16), int(bus, 16)
    return None if first is None else int(first, 16), int(bus, 16), None if device is None else int(device, 16)


def same_address(one: str, other: str) -> bool:
    """Return whether two PCI addresses agree in all parts that both print.

    >>> [same_address("0000:01:00.0", form) for form in ("0x01", "01:00", "00000000:01:00.0", "0000:01:00", "0x02")]
    [True, True, True, True, False]
    """
    first, second = _parts(one), _parts(other)
    if first is None or second is None:
        return False
    return all(a == b for a, b in zip(first, second, strict=True) if a is not None and b is not None)


def has_addresses(tree: PcieTree) -> bool:
    """Return whether all accelerators of a tree have a complete PCI address."""
    labels = [tree.vertex(name).label for name in tree.accelerator_names]
    return all(":" in label and _parts(label) is not None for label in labels)


def _matches(tree: PcieTree, address: str) -> list[str]:
    return [name for name in tree.accelerator_names if same_address(tree.vertex(name).label, address)]


def _endpoints_of_numbers(tree: PcieTree, addresses: Mapping[str, str]) -> dict[str, str]:
    """Return the endpoint of each GPU number of a program; empty if numbers are the names of endpoints."""
    if not addresses or not has_addresses(tree):
        return {}
    found = {number: _matches(tree, address) for number, address in addresses.items()}
    names = {number: matches[0] for number, matches in found.items() if len(matches) == 1}
    if not names or len(set(names.values())) < len(names):
        return {}
    if len(names) < len(addresses):
        missing = next(number for number in addresses if number not in names)
        raise InputError(
            f"GPU {missing} of the measurements has the PCI address {addresses[missing]}, which '{tree.name}' does not "
            "have, while other addresses match: expected the topology of the same machine"
        )
    return names


def endpoints_of_block(tree: PcieTree, block: Block) -> dict[str, str]:
    """Return the endpoint of each GPU number of a block, by its addresses."""
    try:
        return _endpoints_of_numbers(tree, block.addresses)
    except InputError as error:
        raise InputError(error.reason, path=block.place.path) from error


def address_warnings(
    tree: PcieTree, addresses: Mapping[str, str], *, of: str = "the measurements"
) -> tuple[CodedWarning, ...]:
    """Return a warning if the topology has none of the printed PCI addresses."""
    if not addresses or not has_addresses(tree) or any(_matches(tree, one) for one in addresses.values()):
        return ()
    text = (
        f"no GPU of {of} ({next(iter(addresses.values()))}, ...) has a PCI address of '{tree.name}': GPUs "
        "are matched by number, which is valid only for a machine of the same build. Use the topology of this machine"
    )
    return (CodedWarning(WarningCode.ADDRESSES_DIFFER, text),)
