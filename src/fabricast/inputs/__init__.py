"""Reading foreign files: text, CSV, YAML, published parameters and studies, with limits and one-line errors."""
