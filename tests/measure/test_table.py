"""Tables for a terminal and for Markdown."""

import numpy as np

from ponderosa.measure.formatting import DASH
from ponderosa.measure.table import markdown, table

ROWS = [
    {"name": "LAC", "accuracy": "99.9 %", "steps": 3.1, "parameters": 12345, "learned": False},
    {"name": "PonderNet", "accuracy": None, "steps": float("nan"), "parameters": np.int64(7), "learned": True},
    {"name": "Fixed", "steps": 10.0},
]
COLUMNS = {"name": "Mechanism", "accuracy": "Accuracy", "steps": "Steps", "parameters": "Parameters", "learned": "Learned"}


def test_aligned():
    head, rule, *lines = table(ROWS, COLUMNS).splitlines()
    assert head == "Mechanism  Accuracy  Steps  Parameters  Learned"
    assert set(rule) == {"-", " "} and len(rule) == len(head)
    assert lines[0] == "LAC          99.9 %   3.10      12,345       no"
    assert lines[1] == f"PonderNet         {DASH}      {DASH}           7      yes"
    assert lines[2] == f"Fixed             {DASH}  10.00           {DASH}        {DASH}"


def test_text_is_left_aligned_without_trailing_space():
    assert table([{"a": "x", "b": "text"}, {"a": "long", "b": ""}], {"a": "A", "b": "B"}).splitlines() == [
        "A     B", "----  ----", "x     text", f"long  {DASH}",
    ]  # fmt: skip


def test_tiny_and_large_floats():
    assert table([{"a": 1e-5}, {"a": 0.25}], {"a": ""}).split()[1:] == ["1e-05", "0.25"]
    assert table([{"a": 123456.7}, {"a": 0.0}], {"a": ""}).split()[1:] == ["123,457", "0"]
    assert table([{"a": float("inf")}], {"a": ""}).split()[1:] == ["inf"]


def test_no_rows():
    assert table([], {"a": "A"}) == "A\n-"
    assert markdown([], {"a": "A"}) == "| A |\n| --- |"


def test_markdown_escapes_and_aligns():
    text = markdown([{"a": "x|y\nz", "b": 1}, {"b": 2}], {"a": "A", "b": "B"})
    assert text.splitlines() == ["| A | B |", "| --- | ---: |", r"| x\|y z | 1 |", f"| {DASH} | 2 |"]
