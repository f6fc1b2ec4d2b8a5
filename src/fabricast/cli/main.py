"""The command line as a whole: all commands, and how bad input ends."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Annotated, NoReturn

import typer

from fabricast import __version__
from fabricast.cli import breakdown, gpucentric, maxrate, pcie, percs, results, topology, validation
from fabricast.core.errors import InputError
from fabricast.runtime.garbage_collection import collect_rarely
from fabricast.runtime.leaving import leave_at_once

__all__ = ["app", "main", "run"]

app = typer.Typer(
    name="fabricast",
    help="Forecast communication on dense accelerator servers and the networks behind them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    add_completion=False,
)
for _commands in (pcie, breakdown, maxrate, gpucentric, percs, results, validation):
    app.add_typer(_commands.app)
app.add_typer(topology.app, name="topology")


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


#: Which option helps, by error.
_HELP = {
    "NoAcceleratorError": "; --include-display also takes graphics cards (class 0300)",
    "UnknownSpeedError": "; give --parameters, --bandwidth-gib or, for model endpoint_engines, --measurements "
    "(simulate: --generation and --width)",
    "PeerLinkError": "; --pcie-only lets such copies take the tree all the same",
}


def main() -> None:
    """Run the command line and end the process."""
    codes: list[int] = []
    leave_at_once(lambda: codes[0] if codes else None)
    collect_rarely()
    try:
        run()
    except SystemExit as end:
        if isinstance(end.code, int):
            codes.append(end.code)
        raise
    codes.append(0)


def run() -> None:
    """Run the command line; bad input ends with one line and exit code 2."""
    try:
        app()
        sys.stdout.flush()
    except InputError as error:
        _end(f"{_with_option(error)}{_HELP.get(type(error).__name__, '')}", 2)
    except BrokenPipeError:
        # Nobody reads any more: the interpreter must not try to write what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt:
        _end("interrupted; nothing half-written is left", 130)
    except MemoryError:
        _end("the memory of this machine does not suffice for this input", 2)
    except OSError as error:
        # Standard output on a full disk.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _end(f"cannot write: {error.strerror or error}", 2)


#: Options whose name is not that of the argument.
_OPTIONS = {"compute_s": "--compute-us", "bandwidth": "--bandwidth-gib"}


def _with_option(error: InputError) -> str:
    """Return a message of the library with the option in place of its argument."""
    if error.argument is None:
        return str(error)
    option = _OPTIONS.get(error.argument, f"--{error.argument.replace('_', '-')}")
    return str(error).replace(error.argument, option, 1)


def _end(message: str, code: int) -> NoReturn:
    typer.echo(f"fabricast: error: {message}", err=True)
    sys.exit(code)
