"""The site that `make docs` builds from this folder: Sphinx, MyST and furo."""
project = "persistor"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
html_theme = "furo"
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "attrs_block"]
