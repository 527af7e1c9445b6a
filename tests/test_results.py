"""Every figure in the README and in docs/results comes from a committed result file."""

import json
import re
from pathlib import Path

import pytest

from ponderosa.measure.table import markdown
from ponderosa.reproduce import RESULTS
from ponderosa.reproduce.papers import block, each, entries

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "docs" / "results").glob("*.json"))


def test_every_result_that_is_listed_is_committed_or_said_to_be_missing():
    page = (ROOT / "docs" / "results" / "README.md").read_text()
    missing = {name for name in RESULTS if f"- `{name}`\n" in page}
    assert {path.stem for path in FILES} == set(RESULTS) - missing


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_pages_show_what_the_file_says(path):
    found = json.loads(path.read_text())
    table = markdown(found["rows"], found["columns"])
    page = path.with_suffix(".md").read_text()
    assert table in page
    assert found["text"] in page
    for picture in found["figures"]:
        assert (path.parent / picture).exists()
        assert picture in page
    readme = (ROOT / "README.md").read_text()
    assert table in readme or f"docs/results/{path.stem}.md" in readme


def bench(name):
    return json.loads((ROOT / "benchmarks" / f"{name}.json").read_text())


def test_the_tables_of_speed_are_those_in_the_files():
    from ponderosa.cli.bench import COLUMNS, LATENCY, SHOWN_ENGINE, STREAM, shown_rows

    page, train, engine, stream = (ROOT / "docs" / "speed.md").read_text(), bench("train"), bench("engine"), bench("stream")
    assert markdown(train["rows"], COLUMNS) in page
    assert markdown(shown_rows(engine["rows"]), SHOWN_ENGINE) in page
    assert f"median share {engine['summary']['median_share']}, lowest {engine['summary']['lowest_share']}" in page
    assert f"Of the {len(engine['rows'])} rows of the file, those with at least 10 ms of work" in page
    assert f"in training {engine['summary']['lowest_training_share']} or more" in page
    assert markdown(stream["rows"], STREAM) in page
    assert markdown(stream["latency"], LATENCY) in page
    assert f"hold {stream['memory']['peak_mb']:.0f} MB, as much as a tenth of them" in page
    assert stream["memory"]["peak_mb"] - stream["memory"]["peak_mb_at_a_tenth"] < 1


def test_the_tables_of_adaptive_decoding_are_those_in_the_file():
    from ponderosa.cli.decode import BY_HOPS, COST

    page, found = (ROOT / path for path in ("docs/text-to-text.md", "benchmarks/decoding.json"))
    figures = json.loads(found.read_text())
    assert markdown(figures["by_difficulty"], BY_HOPS) in page.read_text()
    assert markdown(figures["cost"], COST) in page.read_text()


def test_the_sentences_in_the_readme_say_what_is_in_the_files():
    readme, engine, stream, race = (ROOT / "README.md").read_text(), bench("engine"), bench("stream"), bench("transformer")
    ours = {(row["task"], row["who"]): f"{row['speedup']:.2f}" for row in bench("train")["rows"]}
    for task, words in (
        ("PonderNet", "training PonderNet on parity is {eager} times (compiled {compiled}) as fast as labml-nn"),
        ("ACT, 20 steps", "ACT at 20 steps {eager} times ({compiled}) as fast"),
        ("ACT, few steps", "at 3 steps {eager} times"),
    ):
        given = {how: ours[task, f"ponderosa {how}"] for how in ("eager", "compiled")}
        assert words.format(**given) in readme
    summary = engine["summary"]
    assert f"a median of {summary['median_share']} of the ideal speed" in readme
    assert f"the worst row {summary['lowest_share']};" in readme
    (skewed,) = (row for row in stream["rows"] if (row["model"], row["spread"]) == ("stack", "skewed"))
    assert f"{skewed['over_full']} times as many as full depth, and {skewed['over_stop']} times" in readme

    def spread(what):
        found = [row["speedup"] for row in race["rows"] if row["what"].startswith(what)]
        return min(found), max(found)

    low, high = spread("training")
    assert f"training {low:.2f} to {high:.2f}x" in readme
    for what, words in (
        ("inference, the same gate", "inference with the same gate"),
        ("inference, equal steps", "at about equal mean steps"),
    ):
        low, high = spread(what)
        assert f"{words} {low:.1f} to {high:.1f}x" in readme


def test_the_frontiers_in_the_docs_are_those_in_the_file():
    from ponderosa.cli.frontier import SHOWN, shown

    found = json.loads((ROOT / "benchmarks" / "frontier.json").read_text())
    assert markdown(shown(found["runs"]), SHOWN) in (ROOT / "docs" / "measure.md").read_text()


PAPERS = {"LAC": (2, [1]), "PonderNet report": (0, range(1, 13)), "Hyper-UT": (0, range(3, 9))}


def test_every_table_and_figure_of_the_papers_is_listed_once():
    listed = [(row["paper"], row["items"]) for row in each()]
    wanted = [(paper, f"table {n + 1}") for paper, (tables, _) in PAPERS.items() for n in range(tables)]
    wanted += [(paper, f"figure {n}") for paper, (_, figures) in PAPERS.items() for n in figures]
    wanted += [("Faster depth-adaptive", f"table {n}") for n in range(1, 5)]
    wanted += [("Faster depth-adaptive", f"figure {n}") for n in (1, 3, 4, 5)]
    assert sorted(listed) == sorted(wanted)


@pytest.mark.parametrize("entry", entries(), ids=lambda e: f"{e.paper} {e.items[0]}")
def test_the_states_are_those_of_the_result_files(entry):
    """Whoever commits a result says in docs/results/papers.yaml what it came to, with figures that stand on its page."""
    path = ROOT / "docs" / "results" / f"{entry.result}.json"
    assert path.exists() == (entry.state != "not tried"), f"say the state of {entry.result} in docs/results/papers.yaml"
    assert (entry.ours is not None) == path.exists()
    if not path.exists():
        return
    assert entry.command
    found, page = json.loads(path.read_text()), path.with_suffix(".md").read_text()
    assert entry.state != "reproduced" or not found["changes"], "runs are missing, or it is not the recipe's own size: partly"
    for number in re.findall(r"\d[\d,.]*\d|\d", entry.ours):
        assert number in page, f"{number} of {entry.ours!r} is not on the page of {entry.result}"


def test_the_readme_shows_what_became_of_them():
    assert block() in (ROOT / "README.md").read_text(), "ponderosa reproduce --readme README.md"
