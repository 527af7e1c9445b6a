"""`ponderosa classify`: batches of texts through an adaptive model, and what that saved."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from ponderosa.adapt import load
from ponderosa.cli.options import at_least_one, command_line, save_json
from ponderosa.measure.coloured import coloured, page
from ponderosa.measure.environment import environment
from ponderosa.measure.saving import Saving
from ponderosa.measure.table import table
from ponderosa.solution import Solution
from ponderosa.training.experiment import Help

ABOUT = """Classify texts with a model that `ponderosa adapt` or po.adapt made, in batches, and show what was saved and where.

  ponderosa classify runs/trec/model --texts questions.txt --batch_size 32 --html depths.html

One text per line, from a file or from standard input. Each batch is answered twice, as the model halts and at full depth.
"""


def main(argv: list[str]) -> None:
    parser = ArgumentParser(prog="ponderosa classify", description=ABOUT, formatter_class=Help, exit_on_error=False)
    parser.add_argument("model", help="the model's folder")
    parser.add_argument("--texts", type=str, default="-", help="a file with one text per line; - for standard input")
    parser.add_argument("--batch_size", type=int, default=32, help="texts at once")
    parser.add_argument("--max_tokens", type=int, default=512, help="where longer texts are clipped")
    parser.add_argument("--show", type=int, default=5, help="answers to print")
    parser.add_argument("--html", type=str | None, default=None, help="write the shown texts, coloured by depth, to this file")
    parser.add_argument("--json", type=str | None, default=None, help="write answers and figures to this file")
    options = parser.parse_args(argv)
    at_least_one(batch_size=options.batch_size, max_tokens=options.max_tokens)
    fast, tokenizer = open_model(options.model)
    texts = [line.strip() for line in _lines(options.texts) if line.strip()]
    if not texts:
        raise ValueError("there are no texts: give a file with one per line, --texts FILE, or pipe them in")
    saving = Saving(fast.net)
    answers = list(classify(fast, tokenizer, texts, saving, options.batch_size, options.max_tokens))
    found = saving.summary()
    show(answers[: options.show], found)
    if options.html:
        write_page(Path(options.html), answers[: options.show], found["layers"])
        print(f"\n{options.html}")
    save_json(
        options.json, {**found, "answers": answers, "command": command_line("classify", argv), "environment": environment()}
    )


def write_page(path: Path, answers: list[dict[str, Any]], layers: int) -> None:
    """Answered texts as a page, their words coloured by depth."""
    lines = [(f"{a['label']} ({a['score']:.2f})", coloured(a["tokens"], a["depths"], layers)) for a in answers]
    path.write_text(page(f"Depth of each word, of {layers} layers", lines), encoding="utf-8")


def open_model(folder: str | Path) -> tuple[Any, Any]:
    """An adaptive model and the tokenizer beside it."""
    if not Path(folder, "config.json").is_file():
        raise FileNotFoundError(f"{folder} is not a model's folder: `ponderosa adapt` writes one, RUN/model")
    fast = load(folder).eval()
    from transformers import AutoTokenizer

    return fast, AutoTokenizer.from_pretrained(folder)


def _lines(path: str) -> list[str]:
    return sys.stdin.readlines() if path == "-" else Path(path).read_text(encoding="utf-8", errors="replace").splitlines()


def classify(
    fast: Any, tokenizer: Any, texts: list[str], saving: Saving, batch_size: int, max_tokens: int
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """The answers in order: label, its probability, tokens and their depths."""
    for start in range(0, len(texts), batch_size):
        given = tokenizer(
            texts[start : start + batch_size], padding=True, truncation=True, max_length=max_tokens, return_tensors="pt"
        )
        mask = given["attention_mask"].bool()
        solution = saving.answer(given["input_ids"], mask)
        for row, ids in enumerate(given["input_ids"]):
            yield _answer(fast, tokenizer.convert_ids_to_tokens(ids[mask[row]]), solution, row)


def _answer(fast: Any, tokens: list[str], solution: Solution, row: int) -> dict[str, Any]:
    score, label = solution.output[row].softmax(-1).max(-1)
    steps = solution.steps[row]
    depths = steps[: len(tokens)].tolist() if steps.ndim else [int(steps)] * len(tokens)
    return {"label": fast.config.id2label[int(label)], "score": float(score), "tokens": tokens, "depths": depths}


def show(answers: list[dict[str, Any]], found: dict[str, Any]) -> None:
    """Some answers, the saving, and the share of tokens that each layer computed."""
    rows = [{**a, "text": " ".join(a["tokens"])[:70], "score": f"{a['score']:.2f}",
             "depth": f"{sum(a['depths']) / max(len(a['depths']), 1):.1f}"} for a in answers]  # fmt: skip
    print(table(rows, {"label": "label", "score": "probability", "depth": "mean depth", "text": "text"}))
    print()
    print(table([{"layer": n + 1, "share": f"{share:.0%}"} for n, share in enumerate(found["by_layer"])],
                {"layer": "layer", "share": "tokens computed"}))  # fmt: skip
    print(
        f"\n{found['examples']:,} texts, {found['tokens']:,} tokens, "
        f"mean depth {found['mean_depth']:.2f} of {found['layers']}.\n"
        f"Operations {found['operations']:,.0f} of {found['full_operations']:,.0f} per text.\n"
        f"{found['microseconds']:,.0f} us per text against {found['full_microseconds']:,.0f} at full depth: "
        f"{found['speedup']:.2f} times sooner, at most {found['bound']:.2f} are possible "
        f"({found['estimation_microseconds']:.0f} us of it to look the depths up)."
    )
