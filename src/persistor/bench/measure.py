"""How a row of the benchmark is measured: contenders take turns; medians, ratios."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from persistor._tools.machine import processor_name
from persistor.kernels.doctor import examine


@dataclass(frozen=True)
class Scale:
    """How much to measure: everything, or just enough to see that it runs."""

    turns: int = 7
    least: float = 0.3  # seconds that a turn of a contender lasts, at least
    shrink: int = 1  # lengths and batches are divided by this

    def __call__(self, size: int) -> int:
        """A length or a batch at this scale."""
        return max(2, size // self.shrink)


FULL = Scale()
QUICK = Scale(turns=1, least=0.0, shrink=16)


@dataclass(frozen=True)
class Measurement:
    """Our number beside another one; `ratio` is other / ours, so above 1 we are better."""

    section: str
    what: str
    ours: float | None
    unit: str
    against: str
    other: float | None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times smaller ours is."""
        return None if self.other is None or self.ours is None else self.other / self.ours

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {**vars(self), "ratio": self.ratio}

    def __str__(self) -> str:
        ours = " " * 14 if self.ours is None else f"{self.ours:10,.2f} {self.unit:3}"
        if self.other is None or self.ratio is None:
            return f"{self.section} {self.what:38} {ours}   {self.against}: {self.note}"
        other = f"{self.other:11,.2f} {self.unit:3}"
        note = f"  ({self.note})" if self.note else ""
        line = (
            f"{self.section} {self.what:38} {ours} {other} {self.ratio:9.2f}  {self.against}{note}"
        )
        return line.rstrip()


HEADING = f"{'':2}{'':38} {'ours':>14} {'other':>15} {'ratio':>9}  against"


def by_turns(contenders: Mapping[str, Callable[[], Any]], scale: Scale) -> dict[str, float]:
    """Median seconds per call of each contender. They alternate, so that noise slows all alike."""
    for run in contenders.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(scale.turns):
        for name, run in contenders.items():
            began = time.perf_counter()
            while True:
                start = time.perf_counter()
                run()
                end = time.perf_counter()
                seconds[name].append(end - start)
                if end - began >= scale.least:
                    break
    return {name: statistics.median(values) for name, values in seconds.items()}


def machine() -> dict[str, Any]:
    """The machine that is measured: processor, cores, engine, and how busy it is."""
    findings = examine()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return {
        "processor": processor_name(),
        "cores": findings["cores"],
        "engine": findings["engine"],
        "jax": findings["jax"],
        "load": round(load, 2),
    }
