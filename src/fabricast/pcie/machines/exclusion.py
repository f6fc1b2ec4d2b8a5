"""Reasons for which a measured graph is not used for validation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Stable code of the reason for which a measured graph is excluded from validation."""

    CALIBRATION = "calibration"
    EXCLUDED_BY_FILE = "excluded_by_file"
    BEYOND_LINKS = "beyond_links"
    LINKS_UNCALIBRATED = "links_uncalibrated"
    CALIBRATION_UNUSED = "calibration_unused"
    OTHER_ROUTE = "other_route"
    DIRECT_LINK_UNMEASURED = "direct_link_unmeasured"
    NO_INTER_SOCKET_PROBE = "no_inter_socket_probe"
    NO_MEMORY_PROBE = "no_memory_probe"
    NO_ROOT_COMPLEX_PROBE = "no_root_complex_probe"

    @property
    def needs_probe(self) -> bool:
        """True if a probe would make the graph usable for validation."""
        return self in (Reason.NO_INTER_SOCKET_PROBE, Reason.NO_MEMORY_PROBE, Reason.NO_ROOT_COMPLEX_PROBE)


@dataclass(frozen=True)
class Exclusion:
    """A reason with its details in words."""

    code: Reason  # Stable code
    text: str  # Details in one line
