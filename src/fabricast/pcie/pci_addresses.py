"""Addresses of PCI devices, as programs and XML write them."""

from __future__ import annotations

__all__ = ["pci_address"]


def pci_address(bus_id: str) -> tuple[int, ...]:
    """Return domain, bus, device and function of a PCI address; nothing where it is none.

    CUDA and hwloc write the domain with other digits, or leave it out.

    Examples
    --------
    >>> pci_address("0000:3B:00.0"), pci_address("3b:00.0"), pci_address("S0")
    ((0, 59, 0, 0), (0, 59, 0, 0), ())
    """
    try:
        numbers = [int(part, 16) for part in bus_id.replace(".", ":").split(":")]
    except ValueError:
        return ()
    return tuple(numbers if len(numbers) == 4 else [0, *numbers]) if len(numbers) in (3, 4) else ()
