"""Configuration of the documentation site: `make docs`."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_extensions"), str((DOCS.parent / "src").resolve())]

import numpydoc.xref  # noqa: E402

from fabricast import __version__  # noqa: E402

project = "fabricast"
copyright = "fabricast maintainers"
release = version = __version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
    "mathml",
    "generated_pages",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "jupyter_execute", "_extensions", "README.md"]
html_theme = "pydata_sphinx_theme"
html_title = "fabricast"
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
# Pages opened from disk may not fetch others: hits work, summaries would only log errors.
html_show_search_summary = False
html_copy_source = html_show_sourcelink = False
html_math_renderer = "mathml"
autosummary_generate = True
# scikit-learn's generated methods refer to its own glossary; an alias of types is no class.
autodoc_default_options = {"exclude-members": "set_fit_request, set_score_request, set_predict_request, Pairs"}
autodoc_typehints = "none"  # the numpydoc sections carry the types
numpydoc_show_class_members = False
# Names of types in parameter sections, and names in single backticks, link to their pages.
default_role = "py:obj"
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
# The documentation of Python and NumPy is not linked, because the build has no network.
numpydoc_xref_aliases = {name: name for name in numpydoc.xref.DEFAULT_LINKS} | {
    "PcieTree": "fabricast.pcie.topology.tree.PcieTree",
    "CongestionGraphs": "fabricast.pcie.graphs.congestion_graphs.CongestionGraphs",
    "Prediction": "fabricast.Prediction",
}
nb_execution_mode = "cache"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]
