"""Warnings: assumptions and contradictions that affect a result, each with a stable code."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class WarningCode(StrEnum):
    """Stable identifier of a kind of warning; programs compare codes, never texts."""

    # Topologies
    TOPOLOGY_NOTE = "topology_note"
    LINK_SPEED_MISSING = "link_speed_missing"
    IDLE_LINKS = "idle_links"
    SLOW_LINKS = "slow_links"
    NUMA_NODES_MERGED = "numa_nodes_merged"
    INTER_SOCKET_CAPACITY_ASSUMED = "inter_socket_capacity_assumed"
    XGMI_FORWARDING = "xgmi_forwarding"
    GPU_NUMBERS_ASSUMED = "gpu_numbers_assumed"
    NVLINK_TO_PROCESSOR = "nvlink_to_processor"
    NVSWITCH_MEMBERS_ASSUMED = "nvswitch_members_assumed"
    PEER_LINKS_UNKNOWN = "peer_links_unknown"
    NETWORK_PORTS_MERGED = "network_ports_merged"
    NETWORK_CARD_LIMITS = "network_card_limits"
    DOWNGRADED_LINK = "downgraded_link"
    UNEQUAL_DIRECT_LINKS = "unequal_direct_links"
    ACCESS_CONTROL = "access_control"
    SMALL_PAYLOAD = "small_payload"
    NO_PEER_ACCESS = "no_peer_access"
    CARD_ON_OTHER_SOCKET = "card_on_other_socket"
    PEER_ACCESS_ASSUMED = "peer_access_assumed"
    OTHER_TRANSPORT = "other_transport"
    # Files
    PART_UNREADABLE = "part_unreadable"
    FILES_CONTRADICT = "files_contradict"
    # Parameters of models
    DEFAULT_PARAMETER = "default_parameter"
    PARAMETER_UNUSED = "parameter_unused"
    CALIBRATED_RATE = "calibrated_rate"
    LINK_RATE_DERIVED = "link_rate_derived"
    ADDRESSES_DIFFER = "addresses_differ"
    GPU_MODELS_DIFFER = "gpu_models_differ"
    # Predictions
    EXPECTED_ERROR = "expected_error"
    MEASUREMENT_CONTRADICTED = "measurement_contradicted"
    PROGRAMS_IGNORED = "programs_ignored"
    DEFAULT_PROGRAM = "default_program"
    INTER_SOCKET_COPIES = "inter_socket_copies"
    INTER_SOCKET_RANGE = "inter_socket_range"
    INTER_SOCKET_ROUTES = "inter_socket_routes"
    INTER_SOCKET_UNMEASURED = "inter_socket_unmeasured"
    SOCKETS_UNKNOWN = "sockets_unknown"
    DIVIDED_WRITES = "divided_writes"
    SMALL_COPIES = "small_copies"
    STARVATION = "starvation"
    LIMITING_COPIES_OMITTED = "limiting_copies_omitted"
    PATH_CLASS_UNMEASURED = "path_class_unmeasured"
    RANDOM_ORDER = "random_order"
    MEMORY_CAPACITY_UNKNOWN = "memory_capacity_unknown"
    DIRECT_LINK_RATE_NOMINAL = "direct_link_rate_nominal"
    ARBITER_PHASE = "arbiter_phase"
    STAGED_AS_DIRECT = "staged_as_direct"
    # Collective operations
    LATENCY_ASSUMED = "latency_assumed"
    HOST_RATES_UNKNOWN = "host_rates_unknown"
    STEP_RATE_SCALED = "step_rate_scaled"
    NCCL_SETTING_ASSUMED = "nccl_setting_assumed"
    NEAR_TIE = "near_tie"
    RANKS_ASSUMED = "ranks_assumed"
    SETTING_IGNORED = "setting_ignored"
    NOT_VALIDATED = "not_validated"
    LOG_ROWS_EXCLUDED = "log_rows_excluded"
    # Measurements compared with a topology
    RATE_BEYOND_LINKS = "rate_beyond_links"
    CALIBRATION_CONTRADICTED = "calibration_contradicted"
    IMPLAUSIBLE_RATE = "implausible_rate"
    SLOW_DIRECT_LINK = "slow_direct_link"
    COMMON_LINK = "common_link"
    SLOW_ENDPOINT = "slow_endpoint"
    SLOW_DIRECTION = "slow_direction"
    SLOW_COPIES = "slow_copies"
    SLOW_BELOW_SWITCH = "slow_below_switch"
    SLOW_BETWEEN_SOCKETS = "slow_between_sockets"
    SLOWER_THAN_STAGED = "slower_than_staged"
    MISSING_PROBES = "missing_probes"
    ROOT_COMPLEX_UNMEASURED = "root_complex_unmeasured"
    CROSSING_UNMEASURED = "crossing_unmeasured"

    @property
    def is_note(self) -> bool:
        """True for information about a result that is not a warning: its inputs and its expected error."""
        return self in (WarningCode.EXPECTED_ERROR, WarningCode.CALIBRATED_RATE, WarningCode.STEP_RATE_SCALED)

    @property
    def is_about_files(self) -> bool:
        """True if files contradict each other, or a part of one cannot be read."""
        return self in (WarningCode.PART_UNREADABLE, WarningCode.FILES_CONTRADICT, WarningCode.GPU_MODELS_DIFFER)

    @property
    def is_contradiction(self) -> bool:
        """True if measurements contradict the topology, each other or a plausible unit."""
        return self in _CONTRADICTIONS


_CONTRADICTIONS = frozenset(
    {
        WarningCode.FILES_CONTRADICT,
        WarningCode.ADDRESSES_DIFFER,
        WarningCode.GPU_MODELS_DIFFER,
        WarningCode.RATE_BEYOND_LINKS,
        WarningCode.CALIBRATION_CONTRADICTED,
        WarningCode.IMPLAUSIBLE_RATE,
        WarningCode.SLOW_DIRECT_LINK,
        WarningCode.COMMON_LINK,
        WarningCode.SLOW_ENDPOINT,
        WarningCode.SLOW_DIRECTION,
        WarningCode.SLOW_COPIES,
        WarningCode.SLOW_BELOW_SWITCH,
        WarningCode.SLOW_BETWEEN_SOCKETS,
        WarningCode.SLOWER_THAN_STAGED,
    }
)


class CodedWarning(NamedTuple):
    """An assumption or contradiction that affects a result.

    A tuple ``(code, text)``, so that tables keep their warnings when they are written as Parquet or JSON.

    >>> warning = CodedWarning(WarningCode.SMALL_COPIES, "the smallest copy has 8 bytes")
    >>> str(warning), warning.code.is_contradiction
    ('the smallest copy has 8 bytes', False)
    """

    code: WarningCode  # Stable identifier of its kind
    text: str  # One line: the assumption or contradiction, its effect on the result, and how to remove it

    def __str__(self) -> str:
        return self.text


class CopyWarning(CodedWarning):
    """A warning about measured copies.

    >>> CopyWarning.about(("0", "1"), WarningCode.SLOW_DIRECTION, "0>1 is slow").ends
    ('0', '1')
    """

    #: The GPU whose copies show it, or source and target of the copy that shows it most clearly; may be empty.
    ends: tuple[str, ...] = ()
    graph: str = ""  # Name of the measured graph that shows it most clearly; may be empty

    @classmethod
    def about(cls, ends: tuple[str, ...], code: WarningCode, text: str, *, graph: str = "") -> CopyWarning:
        """Return a warning about the copies of a GPU, about one copy, or about a measured graph."""
        warning = cls(code, text)
        warning.ends, warning.graph = ends, graph
        return warning
