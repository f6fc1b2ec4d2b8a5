"""Documentation and schema of the configuration, generated from its models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from fabricast.config import Config
from fabricast.config.breakdown import BreakdownConfig
from fabricast.config.clusters import ClusterPatternConfig, ClustersConfig
from fabricast.config.collectives import CollectiveMachineConfig, CollectivesConfig
from fabricast.config.gpucentric import GpuCentricConfig, GpuRunConfig
from fabricast.config.maxrate import MaxRateConfig, PairsConfig
from fabricast.config.pcie import GraphSet, PcieConfig, ProbeRunConfig, ScheduleConfig, SearchedPattern
from fabricast.config.percs import PercsConfig


def config_schema() -> str:
    """Return the JSON schema of the configuration as text."""
    return json.dumps(Config.model_json_schema(), indent=2) + "\n"


def config_markdown() -> str:
    """Return the text of config/README.md, which lists every parameter of the models."""
    lines = [
        "# Configuration",
        "",
        "Generated from `src/fabricast/config/`; do not edit. `config.yaml` is the default study,",
        "`studies/smoke.yaml` and `studies/paper.yaml` override it:",
        "`snakemake --configfile config/studies/smoke.yaml`.",
        "",
        "Paths are relative to the working directory. Unknown keys are errors.",
    ]
    for model, title in (
        (Config, "Top level"),
        (PcieConfig, "`pcie`"),
        (GraphSet, "`pcie.graph_sets.NAME`"),
        (ProbeRunConfig, "`pcie.probe_run`"),
        (ScheduleConfig, "`pcie.schedules`"),
        (SearchedPattern, "`pcie.schedules.searched[]`"),
        (BreakdownConfig, "`breakdown`"),
        (MaxRateConfig, "`maxrate`"),
        (PairsConfig, "`maxrate.pairs`"),
        (GpuCentricConfig, "`gpucentric`"),
        (GpuRunConfig, "`gpucentric.gpu_run`"),
        (PercsConfig, "`percs`"),
        (CollectivesConfig, "`collectives`"),
        (CollectiveMachineConfig, "`collectives.machines.NAME`"),
        (ClustersConfig, "`clusters`"),
        (ClusterPatternConfig, "`clusters.machines.NAME`"),
    ):
        lines += [
            "",
            f"## {title}",
            "",
            str(model.__doc__),
            "",
            "| key | type | default | meaning |",
            "|---|---|---|---|",
        ]
        for name, field in model.model_fields.items():
            default = field.get_default(call_default_factory=True)
            if field.is_required():
                shown = "required"
            else:
                shown = "below" if isinstance(default, BaseModel) else f"`{json.dumps(default)}`"
            kind = _type_name(model.model_json_schema()["properties"][name])
            lines.append(f"| `{name}` | {kind} | {shown} | {field.description} |")
    return "\n".join(lines) + "\n\n" + Path(__file__).with_name("guide.md").read_text(encoding="utf-8")


def _type_name(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type_name(option) for option in schema["anyOf"])
    if "$ref" in schema:
        return "section"
    if schema.get("type") == "object":
        return "mapping of sections"
    if schema.get("type") == "array":
        item = _type_name(schema.get("items", {}))
        return {"string": "list of names", "section": "list of sections"}.get(
            item, f"list of {item}s" if not item.startswith("list") else f"list of {item.replace('list', 'lists', 1)}"
        )
    return str(schema.get("type", "value"))
