"""Hyper-UT, figure 8 (appendix B): what is wrong with the wrong answers of a T5 with a scratch-pad."""

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ponderosa.reproduce import hyper_ut_figure_5
from ponderosa.reproduce.hyper_ut import Runs, of_task, over_seeds, written
from ponderosa.reproduce.hyper_ut_figure_5 import WITH, numbers
from ponderosa.reproduce.recipe import Outcome, results
from ponderosa.tasks.cpvr_answers import KINDS, MALFORMED
from ponderosa.training.jobs import Job

shows_part = True  # also of runs that are still in training

ERRORS = KINDS[1:]
LABEL, PAD = ERRORS[:2]
BOTH = ERRORS[2:4]
NAMES = dict(zip(ERRORS, ("label wrong", "pad inexact", "both, consistent", "both, inconsistent", MALFORMED), strict=True))
"""Short enough for a legend."""


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    return hyper_ut_figure_5.jobs(recipe, root)


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    from ponderosa.reproduce.hyper_ut_plots import stacked

    found = {name: results(group) for name, group in groups.items()}
    rows: list[dict[str, Any]] = []
    text, figures = [KINDS_SAID, hyper_ut_figure_5.about(recipe)], dict[str, Any]()
    for name in recipe["tasks"]:
        runs = of_task(found, name).get(WITH)
        if not runs:
            continue
        task = numbers(recipe, name)
        hops = range(1, task.test_hops + 1)
        rows += [row(name, runs, h) for h in hops]
        shares = {kind: [statistics.fmean(share(run, h, kind) for run in runs) for h in hops] for kind in ERRORS}
        text.append(reading(name, shares, task.train_hops))
        figures[name] = stacked({NAMES[kind]: values for kind, values in shares.items()}, list(hops), task.train_hops)
    columns = {"task": "task", "hops": "hops", "rounds": "rounds"} | {kind: f"{kind}, %" for kind in KINDS}
    return Outcome(rows, columns, "\n\n".join(text), figures)


KINDS_SAID = (
    "Shares of all answers in percent, mean ± standard deviation over rounds; each answer is of exactly one kind. Wrong and "
    "consistent: the pad ends with the label that was written. Malformed: anything but `LABEL # NUMBER ... NUMBER` to the "
    "letter, an answer without an end included; such an answer is right in nothing."
)


def share(run: Mapping[str, Any], hops: int, kind: str) -> float:
    return next(row["kinds"][kind] for row in run["by_difficulty"] if row["difficulty"] == hops)


def row(task: str, runs: Runs, hops: int) -> dict[str, Any]:
    shares = {kind: written(over_seeds(100 * share(run, hops, kind) for run in runs), 1) for kind in KINDS}
    return {"task": task, "hops": hops, "rounds": len(runs), **shares}


def reading(task: str, shares: Mapping[str, list[float]], train_hops: int) -> str:
    """Which of the paper's findings hold here, from the shares by hops (1, 2, ...)."""
    both = [sum(parts) for parts in zip(*(shares[kind] for kind in BOTH), strict=True)]
    first, second = ([], [])  # the hops at which an exact pad behind a wrong label leads, and at which neither comes second
    for at, parts in enumerate(zip(shares[LABEL], shares[PAD], both, strict=True), 1):
        order = sorted(parts, reverse=True)
        first += [at] if parts[0] == order[0] > 0 else []
        second += [at] if parts[2] == order[1] > 0 else []
    most, pad = max(shares[MALFORMED]), shares[PAD]
    lines = [
        f"The commonest error is an exact pad behind a wrong label, at every number of hops: {_at(first, len(both))}.",
        f"A right label before an inexact pad emerges with more hops and stays small: {pad[0]:.1%} at 1 hop, "
        f"{max(pad[:train_hops]):.1%} at most up to {train_hops} hops, {max(pad[train_hops:]):.1%} at most beyond.",
        f"Neither right is the second commonest error: {_at(second, len(both))}; it is {both[train_hops - 1]:.1%} of all "
        f"answers at {train_hops} hops and {both[-1]:.1%} at {len(both)}.",
        f"Malformed answers are {most:.1%} at most." if most else "No answer is malformed.",
    ]  # fmt: skip
    return "\n".join([f"On {task}, the paper's findings:\n", *(f"- {line}" for line in lines)])


def _at(hops: list[int], most: int) -> str:
    """ "holds", or where it does."""
    if len(hops) == most:
        return "holds"
    return f"holds at {', '.join(map(str, hops))} hops only" if hops else "does not hold at any"
