"""Helpers that run the workflow in a copy of the project."""

import os
import shutil
import subprocess
import sys

from tests.conftest import REPOSITORY

#: The smoke study in the folders of the default study.
SMOKE = ("--configfile", "config/studies/smoke.yaml", "tests/default_folders.yaml")


def copy_project(folder):
    """Copy all tracked and untracked files that git does not ignore into a folder.

    The sources are a link: numba caches machine code for each path, and a copy would compile all kernels again.
    """
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "src").symlink_to(REPOSITORY / "src")
    for name in listed.splitlines():
        if not name.startswith("src/") and (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)
    return folder


def keep_one_public_machine(folder):
    """Remove the measured copies of all public machines but one, whose evaluation takes most of the time."""
    path = folder / "config" / "published" / "pcie_concurrent_copies.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if line.startswith(("#", "system,", "ASUS 4 GPUs"))))


def start(folder, *arguments, **keywords):
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "tests"), "MPLBACKEND": "module://figure_lint_backend"}
    return subprocess.Popen(
        [sys.executable, "-m", "snakemake", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **keywords,
    )


def snakemake(folder, *arguments):
    process = start(folder, *arguments)
    output, _ = process.communicate(timeout=3600)
    return process.returncode, output
