"""Processes that end at once: what is registered still runs, output is whole, exit codes are those of the interpreter."""

import os
import shlex
import subprocess
import sys

import pytest

BEGIN = """
import atexit
from fabricast.runtime.jobs import log_to
atexit.register(lambda: open("before", "w").close())
log_to("job.log")
atexit.register(lambda: open("after", "w").close())
class Kept:
    def __del__(self):
        open("freed", "w").close()
kept = Kept()
kept.itself = kept
print("told without an end of line", end="")
"""


def job(folder, end):
    return subprocess.run([sys.executable, "-c", BEGIN + end], cwd=folder, check=False).returncode


def test_a_job_that_is_done_leaves_what_it_holds_to_the_system(tmp_path):
    assert job(tmp_path, "") == 0
    assert (tmp_path / "job.log").read_text() == "told without an end of line"
    assert {path.name for path in tmp_path.iterdir()} == {"job.log", "after"}


@pytest.mark.parametrize(("end", "told"), [
    ("raise ValueError('wrong')", "ValueError: wrong"),
    ("from fabricast.core.errors import InputError; raise InputError('is wrong')", "error: is wrong"),
    ("1 +", "SyntaxError"),
])  # fmt: skip
def test_a_job_that_fails_ends_as_usual(tmp_path, end, told):
    assert job(tmp_path, end if told != "SyntaxError" else f"exec({end!r})") == 1
    assert told in (tmp_path / "job.log").read_text()


def test_output_that_cannot_be_written_is_an_error_still():
    program = "from fabricast.runtime.leaving import leave_at_once; leave_at_once(lambda: 0); print('lost')"
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        assert subprocess.run([sys.executable, "-c", program], stdout=full, env=buffered, check=False).returncode == 120


@pytest.mark.parametrize(("arguments", "code"), [
    (["--version"], 0), (["models"], 0), (["predict", "nowhere", "graphs.csv"], 2), (["predict"], 2), ([], 2),
])  # fmt: skip
def test_exit_codes_of_the_command_line(arguments, code):
    ended = subprocess.run([sys.executable, "-m", "fabricast.cli", *arguments], capture_output=True, check=False)
    assert ended.returncode == code
    assert b"Traceback" not in ended.stderr


def test_a_command_without_standard_output_ends_as_well():
    command = f"exec {shlex.quote(sys.executable)} -m fabricast.cli models >&-"
    ended = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
