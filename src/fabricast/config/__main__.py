"""Write config/README.md and the JSON schema: `python -m fabricast.config`."""

from pathlib import Path

from fabricast.config.documentation import config_markdown, config_schema
from fabricast.inputs.files import write_text

_REPOSITORY = Path(__file__).parents[3]
write_text(_REPOSITORY / "config" / "README.md", config_markdown())
write_text(_REPOSITORY / "workflow" / "schemas" / "config.schema.json", config_schema())
