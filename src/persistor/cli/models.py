"""`persistor models`: the trained models that come with persistor."""

from __future__ import annotations

import json
from dataclasses import dataclass

from persistor.cli.shared import Json


@dataclass(frozen=True)
class Models:
    """List the trained models that come with persistor, with their cards.

    Their names stand for runs in other commands and in `persistor.load`. For example:

      persistor evaluate parity --lengths 100 10000
      persistor export c copy-first --folder keeper
    """

    json: Json = False

    def run(self) -> int:
        """Print a table, and how each model was made."""
        from persistor.model.shipped import card, names

        cards = [card(name) for name in names()]
        if self.json:
            print(json.dumps({"models": [card.to_json() for card in cards]}))
            return 0
        print(f"{'model':12} {'parameters':>10} {'kB':>4}  test of its task, and by length")
        for c in cards:
            test = ", ".join(f"{name} {value:.4f}" for name, value in c.test.items())
            lengths = ", ".join(f"{int(n):,}: {value:.4f}" for n, value in c.lengths.items())
            tests = "; ".join(filter(None, (test, lengths)))
            print(f"{c.name:12} {c.parameters:10,} {c.bytes / 1000:4.0f}  {tests}")
        for c in cards:
            print(f"\n{c.name}: {c.summary}\n  data     {c.data}\n  licence  {c.licence}")
            print(f"  made by  {c.command}")
        return 0
