"""The command line. Commands are imported when they are called, so that `ponderosa --help` answers at once."""

import importlib
import sys
from pathlib import Path

COMMANDS = {
    "train": "train a network on a task, with any halting mechanism",
    "evaluate": "accuracy, steps, operations and time of a trained run",
    "frontier": "accuracy against steps, operations and time, over all settings of a trained run's halting",
    "calibrate": "set a trained run's halting so that it loses at most so much accuracy, or costs at most so much",
    "report": "one page about trained runs: what adaptive depth saves, where the steps go, and how it was made",
    "compare": "train several mechanisms on the same data and show them side by side",
    "reproduce": "the tables and figures of the papers, ours beside theirs",
    "finetune": "an encoder-decoder on pointer-value retrieval as text, with or without a scratch-pad",
    "decode": "early exits for single tokens of a fine-tuned decoder, and what they save",
    "adapt": "make a pretrained encoder adaptive for a text classification task",
    "classify": "texts through an adaptive model, and what that saved",
    "bench": "speed, against other libraries on the same maths",
}

HELP = """usage: ponderosa COMMAND ...

Adaptive depth for neural networks: they stop early where they can, think longer where they must.

commands:
{commands}

  ponderosa compare parity                                      the main job: four mechanisms side by side
  ponderosa train parity --halting LAC --halting.alpha 0.8      one network, into runs/parity-LAC
  ponderosa evaluate runs/parity-LAC                            what it does on the test set
  ponderosa report runs/parity-LAC runs/parity-ACT              all about them on one page
  ponderosa reproduce lac-table-1                               a paper's table, with its own figures beside

Every command takes --json FILE. `ponderosa COMMAND --help` says more.
"""


def main(argv: list[str] | None = None) -> None:
    """Run the command named in the arguments; an error is one line, and the exit code 2."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help"):
        width = max(map(len, COMMANDS)) + 2
        print(HELP.format(commands="\n".join(f"  {name:{width}}{text}" for name, text in COMMANDS.items())))
        return
    if argv[0] == "--version":
        from importlib.metadata import version

        print(version("ponderosa"))
        return
    if argv[0] not in COMMANDS:
        fail(f"there is no command {argv[0]!r}: choose one of {', '.join(COMMANDS)}")
    sys.path.insert(0, str(Path.cwd()))  # a class of the user's own may be in the working folder
    command = importlib.import_module(f"ponderosa.cli.{argv[0]}")
    from argparse import ArgumentError

    try:
        command.main(argv[1:])
    except KeyboardInterrupt:
        print("interrupted: the same command goes on from the last checkpoint", file=sys.stderr)
        sys.exit(130)
    except (ArgumentError, ArithmeticError, ValueError, TypeError, OSError, RuntimeError, ImportError) as error:
        fail(str(error))


def fail(message: str) -> None:
    print(f"ponderosa: error: {message}", file=sys.stderr)
    sys.exit(2)
