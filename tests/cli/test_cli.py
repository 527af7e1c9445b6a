"""The command line as a user meets it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ponderosa.reproduce.recipe import read_recipe
from tests.training.conftest import SMALL, command, environment, train

ROOT = Path(__file__).parents[2]


def call(*words, **options):
    options |= {"capture_output": True, "text": True, "timeout": 300, "stdin": subprocess.DEVNULL}
    return subprocess.run(command(*words), env=environment(), check=False, **options)


def test_help_needs_no_torch():
    code = "import sys; sys.argv[1:] = ['--help']; from ponderosa.cli import main; main(); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "ponderosa compare parity" in done.stdout


@pytest.mark.parametrize("name", ["train", "evaluate", "compare", "reproduce", "bench"])
def test_every_command_has_help_that_shows_how(name):
    done = call(name, "--help")
    assert done.returncode == 0
    assert "--json" in done.stdout
    if name in ("train", "compare"):
        assert "LAC" in done.stdout
        assert "alpha=1.0" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fly"], "choose one of train, evaluate"),
        (["train", "chess"], "there is no task 'chess'"),
        (["train", "parity", "--halting", "LAK"], "known names: ACT, LAC"),
        (["train", "parity", "--halting", "LAC", "--halting.alfa", "1"], "alfa"),
        (["train", "parity", "--halting", "LAC", "--halting.alpha", "7"], "alpha=7.0"),
        (["train", "parity", "--max_steps", "0"], "max_steps=0"),
        (["train", "parity", "--task.length", "0"], "length=0"),
        (["train", "parity", "--batch_size", "0"], "batch_size=0"),
        (["evaluate", "no/such/run"], "not a run"),
        (["reproduce", "lac-table-99"], "choose one of lac-table-1"),
    ],
)
def test_errors_are_one_message_and_exit_code_2(tmp_path, words, said):
    done = call(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not [p for p in tmp_path.rglob("*") if p.is_file()], "a refused command leaves nothing behind"


def test_train_then_evaluate(tmp_path):
    run = tmp_path / "run"
    done = train(run, "--halting", "LAC", "--batches", "40", "--json", tmp_path / "train.json")
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
    seen = call("evaluate", run, "--examples", "300", "--json", tmp_path / "evaluate.json")
    assert seen.returncode == 0, seen.stderr
    trained, evaluated = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("train", "evaluate"))
    assert trained["batches"] == 40
    assert evaluated["examples"] == 300
    assert evaluated["operations"] <= evaluated["full_operations"]
    assert sum(evaluated["histogram"]) == pytest.approx(1)


def test_a_halting_of_ones_own_by_dotted_path(tmp_path):
    module = tmp_path / "mine.py"
    module.write_text((ROOT / "examples" / "own_halting.py").read_text())
    words = ["train", "parity", *SMALL, "--folder", tmp_path / "run", "--batches", "20"]
    done = call(*words, "--halting", "mine.StopWhenStill", "--halting.least", "0.5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "least: 0.5" in (tmp_path / "run" / "config.yaml").read_text()


def test_compare_ends_with_a_table_and_a_report(tmp_path):
    words = ["compare", "parity", *SMALL, "--batches", "30", "--folder", tmp_path / "all", "--json", tmp_path / "all.json"]
    done = call(*words)
    assert done.returncode == 0, done.stderr
    for name in ("Fixed", "ACT", "PonderNet", "LAC"):
        assert name in done.stdout
    report = tmp_path / "all" / "report.html"
    assert str(report) in done.stdout
    assert "<svg" in report.read_text()
    runs = json.loads((tmp_path / "all.json").read_text())["runs"]
    assert [run["name"] for run in runs] == ["Fixed", "ACT", "PonderNet", "LAC"]


TOKENS = [
    "--task.length", "12", "--task.test_hops", "6", "--step", "TransformerStep", "--step.size", "8", "--step.heads", "2",
    "--max_steps", "3", "--batches", "20", "--log_every", "10", "--evaluate_every", "20", "--checkpoint_every", "20",
    "--evaluate_examples", "40", "--examples", "60", "--progress", "false",
]  # fmt: skip


def test_a_task_of_sequences_and_thinking_longer(tmp_path):
    run, words = tmp_path / "run", ["--positions", "sinusoidal", "--read_out", "mean", "--schedule", "cosine"]
    done = call("train", "cpvr", *TOKENS, *words, "--halting", "ACT", "--halting.unit", "token", "--folder", run)
    assert done.returncode == 0, done.stderr
    levels = [line.split(",")[1] for line in (run / "difficulty.csv").read_text().splitlines()[1:]]
    assert levels == ["1", "2", "3", "4"]
    seen = call(
        "evaluate", run, "--examples", "60", "--max_steps", "7", "--limits", "[1,9]", "--json", tmp_path / "evaluate.json"
    )
    assert seen.returncode == 0, seen.stderr
    assert "accuracy with other limits" in seen.stdout
    found = json.loads((tmp_path / "evaluate.json").read_text())
    assert found["max_steps"] == len(found["histogram"]) == 7
    assert [row["difficulty"] for row in found["by_difficulty"]] == [1, 2, 3, 4, 5, 6]
    assert [row["max_steps"] for row in found["longer"]] == [1, 9]
    assert found["longer"][0]["mean_steps"] == 1


SIZES = ["--seeds", "1", "--batches", "1", "--examples", "50", "--progress", "false"]


@pytest.mark.parametrize("name", ["lac-table-1", "pondernet-parity"])
def test_reproduce_at_a_tiny_size(tmp_path, name):
    found = reproduced(tmp_path, name)
    assert "Not the recipe's own size: seeds 1, batches 1, examples 50" in found["text"]


def reproduced(tmp_path, name, *words):
    done = call("reproduce", name, *SIZES, *words, "--folder", tmp_path / "runs", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out" / f"{name}.json").read_text())
    for picture in found["figures"]:
        assert (tmp_path / "out" / picture).read_bytes().startswith(b"\x89PNG")
    assert found["rows"]
    return found


def test_the_figures_of_hyper_ut_share_their_runs(tmp_path):
    """A recipe of one's own with fewer models; figures 4 and 7, and a look at what is there, train nothing again."""
    tiny = tmp_path / "tiny.yaml"
    task = "{plain: {task: {class_path: ponderosa.tasks.CPVR, init_args: {length: 12, test_hops: 6}}}}"
    models = "{extends: hyper-ut-figure-3, longer: [2, 4], tasks: %s, models: [%s]}"
    tiny.write_text(models % (task, "UT, T32"))
    found = reproduced(tmp_path, "hyper-ut-figure-3", "--recipe", tiny)
    assert [row["model"] for row in found["rows"]] == ["UT", "T32", "guessing"]
    assert "sharing parameters beats not sharing them (T32 PS against T32): not trained here" in found["text"]
    assert "UT's steps" in found["text"]
    assert set(found["figures"]) == {f"hyper-ut-figure-3-plain-{name}.png" for name in ("sharing", "modularity", "longer")}
    trained = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("result.json")}
    tiny.write_text(models % (task, "T12, T32"))
    found = reproduced(tmp_path, "hyper-ut-figure-7", "--recipe", tiny, "--train", "false")
    assert [row["model"] for row in found["rows"]] == ["T32", "guessing"]
    assert "1 runs are still missing" in found["text"]
    tiny.write_text(models % (task, "UT"))
    found = reproduced(tmp_path, "hyper-ut-figure-4", "--recipe", tiny)
    assert [row["hops"] for row in found["rows"]] == [1, 2, 3, 4]
    assert trained == {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("result.json")}


def test_models_of_another_size_take_one_step(tmp_path):
    """The command of the paper-size models, on the recipe of the small ones."""
    small = tmp_path / "small.yaml"
    task = "{plain: {task: {class_path: ponderosa.tasks.CPVR, init_args: {length: 12}}}}"
    paper = "{T12: {hidden: 48, mlp: 192, layers: 3, heads: 3}}"
    small.write_text(f"{{extends: hyper-ut-figure-3, tasks: {task}, one_step: 2, paper: {paper}}}")
    rows = {row["model"]: row for row in reproduced(tmp_path, "hyper-ut-paper-size", "--recipe", small)["rows"]}
    assert set(rows) == set(read_recipe("hyper-ut-figure-3")["runs"])
    assert rows["T12"]["shape"] == rows["T12"]["paper"] == "48, 192, 3, 3"
    assert rows["UT"]["per_step"] == 28_272  # 4 d^2 + 4 d for the attention, 8 d^2 + 5 d for the MLP, 4 d for the norms
