"""`ponderosa decode`: early exits for the single tokens of a fine-tuned decoder."""

from jsonargparse import ArgumentParser

from ponderosa.cli.options import at_least_one, command_line, save_json
from ponderosa.measure.decoding import calibrate, compare, saving
from ponderosa.measure.environment import environment
from ponderosa.measure.table import table
from ponderosa.training.experiment import Help
from ponderosa.training.text_to_text import read_run

ABOUT = """Let easy tokens leave a T5's decoder early, and see what that saves: `ponderosa decode runs/plain-with-pad`.

A token leaves after the first layer whose likeliest next token is probable enough; the state with which it leaves gives the
keys and values of the layers above. At threshold 1 every token takes every layer, and the text is that of full decoding.
Train with `ponderosa finetune --exits true`: layers that never learned to answer are seldom sure.

Without --threshold it is calibrated: on fresh examples of the kind seen in training, at most --risk of all answers are
spoilt (right at full depth, wrong with exits), with probability 1 - delta. An answer is right by its last number, the end of
a scratch-pad; nothing is promised of the label in front of it. For other examples, as more hops than in
training, nothing is promised; the table shows what happens there.
"""
BY_HOPS = {
    "difficulty": "hops", "full": "accuracy, full depth", "exits": "accuracy, exits", "same": "same text", "spoilt": "spoilt",
    "depth": "mean layers per token",
}  # fmt: skip
COST = {
    "batch": "batch", "full_decoder_operations": "decoder's operations, full", "decoder_operations": "exits",
    "full_operations": "all operations, full", "operations": "exits", "bound": "possible", "full_ms": "ms, full",
    "ms": "ms, exits", "speedup": "speed-up", "transformers_ms": "ms, transformers",
}  # fmt: skip


def main(argv: list[str]) -> None:
    parser = ArgumentParser(prog="ponderosa decode", description=ABOUT, formatter_class=Help, exit_on_error=False)
    parser.add_argument("run", help="the folder of a run of `ponderosa finetune`")
    parser.add_argument(
        "--threshold", type=float | None, default=None, help="the probability that is enough, if not calibrated"
    )
    parser.add_argument("--risk", type=float, default=0.01, help="the share of answers that exits may spoil")
    parser.add_argument("--delta", type=float, default=0.05, help="the probability that this promise may be broken with")
    parser.add_argument("--calibration", type=int, default=2_000, help="examples to calibrate on")
    parser.add_argument("--examples", type=int, default=4_500, help="test examples")
    parser.add_argument("--batch_sizes", type=list[int], default=[1, 32, 256], help="examples at once, to measure the cost of")
    parser.add_argument("--progress", type=bool, default=True, help="whether to show a progress bar")
    parser.add_argument("--json", type=str | None, default=None, help="write the figures to this file, too")
    options = parser.parse_args(argv)
    at_least_one(examples=options.examples, calibration=options.calibration, batch_sizes=min(options.batch_sizes, default=0))
    model, task = read_run(options.run)
    chosen = None
    if options.threshold is None:
        asked = {"risk": options.risk, "delta": options.delta, "examples": options.calibration}
        chosen = calibrate(model, task, **asked, progress=options.progress)
    threshold = options.threshold if chosen is None else chosen["threshold"]
    found = {
        "threshold": threshold, "calibration": chosen, "layers": model.config.num_decoder_layers,
        "by_difficulty": compare(model, task, threshold, examples=options.examples),
        "cost": saving(model, task, threshold, options.batch_sizes),
        "command": command_line("decode", argv), "environment": environment("transformers"),
    }  # fmt: skip
    save_json(options.json, found)
    if chosen is not None:
        known = "" if threshold < 1 else ": not enough to let any token leave early"
        print(f"threshold {threshold} (risk {options.risk}, delta {options.delta}, {options.calibration:,} examples{known})\n")
    print(table(found["by_difficulty"], BY_HOPS))
    print()
    print(table(found["cost"], COST))
