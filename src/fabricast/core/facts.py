"""Facts: statements about a machine with their place in a file, and the blocks of text that contain them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Any

from fabricast.core.errors import InputError


class Kind(IntEnum):
    """Origin of a fact. Of several facts about one quantity, the lowest kind has priority."""

    OPTION = 1
    MEASURED = 2
    STATED = 3
    DATA_SHEET = 4
    ASSUMED = 5


class Content(StrEnum):
    """Content of a block of text."""

    TOPOLOGY = "topology"
    GPUS = "GPUs"
    PEER_ACCESS = "peer access"
    COPIES = "measured copies"
    COLLECTIVES = "nccl-tests"
    NCCL_LOG = "NCCL log"
    MESSAGES = "messages between two processes or pairs"
    OPERATIONS = "operations of MPI"
    GRAPHS = "congestion graphs"
    PARAMETERS = "parameters"
    NETWORK = "network between hosts"
    CLUSTER = "cluster"
    STATES = "states of devices"
    RUN_ERRORS = "errors of a run"


class Quantity(StrEnum):
    """Quantity of a fact; its comment states the type of the value."""

    #: Description of the tree: `PcieTree`, `ClassMatrix` or `DeviceForest`.
    TOPOLOGY = "topology"
    #: `ClusterStatement`.
    CLUSTER = "cluster"
    #: Text. The subject is the number of the GPU in its block.
    GPU_ADDRESS = "PCI address"
    GPU_MODEL = "GPU model"
    #: Number such as 9.0.
    GPU_CAPABILITY = "compute capability"
    #: Whole numbers: highest generation of the link and of the GPU, highest width and width now.
    LINK_GENERATION = "generation of the link"
    GPU_GENERATION = "generation of the GPU"
    LINK_WIDTH = "width of the link"
    CURRENT_WIDTH = "width of the link now"
    #: Text: the state of an error counter, of a throttle reason, or of a limit, which differs from the normal one.
    #: The subject is the number of the GPU in its block, or an address.
    GPU_STATE = "state of the GPU"
    #: Text: family of the processor of the host, as NCCL distinguishes them.
    PROCESSOR = "processor"
    #: Number of active NVLinks of a GPU.
    NVLINKS = "active NVLinks"
    #: Text: state of a port of a network card, which is its subject.
    CARD_STATE = "state of a network card"
    #: True for each port of a card, which is the subject, whatever its state.
    PORT = "port of a network card"
    #: Name and text of a value that the hosts of a cluster should have alike.
    OF_HOST = "value of a host"
    #: Number in Gbit/s of an active port, which is the subject.
    PORT_RATE = "rate of a port"
    #: Number in Gbit/s of an Ethernet interface, which is the subject, and of a test over TCP.
    INTERFACE_RATE = "rate of an interface"
    TCP_RATE = "rate over TCP"
    #: Text: why an address of a RoCE port cannot be used; empty if it can. The subject is port and index.
    GID = "address of a RoCE port"
    #: Bytes: largest packet (MTU) of an interface that is up; the subject is its name and its hardware address.
    PACKET_SIZE = "packet size of an interface"
    #: True or False: whether the module is loaded by which network cards reach the memory of GPUs.
    PEER_MODULE = "module for access to the memory of GPUs"
    #: Text: what a program states about its own run, or a single line about a machine. The subject is its kind, and
    #: the remedy if this package has none.
    CAUSE = "stated cause"
    #: Text without consequence, which is printed.
    NOTE = "note"
    #: Bytes: smallest MaxPayload of the GPUs.
    PAYLOAD = "MaxPayload"
    #: Text: the reason why a pair has no peer access; empty if it has.
    PEER_ACCESS = "peer access"
    #: `MeasuredGraph`.
    RATE = "rate of copies"
    #: Bytes/s: a copy through host memory, and both copies of a pair together.
    STAGED_RATE = "rate through host memory"
    STAGED_RATE_BOTH_WAYS = "rate through host memory, both ways"
    #: Seconds.
    LATENCY = "latency of a copy"
    #: Matrices of rates and latencies as a data frame, for display.
    TABLE = "table of rates"
    #: `NcclTestsTable`, `NcclLog` and `LogStatement`.
    COLLECTIVE = "times of a collective operation"
    #: Number of further tables; text of a line that states wrong results after the tables that are read.
    UNREAD_TABLES = "tables that are not read"
    WRONG_RESULTS = "wrong results"
    NCCL_RUN = "statements of NCCL"
    NCCL_PROBLEM = "problem that NCCL states"
    #: Text: error of Open MPI, UCX, libfabric or perftest; its subject is the host.
    MPI_PROBLEM = "problem that MPI states"
    #: True: a command or the text states that all processes are on one host.
    ONE_HOST = "run on one host"
    #: Text: command of a run, above its output.
    COMMAND = "command of a run"
    #: Text: a library sends its messages over TCP.
    TCP = "messages over TCP"
    #: True, at the line after which no process goes on.
    MPI_ABORTED = "end of a run"
    #: `MessageTime`: time of messages between processes.
    MESSAGE_TIME = "time of a message"
    #: `MessageTime` of all processes together, in collective and one-sided operations.
    OPERATION_TIME = "time of an operation of MPI"
    #: Rows of a table of measured copies, and of pairs; programs and systems are chosen later.
    COPY_ROWS = "rows of measured copies"
    PAIR_ROWS = "rows of measured pairs"
    #: Path and text of a file that the reader of its command reads; no text if that reader opens it.
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Place:
    """Line of a file; line 0 is the whole file."""

    path: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


@dataclass(frozen=True, slots=True)
class Fact:
    """Statement about a machine.

    Parameters
    ----------
    quantity : Quantity
        Quantity.
    value : object
        Value, of the type that `Quantity` states.
    place : Place
        File and line.
    program : str
        Program that printed it.
    subject : tuple of str
        GPU or pair of GPUs by number in the block; empty for the host or a run.
    unit : str
        Unit; empty for values without one.
    kind : Kind
        Origin.
    host : str
        Host that the text names as the origin of its lines; empty for texts of one host.
    """

    quantity: Quantity
    value: Any
    place: Place
    program: str
    subject: tuple[str, ...] = ()
    unit: str = ""
    kind: Kind = Kind.STATED
    host: str = ""


@dataclass(frozen=True)
class Block:
    """Part of a text that one program printed.

    Parameters
    ----------
    program : str
        Program, with the version that it prints.
    content : Content
        Kind of content.
    place : Place
        File and first line.
    facts : tuple of Fact
        Facts in the order of the text. GPUs have the numbers that the program uses.
    problems : tuple of InputError
        Parts that cannot be read, each with its line.
    text : str
        Description of the content in a few words; empty for the default.
    reader : str
        Command that reads the content, if few do; empty otherwise.
    """

    program: str
    content: Content
    place: Place
    facts: tuple[Fact, ...]
    problems: tuple[InputError, ...] = ()
    text: str = ""
    reader: str = ""

    @property
    def host(self) -> str:
        """Host that the text names as the origin of its lines; empty for texts of one host."""
        return self.facts[0].host if self.facts else ""

    @property
    def hint(self) -> str:
        """Words about the command that reads the content; empty if it has none."""
        return f": '{self.reader}' reads it" if self.reader else ""

    @cached_property
    def addresses(self) -> dict[str, str]:
        """PCI address of each GPU number, as printed."""
        return {fact.subject[0]: fact.value for fact in self.facts if fact.quantity is Quantity.GPU_ADDRESS}

    @cached_property
    def _by_quantity(self) -> dict[Quantity, list[Fact]]:
        """Facts of each quantity, in their order; questions about single quantities are frequent."""
        found: dict[Quantity, list[Fact]] = {}
        for fact in self.facts:
            found.setdefault(fact.quantity, []).append(fact)
        return found

    def of(self, *quantities: Quantity) -> list[Fact]:
        """Return the facts about some quantities."""
        if len(quantities) == 1:
            return list(self._by_quantity.get(quantities[0], ()))
        return [fact for fact in self.facts if fact.quantity in quantities]


@dataclass(frozen=True)
class SourceFile:
    """File that was read.

    Parameters
    ----------
    path : str
        File.
    blocks : tuple of Block
        Blocks of known programs.
    problem : InputError or None
        Reason why nothing of the file can be read.
    hint : str
        Sentence about the known program whose output the file resembles; empty if there is none.
    reader : str
        Program and command that read a file which resembles its output; empty if there is none.
    is_empty : bool
        Whether the file has no text.
    is_unused : bool
        Whether the file is whole output of a program that states nothing of use here.
    failure : str
        Sentence in which the author states a failure; empty if there is none.
    stated_gpu : str
        Model of the GPUs that the sentences of an author name; empty if there is none, or several.
    sha256 : str
        Digest of the content; empty if it was not read whole.
    """

    path: str
    blocks: tuple[Block, ...] = ()
    problem: InputError | None = None
    hint: str = ""
    reader: str = ""
    is_empty: bool = False
    is_unused: bool = False
    sha256: str = ""
    failure: str = ""
    stated_gpu: str = ""


@dataclass(frozen=True)
class Facts:
    """Facts of several files."""

    files: tuple[SourceFile, ...] = field(default=())

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Blocks of all files, in their order."""
        return tuple(block for file in self.files for block in file.blocks)

    @property
    def paths(self) -> list[str]:
        """Names of the files."""
        return [file.path for file in self.files]

    @property
    def problems(self) -> list[InputError]:
        """Files and parts of files that cannot be read."""
        whole = [file.problem for file in self.files if file.problem is not None]
        return whole + [problem for block in self.blocks for problem in block.problems]

    def blocks_of(self, *contents: Content) -> list[Block]:
        """Return the blocks with some contents."""
        return [block for block in self.blocks if block.content in contents]

    def of(self, *quantities: Quantity) -> Iterator[Fact]:
        """Yield the facts about some quantities, in the order of the files."""
        for block in self.blocks:
            yield from block.of(*quantities)

    def values(self, quantity: Quantity) -> list[Any]:
        """Return the values of a quantity, in the order of the files."""
        return [fact.value for fact in self.of(quantity)]

    def without(self, *contents: Content) -> Facts:
        """Return facts without the blocks of some contents."""
        return self.where(block for block in self.blocks if block.content not in contents)

    def where(self, blocks: Iterable[Block]) -> Facts:
        """Return the facts of some of the blocks."""
        kept = {id(block) for block in blocks}
        return Facts(
            tuple(replace(file, blocks=tuple(one for one in file.blocks if id(one) in kept)) for file in self.files)
        )
