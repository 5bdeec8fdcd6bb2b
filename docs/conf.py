"""The site that `make docs` builds from this folder: Sphinx, MyST and furo, nothing from a network.

The pages are plain Markdown and read as such in the repository. This file adds what a site has
beyond them: the navigation, the playground and, on the pages of the gallery, the script with what
it printed and drew. The scripts run here, unless their pictures are newer than they are.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

import persistor
from persistor.report.page import page

sys.path.insert(0, str(Path(__file__).parent))
from docstrings import to_restructured

ROOT = Path(__file__).parents[1]
MADE = ROOT / "build" / "gallery"  # what the scripts of examples/ printed and drew
FIGURES = ROOT / "build" / "figures"  # the paper's, with our results
NAVIGATION = {
    "Start": ["how-to/install", "tutorials/first-run", "tutorials/your-own-model"],
    "Choose": ["explanation/which-cell", "explanation/paper-in-ten-minutes", "comparison"],
    "See": ["gallery/index", "results", "explanation/claims", "performance"],
    "Do": [
        "how-to/train",
        "how-to/data",
        "how-to/own-sounds",
        "how-to/own-sensors",
        "how-to/own-text",
        "how-to/trained-model",
        "how-to/reproduce",
        "how-to/does-it-keep",
        "how-to/pytorch",
        "how-to/onnx",
        "how-to/microcontroller",
        "tutorials/training-to-netlist",
        "how-to/error-messages",
    ],
    "Understand": [
        "explanation/design",
        "explanation/paper-decisions",
        "explanation/trials",
        "explanation/hardware-limits",
    ],
    "Look up": [
        "reference/cells",
        "reference/architecture",
        "reference/tasks",
        "reference/run-folder",
        "reference/api/index",
        "contributing",
        "changelog",
    ],
}

project = "persistor"
author = "The persistor authors"
copyright = "the persistor authors, Apache-2.0"  # noqa: A001: Sphinx has this name
release = persistor.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
exclude_patterns = ["_static"]

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline", "attrs_block", "deflist"]
suppress_warnings = ["misc.highlighting_failure"]  # output of commands is no program
highlight_language = "none"  # a block without a language is what a terminal shows

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_title = f"persistor {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


def run_examples(app: Sphinx) -> None:
    """Run every script of examples/ whose picture is missing or older than it."""
    MADE.mkdir(parents=True, exist_ok=True)
    rc = {**os.environ, "MATPLOTLIBRC": str(ROOT / "docs" / "_static" / "matplotlibrc")}
    for script in sorted((ROOT / "examples").glob("*.py")):
        printed, picture = MADE / f"{script.stem}.txt", MADE / f"{script.stem}.svg"
        made = script.stat().st_mtime
        if all(path.exists() and path.stat().st_mtime > made for path in (printed, picture)):
            continue
        print(f"running examples/{script.name}", flush=True)
        done = subprocess.run(
            [sys.executable, script, MADE], capture_output=True, text=True, env=rc
        )
        if done.returncode:
            raise ExtensionError(f"examples/{script.name} failed:\n{done.stderr}")
        printed.write_text(done.stdout)


def draw_figures(app: Sphinx) -> None:
    """Draw the paper's figures with the runs in results/."""
    command = [sys.executable, "-m", "persistor.cli", "figure", "--runs", ROOT / "results"]
    subprocess.run([*command, "--folder", FIGURES], check=True, stdout=subprocess.DEVNULL)


def complete(app: Sphinx, name: str, source: list[str]) -> None:
    """Add to a page what only the site has, and lead its links to the site's own pages."""
    text = re.sub(r"\((?:\.\./)+CONTRIBUTING\.md", "(/contributing.md", source[0])
    text = re.sub(r"\[([^]]+)\]\((?:\.\./)+examples/README\.md\)", r"`\1`", text)
    if name == "index":
        text += "\n\n" + "\n\n".join(
            f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```"
            for caption, pages in NAVIGATION.items()
        )
    text = re.sub(r"<!-- figure: ([\w-]+) \| (.+?) -->", _figure, text)
    if name.startswith("gallery/"):
        script = ROOT / "examples" / f"{Path(name).name.replace('-', '_')}.py"
        text += _executed(script) if script.exists() else _all_examples()
    source[0] = text


def _figure(asked: re.Match[str]) -> str:
    """A figure of the paper with our results."""
    name, says = asked.groups()
    return f"![{says}]({os.path.relpath(FIGURES / f'{name}.png', ROOT / 'docs' / 'explanation')})"


def _executed(script: Path) -> str:
    """A script's picture, what it printed, and the script."""
    picture, printed = _picture(script.stem), (MADE / f"{script.stem}.txt").read_text()
    code = script.read_text()
    alt = code.split('"""')[1].replace("\n", " ")
    return (
        f"\n\n![{alt}]({picture})\n\n## What it printed\n\n```text\n{printed}```\n\n"
        f"## The script\n\n```python\n{code}```\n"
    )


def _all_examples() -> str:
    """The toctree of the gallery, in the order of its page."""
    listed = re.findall(r"\]\(([\w-]+)\.md\)", (ROOT / "docs" / "gallery" / "index.md").read_text())
    return "\n\n```{toctree}\n:hidden:\n\n" + "\n".join(dict.fromkeys(listed)) + "\n```\n"


def _picture(stem: str) -> str:
    return os.path.relpath(MADE / f"{stem}.svg", ROOT / "docs" / "gallery")


def add_playground(app: Sphinx, name: str, template: str, context: dict, doctree: object) -> None:
    """The landing page has the playground of the report page: its script, as it is."""
    if name == "index":
        app.add_js_file(None, body=(ROOT / "src/persistor/report/playground.js").read_text())
        start = 'persistor.playground(document.getElementById("playground-here"), { play: true });'
        app.add_js_file(None, body=f'addEventListener("DOMContentLoaded", () => {start[:-1]});')


def write_report(app: Sphinx, failed: Exception | None) -> None:
    """The report page of all measured runs stands beside the site."""
    if failed is None and app.builder.format == "html":
        (Path(app.outdir) / "report.html").write_text(page(ROOT / "results"))


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("builder-inited", run_examples)
    app.connect("builder-inited", draw_figures)
    app.connect("source-read", complete)
    app.connect("autodoc-process-docstring", to_restructured)
    app.connect("html-page-context", add_playground)
    app.connect("build-finished", write_report)
