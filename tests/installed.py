"""An installed wheel: its kernels work here, and a model learns parity from the command line.

    python tests/installed.py     # with the Python that the wheel is installed for

`tests/test_wheel.py` runs it, and so does continuous integration on every system and Python.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import persistor
from persistor.kernels import library

CHECKOUT = Path(__file__).parents[1]
PARITY = "train parity --cell cmru --epsilon -1 --state 1 --steps 128 --json"


def check() -> None:
    """Fail unless persistor is installed and does what it should."""
    assert CHECKOUT not in Path(persistor.__file__).parents, "this is the checkout, not a wheel"
    kernels = library()
    assert kernels.variant is not None, kernels.reason
    oldest = re.search(r'"jax>=([\d.]+)"', (CHECKOUT / "pyproject.toml").read_text())
    assert oldest
    assert kernels.jaxlib == oldest[1], f"built against {kernels.jaxlib}, not {oldest[1]}"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "persistor.cli", *PARITY.split()]
        trained = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True)
    result = json.loads(trained.stdout)
    assert result["test"]["accuracy"] == 1.0, result
    assert result["provenance"]["engine"] == f"native ({kernels.variant})"
    print(f"persistor {persistor.__version__}, {kernels.variant}: parity learned")


if __name__ == "__main__":
    check()
