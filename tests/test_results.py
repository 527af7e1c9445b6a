"""Every figure in the README and in docs/results comes from a committed result file."""

import json
from pathlib import Path

import pytest

from ponderosa.measure.table import markdown
from ponderosa.reproduce import RESULTS

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "docs" / "results").glob("*.json"))


def test_every_result_that_is_listed_is_committed():
    assert {path.stem for path in FILES} >= set(RESULTS)


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
    assert table in (ROOT / "README.md").read_text()


def test_the_bench_in_the_readme_is_the_one_in_the_file():
    from ponderosa.cli.bench import COLUMNS

    found = json.loads((ROOT / "benchmarks" / "train.json").read_text())
    assert markdown(found["rows"], COLUMNS) in (ROOT / "README.md").read_text()
