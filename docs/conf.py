"""Configuration of Sphinx: https://www.sphinx-doc.org/en/master/usage/configuration.html."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
sys.path.insert(0, str(HERE.parent))

import cetdsl_gallery  # noqa: E402

import cetdsl  # noqa: E402

project = "cetdsl"
author = "the cetdsl authors"
copyright = "the cetdsl authors"
release = cetdsl.__version__
version = release

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosectionlabel",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "cetdsl_docs",
    "cetdsl_cells",
    "cetdsl_gallery",
]
exclude_patterns = ["_build", "_ext"]
sphinx_gallery_conf = cetdsl_gallery.configuration()
autosectionlabel_prefix_document = True

html_theme = "furo"
html_title = f"cetdsl {release}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_show_sourcelink = False
html_copy_source = False
highlight_language = "python3"
pygments_style = "default"
pygments_dark_style = "monokai"

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False
# All of numpydoc's checks, but for those that ask for sections where a sentence says enough (extended summary, see
# also, descriptions of what a name or a type tells), and the one that asks how to construct classes that users are
# given. tests/test_public_api.py looks for the examples, and for the parameters of functions.
numpydoc_validation_checks = {"all", "ES01", "EX01", "PR01", "PR07", "RT03", "SA01", "SS05"}
