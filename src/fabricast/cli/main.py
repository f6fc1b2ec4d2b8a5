"""Command-line application: all commands and their error handling."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import Annotated, NoReturn

import typer

from fabricast import __version__
from fabricast.cli import breakdown, collective, gpucentric, maxrate, percs, reference, results
from fabricast.cli.pcie import copies, predict, topology, validation
from fabricast.core.errors import InputError

app = typer.Typer(
    name="fabricast",
    help="Predict the performance of PCIe, GPU, MPI and network communication.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
#: Groups of commands in the help.
_GROUPS = {
    "Your machine": "diagnose predict bandwidth topology probes calibrate validate simulate schedule models",
    "Collective operations": "collective reference",
    "MPI and networks": "fit collect map network",
}
_GROUP_OF = {command: group for group, commands in _GROUPS.items() for command in commands.split()}
_STUDIES = "Studies"
for _commands in (predict, collective, reference, copies, breakdown, maxrate, gpucentric, percs, results, validation):
    for _command in _commands.app.registered_commands:
        _name = _command.name or (_command.callback.__name__ if _command.callback is not None else "")
        _command.rich_help_panel = _GROUP_OF.get(_name.replace("_", "-"), _STUDIES)
    for _group in _commands.app.registered_groups:
        _group.rich_help_panel = _GROUP_OF.get(str(_group.name), _STUDIES)
    app.add_typer(_commands.app)
app.add_typer(topology.app, name="topology", rich_help_panel="Your machine")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fabricast {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


#: Remedy by type of error, with the options that provide it; `{}` is replaced by those of the command.
_HELP = {
    "NoAcceleratorError": ("; specify {} to include graphics cards (class 0300)", ("--include-display",)),
    "UnknownSpeedError": (
        "; specify {}, or import the file with 'fabricast topology import FILE --gpu MODEL -o machine.yaml'",
        ("--bandwidth", "--measurements", "MEASUREMENTS", "--parameters", "--generation and --width", "--gpu"),
    ),
}


def main() -> None:
    """Run the command line; invalid input exits with code 2 and a one-line message."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # The shell closed it (>&-): what would be printed is discarded.
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        # Names of input files may have letters that the encoding of a terminal lacks.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        _check_text(sys.argv[1:])
        app()
        sys.stdout.flush()
    except InputError as error:
        _end(f"{_with_option(error)}{_remedy(error)}", 2)
    except BrokenPipeError:
        # The reader closed the pipe: discard buffered output so that interpreter shutdown does not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt:
        _end("interrupted; no partially written files remain", 130)
    except MemoryError:
        _end("not enough memory for this input", 2)
    except OSError as error:
        # For example standard output redirected to a full disk.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _end(f"cannot write: {error.strerror or error}", 2)


def _check_text(arguments: list[str]) -> None:
    """Refuse arguments that are no text, such as file names in another encoding: libraries cannot open these files."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            name = os.fsencode(argument).decode(errors="backslashreplace")
            raise InputError(f"'{name}' is not UTF-8 text, expected another name") from None


#: Options whose names differ from the function argument.
_OPTIONS = {"compute_s": "--compute-us", "graph_file": "--nccl-graph", "files": "FILES"}


def _with_option(error: InputError) -> str:
    """Return an error message in which the option replaces the function argument."""
    if error.argument is None:
        return str(error)
    return error.text(_OPTIONS.get(error.argument, f"--{error.argument.replace('_', '-')}"))


def _remedy(error: InputError) -> str:
    """Return the remedy for an error with the options that the command has; empty if it has none."""
    text, remedies = _HELP.get(type(error).__name__, ("", ()))
    known = _parameters_of_command(sys.argv[1:])
    options = [option for option in remedies if option.split(" ")[0] in known]
    return text.format(" or ".join([", ".join(options[:-1]), options[-1]][len(options) < 2 :])) if options else ""


def _parameters_of_command(words: list[str]) -> set[str]:
    """Return the options and arguments of the command that the words of a command line name."""
    command = typer.main.get_command(app)
    for word in words:
        if word in getattr(command, "commands", {}):
            command = command.commands[word]  # type: ignore[attr-defined]
    names = {option for parameter in command.params for option in parameter.opts}
    return names | {name.upper() for name in names if not name.startswith("-")}


def _end(message: str, code: int) -> NoReturn:
    typer.echo(f"fabricast: error: {message}", err=True)
    sys.exit(code)
