"""The benchmark of the engines measures what it says: depths as asked, equal results, all columns."""

import pytest
import torch

from ponderosa.bench.cases import LIMIT, SPREADS, Case, depths, grid
from ponderosa.bench.engine import row, summary
from ponderosa.bench.plot import speedup_by_batch
from ponderosa.bench.stream import latency, memory, throughput


@pytest.mark.parametrize("spread", SPREADS)
def test_depths_follow_the_spread(spread: str) -> None:
    found = depths(spread, (100, 100), torch.Generator().manual_seed(0))
    shares = torch.bincount(found.flatten(), minlength=LIMIT + 1)[1:] / found.numel()
    torch.testing.assert_close(shares, torch.tensor(SPREADS[spread]), rtol=0, atol=1e-3)


SMALL = [
    Case("stack", 64, "example", 3, 4, "uniform"), Case("stack", 64, "token", 3, 4, "text", padded=True),
    Case("stack", 64, "example", 3, 4, "uniform", padded=True), Case("tied", 64, "token", 2, 4, "skewed"),
    Case("gru", 32, "example", 5, 1, "skewed"), Case("stack", 64, "token", 2, 4, "text", frozen_kv=True),
    Case("stack", 64, "token", 2, 4, "text", training=True), Case("stack", 64, "example", 2, 4, "uniform", training=True),
    Case("stack", 64, "example", 2, 4, "skewed", precision="bfloat16"),
    Case("stack", 64, "token", 2, 4, "text", precision="int8"),
    Case("hyper", 64, "token", 2, 4, "text", padded=True), Case("hyper", 64, "example", 2, 4, "skewed"),
]  # fmt: skip


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_a_row_has_all_figures(case: Case) -> None:
    found = row(case, {}, seconds=0)
    for name in ("ms", "speedup", "flop_bound", "ideal_bound", "share", "full_ms", "masked_ms", "stop_ms", "memory_mb"):
        assert found[name] > 0
    assert ("packed_ms" in found) == case.padded
    assert found["flop_bound"] > 1
    assert found["difference"] < (1e-5 if case.precision == "float32" else 0.5)
    assert summary([found])["largest_difference"] is (None if case.precision != "float32" else found["difference"])


def test_the_grid_has_no_case_twice() -> None:
    cases = list(grid(full=False))
    assert len(set(cases)) == len(cases)
    assert len(list(grid(full=True))) > 2 * len(cases)


def test_the_plot_has_a_panel_for_each_network() -> None:
    same = {"width": 8, "unit": "example", "length": 4, "speedup": 2, "ideal_bound": 3, "kind": ""}
    rows = [
        {**same, "model": m, "spread": s, "batch": b}
        for m in ("stack", "gru") for s in ("skewed", "text") for b in (1, 2, 4)
    ]  # fmt: skip
    assert [axis.get_title("left") for axis in speedup_by_batch(rows).axes] == [
        f"{m} 8 wide, per example" for m in ("stack", "gru")
    ]


@pytest.mark.parametrize("model", ["stack", "tied", "gru"])
def test_the_stream_is_measured(model: str) -> None:
    case = Case(model, 64, "example", 32, 4, "")
    found = throughput(case, "skewed", 40, seconds=0)
    assert all(
        found[name] > 0 for name in ("requests_per_second", "share", "over_compacted", "over_stop", "over_full", "bound")
    )
    waits = latency(case, "skewed", found["requests_per_second"], count=8)
    assert 0 < waits["median_ms"] <= waits["p99_ms"]


def test_the_memory_of_a_long_queue_is_measured() -> None:
    found = memory(5000)
    assert found["requests"] == 5000
    assert found["peak_mb"] < found["peak_mb_at_a_tenth"] + 50
