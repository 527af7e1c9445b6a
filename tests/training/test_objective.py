"""What networks learn from: every layer's loss, labels that are not their own, a teacher's answers."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

import ponderosa as po
from ponderosa.tasks import CPVRText
from ponderosa.tasks.base import Batch
from ponderosa.training.objective import Taught
from ponderosa.training.sequence import SequenceObjective, exchanged
from ponderosa.training.text_to_text import TextToTextRun, build_task, small


def test_what_stands_before_the_separator_is_exchanged_and_nothing_else() -> None:
    task = CPVRText(12)
    y = task.batch("train", 0, 32).y
    torch.manual_seed(0)
    shown = exchanged(y, task.separator)
    assert torch.equal(shown[:, 1:], y[:, 1:])
    assert shown[:, 0].sort().values.equal(y[:, 0].sort().values)
    assert (shown[:, 0] != y[:, 0]).float().mean() > 0.5
    longer = torch.tensor([[5, 6, 3, 9], [7, 3, 9, 9], [8, 9, 3, 7]])  # labels of two tokens meet labels of two tokens
    for _ in range(10):
        seen = exchanged(longer, separator=3)
        assert torch.equal(seen[1], longer[1])
        assert torch.equal(seen[:, 2:], longer[:, 2:])
        assert all(row in ([5, 6], [8, 9]) for row in seen[[0, 2], :2].tolist())


@pytest.mark.parametrize("exits", [False, True])
def test_the_loss_by_hand(exits: bool) -> None:
    """Layer n of N weighs n; without exits only the last counts."""
    run = TextToTextRun("plain", length=12, width=8, heads=2, encoder_layers=1, decoder_layers=3)
    task = build_task(run)
    torch.manual_seed(0)
    model = small(run, task).double()
    batch = task.batch("train", 0, 6)
    loss, values = SequenceObjective(model, task, exits)(batch)
    states = []
    for block in model.decoder.block:
        block.register_forward_hook(lambda module, given, made: states.append(made[0]))
    model(input_ids=batch.x, labels=batch.y)
    logits = [
        model.lm_head(model.decoder.final_layer_norm(state) * (8**-0.5 if model.config.scale_decoder_outputs else 1))
        for state in states
    ]
    each = [F.cross_entropy(answer.transpose(1, 2), batch.y, ignore_index=-100) for answer in logits]
    expected = (each[0] + 2 * each[1] + 3 * each[2]) / 6 if exits else each[2]
    assert loss.item() == pytest.approx(expected.item(), rel=1e-9)
    assert values[2] == (batch.difficulty + 4).double().mean()  # label, separator, a number for each hop, label, end
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("exits", [False, True])
def test_the_loss_of_what_is_taught_by_hand(exits: bool) -> None:
    """The teacher's probabilities, at temperature 2, count as much as the label, at every head that is trained."""
    torch.manual_seed(0)
    halting = po.ConfidenceExit() if exits else po.Fixed()
    net = po.Ponder(po.TransformerStep(8, 2, layers=3), halting, head=po.ReadOut(8, 6, place="mean")).double()
    batch = Batch(torch.randn(4, 6, 8).double(), torch.tensor([0, 5, 2, 2]), torch.tensor([3, 0, 4, 1]), torch.zeros(4),
                  torch.ones(4, 6, dtype=torch.bool))  # fmt: skip
    answers = torch.randn(5, 6).double()
    task = SimpleNamespace(criterion=F.cross_entropy, score=lambda output, target: (output.argmax(-1) == target).double())
    loss, _ = Taught(net, task, answers)(batch)
    solution = net(batch.x, mask=batch.mask)
    outputs = solution.outputs if exits else solution.output[None]
    likely = (answers / 2).softmax(-1)[batch.key]
    taught = [-(likely * (output / 2).log_softmax(-1)).sum(-1).mean() for output in outputs]
    expected = sum(F.cross_entropy(output, batch.y) + 4 * each for output, each in zip(outputs, taught, strict=True))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-9)
