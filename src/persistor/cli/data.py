"""`persistor data list | fetch | check | show`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import OmitArgPrefixes, OmitSubcommandPrefixes, Positional, arg, subcommand

from persistor._tools.errors import PersistorError, unknown
from persistor.cli.shared import DataDir, Json, bring_data, use_data_folder

Name = Annotated[Positional[str], arg(metavar="NAME", help="A data set, or a task that needs one.")]


@dataclass(frozen=True)
class DataList:
    """List the data sets: what they are, how large they are, and where their files are."""

    data_dir: DataDir = None
    json: Json = False

    def run(self) -> int:
        """Print one line for each data set."""
        use_data_folder(self.data_dir)
        from persistor.data import DATASETS, data_folder

        facts = {}
        for name, data in DATASETS.items():
            where = sorted({str(path.parent) for _, path in data.found()})
            size = sum(file.size for file in data.files)
            facts[name] = {"summary": data.summary, "bytes": size, "found": where}
        if self.json:
            print(json.dumps({"folder": str(data_folder()), "data": facts}))
            return 0
        print(f"data in {data_folder()}")
        for name, fact in facts.items():
            place = f"in {fact['found'][0]}" if fact["found"] else "not here"
            size = f", {fact['bytes'] / 1e6:,.0f} MB" if fact["bytes"] else ""
            print(f"  {name:16} {place}: {fact['summary']}{size}")
        return 0


@dataclass(frozen=True)
class DataFetch:
    """Download a data set, or generate it. If interrupted, run it again to continue."""

    name: Name
    data_dir: DataDir = None
    json: Json = False

    def run(self) -> int:
        """Fetch the data set, read it, and print where it is."""
        use_data_folder(self.data_dir)
        return report_data(data_name(self.name), self.json)


@dataclass(frozen=True)
class DataCheck:
    """Check the files of a data set: verify every checksum and read every example."""

    name: Name
    data_dir: DataDir = None
    json: Json = False

    def run(self) -> int:
        """Raise if a file is missing, then check the data set."""
        use_data_folder(self.data_dir)
        from persistor.data import DATASETS

        name = data_name(self.name)
        DATASETS[name].locate()
        return report_data(name, self.json)


@dataclass(frozen=True)
class DataShow:
    """Show some examples of a task, as text or in a picture."""

    task: Annotated[
        Positional[str], arg(metavar="TASK", help="The task; `persistor list` shows all.")
    ]
    split: Annotated[str, arg(help="The part to show: train, valid or test.")] = "train"
    examples: Annotated[int, arg(help="Number of examples to show.")] = 16
    picture: Annotated[
        Path | None,
        arg(
            metavar="PATH",
            help="File for the picture.",
            help_behavior_hint="(default: ./TASK.png)",
        ),
    ] = None
    data_dir: DataDir = None
    json: Json = False

    def run(self) -> int:
        """Print texts, or draw a picture."""
        use_data_folder(self.data_dir)
        from persistor.analysis.examples import texts
        from persistor.data.dataset import SPLITS
        from persistor.plots.examples import draw_examples
        from persistor.tasks import TASKS

        if self.task not in TASKS:
            raise unknown("task", self.task, TASKS)
        if self.split not in SPLITS:
            raise unknown("split", self.split, SPLITS)
        if self.examples < 1:
            raise PersistorError(f"examples is {self.examples}; it must be at least 1")
        task = TASKS[self.task]()
        bring_data(task.data)
        split = task.split(self.split)
        if task.letters:
            examples = texts(task, split, self.examples)
            if self.json:
                print(json.dumps({"examples": [{"target": t, "text": x} for t, x in examples]}))
            else:
                print("\n\n".join(f"[{target}] {text}" for target, text in examples))
            return 0
        path = self.picture or Path(f"{self.task}.png")
        draw_examples(task, f"{self.task}, {self.split}", split, self.examples, path)
        print(json.dumps({"picture": str(path)}) if self.json else f"picture: {path}")
        return 0


@dataclass(frozen=True)
class Data:
    """List, fetch and check data sets, and look at their examples."""

    command: Annotated[
        Annotated[DataList, subcommand("list")]
        | Annotated[DataFetch, subcommand("fetch")]
        | Annotated[DataCheck, subcommand("check")]
        | Annotated[DataShow, subcommand("show")],
        OmitSubcommandPrefixes,
        OmitArgPrefixes,
    ]

    def run(self) -> int:
        """Run the chosen command."""
        return self.command.run()


def data_name(name: str) -> str:
    """The name of a data set, given its own name or that of a task which needs it."""
    from persistor.data import DATASETS

    if name in DATASETS:
        return name
    from persistor.tasks import TASKS

    needed = TASKS[name].data if name in TASKS else None
    if needed is None:
        raise unknown("data set", name, DATASETS)
    return needed


def report_data(name: str, as_json: bool) -> int:
    """Fetch and read a data set, and print where its files are."""
    from persistor.data import DATASETS

    bring_data(name)
    paths = [str(path) for _, path in DATASETS[name].found()]
    if as_json:
        print(json.dumps({"data": name, "files": paths}))
    else:
        print(f"{name} is complete: " + ", ".join(paths))
    return 0
