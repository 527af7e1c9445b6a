"""Hyper-UT, figure 3: accuracy and depth by hops, in and out of distribution, and what the allocation of steps is worth."""

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ponderosa.reproduce import hyper_ut
from ponderosa.reproduce.hyper_ut import (
    Runs,
    average,
    build_task,
    finding,
    guessing,
    of_task,
    over_seeds,
    probe,
    unlearned,
    written,
)
from ponderosa.reproduce.recipe import Outcome, results
from ponderosa.training.jobs import Job

PICTURES = {
    "sharing": ("T32", "T32 ACT", "T32 PS", "UT"),
    "modularity": ("UT", "UT Wide", "UT+FiLM", "UPT", "Hyper-UT"),
}
"""The two rows of the paper's figure."""
MODULAR = ("UT+FiLM", "UPT", "Hyper-UT")


shows_part = True  # also of runs that are still in training


def jobs(recipe: Mapping[str, Any], root: Path) -> dict[str, list[Job]]:
    return hyper_ut.jobs(recipe, root)


def outcome(recipe: Mapping[str, Any], groups: Mapping[str, list[Job]]) -> Outcome:
    found = {
        name: [run | {"probe": probe(job, recipe)} for job, run in zip(group, results(group))] for name, group in groups.items()
    }
    rows: list[dict[str, Any]] = []
    text, figures = [], dict[str, Any]()
    for name in recipe["tasks"]:
        task, seen = build_task(recipe, name), of_task(found, name)
        if not seen:
            continue
        near, far = range(1, task.train_hops + 1), range(task.train_hops + 1, task.test_hops + 1)
        guess = {"by_difficulty": guessing(task, recipe["examples"])}
        rows += [row(name, model, runs, near, far) for model, runs in seen.items()]
        rows.append({"task": name, "model": "guessing", **accuracies([guess], near, far)})
        text.append(reading(name, seen, guess, near, far))
        figures |= {f"{name}-{title}": figure for title, figure in draw(seen, guess, near, far).items()}
    columns = {
        "task": "task", "model": "model", "seeds": "seeds", "parameters": "parameters", "near": "1-4 hops",
        **{str(h): f"{h} hops" for h in far}, "steps_near": "steps, 1-4 hops", "steps_far": "steps, 5+ hops", "limit": "limit",
        "fairness": "rank correlation of steps and hops", "dealt": "5+ hops, steps dealt at random",
    }  # fmt: skip
    probes = {name: [run["probe"] for run in runs] for name, runs in found.items() if runs}
    return Outcome(rows, columns, "\n\n".join(text), figures, {"probes": probes})


def row(task: str, model: str, runs: Runs, near: range, far: range) -> dict[str, Any]:
    """A model's line in the table."""
    dealt = [run["probe"]["dealt"] for run in runs]
    return {
        "task": task, "model": model, "seeds": len(runs), "parameters": runs[0]["parameters"], **accuracies(runs, near, far),
        "steps_near": written(over_seeds(average(run, near, "steps") for run in runs), 1),
        "steps_far": written(over_seeds(average(run, far, "steps") for run in runs), 1), "limit": runs[0]["max_steps"],
        "fairness": written(over_seeds(run["fairness"] for run in runs)),
        "dealt": written(over_seeds(average(one, far) for one in dealt if one)),
    }  # fmt: skip


def accuracies(runs: Runs, near: range, far: range) -> dict[str, str | None]:
    each = {str(hops): written(over_seeds(average(run, [hops]) for run in runs)) for hops in far}
    return {"near": written(over_seeds(average(run, near) for run in runs)), **each}


def reading(task: str, seen: Mapping[str, Runs], guess: Mapping[str, Any], near: range, far: range) -> str:
    """Which of the paper's findings hold here, from the figures alone."""

    def beyond(model: str) -> list[float]:
        return [average(run, far) for run in seen.get(model, [])]

    def steps(model: str) -> list[float]:
        return [average(run, [*near, *far], "steps") for run in seen.get(model, [])]

    about = (
        f"On {task}, accuracy on {far[0]} to {far[-1]} hops after training on {near[0]} to {near[-1]} (a guess reaches "
        f"{average(guess, far):.2f}):\n"
    )
    parts = [
        finding("sharing parameters beats not sharing them (T32 PS against T32)", beyond("T32 PS"), beyond("T32")),
        finding("ACT and sharing beat sharing alone (UT against T32 PS)", beyond("UT"), beyond("T32 PS")),
        *(finding(f"modularity adds accuracy ({model} against UT)", beyond(model), beyond("UT")) for model in MODULAR),
        finding("width adds accuracy (UT Wide against UT)", beyond("UT Wide"), beyond("UT")),
        finding("ACT takes fewer steps (T32 PS against UT)", steps("T32 PS"), steps("UT"), 1),
        *(finding(f"modularity takes fewer steps (UT against {model})", steps("UT"), steps(model), 1) for model in MODULAR),
        unlearned(task, seen, guess, near), factors(seen, near, far), *allocation(seen, far), best(task, seen, far),
    ]  # fmt: skip
    return "\n".join([about, *(f"- {part}" for part in parts if part)])


def factors(seen: Mapping[str, Runs], near: range, far: range) -> str:
    """What generating weights in factors saves, and whether it costs accuracy."""
    whole, parts = seen.get("Hyper-UT"), seen.get("ours: Hyper-UT in factors")
    if not whole or not parts:
        return ""
    said, within = [], True
    for hops in (near, far):
        ours, full = (over_seeds(average(run, hops) for run in runs) for runs in (parts, whole))
        assert ours is not None and full is not None
        within &= ours.mean >= full.mean - max(ours.deviation, full.deviation)
        said.append(f"{written(ours)} against {written(full)} on {hops[0]} to {hops[-1]} hops")
    share = parts[0]["parameters"] / whole[0]["parameters"]
    word = "within one standard deviation of it, or better" if within else "worse by more than one standard deviation"
    return f"Hyper-UT in factors has {100 * share:.0f} % of Hyper-UT's parameters and is {word}: {', '.join(said)}."


def allocation(seen: Mapping[str, Runs], far: range) -> list[str]:
    """Whether steps follow hops, and what accuracy is lost when they are dealt at random."""
    said = []
    for model, runs in seen.items():
        fair = over_seeds(run["fairness"] for run in runs)
        lost = over_seeds(
            average(run, far) - average(run["probe"]["dealt"], far)
            for run in runs if run["probe"]["dealt"]
        )  # fmt: skip
        if fair is not None and lost is not None:
            word = "follow" if fair.mean - fair.deviation > 0.1 else "do not follow"
            worth = f"dealt at random, accuracy falls by {written(lost)}"
            said.append(f"{model}'s steps {word} hops: rank correlation {written(fair)}; {worth}.")
    return said


def best(task: str, seen: Mapping[str, Runs], far: range) -> str:
    """The model and the limit that do best on more hops than in training; more steps than in training are allowed."""
    tried = []
    for model, runs in seen.items():
        for at, longer in enumerate(runs[0]["probe"]["longer"]):
            rows = [run["probe"]["longer"][at] for run in runs]
            mean = statistics.fmean(average(row, far) for row in rows)
            tried.append((mean, model, longer["max_steps"], rows))
    if not tried:
        return ""
    _, model, limit, rows = max(tried, key=lambda one: one[0])
    shown = ", ".join(f"{written(over_seeds(average(row, [hops]) for row in rows))} on {hops}" for hops in far)
    return (
        f"The best on {task}, of all models and limits on steps (tried on the test itself), is {model} with at most {limit}: "
        f"{shown} hops."
    )


def draw(seen: Mapping[str, Runs], guess: dict[str, Any], near: range, far: range) -> dict[str, Any]:
    """The paper's two rows, and thinking longer."""
    from ponderosa.reproduce import hyper_ut_plots as plots

    own = tuple(name for name in seen if name.startswith("ours"))
    drawn = {}
    for title, models in PICTURES.items():
        shown = {name: seen[name] for name in (*models, *(own if title == "modularity" else ())) if name in seen}
        if shown:
            drawn[title] = plots.by_hops(shown, guess, near)
    longer = {name: runs for name, runs in seen.items() if runs[0]["probe"]["longer"]}
    if longer:
        drawn["longer"] = plots.longer(longer, far)
    return drawn
