"""The benchmark of hyper-modules compares what it says it compares."""

import torch

from ponderosa.bench.modules import FULL, bench_modules, blocks, parameters
from ponderosa.steps.modules.contraction import Shape


def test_the_candidates_are_comparable() -> None:
    made, x = blocks(16), torch.randn(3, 5, 16)
    torch.testing.assert_close(made["naive, each token"](x), made[FULL](x), rtol=1e-4, atol=1e-5)
    assert parameters(made["naive, each token"]) == parameters(made[FULL])
    assert abs(parameters(made["plain, equal parameters"]) / parameters(made[FULL]) - 1) < 0.01
    assert parameters(made["factors of rank width/8"]) < parameters(made[FULL]) / 4 + 3 * 3000


def test_all_figures_are_there() -> None:
    found = bench_modules([(8, 3, 2)], [(Shape(3, 4, 8, 5), 2, 3)], seconds=0)
    assert len(found["rows"]) == 2 * 5
    assert all(row["ms"] > 0 and row["memory_mb"] > 0 for row in found["rows"])
    (contraction,) = found["contractions"]
    assert contraction["difference"] < 1e-5
    assert contraction["chosen"] == "embeddings_first"
    assert contraction["chosen_over_fastest"] >= 1
