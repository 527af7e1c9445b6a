"""From options to objects, and whose a run's folder is."""

import pytest
import torch

import ponderosa as po
from ponderosa.training.experiment import build, claim, experiment_parser
from ponderosa.training.run import RunFolder
from ponderosa.training.settings import Settings

CPVR = {
    "task": {"class_path": "ponderosa.tasks.CPVR"},
    "step": {"class_path": "TransformerStep", "init_args": {"size": 8, "heads": 2}},
}


def config(**options):
    parser = experiment_parser()
    return parser, parser.parse_object({**CPVR, **options})


def test_a_task_of_sequences_gets_an_encoder_and_a_read_out():
    parser, options = config(positions="none", read_out="mean")
    net = build(options, parser).net
    assert isinstance(net.encoder, po.SequenceEncoder)
    assert net.encoder.positions is None
    assert isinstance(net.head, po.ReadOut)
    assert net.head.place == "mean"
    x = torch.randint(1, 25, (2, 24))
    assert net(x).output.shape == (2, 25)
    shuffled = net(x.flip(1)).output  # without positions, the mean sees no order
    torch.testing.assert_close(net(x).output, shuffled, rtol=1e-4, atol=1e-5)


def test_a_run_that_is_older_than_an_option_can_go_on(tmp_path):
    parser, options = config()
    text = parser.dump(options)
    folder = RunFolder(tmp_path)
    folder.config.write_text("\n".join(line for line in text.splitlines() if "schedule" not in line and "recall" not in line))
    claim(folder, text)
    with pytest.raises(ValueError, match="schedule is cosine here, constant there"):
        claim(folder, parser.dump(config(schedule="cosine")[1]))


def test_the_learning_rate_rises_and_falls():
    settings = Settings(batches=100, lr=0.5, schedule="cosine", warmup=10)
    rates = [settings.rate(n) for n in range(100)]
    assert rates.index(max(rates)) == 10
    assert rates[0] < 0.06
    assert rates[99] < 0.001
    assert Settings(lr=0.5).rate(10_000) == 0.5
