"""Frontier, calibration and report as a user meets them, and the page in a real browser."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ponderosa.cli import main
from tests.training.conftest import SMALL

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OWN_TASK = '''
import torch
from torch.nn.functional import cross_entropy
from ponderosa.tasks.base import Batch, Task, generator


class Largest(Task):
    """Which number is the largest?"""

    criterion = staticmethod(cross_entropy)
    input_size = length = 5
    output_size = 5
    labels = ["first", "second", "third", "fourth", "<fifth>"]

    def batch(self, split, index, size, seed=0):
        x = torch.randn(size, 5, generator=generator(split, index, seed))
        return Batch(x, x.argmax(1), torch.arange(index * size, (index + 1) * size), torch.ones(size))

    def score(self, output, target):
        return (output.argmax(-1) == target).to(output.dtype)

    def picture(self, x):
        return f'<img alt="five bars" src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">'
'''


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Small runs: fixed, LAC with two seeds, an exit; a task of tokens; a task of one's own."""
    root = tmp_path_factory.mktemp("runs")
    (root / "mine.py").write_text(OWN_TASK)
    small = ["--batches", "60", "--evaluate_every", "20"]
    for name, *words in (
        ("fixed", "--halting", "Fixed"), ("lac-0", "--halting", "LAC"), ("lac-1", "--halting", "LAC", "--seed", "1"),
        ("exit", "--halting", "ConfidenceExit"),
    ):  # fmt: skip
        main(["train", "parity", *SMALL, *small, *words, "--folder", str(root / name)])
    return root


def test_frontier(runs, tmp_path, capsys):
    folders = [str(runs / name) for name in ("fixed", "lac-0", "lac-1", "exit")]
    words = ["--examples", "200", "--settings", "4", "--progress", "false"]
    main(["frontier", *folders, *words, "--json", str(tmp_path / "f.json"), "--plot", str(tmp_path / "f.png")])
    out = capsys.readouterr().out
    assert "LAC: alpha on 200 examples, 2 seeds" in out and "ConfidenceExit: threshold" in out and "Fixed 4: max_steps" in out
    found = json.loads((tmp_path / "f.json").read_text())
    assert [run["frontier"]["seeds"] for run in found["runs"]] == [1, 2, 1]
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


def test_calibrate_then_evaluate(runs, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(runs / "exit", run)
    main(["calibrate", str(run), "--drop", "2", "--examples", "2000", "--settings", "10", "--progress", "false"])
    said = capsys.readouterr().out
    assert "at most 2 points below full depth, with probability 0.95: threshold = " in said
    value = json.loads((run / "calibration.json").read_text())["value"]
    main(["evaluate", str(run), "--examples", "200", "--json", str(tmp_path / "e.json")])
    assert "calibrated" in capsys.readouterr().out
    assert json.loads((tmp_path / "e.json").read_text())["calibration"]["value"] == value
    few = ["--drop", "1", "--examples", "50", "--progress", "false"]
    main(["calibrate", str(run), *few])
    assert "cannot be promised. The earlier calibration stays: at most 2 points" in capsys.readouterr().out
    assert json.loads((run / "calibration.json").read_text())["value"] == value
    main(["calibrate", str(run), "--undo", "true"])
    main(["calibrate", str(run), *few])
    assert "cannot be promised, so threshold = 1, which thinks longest" in capsys.readouterr().out
    main(["calibrate", str(run), "--operations", "3000", "--progress", "false"])
    assert "at most 3,000 operations" in capsys.readouterr().out
    main(["calibrate", str(run), "--drop", "50", "--knob", "max_steps", "--progress", "false"])
    assert "max_steps = 1 " in capsys.readouterr().out
    main(["evaluate", str(run), "--examples", "200"])
    assert "mean steps          1.00  of 4\n" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["calibrate", str(run)])
    assert "say either" in capsys.readouterr().err
    for drop, said in (("nan", "Got value: nan"), (".nan", "drop=nan: points of accuracy lie between"), ("-1", "drop=-1.0")):
        with pytest.raises(SystemExit):
            main(["calibrate", str(run), f"--drop={drop}", "--examples", "10"])
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["frontier", "report"])
def test_a_run_is_no_seed_of_itself(runs, command, capsys):
    with pytest.raises(SystemExit):
        main([command, str(runs / "lac-0"), str(runs / "exit" / ".." / "lac-0")])
    assert "named twice" in capsys.readouterr().err


def test_a_plot_is_a_png(runs, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["frontier", str(runs / "exit"), "--plot", str(tmp_path / "f.txt")])
    assert "ends in .png" in capsys.readouterr().err


@pytest.fixture(scope="module")
def page(runs) -> Path:
    """A report of several tasks and mechanisms."""
    own, tokens = runs / "own", runs / "tokens"
    more = ["--max_steps", "3", "--batches", "20", "--log_every", "10", "--evaluate_every", "20", "--checkpoint_every", "20",
            "--evaluate_examples", "40", "--examples", "60", "--progress", "false"]  # fmt: skip
    step = ["--step", "TransformerStep", "--step.size", "8", "--step.heads", "2", "--halting", "ACT", "--halting.unit", "token"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(runs)
        main(["train", "mine.Largest", "--halting", "PonderNet", *more, "--folder", str(own)])
        main(["train", "cpvr", "--task.length", "12", "--task.test_hops", "6", *step, *more, "--folder", str(tokens)])
        folders = [str(runs / name) for name in ("fixed", "lac-0", "lac-1", "exit", "own", "tokens")]
        out = runs / "report.html"
        main(["report", *folders, "--examples", "150", "--settings", "4", "--out", str(out), "--progress", "false"])
    return out


def test_the_report_has_all_its_parts(page):
    text = page.read_text()
    for part in ("parity", "cpvr", "largest", "Accuracy and operations", "Where the steps went", "Overthinking", "Fewest steps",
                 "Speed by batch size", "ponderosa report", "2 seeds", "&lt;fifth&gt;", "five bars", "Fixed 4"):  # fmt: skip
        assert part in text, part
    assert "<fifth>" not in text


def browser(*words: str) -> str:
    done = subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", *words],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.parametrize("width", [360, 1200])
def test_a_browser_shows_it_without_scrolling_sideways(page, tmp_path, width):
    """A frame as wide as a phone, or a screen: neither page nor table may be wider, and every figure is drawn."""
    probe = tmp_path / "probe.html"
    probe.write_text(
        f"""<iframe id="f" srcdoc="" style="width:{width}px;height:800px;border:0"></iframe><pre id="found"></pre><script>
        const f = document.getElementById("f"); f.onload = () => {{ const d = f.contentDocument;
        const drawn = [...d.querySelectorAll("svg")].filter(s => s.getBoundingClientRect().height > 50).length;
        for (const e of d.querySelectorAll("details")) e.open = true;
        const cut = [...d.querySelectorAll(".scroll")].filter(s => s.scrollWidth > s.clientWidth).length;
        found.textContent = JSON.stringify([d.documentElement.scrollWidth, drawn, d.querySelectorAll("svg").length, cut]); }};
        f.srcdoc = {json.dumps(page.read_text()).replace("</", "<" + chr(92) + "/")};</script>"""
    )
    dom = browser("--dump-dom", f"file://{probe}")
    wide, drawn, figures, cut = json.loads(dom.split('id="found">')[1].split("<")[0])
    assert wide <= width
    assert cut == 0, "a table scrolls sideways"
    assert drawn == figures > 10


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_browser_prints_it(page, tmp_path):
    browser(f"--print-to-pdf={tmp_path / 'report.pdf'}", f"file://{page}")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
