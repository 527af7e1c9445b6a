"""Mistakes are answered with what was given and what to do, before anything is computed where possible."""

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import ponderosa as po

NAN = float("nan")


class Own(nn.Module):
    """A user's module that does not say how large its state is or where it starts."""

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(x + state)


def net(halting: po.Halting | None = None, **options: object) -> po.Ponder:
    options = {"head": nn.Linear(8, 2), "max_steps": 5, **options}
    return po.Ponder(po.GRUStep(4, 8), halting or po.LAC(), **options)


def heads(count: int) -> nn.ModuleList:
    return nn.ModuleList(nn.Linear(8, 2) for _ in range(count))


def own(halting: po.Halting) -> po.Ponder:
    return po.Ponder(Own(), halting, max_steps=3)


x = torch.ones(3, 4)
tokens = torch.ones(3, 6, 4)
mask = torch.ones(3, 6, dtype=torch.bool)

BUILD: dict[str, tuple[Callable[[], object], str]] = {
    "no limit": (lambda: net(max_steps=None), r"how many steps may be taken at most: Ponder\(\.\.\., max_steps=10\)"),
    "max_steps 0": (lambda: net(max_steps=0), "max_steps=0: at least one step is needed"),
    "more steps than layers": (
        lambda: po.Ponder(po.Stack([nn.Linear(4, 4)] * 2), po.LAC(), max_steps=3),
        "max_steps=3, but the stack has only 2 layers",
    ),
    "empty stack": (lambda: po.Stack([]), "a stack needs at least one layer"),
    "a name for a halting": (lambda: net("lac"), r"halting is str: it must be a ponderosa Halting, as po\.LAC\(\)"),
    "a module for a halting": (lambda: net(nn.Linear(4, 4)), "halting is Linear: it must be"),
    "a class for a halting": (lambda: net(po.LAC), "halting is .*: it must be"),
    "a function for a step": (
        lambda: po.Ponder(torch.tanh, po.LAC(), max_steps=2),
        "a step is a torch.nn.Module .*, not builtin",
    ),
    "too few heads": (lambda: net(head=heads(4)), "one object of its own for each of the 5 steps"),
    "shared heads": (lambda: net(head=nn.ModuleList([nn.Linear(8, 2)] * 5)), "one object of its own for each of the 5 steps"),
    "exit without a head": (
        lambda: net(po.ConfidenceExit(), head=None),
        "ConfidenceExit judges the answer .*: give Ponder a head",
    ),
    "exit in a composition": (lambda: net(po.AnyOf([po.LAC(), po.PatienceExit()]), head=None), "give Ponder a head"),
    "ACT of unknown size": (lambda: own(po.ACT()), r"ACT reads the state .*but Own does not say.*: write ACT\(size=\.\.\.\)"),
    "PonderNet of unknown size": (lambda: own(po.PonderNet()), r"write PonderNet\(size=\.\.\.\)"),
    "within Bounded": (lambda: own(po.Bounded(po.ACT())), r"write ACT\(size=\.\.\.\)"),
    "within AnyOf": (lambda: own(po.AnyOf([po.ACT(), po.LAC()])), r"write ACT\(size=\.\.\.\)"),
    "learned but not first": (lambda: po.AnyOf([po.LAC(), po.PonderNet()]), "only the first is trained"),
    "alpha 0": (lambda: po.LAC(alpha=0), r"alpha=0: it must lie in \(0, 1\]"),
    "alpha 1.5": (lambda: po.LAC(alpha=1.5), r"alpha=1.5: it must lie in \(0, 1\]"),
    "unknown rule": (lambda: po.LAC(rule="papers"), 'rule=\'papers\': choose "paper" or "reference"'),
    "unknown unit": (lambda: po.LAC(unit="tokens"), 'unit=\'tokens\': choose "batch" or "example" or "token"'),
    "ACT of a batch": (lambda: po.ACT(unit="batch"), 'unit=\'batch\': choose "example" or "token", since ACT weighs'),
    "ACT of tokens misspelt": (lambda: po.ACT(unit="tokens"), 'unit=\'tokens\': choose "example" or "token"'),
    "PonderNet of a batch": (lambda: po.PonderNet(unit="batch"), 'choose "example" or "token", since PonderNet weighs'),
    "exit of a batch": (lambda: po.EntropyExit(unit="batch"), 'choose "example" or "token", since an exit judges'),
    "plan of what": (lambda: po.PlannedDepth(unit="word"), "unit='word': choose"),
    "eps 0": (lambda: po.ACT(eps=0), "eps=0: it must lie between 0 and 1"),
    "tau -1": (lambda: po.ACT(tau=-1), "tau=-1: the price of a step cannot be negative"),
    "lambda_p 0": (lambda: po.PonderNet(lambda_p=0), "lambda_p=0: it must lie between 0 and 1"),
    "threshold 0": (lambda: po.PonderNet(threshold=0), "threshold=0: a cumulative probability"),
    "unknown evaluation": (lambda: po.PonderNet(evaluation="mean"), 'evaluation=\'mean\': choose "sample" or "threshold"'),
    "unknown kl": (lambda: po.PonderNet(kl="backward"), 'kl=\'backward\': choose "paper" or "reverse"'),
    "prior of no steps": (lambda: po.functional.geometric_prior(0.5, 0), "steps=0: a prior needs at least one step"),
    "confidence 1.1": (lambda: po.ConfidenceExit(threshold=1.1), "threshold=1.1: a probability"),
    "negative entropy": (lambda: po.EntropyExit(threshold=-0.1), "threshold=-0.1: an entropy is not negative"),
    "no patience": (lambda: po.PatienceExit(patience=0), "patience=0: at least one repetition"),
    "plan 0": (lambda: po.PlannedDepth(0), "plan=0: a unit takes at least one step"),
    "any of none": (lambda: po.AnyOf([]), "at least one mechanism"),
    "any of two units": (
        lambda: po.AnyOf([po.LAC(), po.LAC(unit="token")]),
        r"halt \['example', 'token'\]: they must all halt the same",
    ),
    "bounds crossed": (
        lambda: po.Bounded(po.LAC(), min_steps=4, max_steps=3),
        "min_steps=4, max_steps=3: 1 <= min_steps <= max_steps",
    ),
    "bound 0": (lambda: po.Bounded(po.LAC(), min_steps=0), "min_steps=0"),
}

CALL: dict[str, tuple[Callable[[], object], str]] = {
    "max_steps 0": (lambda: net()(x, max_steps=0), "max_steps=0: at least one step is needed"),
    "more steps than heads": (lambda: net(head=heads(5))(x, max_steps=6), "max_steps=6, but there are heads for 5 steps only"),
    "more steps than copied heads": (
        lambda: po.Ponder(po.Stack([nn.Linear(8, 8)] * 4), po.ConfidenceExit(), head=nn.Linear(8, 2), max_steps=2)(
            torch.ones(1, 8), max_steps=4
        ),
        "max_steps=4, but there are heads for 2 steps only",
    ),
    "unknown engine": (lambda: net()(x, engine="stream"), r"engine='stream': choose one of \['compact', 'unroll'\]"),
    "compact training": (
        lambda: po.Ponder(po.GRUStep(4, 8), po.ACT(), max_steps=3)(x, engine="compact"),
        r'engine="compact" skips halted work, but ACT trains on every step: call net\.eval\(\) first',
    ),
    "a state of another batch": (
        lambda: net()(x, state=torch.zeros(2, 8)),
        r"the input is \[3, 4\], but the state read is \[2, 8\]",
    ),
    "a mask of another batch": (
        lambda: net()(x, mask=mask[:2]),
        r"the mask is \[2, 6\], but .*\[3, 8\]: the first axis of all must be the batch",
    ),
    "a key of another batch": (lambda: net()(x, key=torch.arange(2)), r"the key is \[2\]"),
    "a state without a batch": (
        lambda: own(po.LAC())(torch.tensor(1.0), state=torch.tensor(1.0)),
        "the first axis of all must be the batch",
    ),
    "float mask": (
        lambda: net()(tokens, mask=mask.float()),
        r"the mask is torch\.float32 \[3, 6\]: bool \[batch, token\] is needed",
    ),
    "integer mask": (lambda: net()(tokens, mask=mask.long()), r"the mask is torch\.int64 \[3, 6\]: bool"),
    "mask per example": (lambda: net()(tokens, mask=mask[:, 0]), r"the mask is torch\.bool \[3\]: bool \[batch, token\]"),
    "mask of other tokens": (
        lambda: net()(tokens, mask=mask[:, :4]),
        r"the mask is \[3, 4\], but the state has \[batch, token\] = \[3, 6\]",
    ),
    "tokens without tokens": (lambda: net(po.LAC(unit="token"))(x), r'unit="token" needs a state .*but it is \[\[3, 8\]\]'),
    "tokens of tokens": (lambda: net(po.LAC(unit="token"))(tokens[..., None, :]), r"but it is \[\[3, 6, 1, 8\]\]"),
    "a state that is not all tokens": (
        lambda: po.Ponder(PerExample(), po.LAC(unit="token"), max_steps=3)(tokens),
        r'unit="token" needs .*\[\[3, 6, 4\], \[3, 4\]\]',
    ),
    "key of real numbers": (
        lambda: net()(x, key=torch.rand(3)),
        r"the keys are torch\.float32 \[3\]: one whole number per example",
    ),
    "nothing to name examples by": (
        lambda: own(po.PonderNet(size=4)).eval()(None, state=x),
        r"no input to name the examples by: call net\(x, key=\.\.\.\)",
    ),
    "key per token": (lambda: net()(tokens, key=torch.ones(3, 6).long()), r"the keys are torch\.int64 \[3, 6\]: one whole"),
    "depth per token": (
        lambda: net(po.PlannedDepth())(tokens, depth=mask.long()),
        r"depths are \[3, 6\], but the units \(examples\) are \[3\]",
    ),
    "depth per example": (
        lambda: net(po.PlannedDepth(unit="token"))(tokens, depth=torch.ones(3).long()),
        r"depths are \[3\], but the units \(tokens\) are \[3, 6\]",
    ),
    "plan of the wrong shape": (
        lambda: net(po.PlannedDepth(lambda x: x.long()))(x),
        r"depths are \[3, 4\], but the units .* \[3\]",
    ),
    "depth between steps": (
        lambda: net(po.PlannedDepth())(x, depth=torch.rand(3)),
        r"depths are torch\.float32: .*whole number",
    ),
    "no depth": (lambda: net(po.PlannedDepth())(x), r"no depth is planned: call net\(x, depth=\.\.\.\)"),
    "many depths of a batch": (
        lambda: net(po.PlannedDepth(unit="batch"))(x, depth=torch.tensor([1, 2, 3])),
        'unit="batch", but depths from 1 to 3: a batch has one depth; use "example"',
    ),
    "no first state": (
        lambda: own(po.LAC())(x),
        r"Own does not say where it starts: call net\(x, state=\.\.\.\), or wrap it as",
    ),
    "an exit per example, answers per token": (
        lambda: net(po.ConfidenceExit())(tokens),
        r"spoke for units \[3, 6\], but there are \[3\]: its unit",
    ),
    "an exit by hand without an answer": (lambda: po.EntropyExit().update(1, x, None, {}), "judges the answer of every step"),
    "a context of no example": (
        lambda: po.Ponder(Sharing(), po.PlannedDepth(), max_steps=3).eval()(x, depth=torch.tensor([1, 2, 3])),
        r"is \[1, 4\]: its first axis must be the batch, here 3",
    ),
    "a halting of another shape": (lambda: net(Misshapen())(x), r"spoke for units \[3, 1\], but there are \[3\]"),
}


class PerExample(po.Step):
    """A step with a summary of each example beside its tokens."""

    def initial_state(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x[:, 0]

    def advance(self, context: Tensor, state: tuple[Tensor, Tensor], n: int) -> tuple[Tensor, Tensor]:
        return state


class Sharing(po.Step):
    """A step that passes on a tensor that belongs to no example."""

    def initial_state(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)

    def prepare(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return x, torch.ones(1, 4)

    def advance(self, context: tuple[Tensor, Tensor], state: Tensor, n: int) -> Tensor:
        return state + context[0] * context[1]


class Misshapen(po.Fixed):
    """A user's halting that forgets to drop an axis."""

    def update(self, n: object, state: Tensor, output: object, memory: dict) -> tuple[Tensor, Tensor, dict]:
        return state[:, :1], state[:, :1] > 2, memory


@pytest.mark.parametrize(("mistake", "message"), BUILD.values(), ids=BUILD)
def test_building(mistake: Callable[[], object], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        mistake()


@pytest.mark.parametrize(("mistake", "message"), CALL.values(), ids=CALL)
def test_calling(mistake: Callable[[], object], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        mistake()


@pytest.mark.parametrize("bad", [NAN, float("inf")])
class TestNumbers:
    def test_input(self, bad: float) -> None:
        given = x.clone()
        given[1, 2] = bad
        with pytest.raises(
            FloatingPointError, match=r"the input has NaN or infinite numbers in examples \[1\]: .*check_finite"
        ):
            net()(given)

    def test_nested_input_of_one_number_each(self, bad: float) -> None:
        with pytest.raises(FloatingPointError, match=r"the input .* examples \[0, 2\]"):
            own(po.LAC())({"a": torch.tensor([bad, 1.0, bad])}, state=torch.zeros(3, 1))

    def test_state(self, bad: float) -> None:
        with pytest.raises(FloatingPointError, match=r"the state .* examples \[0, 1, 2\]"):
            net()(x, state=torch.full((3, 8), bad))

    def test_answer(self, bad: float) -> None:
        broken = net()
        nn.init.constant_(broken.head.bias, bad)
        with pytest.raises(
            FloatingPointError, match=r"the answer .* examples \[0, 1, 2\]: look at the data, the learning rate"
        ):
            broken(x)

    def test_many_examples_are_not_all_named(self, bad: float) -> None:
        with pytest.raises(FloatingPointError, match=re.escape("examples [0, 1, 2, 3, 4]...: ")):
            net()(torch.full((9, 4), bad))

    def test_they_may_be_let_through(self, bad: float) -> None:
        assert not net(check_finite=False)(torch.full((2, 4), bad)).output.isfinite().all()


@pytest.mark.parametrize("halting", [po.LAC(), po.ACT(), po.PonderNet(), po.ConfidenceExit()], ids=lambda h: type(h).__name__)
def test_an_empty_batch_has_no_loss(halting: po.Halting) -> None:
    empty = net(halting)
    solution = empty(torch.zeros(0, 4))
    with pytest.raises(ValueError, match="the loss of an empty batch is not defined: skip"):
        empty.loss(solution, torch.zeros(0, dtype=torch.long), F.cross_entropy)


@pytest.mark.parametrize("engine", ["unroll", "compact"])
@pytest.mark.parametrize("halting", [po.LAC, po.ACT, po.PonderNet, po.ConfidenceExit], ids=lambda h: h.__name__)
def test_nothing_but_padding_is_the_same_alone_and_in_company(halting: type[po.Halting], engine: str) -> None:
    """An example without a real token takes no step, and what is said of it does not depend on the others."""
    torch.manual_seed(0)
    lone = net(halting(unit="token")).eval()
    real = torch.tensor([[False, False], [True, True]])
    given, state = torch.randn(2, 2, 4), torch.randn(2, 2, 8)
    both = lone(given, state=state, mask=real, engine=engine)
    alone = lone(given[:1], state=state[:1], mask=real[:1], engine=engine)
    assert alone.steps.tolist() == both.steps[:1].tolist() == [[0, 0]]
    torch.testing.assert_close([alone.output, alone.state], [both.output[:1], both.state[:1]])
