"""Write the captions of Snakemake's report: `python -m fabricast.figures.catalogue`."""

from pathlib import Path

from fabricast.figures.catalogue.captions import caption_files
from fabricast.inputs.files import write_text

_FOLDER = Path(__file__).parents[4] / "workflow" / "report"
for _name, _text in caption_files().items():
    write_text(_FOLDER / _name, _text)
