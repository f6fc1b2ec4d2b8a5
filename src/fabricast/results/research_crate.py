"""RO-Crate metadata of a finished run: files, authors and workflow."""

from __future__ import annotations

import hashlib
import json
import mimetypes
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from fabricast.inputs.files import write_text
from fabricast.results.tables import open_run

_CONTEXT = "https://w3id.org/ro/crate/1.1/context"
_SPECIFICATION = "https://w3id.org/ro/crate/1.1"
_LANGUAGE = "https://w3id.org/workflowhub/workflow-ro-crate#snakemake"


def export_database(database: Path, folder: Path) -> None:
    """Export all tables as Parquet files with the SQL that recreates them."""
    with open_run(database) as connection:
        quoted = str(folder).replace("'", "''")
        connection.execute(f"EXPORT DATABASE '{quoted}' (FORMAT parquet)")


def _citation(repository: Path) -> dict[str, Any]:
    citation: dict[str, Any] = yaml.safe_load((repository / "CITATION.cff").read_text(encoding="utf-8"))
    return citation


def write_crate(root: Path, files: Iterable[Path], repository: Path, path: Path) -> None:
    """Write the RO-Crate metadata of a run."""
    citation = _citation(repository)
    authors = [
        {
            "@id": f"#author-{number}",
            "@type": "Person" if "family-names" in person else "Organization",
            "name": person.get("name") or f"{person.get('given-names', '')} {person['family-names']}".strip(),
        }
        for number, person in enumerate(citation["authors"], start=1)
    ]
    parts = [_file_entity(file, root) for file in sorted(files)]
    workflow = {
        "@id": "Snakefile",
        "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
        "name": citation["title"],
        "programmingLanguage": {"@id": _LANGUAGE},
    }
    graph: list[dict[str, Any]] = [
        {
            "@id": "ro-crate-metadata.json",
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": {"@id": _SPECIFICATION},
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": f"Results of {citation['title']}",
            "description": citation.get("abstract", citation["title"]),
            "datePublished": datetime.now(UTC).date().isoformat(),
            "license": {"@id": "#license"},
            "author": [{"@id": author["@id"]} for author in authors],
            "mainEntity": {"@id": "Snakefile"},
            "hasPart": [{"@id": "Snakefile"}, *({"@id": part["@id"]} for part in parts)],
        },
        {"@id": "#license", "@type": "CreativeWork", "name": citation["license"]},
        {"@id": _LANGUAGE, "@type": "ComputerLanguage", "name": "Snakemake", "url": "https://snakemake.readthedocs.io"},
        workflow,
        *authors,
        *parts,
    ]
    write_text(path, json.dumps({"@context": _CONTEXT, "@graph": graph}, indent=1) + "\n")


def _file_entity(file: Path, root: Path) -> dict[str, Any]:
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    kind = {".parquet": "application/vnd.apache.parquet", ".duckdb": "application/vnd.duckdb.file"}.get(
        file.suffix, mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    )
    return {
        "@id": file.resolve().relative_to(root.resolve()).as_posix(),
        "@type": "File",
        "name": file.name,
        "encodingFormat": kind,
        "contentSize": str(file.stat().st_size),
        "sha256": digest,
    }
