"""The tables of the paper, read from its LaTeX: rows as the package's numbers.tsv has them."""

import re

CELLS = {
    "CMRU": "cmru",
    r"$\alpha$CMRU": "alpha-cmru",
    "LRU": "lru",
    "minGRU": "mingru",
    "minGRU+CMRU": "mingru,cmru",
    r"minGRU+$\alpha$CMRU": "mingru,alpha-cmru",
}
SECTIONS = {
    "IMDb": ("imdb", "imdb"),
    "sCIFAR10": ("scifar10", "scifar10"),
    "ListOps": ("listops", "listops"),
    "Pathfinder": ("pathfinder", "pathfinder"),
    "KWS Digits": (None, "kws-digits"),
    "KWS All": (None, "kws-all"),
    "KWS Yes versus Others": (None, "kws-yes"),
}
TASKS = {"sMNIST": "smnist", "pMNIST": "pmnist"} | {
    rf"$\text{{pMNIST}}_{{{seed}}}$": f"pmnist-{seed}" for seed in (24, 36)
}
HEADS = {
    "Model Type": "cell",
    "Task Name": "task",
    "Seq Length": "length",
    "State Dim": "state",
    "Num Recs": "blocks",
    "Epsilon": "epsilon",
}
NUMBER = r"(-?[\d.]+)"
ENTRY = rf"\\shortstack{{{NUMBER} \\\\ {{\\scriptsize \[{NUMBER}; {NUMBER}\]}}}}"
COLUMNS = ("table", "task", "length", "cell", "epsilon", "state", "blocks", "numbers")

# What the captions say of a whole table.
PARITY = {"table": "parity", "task": "parity", "state": "1", "blocks": "1"}
DISCRETE = {"task": "copy-first-discrete", "epsilon": "1", "state": "4", "blocks": "1"}
CLEAN = {"task": "copy-first-clean", "epsilon": "1", "state": "4", "blocks": "1"}
NOISY = {"table": "copy-first-noisy", "task": "copy-first-noisy", "epsilon": "1"}
PERMUTED = {"table": "pmnist", "state": "32", "blocks": "1"}
SHAKESPEARE = {"table": "shakespeare", "task": "shakespeare", "epsilon": "anneal"}
SHAKESPEARE |= {"state": "256", "blocks": "4"}  # our choice: the paper does not say


def rows(text):
    """Every row of every table of results."""
    return [
        *parity(text),
        *long(text, "tab:copy_first_discrete", table="copy-first-discrete", **DISCRETE),
        *long(text, "tab:copy_first_continuous", table="copy-first-clean", **CLEAN),
        *long(text, "tab:copy_first_continuous_noisy_by_arch_part1", **NOISY),
        *long(text, "tab:copy_first_continuous_noisy_by_arch_part2", **NOISY),
        *long(text, "tab:copy_first_continuous_noisy_by_arch_part3", **NOISY),
        *smnist(text, "tab:sMNIST_h32_epsilon", table="smnist-epsilon", state="32"),
        *smnist(text, "tab:sMNIST_eps1_state_dim", table="smnist-state"),
        *annealing(text),
        *long(text, "tab:epsilon_comparison_h32_part1", **PERMUTED),
        *long(text, "tab:epsilon_comparison_h32_part2", **PERMUTED),
        *grid(text, "tab:part3_tasks_combined"),
        *shakespeare(text),
        *grid(text, "tab:audio_tasks_r1", table="kws-r1"),
        *grid(text, "tab:audio_yes_others_r1", table="kws-yes", task="kws-yes"),
        *grid(text, "tab:audio_tasks_r2", table="kws-r2"),
    ]


def labels(text):
    """The labels of all tables."""
    return re.findall(r"\\label{(tab:[^}]+)}", text)


def lines(text, label):
    """The lines of a table, each a list of its cells, an entry being `mean low high`."""
    body = text[text.index(rf"\label{{{label}}}") :]
    body = re.search(r"\\begin{tabular}{[lc|]+}(.*?)\\end{tabular}", body, re.DOTALL)[1]
    body = re.sub(r"\\boldsymbol{(\\alpha)}", r"\1", body)
    body = re.sub(ENTRY, r"\1 \2 \3", body)
    for _ in range(3):  # colours and bold, one inside the other
        body = re.sub(r"\\textcolor{\w+}{([^{}]*)}", r"\1", body)
        body = re.sub(r"\\textbf{([^{}]*)}", r"\1", body)
    body = re.sub(r"\\shortstack{([^{}]*?)\\\\ *([^{}]*)}", r"\1\2", body)
    body = re.sub(r"\\shortstack{(\S+) \\\\ {\\scriptsize ([^}]*)}}", r"\1 \2", body)
    body = re.sub(r"\\(?:top|mid|bottom)rule|\\cmidrule\S+", "", body)
    return [
        [cell.strip() for cell in line.split("&")] for line in body.split(r"\\") if line.strip()
    ]


def row(cell, numbers, **facts):
    """One row; epsilon only where the cell has one."""
    facts = {"length": "", "epsilon": "", **facts, "cell": cell, "numbers": numbers}
    if "cmru" not in cell:
        facts["epsilon"] = ""
    return tuple(facts[name] for name in COLUMNS)


def short(epsilon):
    """0.10 as 0.1, --- as nothing."""
    return "" if epsilon == "---" else f"{float(epsilon):g}"


def long(text, label, **facts):
    """A table with a line an entry."""
    head, *rest = lines(text, label)
    for line in rest:
        found = dict(zip(map(HEADS.get, head[:-1]), line[:-1], strict=True))
        if "epsilon" in found:
            found["epsilon"] = short(found["epsilon"])
        if "task" in found:
            found["task"] = TASKS[found["task"]]
        yield row(CELLS[found.pop("cell")], line[-1], **{**facts, **found})


def smnist(text, label, **facts):
    """One of the two tables of sMNIST."""
    return long(text, label, task="smnist", blocks="1", **facts)


def grid(text, label, **facts):
    """A table with a line for each (r, d), in sections, and a column a cell."""
    head, *rest = lines(text, label)
    for line in rest:
        if section := re.match(r"\\multicolumn\{5\}\{c\}\{(.*)\}", line[0]):
            table, task = SECTIONS[section[1]]
            facts = facts | {"task": task} | ({"table": table} if table else {})
            continue
        blocks, state = re.findall(r"\d+", line[0])
        for cell, numbers in zip(head[1:], line[1:], strict=True):
            yield row(CELLS[cell], numbers, **facts, state=state, blocks=blocks, epsilon="1")


def parity(text):
    """Two stacked tables, each with a line of cells, one of epsilons and one of entries."""
    found = lines(text, "tab:Parity_alphaCMRU")
    for models, epsilons, entries in (found[:3], found[3:]):
        for model, epsilon, numbers in zip(models[1:], epsilons[1:], entries[1:], strict=True):
            yield row(CELLS[model], numbers, **PARITY, epsilon=short(epsilon))


def annealing(text):
    """A line for each cell and regime, a column for each state width."""
    _, states, *rest = lines(text, "tab:part4_sMNIST_decaying")
    for line in rest:
        cell, regime = line[0].split(" ", 1)
        epsilon = re.sub(r"\D", "", regime) or "anneal"
        for state, numbers in zip(states[1:], line[1:], strict=True):
            facts = {"table": "annealing", "task": "smnist", "blocks": "1"}
            yield row(CELLS[cell], numbers, **facts, epsilon=epsilon, state=state)


def shakespeare(text):
    """One line, a column a cell."""
    head, line = lines(text, "tab:lm_shakespeare")
    for cell, numbers in zip(head[1:], line[1:], strict=True):
        yield row(CELLS[cell], numbers, **SHAKESPEARE)


def budgets(text):
    """The steps given to each task."""
    head, line = lines(text, "tab:training_budget")
    steps = [int(number.replace(",", "")) for number in line[1:]]
    return dict(zip(head[1:], steps, strict=True))
