"""How often Python looks for objects that nobody uses any more."""

from __future__ import annotations

import gc

__all__ = ["collect_rarely"]

#: More take memory, fewer time.
_OBJECTS_BETWEEN_COLLECTIONS = 50_000


def collect_rarely() -> None:
    r"""Let this process look through its objects each time there are 50,000 more, not 700.

    Modules, pictures and tables are made of many small objects that live as long as the process: to look through them
    so often takes a tenth of a job, and a twentieth of the start of a command.

    Examples
    --------
    >>> import subprocess, sys
    >>> program = "import gc; from fabricast.runtime.garbage_collection import collect_rarely; collect_rarely(); "
    >>> subprocess.run([sys.executable, "-c", program + "print(gc.get_threshold()[0])"], capture_output=True).stdout
    b'50000\n'
    """
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
