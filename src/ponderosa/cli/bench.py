"""`ponderosa bench`: speed, as ratios against named baselines in the same run."""

from collections.abc import Callable
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from ponderosa.cli.options import command_line, png, save_json
from ponderosa.measure.table import table
from ponderosa.training.experiment import Help

ABOUT = """Measure speed against named baselines on the same maths, taking turns in one run.

  ponderosa bench train      training throughput of PonderNet and ACT on parity against other libraries, one thread
  ponderosa bench engine     the share of the possible saving that inference and training with halting turn into time
  ponderosa bench stream     requests per second and latency of a stream against fixed batches
  ponderosa bench modules    hyper-modules: time and memory against plain blocks and weights for each token
  ponderosa bench transformer  PonderNet on a transformer against lucidrains' ponder-transformer, one thread
  ponderosa bench run --run FOLDER   the share that a trained run turns into time, at the depths that it chooses
"""
COLUMNS = {
    "task": "task", "who": "who", "ms": "ms/batch", "examples_per_second": "examples/s", "speedup": "speed-up",
    "mean_steps": "mean steps", "compile_seconds": "compile s", "memory_mb": "memory MB",
}  # fmt: skip
ENGINE = {
    "model": "model", "width": "width", "unit": "unit", "batch": "batch", "length": "length", "spread": "spread",
    "kind": "kind", "ms": "ms", "full_ms": "full ms", "stop_ms": "stop ms", "speedup": "speed-up",
    "flop_bound": "by operations", "ideal_bound": "possible", "share": "share", "difference": "difference",
    "memory_mb": "memory MB",
}  # fmt: skip
SHOWN_ENGINE = {
    name: ENGINE[name] for name in ("batch", "ms", "full_ms", "stop_ms", "speedup", "flop_bound", "ideal_bound", "share")
}
STREAM = {
    "model": "model", "width": "width", "spread": "spread", "requests_per_second": "requests/s", "over_full": "over full depth",
    "bound": "possible", "share": "share", "over_stop": "over stop when all halted", "over_compacted": "over compacted batches",
}  # fmt: skip
LATENCY = {
    "model": "model", "spread": "spread", "load": "load", "arrivals_per_second": "arrivals/s", "median_ms": "median ms",
    "p99_ms": "99th percentile ms",
}  # fmt: skip

MODULES = {
    "width": "width", "tokens": "tokens", "examples": "examples", "training": "training", "block": "block",
    "parameters": "parameters", "ms": "ms", "times_plain": "over plain", "memory_mb": "memory MB",
}  # fmt: skip
CONTRACTIONS = {
    "modules": "modules", "value": "value", "inputs": "inputs", "outputs": "outputs", "examples": "examples", "rows": "rows",
    "embeddings_first_ms": "embeddings first, ms", "matrices_first_ms": "matrices first", "outputs_last_ms": "outputs last",
    "chosen": "chosen", "chosen_over_fastest": "over the fastest",
}  # fmt: skip
TRANSFORMER = {
    "width": "width", "heads": "heads", "length": "length", "batch": "batch", "what": "what", "ms": "ms/batch",
    "peer_ms": "peer's", "speedup": "speed-up", "steps": "mean steps", "peer_steps": "peer's",
}  # fmt: skip
RUN = {name: ENGINE[name] for name in ("width", "batch")} | {"mean_steps": "mean steps"} | {
    name: ENGINE[name] for name in ("ms", "full_ms", "speedup", "flop_bound", "ideal_bound", "share")
}  # fmt: skip


def shown_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that docs/speed.md shows: one network and spread at every batch size."""
    shown = {"model": "stack", "width": 384, "unit": "example", "length": 32, "spread": "skewed", "kind": ""}
    return [row for row in rows if shown.items() <= row.items()]


def main(argv: list[str]) -> None:
    parser = ArgumentParser(prog="ponderosa bench", description=ABOUT, formatter_class=Help, exit_on_error=False)
    parser.add_argument("what", choices=list(BENCHES), help="what to measure")
    parser.add_argument("--run", type=str | None, default=None, help="run: the folder of the trained run")
    parser.add_argument("--size", type=int | None, default=None, help="run: also with transformer layers of this width")
    parser.add_argument("--rounds", type=int, default=30, help="train: turns of every candidate; the 10th percentile counts")
    parser.add_argument("--compile", type=bool, default=True, help="train: whether to measure torch.compile, too")
    parser.add_argument(
        "--full", type=bool, default=False, help="engine: the whole grid, which takes hours, not a quarter of one"
    )
    parser.add_argument(
        "--only", type=str, default="", help='engine: cases whose name contains this, as "stack-384 token 8x32"'
    )
    parser.add_argument("--threads", type=int, default=1, help="engine: threads of every candidate")
    parser.add_argument(
        "--plot", type=str | None, default=None, help="engine: draw speed-up against batch size to this PNG file"
    )
    parser.add_argument("--requests", type=int, default=320, help="stream: how many requests of each kind")
    parser.add_argument(
        "--million", type=bool, default=True, help="stream: whether to measure the memory of a million requests"
    )
    parser.add_argument("--progress", type=bool, default=True, help="whether to show a progress bar")
    parser.add_argument("--json", type=str | None, default=None, help="write the result to this file, too")
    options = parser.parse_args(argv)
    found = {**BENCHES[options.what](options), "command": command_line("bench", argv)}
    save_json(options.json, found)


def _train(options: Namespace) -> dict[str, Any]:
    from ponderosa.bench.train import bench_train

    found = bench_train(rounds=options.rounds, compile=options.compile, progress=options.progress)
    print(table(found["rows"], COLUMNS))
    print()
    print(table([{"library": name, "seconds": seconds} for name, seconds in found["imports"].items()],
                {"library": "import", "seconds": "seconds beyond torch's"}))  # fmt: skip
    return found


def _engine(options: Namespace) -> dict[str, Any]:
    from ponderosa.bench.engine import bench_engine

    plot = png(options.plot)
    found = bench_engine(full=options.full, threads=options.threads, only=options.only, progress=options.progress)
    print(table(found["rows"], ENGINE))
    print()
    print("\n".join(f"{name.replace('_', ' ')}: {value}" for name, value in found["summary"].items()))
    if plot is not None:
        from ponderosa.bench.plot import speedup_by_batch
        from ponderosa.measure.figure import save_png

        print(save_png(speedup_by_batch(found["rows"]), plot))
    return found


def _stream(options: Namespace) -> dict[str, Any]:
    from ponderosa.bench.stream import bench_stream

    found = bench_stream(requests=options.requests, million=options.million, progress=options.progress)
    print(table(found["rows"], STREAM))
    print()
    print(table(found["latency"], LATENCY))
    if found["memory"]:
        print(
            "\n{requests:,} requests: {peak_mb} MB at most, {peak_mb_at_a_tenth} MB after a tenth of them".format(
                **found["memory"]
            )
        )
    return found


def _modules(options: Namespace) -> dict[str, Any]:
    from ponderosa.bench.modules import bench_modules

    found = bench_modules()
    print(table(found["rows"], MODULES))
    print()
    print(table(found["contractions"], CONTRACTIONS))
    return found


def _transformer(options: Namespace) -> dict[str, Any]:
    from ponderosa.bench.transformer import bench_transformer

    found = bench_transformer()
    print(table(found["rows"], TRANSFORMER))
    return found


def _run(options: Namespace) -> dict[str, Any]:
    from ponderosa.bench.trained import bench_run

    if options.run is None:
        raise ValueError("which run? --run FOLDER names one that `ponderosa train` made")
    found = bench_run(options.run, size=options.size)
    print(table(found["rows"], RUN))
    return found


BENCHES: dict[str, Callable[[Namespace], dict[str, Any]]] = {
    "train": _train, "engine": _engine, "stream": _stream, "modules": _modules, "transformer": _transformer, "run": _run
}  # fmt: skip
