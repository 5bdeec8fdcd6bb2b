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
from docstrings import shorter_types, to_restructured

ROOT = Path(__file__).parents[1]
MADE = ROOT / "build" / "gallery"  # what the scripts of examples/ printed and drew
RESULTS = ROOT / "results" / "runs.jsonl"
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
        "explanation/keyword-spotting",
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
copyright = "the persistor authors, Apache-2.0"
release = persistor.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]

myst_heading_anchors = 4
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
html_js_files = ["site.js"]
html_copy_source = False
html_show_sphinx = False
html_theme_options: dict[str, object] = {"navigation_with_keys": True}
if os.environ.get("GITHUB_REPOSITORY"):  # on the host's machines the site knows where its source is
    home = f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}/"
    html_theme_options |= {
        "source_repository": home,
        "source_branch": "main",
        "source_directory": "docs/",
        "footer_icons": [{"name": "Source", "url": home, "html": "Source", "class": ""}],
    }
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


def _newer(made: Path, source: Path) -> bool:
    """Whether a file is there and newer than what it was made from."""
    return made.exists() and made.stat().st_mtime > source.stat().st_mtime


def run_examples(app: Sphinx) -> None:
    """Run every script of examples/ whose picture is missing or older than it."""
    if not app.config.examples:
        return
    MADE.mkdir(parents=True, exist_ok=True)
    rc = {**os.environ, "MATPLOTLIBRC": str(ROOT / "docs" / "_static" / "matplotlibrc")}
    for script in sorted((ROOT / "examples").glob("*.py")):
        printed, picture = MADE / f"{script.stem}.txt", MADE / f"{script.stem}.svg"
        if _newer(printed, script) and _newer(picture, script):
            continue
        print(f"running examples/{script.name}", flush=True)
        done = subprocess.run(
            [sys.executable, script, MADE], capture_output=True, text=True, env=rc
        )
        if done.returncode:
            raise ExtensionError(f"examples/{script.name} failed:\n{done.stderr}")
        printed.write_text(done.stdout)


def draw_figures(app: Sphinx) -> None:
    """Draw the paper's figures with the runs in results/, unless they are newer."""
    if _newer(FIGURES / "smnist.png", RESULTS):
        return
    command = [sys.executable, "-m", "persistor.cli", "figure", "--runs", RESULTS.parent]
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
    code = script.read_text()
    shown = f"\n\n## The script\n\n```python\n{code}```\n"
    if not (MADE / f"{script.stem}.svg").exists():
        return shown
    picture = os.path.relpath(MADE / f"{script.stem}.svg", ROOT / "docs" / "gallery")
    printed = (MADE / f"{script.stem}.txt").read_text()
    alt = code.split('"""')[1].replace("\n", " ")
    return f"\n\n![{alt}]({picture})\n\n## What it printed\n\n```text\n{printed}```{shown}"


def _all_examples() -> str:
    """The toctree of the gallery, in the order of its page."""
    listed = re.findall(r"\]\(([\w-]+)\.md\)", (ROOT / "docs" / "gallery" / "index.md").read_text())
    return "\n\n```{toctree}\n:hidden:\n\n" + "\n".join(dict.fromkeys(listed)) + "\n```\n"


def add_playground(app: Sphinx, name: str, template: str, context: dict, doctree: object) -> None:
    """The landing page has the playground of the report page: its script, as it is."""
    if name == "index":
        app.add_js_file(None, body=(ROOT / "src/persistor/report/playground.js").read_text())
        start = 'persistor.playground(document.getElementById("playground-here"), { play: true });'
        app.add_js_file(None, body=f'addEventListener("DOMContentLoaded", () => {start[:-1]});')


def mend(app: Sphinx, name: str, template: str, context: dict, doctree: object) -> None:
    """Mend what a screen reader stumbles over: captions without a level, lists without terms."""
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace(
        'role="heading"', 'role="heading" aria-level="2"'
    )

    def lines(found: re.Match[str]) -> str:
        parameters = re.sub(r"<(/?)dd>", r"<\1div>", found[1])
        return f'<div class="parameters">{parameters}</div>'

    context["body"] = re.sub(r"<dl>\s*((?:<dd>.*?</dd>\s*)+)</dl>", lines, context.get("body", ""))


def write_report(app: Sphinx, failed: Exception | None) -> None:
    """The report page of all measured runs stands beside the site."""
    report = Path(app.outdir) / "report.html"
    if failed is None and app.builder.format == "html" and not _newer(report, RESULTS):
        report.write_text(page(RESULTS.parent))


def setup(app: Sphinx) -> None:
    """Called by Sphinx; `-D examples=0` leaves the scripts of the gallery unrun."""
    app.add_config_value("examples", True, "env", bool)
    app.connect("builder-inited", run_examples)
    app.connect("builder-inited", draw_figures)
    app.connect("source-read", complete)
    app.connect("autodoc-process-docstring", to_restructured)
    app.connect("autodoc-process-signature", shorter_types)
    app.connect("html-page-context", add_playground)
    app.connect("html-page-context", mend, priority=900)  # after furo
    app.connect("build-finished", write_report)
