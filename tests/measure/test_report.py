"""The report: whole, safe, self-contained, and the same for the same result."""

import builtins
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from ponderosa.measure import plots
from ponderosa.measure.figure import INK, PALETTE, looks
from ponderosa.measure.formatting import DASH, NBSP, TIMES, duration, percent, quantity
from ponderosa.measure.report import render, write_report
from ponderosa.measure.verdict import verdict

VOID = {"meta", "link", "br", "wbr"}


def make_run(name="LAC", steps=3.0, accuracy=0.99, **other):
    return {
        "name": name, "halting": f"{name}()", "accuracy": accuracy, "mean_steps": steps, "max_steps": 10,
        "operations": 4e4 * steps, "full_operations": 4e5, "microseconds": 0.8 * steps, "full_microseconds": 8.0,
        "train_seconds": 41.0, "batches": 200, "examples": 20000, "parameters": 12345, "seed": 0,
        "curve": [{"batch": b, "accuracy": 0.5 + b / 500, "steps": 9.0, "validation_accuracy": 0.6} for b in (50, 100, 200)],
        "by_difficulty": [{"difficulty": d, "examples": 9, "accuracy": 0.9, "steps": d / 2} for d in range(1, 9)],
        "histogram": [0.0, 0.5, 0.5] + [0.0] * 7, "collapse": None, "folder": "runs/lac", **other,
    }  # fmt: skip


def make_result(*runs):
    return {
        "title": "Parity", "command": "ponderosa compare parity", "environment": {"torch": "2.13.0", "threads": 2},
        "task": {"name": "parity", "length": 8}, "runs": list(runs or (make_run("Fixed", 10.0), make_run())),
    }  # fmt: skip


class Page(HTMLParser):
    """Reads a page: fails on tags that do not nest, and gathers ids and the addresses it would load."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.links = [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.ids += [value for key, value in attrs if key == "id"]
        self.links += [value for key, value in attrs if key in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_structure():
    page = Page(text := render(make_result()))
    assert [page.tags.count(tag) for tag in ("h1", "table", "figure", "svg")] == [1, 2, 4, 4]
    assert len(page.ids) == len(set(page.ids))
    for part in ("Parity", "ponderosa compare parity", "How to read this", "2.13.0", "3.0 of 10", "70\xa0% saved", "3.33"):
        assert part in text


def test_self_contained():
    page = Page(text := render(make_result()))
    assert "script" not in page.tags
    assert all(link.startswith("#") or link == "data:," for link in page.links)
    assert not re.findall(r"url\((?!#)", text) and "@import" not in text
    assert set(re.findall(r'https?://[^\s"]+', text)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_everything_is_escaped():
    evil = "<script>alert('$title')</script>"
    run = make_run(evil, halting=evil, collapse=evil, folder=evil)
    text = render({**make_result(run), "title": evil, "command": evil, "task": {"name": evil, evil: evil},
                   "environment": {evil: evil}, "verdict": evil})  # fmt: skip
    assert "<script" not in text and "&lt;script&gt;" in text
    Page(text)


@pytest.mark.parametrize("missing", [None, float("nan"), "absent"])
def test_missing_values(missing):
    """A run that lacks all, one that lacks every other key, and one that lacks the rest."""
    whole = make_run()
    runs = [{"name": "bare"}, *({key: whole[key] for key in list(whole)[i::2]} for i in range(2))]
    if missing != "absent":
        runs = [{key: [] if isinstance(whole[key], list) else missing for key in whole} | run for run in runs]
    text = render(make_result(*runs))
    Page(text)
    assert "nan" not in re.sub("<svg.*?</svg>", "", text, flags=re.DOTALL)
    assert 'class="warning"' not in text
    row = next(line for line in text.splitlines() if "bare" in line)
    assert row.count(DASH) == 8  # the mechanism, accuracy, steps, two of operations, two of time, training


def test_figures_without_data_are_left_out():
    assert "<figure>" not in render(make_result({"name": "LAC", "mean_steps": float("nan"), "curve": []}))


def test_partial_records():
    curve = [{"batch": 1, "accuracy": None}, {"batch": 2, "accuracy": float("nan"), "steps": 3}, {"batch": None}, {}]
    Page(render(make_result(make_run(curve=curve, histogram=[None, 0.5], by_difficulty=[{"difficulty": 1}]))))


def test_no_runs():
    Page(render({}))
    Page(render({"runs": None, "task": None, "environment": None}))


def test_an_axis_that_is_cut_says_so():
    assert f"axis from 98.8{NBSP}%" in plots.svg(plots.frontier([make_run()]))
    whole = [make_run(accuracy=0.01), make_run("ACT", accuracy=1.0)]
    assert "axis from" not in plots.svg(plots.frontier(whole))


def test_a_cell_knows_its_column():
    """So that a narrow page can show the rows one below the other."""
    assert '<td data-of="Operations per example">' in render(make_result())


def test_many_runs_look_different_and_alike_everywhere():
    runs = [make_run("Fixed", 10.0), *(make_run(f"LAC {i}" * (1 + i), seed=i) for i in range(13))]
    assert len({(look.color, look.dash) for look in looks(runs)}) == 14
    assert looks(runs)[0].color == INK and [look.color for look in looks(runs)[1:7]] == list(PALETTE)
    Page(render(make_result(*runs)))


def test_runs_of_one_name_show_their_seed():
    assert [look.label for look in looks([make_run(seed=1), make_run(seed=2)])] == ["LAC (seed 1)", "LAC (seed 2)"]


def test_warning_only_for_a_collapse():
    assert 'class="warning"' not in render(make_result({"name": "LAC"}))
    text = render(make_result({"name": "LAC", "collapse": "every example ran to the limit"}))
    assert '<p class="warning"><strong>LAC</strong>: every example ran to the limit</p>' in text


def test_the_same_result_gives_the_same_bytes(tmp_path):
    one = write_report(make_result(), tmp_path / "a" / "one.html").read_bytes()
    assert one == write_report(make_result(), tmp_path / "two.html").read_bytes()
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["one.html"]


def test_an_error_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises((AttributeError, TypeError)):
        write_report({"runs": [1]}, path)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_report({}, path)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_without_matplotlib_the_error_names_the_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r'pip install "ponderosa\[report\]"'):
        render(make_result())


def test_importing_the_report_does_not_import_matplotlib():
    code = "import sys, ponderosa.measure.report; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_figures_leave_no_pyplot_state_and_ignore_the_user_s_style(tmp_path):
    import matplotlib

    before = plots.svg(plots.frontier([make_run()]))
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9}):
        assert plots.svg(plots.frontier([make_run()])) == before
    assert "matplotlib.pyplot" not in sys.modules
    assert before.startswith("<svg") and "currentColor" in before


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.halting_distribution([make_run("$x$"), make_run("_b")], prior=[0.5, 0.25, 0.25]),
        lambda: plots.distribution_against_prior([0.4, 0.6], [0.5, 0.5], "Parity"),
        lambda: plots.losses(
            [{"batch": 1, "reconstruction": 2.0, "kl": 0.1}, {"batch": 2, "kl": 0.2}], ["reconstruction", "kl"]
        ),
        lambda: plots.total_steps(1200, 4000.0, "Steps"),
        lambda: plots.sweep([0.1, 0.9], {"accuracy": [0.9, 1.0], "mean_steps": [3, 2]}, {"accuracy": [0.1, 0.0]}, "lambda_p"),
        lambda: plots.sweep([0.001, 1.0], {"accuracy": [0.9, 1.0]}, None, "beta"),
    ],
)
def test_reproduction_figures(draw, tmp_path):
    assert "mathdefault" not in plots.svg(draw())
    assert (
        plots.save_png(draw(), tmp_path / "figures" / "a.png").read_bytes()
        == plots.save_png(draw(), tmp_path / "b.png").read_bytes()
    )


def test_long_curves_are_thinned_and_keep_their_end():
    curve = [{"batch": b, "accuracy": 0.5, "steps": 2.0} for b in range(1, 10_001)]
    line = plots.training_curves([make_run(curve=curve)]).axes[1].lines[0]
    assert len(line.get_xdata()) <= plots.POINTS and line.get_xdata()[-1] == 10_000


def test_verdict():
    fixed = make_run("Fixed", 10.0)

    def says(*runs):
        return verdict(runs).replace(NBSP, " ")

    assert says(fixed, make_run()) == (
        "LAC answers as accurately as the fixed 10-step network (99.0 % against 99.0 %) in 3.0 steps on average, "
        f"with 70 % fewer operations and 3.3{TIMES} sooner."
    )
    assert "LAC answers nearly as accurately" in says(fixed, make_run(accuracy=0.987), make_run("ACT", 5.0))
    assert "ACT answers more accurately than" in says(fixed, make_run(accuracy=0.95), make_run("ACT", 5.0, 0.999))
    assert "ACT answers less accurately than" in says(fixed, make_run(accuracy=0.8), make_run("ACT", 5.0, 0.9))
    assert f"20 % more operations and 1.2{TIMES} later" in says(fixed, make_run(steps=12.0))
    assert says(make_run()).startswith("LAC reaches 99.0 % in 3.0 steps") and says(make_run()).endswith("than at full depth.")
    assert (
        says(fixed, make_run(collapse="all at the limit"))
        == "No adaptive run to compare: the fixed 10-step network reaches 99.0 %."
    )
    assert says() == "No run gave an accuracy to compare."


def test_numbers():
    assert [percent(v).replace(NBSP, " ") for v in (1.0, 0.9999, 0.0, 0.0001, 0.5)] == [
        "100.0 %",
        "99.99 %",
        "0.0 %",
        "0.01 %",
        "50.0 %",
    ]
    assert [quantity(v).replace(NBSP, "") for v in (0, 999.9, 1.5e6, 2e12)] == ["0", "1k", "1.5M", "2T"]
    shown = [duration(v).replace(NBSP, " ") for v in (0, 0.9999, 59.96, 3599.7, 0.0125)]
    assert shown == ["0 µs", "1 s", "1 min 00 s", "1 h 00 min", "12.5 ms"]
