"""`ponderosa bench`: speed, as ratios against named baselines in the same run."""

from typing import Any

from jsonargparse import ArgumentParser

from ponderosa.bench.train import bench_train
from ponderosa.cli.options import command_line, save_json
from ponderosa.measure.table import table
from ponderosa.training.experiment import Help

ABOUT = """Measure speed against other libraries on the same maths, alternating in one run.

  ponderosa bench train      training throughput of PonderNet and ACT on parity, one thread
"""
COLUMNS = {
    "task": "task", "who": "who", "ms": "ms/batch", "examples_per_second": "examples/s", "speedup": "speed-up",
    "mean_steps": "mean steps", "compile_seconds": "compile s", "memory_mb": "memory MB",
}  # fmt: skip


def main(argv: list[str]) -> None:
    parser = ArgumentParser(prog="ponderosa bench", description=ABOUT, formatter_class=Help, exit_on_error=False)
    parser.add_argument("what", choices=["train"], help="what to measure")
    parser.add_argument("--rounds", type=int, default=30, help="turns of every candidate; the 10th percentile counts")
    parser.add_argument("--compile", type=bool, default=True, help="whether to measure torch.compile, too")
    parser.add_argument("--progress", type=bool, default=True, help="whether to show a progress bar")
    parser.add_argument("--json", type=str | None, default=None, help="write the result to this file, too")
    options = parser.parse_args(argv)
    found: dict[str, Any] = bench_train(rounds=options.rounds, compile=options.compile, progress=options.progress)
    found = {**found, "command": command_line("bench", argv)}
    print(table(found["rows"], COLUMNS))
    print()
    print(table([{"library": name, "seconds": seconds} for name, seconds in found["imports"].items()],
                {"library": "import", "seconds": "seconds beyond torch's"}))  # fmt: skip
    save_json(options.json, found)
