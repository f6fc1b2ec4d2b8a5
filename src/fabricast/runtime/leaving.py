"""The end of a process: what it holds is the system's to free."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable

__all__ = ["leave_at_once"]

#: As the interpreter ends when it cannot write what it holds back.
_OUTPUT_IS_LOST = 120


def leave_at_once(code: Callable[[], int | None]) -> None:
    r"""Have this process end once all that registers later has ended, without taking apart what it holds.

    To free modules and objects one by one takes the interpreter a fifth of a second, and more where more was imported.

    Parameters
    ----------
    code : callable
        Returns the exit code, or None where the interpreter is to end as usual, which knows the code.

    Examples
    --------
    >>> import subprocess, sys
    >>> program = "from fabricast.runtime.leaving import leave_at_once; leave_at_once(lambda: 3); print('told')"
    >>> done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    >>> done.returncode, done.stdout
    (3, 'told\n')
    """

    def leave() -> None:
        number = code()
        if number is None:
            return
        # A process may have been started without them.
        for stream in filter(None, (sys.stdout, sys.stderr)):
            try:
                stream.flush()
            except OSError:
                number = number or _OUTPUT_IS_LOST
        os._exit(number)

    # Called after all that is registered from now on, such as the removal of temporary files.
    atexit.register(leave)
