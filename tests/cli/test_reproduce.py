"""`ponderosa reproduce`: the list, and all of it at a quick size."""

import json

import pytest
from jsonargparse import Namespace

from ponderosa.cli import main, reproduce


def asked(monkeypatch, *words):
    """What each result is asked for; the second one fails."""
    monkeypatch.setattr(reproduce, "RESULTS", {"lac-table-1": "", "hyper-ut-figure-4": "", "faster-dat-table-3": ""})
    seen = {}

    def made(options, command):
        recipe, changes = reproduce.changed(reproduce.read_recipe(options.name), options)
        seen[options.name] = (options, recipe, changes)
        if options.name == "hyper-ut-figure-4":
            raise RuntimeError("no room\nat all")
        return {"about": "", "rows": [{"a": 1}], "columns": {"a": "a"}, "text": changes, "folder": "", "name": options.name}

    monkeypatch.setattr(reproduce, "reproduce", made)
    with pytest.raises(SystemExit):
        main(["reproduce", "all", *words])
    return seen


def test_all_at_a_quick_size(monkeypatch, capsys):
    """Each takes what it knows, shared runs lie in one folder, and a failure stops none of the others."""
    seen = asked(monkeypatch, "--budget", "quick", "--encoder", "e", "--data_dir", "d")
    out = capsys.readouterr()
    assert "2 of 3 made" in out.out
    assert "not made: hyper-ut-figure-4 (no room)" in out.err
    _, recipe, changes = seen["lac-table-1"]
    assert (recipe["seeds"], recipe["common"]["batches"], recipe["examples"]) == ([0], 20, 200)
    assert not {"encoder", "data_dir", "subset"} & set(recipe["common"])
    assert changes == "seeds 1, batches 20, examples 200, budget quick"
    assert seen["hyper-ut-figure-4"][0].folder == "runs/quick/hyper-ut-figure-3"
    assert list(seen["hyper-ut-figure-4"][1]["tasks"]) == ["plain"]
    text = seen["faster-dat-table-3"][1]
    assert (text["common"]["encoder"], text["common"]["data_dir"], text["common"]["subset"]) == ("e", "d", 40)
    assert list(text["tasks"]) == ["trec"]


def test_what_only_other_recipes_know_is_left_out():
    parser_options = {"recipe": None, "folder": None, "encoder": "e", "data_dir": "d", "subset": 40}
    for name, known in (("hyper-ut-paper-size", False), ("pondernet-parity", False), ("faster-dat-table-2", True)):
        kept = reproduce.fitting(Namespace(name=name, **parser_options))
        assert (kept.encoder == "e") == (kept.data_dir == "d") == (kept.subset == 40) == known


def test_all_at_full_size_is_the_recipes_own(monkeypatch):
    seen = asked(monkeypatch, "--folder", "here")
    assert seen["lac-table-1"][2] == ""
    assert seen["lac-table-1"][0].folder == "here/lac-table-1"
    assert len(seen["faster-dat-table-3"][1]["tasks"]) == 5


def test_the_list(tmp_path, capsys):
    main(["reproduce", "--json", str(tmp_path / "list.json")])
    assert "LAC" in capsys.readouterr().out
    rows = json.loads((tmp_path / "list.json").read_text())
    assert len(rows) == 29
    assert rows[0]["command"] == "ponderosa reproduce lac-table-1"


def test_a_readme_without_a_place_is_refused(tmp_path, capsys):
    (tmp_path / "README.md").write_text("# Mine\n")
    with pytest.raises(SystemExit):
        main(["reproduce", "--readme", str(tmp_path / "README.md")])
    assert "has no place for the table" in capsys.readouterr().err
