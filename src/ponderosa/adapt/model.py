"""A model of `transformers` made adaptive: the same object to its users, run by the engines."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn
from transformers.modeling_outputs import ModelOutput
from transformers.utils import cached_file

from ponderosa.adapt.families import PREFIX, Embeddings, family
from ponderosa.adapt.heads import MaxMeanClassifier
from ponderosa.adapt.inputs import criterion, model_inputs, real_tokens
from ponderosa.adapt.spec import DEPTHS, build, describe
from ponderosa.depth.base import DepthEstimator
from ponderosa.halting.base import Halting
from ponderosa.halting.planned import PlannedDepth
from ponderosa.ponder import Ponder
from ponderosa.solution import Solution

Head = Literal["own", "max-mean"]


Base: Any = object  # a mixin: what else there is, comes from the class of the model


@dataclass
class AdaptiveOutput(ModelOutput):
    """What an adaptive model answers: as the original, and the steps that each example `[batch]` or token took."""

    loss: Tensor | None = None
    logits: Tensor | None = None
    last_hidden_state: Tensor | None = None
    pooler_output: Tensor | None = None
    steps: Tensor | None = None


class Adaptive(Base):
    """What a model's class gains when it is made adaptive. `net` is the `Ponder` that runs it.

    The original's modules stay in their places, so its weights keep their names; `net` is made of the very same modules.
    """

    net: Ponder
    head: nn.Module | None
    frozen = False

    def __init__(self, config: Any, *args: Any, **kwargs: Any):
        super().__init__(config, *args, **kwargs)
        self.make_adaptive(build(config.ponderosa["halting"]))

    def make_adaptive(self, halting: Halting) -> None:
        """Build the network that runs this model's modules."""
        about, kin = self.config.ponderosa, family(self)
        if hasattr(self, "head"):  # adaptive already: its heads are trained
            head = self.head
        elif about["head"] == "own":
            head = kin.head(self)
        else:
            head = MaxMeanClassifier(self.config.hidden_size, self.config.num_labels)
        step = kin.step(self, about["frozen_kv"])
        assert step.max_steps is not None
        net = Ponder(step, halting, head=head, encoder=Embeddings(self))
        net.max_steps = min(about.get("max_steps", step.max_steps), step.max_steps)  # it may be loaded with fewer layers
        for new in (net.halting, net.head):
            if new is not None:
                new.to(device=self.device, dtype=self.dtype)
        self.halting = halting
        if about["head"] != "own" or isinstance(net.head, nn.ModuleList):
            self.head = net.head
        self.__dict__["net"] = net  # not registered as a part: its modules have their places already

    def solve(
        self: Any, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, *, depth: Tensor | None = None,
        key: Tensor | None = None, **inputs: Tensor | None,
    ) -> Solution:  # fmt: skip
        """The whole solution: what the model answers, which step weighed how much, the steps taken.

        Takes what `forward` takes, and `key`, a number that names each example for random draws.
        """
        x = model_inputs({"input_ids": input_ids, **inputs})
        return self.net(x, mask=real_tokens(attention_mask), depth=depth, key=key)

    def forward(
        self: Any, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None, inputs_embeds: Tensor | None = None, pixel_values: Tensor | None = None, *,
        labels: Tensor | None = None, depth: Tensor | None = None, return_dict: bool | None = None,
        output_attentions: bool | None = None, output_hidden_states: bool | None = None,
    ) -> AdaptiveOutput | tuple[Any, ...]:  # fmt: skip
        """As the original's, with `depth` (`[batch]`, or `[batch, token]`) for `PlannedDepth` and `steps` in the answer.

        The loss is the criterion as the mechanism weighs it, its own terms included.
        """
        if output_attentions or output_hidden_states:
            raise ValueError("an adaptive model keeps no attentions or hidden states: ask the original, or use solve(...)")
        solution = self.solve(
            input_ids, attention_mask, token_type_ids=token_type_ids, position_ids=position_ids, inputs_embeds=inputs_embeds,
            pixel_values=pixel_values, depth=depth,
        )  # fmt: skip
        output = AdaptiveOutput(steps=solution.steps)
        if self.base_model is self:
            output.last_hidden_state = solution.output
            if getattr(self, "pooler", None) is not None:
                output.pooler_output = self.pooler(solution.output)
        else:
            if labels is not None:
                output.loss = self.net.loss(solution, labels, criterion(self.config))
            output.logits = solution.output
        return output.to_tuple() if return_dict is False else output

    def train(self: Any, mode: bool = True) -> Any:
        super().train(mode)
        if "net" in self.__dict__:
            self.net.train(mode)
            for part in self._encoder() if self.frozen else ():
                part.eval()
        return self

    def freeze_encoder(self: Any) -> Any:
        """Train only what is not in the pretrained encoder: the heads, and what the mechanism learns."""
        self.frozen = True
        for part in self._encoder():
            part.requires_grad_(False)
        return self.train(self.training)

    def _encoder(self: Any) -> Iterator[nn.Module]:
        yield self.net.encoder
        yield self.net.step

    def save_pretrained(self: Any, save_directory: str | Path, **kwargs: Any) -> None:
        """Config, safetensors and, where depths are estimated, the estimator's file."""
        estimators = [plan for plan in _plans(self.halting) if isinstance(plan, DepthEstimator)]
        if len(estimators) > 1:
            raise ValueError("the mechanism has several depth estimators, but one file holds one: join them, or give depth=...")
        self.config.ponderosa = {**self.config.ponderosa, "halting": describe(self.halting), "max_steps": self.net.max_steps}
        super().save_pretrained(save_directory, **kwargs)
        for estimator in estimators:
            estimator.save(Path(save_directory, DEPTHS))

    @classmethod
    def from_pretrained(cls, name: str | Path, *args: Any, **kwargs: Any) -> Any:
        """From a folder or the hub, safetensors only."""
        model = super().from_pretrained(name, *args, **{"use_safetensors": True, **kwargs})
        model = model[0] if isinstance(model, tuple) else model
        waiting = [part for part in model.halting.modules() if isinstance(part, PlannedDepth) and part.plan is None]
        path = cached_file(name, DEPTHS, _raise_exceptions_for_missing_entries=False) if waiting else None
        for part in waiting:
            part.plan = None if path is None else DepthEstimator.load(path)
        return model


def adapt(
    model: Any, halting: Halting, *, in_place: bool = False, head: Head = "own", frozen_kv: bool | None = None
) -> Any:  # fmt: skip
    """Make a model of `transformers` adaptive: see `ponderosa.adapt`."""
    family(model)
    if not isinstance(halting, Halting):
        raise TypeError(f"halting is {type(halting).__name__}: it must be a ponderosa Halting, as po.ConfidenceExit()")
    if head not in ("own", "max-mean"):
        raise ValueError(f'head={head!r}: choose "own" or "max-mean"')
    if head != "own" and model.base_model is model:
        raise ValueError(
            f"{type(model).__name__} has no classes: load it as AutoModelForSequenceClassification for head={head!r}"
        )
    model = model if in_place else copy.deepcopy(model)
    if not isinstance(model, Adaptive):
        cls: Any = type(model)
        cls = adaptive_class(cls)
        model.config.__class__ = cls.config_class
        model.config.ponderosa = {"halting": None, "head": head, "frozen_kv": False}
        model.__class__ = cls
    if frozen_kv is not None:
        model.config.ponderosa = {**model.config.ponderosa, "frozen_kv": frozen_kv}
    model.make_adaptive(halting)
    return model.train(model.training)


@lru_cache(maxsize=64)
def adaptive_class(cls: Any) -> Any:
    """A model's class, adaptive: `BertModel` becomes `AdaptiveBertModel`."""
    body = {"config_class": adaptive_config(cls.config_class), "__module__": __name__}
    return type(f"Adaptive{cls.__name__}", (Adaptive, cls), body)


@lru_cache(maxsize=64)
def adaptive_config(cls: Any) -> Any:
    """A config's class with room for the mechanism."""
    body = {
        "model_type": PREFIX + cls.model_type, "__annotations__": {"ponderosa": "dict[str, Any] | None"}, "ponderosa": None,
        "__module__": __name__,
    }  # fmt: skip
    return type(f"Adaptive{cls.__name__}", (cls,), body)


def _plans(halting: Halting) -> list[Any]:
    return [part.plan for part in halting.modules() if isinstance(part, PlannedDepth)]
