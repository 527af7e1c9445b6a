"""An encoder-decoder of `transformers` under the one training loop."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ponderosa.adapt.decoder import TokenHead
from ponderosa.measure.evaluate import Evaluation
from ponderosa.measure.written import greedy, written
from ponderosa.tasks.base import Batch
from ponderosa.tasks.cpvr_text import IGNORED, CPVRText
from ponderosa.training.objective import Learner


class SequenceObjective(Learner):
    """The cross-entropy of every target token, given those before it.

    Args:
        net: any encoder-decoder of `transformers`.
        task: whose answers it is to write.
        exits: whether every layer of the decoder learns to answer, layer n of N weighed by n (CALM, Schuster et al., 2022):
            what adaptive decoding needs. For T5 and its kin.
        hide_label: whether the decoder is shown another example's label while it learns to write the scratch-pad. A pad ends
            with the label, so a model that is shown the true one learns to copy it, and then copies its own wrong ones.
    """

    some_unused = False

    def __init__(self, net: Any, task: CPVRText, exits: bool = False, hide_label: bool = False):
        super().__init__()
        self.net: Any = net
        self.task: CPVRText = task
        self.head = TokenHead(net) if exits else None
        self.hide_label = hide_label
        self.title = f"{type(task).__name__.lower()} {type(net).__name__}"

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss; accuracy is the share of targets that are right in every token when the earlier ones are given."""
        shown = exchanged(batch.y, self.task.separator) if self.hide_label else batch.y
        out = self.net(
            input_ids=batch.x, attention_mask=None if batch.mask is None else batch.mask.long(), labels=batch.y,
            decoder_input_ids=self.net.prepare_decoder_input_ids_from_labels(labels=shown), use_cache=False,
            output_hidden_states=self.head is not None,
        )  # fmt: skip
        loss = out.loss if self.head is None else self._all_layers(self.head, out, batch.y)
        with torch.no_grad():
            real = batch.y != IGNORED
            right = ((out.logits.argmax(-1) == batch.y) | ~real).all(1)
            return loss, torch.stack([loss.detach(), right.to(loss.dtype).mean(), real.sum(1).to(loss.dtype).mean()])

    @staticmethod
    def _all_layers(head: TokenHead, out: Any, target: Tensor) -> Tensor:
        # the last of the decoder's states is normed already, and its loss is known
        early = [head(state) for state in out.decoder_hidden_states[1:-1]]
        losses = [F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=IGNORED) for logits in early]
        weighed = [n * loss for n, loss in enumerate([*losses, out.loss], 1)]
        return torch.stack(weighed).sum() / sum(range(1, len(weighed) + 1))

    def names(self) -> list[str]:
        return ["loss", "accuracy", "steps"]

    def validate(self, examples: int, batch_size: int, rank: int, ranks: int) -> Evaluation:
        share = examples, batch_size, rank, ranks
        training = self.net.training
        self.net.eval()
        try:
            return written(self.write, self.task, "validation", *share).evaluation()
        finally:
            self.net.train(training)

    def write(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return greedy(self.net, x, mask, self.task.longest)


def exchanged(target: Tensor, separator: int) -> Tensor:
    """Targets `[batch, token]` with what stands before the separator exchanged among examples in which it is equally long."""
    length = (target == separator).int().argmax(1)
    other = torch.randperm(len(target), device=target.device)
    before = torch.arange(target.shape[1], device=target.device) < length[:, None]
    return torch.where(before & (length == length[other])[:, None], target[other], target)
