"""How Sphinx builds the pages: `./dev docs`."""

from penstock import __version__

project = "penstock"
author = "The penstock developers"
copyright = "the penstock developers, Apache-2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["_build"]

# Headings are targets, so that a link to a section that is not there is a warning; and warnings are errors.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "undoc-members": True}
default_role = "py:obj"
# Examples in docstrings carry directives for doctest; a reader has no use for them.
trim_doctest_flags = True

html_theme = "furo"
html_title = "penstock"
html_copy_source = False
html_show_sphinx = False
