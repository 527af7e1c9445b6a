"""Every figure in the README and in docs/results comes from a committed result file."""

import json
from pathlib import Path

import pytest

from ponderosa.measure.table import markdown
from ponderosa.reproduce import RESULTS

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


def test_the_benches_in_the_readme_are_those_in_the_files():
    from ponderosa.cli.bench import COLUMNS, ENGINE_README, LATENCY, STREAM, readme_rows

    readme = (ROOT / "README.md").read_text()
    train, engine, stream = (
        json.loads((ROOT / "benchmarks" / f"{name}.json").read_text()) for name in ("train", "engine", "stream")
    )
    assert markdown(train["rows"], COLUMNS) in readme
    assert markdown(readme_rows(engine["rows"]), ENGINE_README) in readme
    assert f"median share {engine['summary']['median_share']}, lowest {engine['summary']['lowest_share']}" in readme
    assert markdown(stream["rows"], STREAM) in readme
    assert markdown(stream["latency"], LATENCY) in readme
