"""`ponderosa reproduce`: a paper's table or figure, from training to picture."""

import importlib
from argparse import ArgumentError
from pathlib import Path
from typing import Any, Literal

from jsonargparse import ArgumentParser, Namespace

from ponderosa.cli.options import at_least_one, command_line, save_json
from ponderosa.measure.environment import environment
from ponderosa.measure.plots import save_png
from ponderosa.measure.table import markdown, table
from ponderosa.reproduce import RESULTS
from ponderosa.reproduce.papers import COLUMNS, each, write_block
from ponderosa.reproduce.recipe import capped, read_recipe, results, seed_by_seed
from ponderosa.training.experiment import Help
from ponderosa.training.jobs import train_all

ABOUT = """Reproduce a table or figure of the papers: `ponderosa reproduce lac-table-1`.

Without a name all of them are listed, with their state, our figure and the paper's.

Trains what its recipe says (what is trained already is kept, what was interrupted goes on), and shows our figures beside
the paper's. The folder gets NAME.json, NAME.md and the pictures.

  {results}

`ponderosa reproduce all --budget quick` runs the lot at a size that shows that it runs, and nothing more.

With --recipe the same figure is made at another size: `ponderosa reproduce hyper-ut-figure-3 --recipe hyper-ut-paper-size`.
"""

Budget = Literal["quick", "full"]
QUICK = {"seeds": 1, "batches": 20, "examples": 200, "subset": 40}
"""Sizes of a trial, on the first task of a recipe."""
OF_DATA = ("encoder", "data_dir", "subset")
"""Options that only recipes with data of their own know."""


def main(argv: list[str]) -> None:
    listed = "\n  ".join(f"{name:20} {about}" for name, about in RESULTS.items())
    parser = ArgumentParser(
        prog="ponderosa reproduce", description=ABOUT.format(results=listed), formatter_class=Help, exit_on_error=False
    )
    parser.add_argument("name", nargs="?", help="which one, or all; without a name they are listed")
    parser.add_argument(
        "--budget", type=Budget, default="full", help="the recipe's own size, or quick: a trial of the machinery"
    )
    parser.add_argument("--folder", type=str | None, default=None, help="the folder, by default runs/reproduce/NAME")
    parser.add_argument("--out", type=str | None, default=None, help="where NAME.json, NAME.md and pictures go, if not there")
    parser.add_argument("--recipe", type=str | None, default=None, help="another recipe: a name, or a .yaml file of your own")
    parser.add_argument("--train", type=bool, default=True, help="whether to train what is missing, or show what is there")
    parser.add_argument("--seeds", type=int | None, default=None, help="how many seeds, if not the recipe's")
    parser.add_argument("--batches", type=int | None, default=None, help="the most batches per run, if not the recipe's")
    parser.add_argument("--examples", type=int | None, default=None, help="test examples, if not the recipe's")
    parser.add_argument("--encoder", type=str | None, default=None, help="the pretrained encoder of text results")
    parser.add_argument("--data_dir", type=str | None, default=None, help="the folder of text and image data sets")
    parser.add_argument(
        "--subset", type=int | None, default=None, help="the most training and test examples of a text data set"
    )
    parser.add_argument("--at_once", type=int, default=2, help="runs trained at the same time, each on one thread")
    parser.add_argument("--progress", type=bool, default=True, help="whether to show a progress bar")
    parser.add_argument("--readme", type=str | None, default=None, help="put the list into this README, in its place")
    parser.add_argument("--json", type=str | None, default=None, help="write the result to this file, too")
    options = parser.parse_args(argv)
    if options.readme is not None:
        write_block(options.readme)
        return
    if options.name is None:
        print(table(each(), COLUMNS))
        save_json(options.json, each())
        return
    if options.name not in (*RESULTS, "all"):
        raise ValueError(f"there is nothing called {options.name!r}: choose one of {', '.join(RESULTS)}, or all")
    given = {name: options[name] for name in ("seeds", "batches", "examples", "at_once") if options[name] is not None}
    at_least_one(**given)
    if options.name == "all":
        reproduce_all(options, command_line("reproduce", argv))
    else:
        print_result(reproduce(quick(options), command_line("reproduce", argv)))


def reproduce_all(options: Namespace, command: str) -> None:
    """One result after another; one that fails is named in the end and stops none of the others."""
    failed = {}
    root = Path(options.folder or f"runs/{'reproduce' if options.budget == 'full' else options.budget}")
    for name in RESULTS:
        shared = read_recipe(name).get("folder", name)
        try:
            chosen = fitting(quick(altered(options, name=name, folder=str(root / shared))))
            print_result(reproduce(chosen, command))
        except (ArgumentError, ArithmeticError, ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
            failed[name] = str(error).splitlines()[0]
            print(f"{name}: {failed[name]}")
        print()
    print(f"{len(RESULTS) - len(failed)} of {len(RESULTS)} made")
    if failed:
        raise RuntimeError("not made: " + "; ".join(f"{name} ({why})" for name, why in failed.items()))


def quick(options: Namespace) -> Namespace:
    """With the sizes of a trial, if that is asked for, as far as they are the recipe's business."""
    if options.budget != "quick":
        return options
    return fitting(altered(options, **{name: size for name, size in QUICK.items() if options[name] is None}))


def fitting(options: Namespace) -> Namespace:
    """Without what only other recipes know: an encoder means nothing to parity."""
    module, recipe = _module(options.name), read_recipe(options.recipe or options.name)
    unknown: dict[str, None] = {}
    for name in OF_DATA:
        try:
            module.jobs({**recipe, "common": {**recipe["common"], name: options[name]}}, Path(options.folder or "."))
        except (ArgumentError, TypeError, ValueError):
            unknown[name] = None
    return altered(options, **unknown)


def reproduce(options: Namespace, command: str) -> dict[str, Any]:
    """Train, collect, draw and write."""
    module = _module(options.name)
    recipe, changes = changed(read_recipe(options.recipe or options.name), options)
    root = Path(options.folder or f"runs/reproduce/{recipe.get('folder', options.recipe or options.name)}")
    groups = module.jobs(recipe, root)
    if options.train and hasattr(module, "prepare"):
        module.prepare(recipe, root, options.progress)
    if options.train and groups:
        train_all(seed_by_seed(groups), at_once=options.at_once, progress=options.progress)
    else:
        there = {name: [job for job in group if job.done_with()] for name, group in groups.items()}
        missing = sum(map(len, groups.values())) - sum(map(len, there.values()))
        if missing and not (getattr(module, "shows_part", False) and any(there.values())):
            raise ValueError(f"{missing} runs are not trained yet in {root}: leave --train out, and they will be")
        groups, changes = there, ", ".join(filter(None, [changes, f"{missing} runs are still missing" if missing else ""]))
    outcome = module.outcome({**recipe, "root": root}, groups)
    out = Path(options.out or root)
    out.mkdir(parents=True, exist_ok=True)
    for name, figure in outcome.figures.items():
        save_png(figure, out / f"{options.name}-{name}.png")
    for name, content in outcome.pages.items():
        (out / f"{options.name}-{name}").write_text(content, encoding="utf-8")
    gap = "\n\n" if "\n" in outcome.text else " "
    text = outcome.text if not changes else f"{outcome.text}{gap}(Not the recipe's own size: {changes}.)"
    found = {
        "name": options.name, "about": RESULTS[options.name], "command": command, "changes": changes, "text": text,
        "columns": outcome.columns, "rows": outcome.rows, "figures": sorted(f"{options.name}-{n}.png" for n in outcome.figures),
        "pages": sorted(f"{options.name}-{n}" for n in outcome.pages),
        "environment": environment(), "recipe": recipe,
        "runs": {name: [slim(run) for run in results(group)] for name, group in groups.items()},
        "data": outcome.data, "folder": str(out),
    }  # fmt: skip
    save_json(str(out / f"{options.name}.json"), found)
    save_json(options.json, found)
    (out / f"{options.name}.md").write_text(page(found))
    return found


def _module(name: str) -> Any:
    return importlib.import_module(f"ponderosa.reproduce.{name.replace('-', '_')}")


def altered(options: Namespace, **changes: Any) -> Namespace:
    """The same options but for some."""
    copy = options.clone()
    for name, value in changes.items():
        copy[name] = value
    return copy


def changed(recipe: dict[str, Any], options: Namespace) -> tuple[dict[str, Any], str]:
    """The recipe with the command line's own sizes, and what was changed, to be said wherever the result is."""
    if options.batches is not None:
        recipe = {**capped(recipe, options.batches), "at_most": options.batches}
    common = dict(recipe["common"])
    recipe = {**recipe, "common": common}
    if options.budget == "quick" and "tasks" in recipe:
        recipe["tasks"] = dict(list(recipe["tasks"].items())[:1])
    if options.seeds is not None:
        recipe["seeds"] = list(range(options.seeds))
    if options.batches is not None:
        common["batches"] = options.batches
    if options.examples is not None:
        recipe["examples"] = options.examples
    common |= {name: options[name] for name in OF_DATA if options[name] is not None}
    names = ("recipe", "seeds", "batches", "examples", "encoder", "subset")
    said = {name: options[name] for name in names if options[name] is not None}
    said |= {"budget": "quick"} if options.budget == "quick" else {}
    return recipe, ", ".join(f"{name} {value}" for name, value in said.items())


def slim(run: dict[str, Any]) -> dict[str, Any]:
    """A run without its training curve, which stays in its folder."""
    return {key: value for key, value in run.items() if key not in ("curve", "curriculum", "environment", "command", "folder")}


def page(found: dict[str, Any]) -> str:
    """The result as a Markdown page."""
    pictures = "\n".join(f"![{name}]({name})" for name in found["figures"])
    pages = "\n".join(f"[{name}]({name})" for name in found["pages"])
    where = ", ".join(f"{k} {v}" for k, v in found["environment"].items())
    shown = markdown(found["rows"], found["columns"])
    return f"# {found['about']}\n\n{shown}\n\n{found['text']}\n\n`{found['command']}` ({where})\n\n{pictures}\n{pages}"


def print_result(found: dict[str, Any]) -> None:
    shown = table(found["rows"], found["columns"])
    print(f"{found['about']}\n\n{shown}\n\n{found['text']}\n\n{found['folder']}/{found['name']}.md")
