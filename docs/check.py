"""Look at the built site as a browser does: accessibility, console, network.

    python docs/check.py build/site axe.min.js

Chromium opens each page in light and dark, wide and narrow, and axe-core looks at it. Serious and
critical findings, words on the console and requests beyond the site make the script fail.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

PAGES = (
    "index.html",
    "tutorials/your-own-model.html",
    "gallery/annealing.html",
    "comparison.html",
    "reference/api/cells.html",
    "report.html",
)
CHROMIUM = [
    "chromium",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--virtual-time-budget=20000",
    "--enable-logging=stderr",
    "--dump-dom",
]
LOOKS = {"light": (), "dark": ("--blink-settings=preferredColorScheme=0",)}
SIZES = {"wide": "1440,900", "narrow": "400,800"}
RUN = """<script>addEventListener("load", async () => {
const found = await axe.run(document, { resultTypes: ["violations"], preload: false });
const beyond = performance.getEntriesByType("resource").map((e) => e.name)
  .filter((name) => !/^(file|data|blob):/.test(name));
const kept = found.violations.map(({ id, impact, nodes }) => ({ id, impact,
  where: nodes.slice(0, 3).map((n) => n.html.slice(0, 160)), count: nodes.length }));
document.body.append(Object.assign(document.createElement("pre"),
  { id: "axe-found", textContent: JSON.stringify({ kept, beyond }) }));
});</script>"""


def look(page: Path, axe: Path, look: tuple[str, ...], size: str) -> list[str]:
    """Everything that is wrong with a page, a line each."""
    beside = page.with_name(f"axe-{page.name}")  # so that its links to scripts and styles hold
    # before </body>, and the last one: a script of the page may hold the word as text
    head, tail = page.read_text().rsplit("</body>", 1)
    beside.write_text(f"{head}<script>{axe.read_text()}</script>{RUN}</body>{tail}")
    try:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [
                    *CHROMIUM,
                    *look,
                    f"--user-data-dir={folder}",
                    f"--window-size={size}",
                    beside.as_uri(),
                ],
                capture_output=True,
                text=True,
                timeout=300,
            )
    finally:
        beside.unlink()
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    answer = re.search(r'<pre id="axe-found"[^>]*>(.*?)</pre>', done.stdout, re.DOTALL)
    if answer is None:
        return [*said, "axe did not finish"]
    found = json.loads(html.unescape(answer[1]))
    wrong = [
        f"{v['impact']}: {v['id']} ({v['count']}), such as {v['where'][0]}"
        for v in found["kept"]
        if v["impact"] in ("serious", "critical")
    ]
    return [*said, *wrong, *(f"asks the network for {name}" for name in found["beyond"])]


def main(site: Path, axe: Path, *pages: str) -> int:
    """Look at every page in every form; the number of findings."""
    total = 0
    for page, scheme, size in product(pages or PAGES, LOOKS, SIZES):
        wrong = look(site / page, axe.resolve(), LOOKS[scheme], SIZES[size])
        total += len(wrong)
        print(f"{page} {scheme} {size}: {len(wrong) or 'nothing'} wrong", flush=True)
        for line in wrong:
            print(f"  {line}")
    return total


if __name__ == "__main__":
    site, axe, *pages = sys.argv[1:]
    sys.exit(bool(main(Path(site).resolve(), Path(axe), *pages)))
