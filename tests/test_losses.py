"""What training minimises: each mechanism's own weighing, worked out by hand, and every form a criterion may have."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import ponderosa as po
from tests.zoo import scripted, states_of

LOG3 = math.log(3)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def f64(*values: float | list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(ours: Tensor, theirs: Tensor | float) -> None:
    torch.testing.assert_close(ours, torch.as_tensor(theirs, dtype=ours.dtype), rtol=0, atol=3e-6)


def nothing(output: Tensor, target: Tensor) -> Tensor:
    """A criterion that leaves only the mechanism's own terms."""
    return 0 * output.flatten(1).sum(1)


class Mean(nn.Module):
    """A head that answers for the whole example."""

    def forward(self, state: Tensor) -> Tensor:
        return state.mean(1)


class TestACT:
    # unit 1 halts at step 3 with the remainder 0.2, unit 2 at step 1 with the remainder 1: costs 3.2 and 2.0
    halt = f64([0.3, 0.995], [0.5, 0.5], [0.4, 0.5])

    def test_cost(self) -> None:
        x = states_of(self.halt)
        net = scripted(po.ACT(tau=10.0), x)
        close(net.loss(net(x), torch.zeros(2), nothing), 10 * (3.2 + 2.0) / 2)

    def test_cost_s_gradient(self) -> None:
        # by the gate's bias: the mean of -(h1 (1 - h1) + h2 (1 - h2)) for unit 1 and of nothing for unit 2
        x = states_of(self.halt)
        net = scripted(po.ACT(tau=1.0), x)
        net.loss(net(x), torch.zeros(2), nothing).backward()
        close(net.halting.gate.bias.grad, [-(0.21 + 0.25) / 2])

    def test_the_mean_state_is_judged(self) -> None:
        # 0.3 s1 + 0.5 s2 + 0.2 s3, squared; unit 2's answer is s1 alone
        x = states_of(self.halt)
        net = scripted(po.ACT(tau=0.0), x)
        answers = x[0, 1:, 0] @ f64(0.3, 0.5, 0.2), x[1, 1, 0]
        close(net.loss(net(x), torch.zeros(2, 1).double(), F.mse_loss), sum(a**2 for a in answers) / 2)

    def test_padding_costs_nothing(self) -> None:
        net = po.Ponder(po.GRUStep(3, 4), po.ACT(tau=1.0, unit="token"), max_steps=5).double()
        x, mask = torch.randn(2, 3, 3).double(), torch.tensor([[True, True, False], [True, False, False]])
        solution = net(x, mask=mask)
        remainder = solution.weights.gather(0, (solution.steps - 1).clamp_min(0)[None])[0]
        close(net.halting.ponder_cost(solution), (solution.steps + remainder)[mask].mean())


class TestPonderNet:
    # lambda_1 is 1/2 and 3/4, so p is (1/2, 1/2) and (3/4, 1/4); the states, which are the answers, are those logits
    x = f64([0, 0, LOG3], [0, LOG3, 0])[..., None]

    def test_each_example_weighs_its_own_losses(self) -> None:
        # squares of the states: (0, L) and (L, 0) with L = ln(3)^2, so L/2 and 3L/4; means first would give L/2
        net = scripted(po.PonderNet(beta=0.0), self.x)
        close(net.loss(net(self.x), torch.zeros(2, 1).double(), F.mse_loss), (1 / 2 + 3 / 4) * LOG3**2 / 2)

    def test_kl(self) -> None:
        # the prior of lambda_p 1/2 over 2 steps is (2/3, 1/3)
        kls = [
            0.5 * math.log(0.5 * 1.5) + 0.5 * math.log(0.5 * 3),
            0.75 * math.log(0.75 * 1.5) + 0.25 * math.log(0.25 * 3),
        ]
        net = scripted(po.PonderNet(beta=2.0, lambda_p=0.5), self.x)
        close(net.loss(net(self.x), torch.zeros(2), nothing), 2 * sum(kls) / 2)

    def test_reverse_kl(self) -> None:
        kls = [2 / 3 * math.log(2 / 3 / p) + 1 / 3 * math.log(1 / 3 / (1 - p)) for p in (0.5, 0.75)]
        net = scripted(po.PonderNet(beta=1.0, lambda_p=0.5, kl="reverse"), self.x)
        close(net.loss(net(self.x), torch.zeros(2), nothing), sum(kls) / 2)

    def test_output_is_the_expectation(self) -> None:
        net = scripted(po.PonderNet(), self.x)
        close(net(self.x).output[:, 0], f64(LOG3 / 2, LOG3 * 3 / 4))

    def test_evaluation_has_a_loss_too(self) -> None:
        net = scripted(po.PonderNet(evaluation="threshold", threshold=0.6), self.x).eval()
        # unit 1 halts at step 2, unit 2 at step 1: both answer ln 3
        close(net.loss(net(self.x), torch.zeros(2, 1).double(), F.mse_loss), LOG3**2)

    def test_tokens_have_their_own(self) -> None:
        """With and without a mask, the loss is the mean over real tokens of their own expectation, and of their KL."""
        net = po.Ponder(po.GRUStep(3, 4), po.PonderNet(unit="token", beta=0.5), head=nn.Linear(4, 3), max_steps=4).double()
        x, target = torch.randn(2, 3, 3).double(), torch.tensor([[0, 1, 2], [2, 1, 0]])
        for mask in (None, torch.tensor([[True, True, False], [True, False, False]])):
            solution = net(x, mask=mask)
            real = torch.ones_like(target, dtype=torch.bool) if mask is None else mask
            losses = F.cross_entropy(solution.outputs.flatten(0, 2), target.expand(4, 2, 3).flatten(), reduction="none")
            expected = (solution.weights * losses.view(4, 2, 3)).sum(0)[real].mean()
            prior = po.functional.geometric_prior(0.2, 4)
            expected = expected + 0.5 * po.functional.kl_to_prior(solution.weights, prior)[real].mean()
            close(net.loss(solution, target, F.cross_entropy), expected)

    @pytest.mark.parametrize("padded", [True, False])
    def test_an_example_s_loss_is_its_tokens(self, padded: bool) -> None:
        net = po.Ponder(po.GRUStep(3, 4), po.PonderNet(beta=0.0), head=nn.Linear(4, 5), max_steps=4).double()
        mask = torch.tensor([[True, True, False], [True, False, False]]) if padded else torch.ones(2, 3, dtype=torch.bool)
        target = torch.tensor([[0, 1, 2], [4, 3, 0]])
        solution = net(torch.randn(2, 3, 3).double(), mask=mask if padded else None)
        losses = F.cross_entropy(solution.outputs.flatten(0, 2), target.expand(4, 2, 3).flatten(), reduction="none")
        weighed = (solution.weights[..., None] * losses.view(4, 2, 3)).sum(0)
        close(net.loss(solution, target, F.cross_entropy), weighed[mask].mean())

    def test_tokens_cannot_learn_from_a_label_per_example(self) -> None:
        """Neither from a head that pools them nor by the criterion."""
        x, target = torch.randn(2, 5, 3), torch.tensor([0, 1])
        pooled = po.Ponder(po.GRUStep(3, 4), po.PonderNet(unit="token"), head=Mean(), max_steps=4)
        with pytest.raises(ValueError, match=r'units \[2, 5\].*are \[2, 4\].*unit="example"'):
            pooled(x)
        net = po.Ponder(po.GRUStep(3, 4), po.PonderNet(unit="token"), head=nn.Linear(4, 2), max_steps=4)
        with pytest.raises(ValueError, match=r'units are \[2, 5\].*losses for \[2\].*unit="example"'):
            net.loss(net(x), target, lambda o, t: F.cross_entropy(o.mean(1), t, reduction="none"))


class TestExits:
    @pytest.mark.parametrize(
        "halting", [po.ConfidenceExit(), po.EntropyExit(), po.PatienceExit()], ids=lambda h: type(h).__name__
    )
    def test_all_heads_are_trained_by_the_sum_of_their_losses(self, halting: po.Halting) -> None:
        net = po.Ponder(po.Stack([nn.Linear(4, 4) for _ in range(3)]), halting, head=nn.Linear(4, 3))
        x, target = torch.randn(5, 4), torch.tensor([0, 1, 2, 1, 0])
        state, expected = x, 0.0
        for layer, head in zip(net.step.layers, net.head, strict=True):
            state = layer(state)
            expected = expected + F.cross_entropy(head(state), target)
        loss = net.loss(net(x), target, nn.CrossEntropyLoss())
        close(loss, expected)
        loss.backward()
        assert all(p.grad.abs().sum() > 0 for p in net.parameters())
        assert len({id(h) for h in net.head}) == 3

    def test_tokens(self) -> None:
        net = po.Ponder(po.GRUStep(3, 4), po.ConfidenceExit(unit="token"), head=nn.Linear(4, 3), max_steps=2)
        mask, target = torch.tensor([[True, True], [True, False]]), torch.tensor([[0, 1], [2, 0]])
        solution = net(torch.randn(2, 2, 3), mask=mask)
        expected = sum(F.cross_entropy(output[mask], target[mask]) for output in solution.outputs)
        close(net.loss(solution, target, F.cross_entropy), expected)


def test_compositions_train_as_their_first() -> None:
    x, target = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    for halting, plain in (
        (po.Bounded(po.ACT(tau=0.5, size=4), max_steps=9), po.ACT(tau=0.5, size=4)),
        (po.AnyOf([po.PonderNet(beta=0.5, size=4), po.Fixed()]), po.PonderNet(beta=0.5, size=4)),
        (po.AnyOf([po.ConfidenceExit(), po.Fixed()]), po.ConfidenceExit()),
    ):
        step, head = po.GRUStep(3, 4), nn.Linear(4, 3)
        nets = [po.Ponder(step, h, head=head, max_steps=5) for h in (halting, plain)]
        nets[0].halting.load_state_dict(dict(zip(halting.state_dict(), plain.state_dict().values(), strict=True)))
        close(*(net.loss(net(x), target, F.cross_entropy) for net in nets))


def per_example(output: Tensor, target: Tensor) -> Tensor:
    return -output.log_softmax(-1)[torch.arange(len(target)), target]


def classifier() -> tuple[po.Ponder, po.Solution, Tensor]:
    net = po.Ponder(po.GRUStep(3, 4), po.LAC(), head=nn.Linear(4, 3), max_steps=5)
    return net, net(torch.randn(4, 3)), torch.tensor([0, 1, 2, 0])


class TestSentenceExit:
    def test_the_loss_of_layer_n_weighs_n(self) -> None:
        torch.manual_seed(0)
        halting = po.SentenceExit(po.PlannedDepth(2, unit="token"), po.ConfidenceExit())
        net = po.Ponder(po.TransformerStep(8, 2, layers=3), halting, head=po.ReadOut(8, 4, place="mean"))
        target = torch.tensor([0, 3])
        solution = net(torch.randn(2, 5, 8))
        assert solution.outputs is not None
        one, two, three = (F.cross_entropy(output, target) for output in solution.outputs)
        torch.testing.assert_close(net.loss(solution, target, F.cross_entropy), (one + 2 * two + 3 * three) / 6)


class TestCriterion:
    @pytest.mark.parametrize(
        "criterion",
        [
            nn.CrossEntropyLoss(),
            nn.CrossEntropyLoss(reduction="sum"),
            nn.CrossEntropyLoss(reduction="none"),
            F.cross_entropy,
            partial(F.cross_entropy, reduction="sum"),
            lambda output, target: F.cross_entropy(output, target, reduction="none"),
            per_example,
        ],
        ids=["mean", "sum", "none", "function", "partial", "lambda", "own"],
    )
    def test_any_reduction_means_the_mean_over_examples(self, criterion: po.halting.base.Criterion) -> None:
        net, solution, target = classifier()
        close(net.loss(solution, target, criterion), F.cross_entropy(solution.output, target))

    def test_the_caller_s_criterion_is_left_alone(self) -> None:
        net, solution, target = classifier()
        criterion = nn.CrossEntropyLoss(reduction="sum")
        net.loss(solution, target, criterion)
        assert criterion.reduction == "sum"

    def test_its_other_options_count(self) -> None:
        net, solution, target = classifier()
        smooth = nn.CrossEntropyLoss(label_smoothing=0.3)
        close(net.loss(solution, target, smooth), smooth(solution.output, target))
        assert not torch.isclose(smooth(solution.output, target), F.cross_entropy(solution.output, target))

    def test_soft_labels(self) -> None:
        """A distribution per example: the criterion gives one value for each, whatever the targets' shape."""
        net, solution, _ = classifier()
        target = torch.rand(4, 3).softmax(-1)
        close(net.loss(solution, target, nn.CrossEntropyLoss()), F.cross_entropy(solution.output, target))

    def test_regression_and_binary(self) -> None:
        net, solution, _ = classifier()
        target = torch.rand(4, 3)
        close(net.loss(solution, target, nn.MSELoss()), F.mse_loss(solution.output, target))
        bce = nn.BCEWithLogitsLoss()
        close(net.loss(solution, target, bce), bce(solution.output, target))

    def test_a_scalar_is_refused(self) -> None:
        net, solution, target = classifier()
        with pytest.raises(ValueError, match=r"gave \[\] for outputs \[4, 3\] and targets \[4\].*reduction='none'"):
            net.loss(solution, target, lambda o, t: F.cross_entropy(o, t))

    @pytest.mark.filterwarnings("ignore:Using a target size")
    @pytest.mark.parametrize("halting", [po.LAC(), po.PonderNet(), po.ConfidenceExit()], ids=lambda h: type(h).__name__)
    def test_a_broadcast_is_refused(self, halting: po.Halting) -> None:
        """Answers [4, 1] against targets [4] would silently be compared all with all."""
        net = po.Ponder(po.GRUStep(3, 4), halting, head=nn.Linear(4, 1), max_steps=5)
        with pytest.raises(ValueError, match=r"for outputs \[4, 1\] and targets \[4\].*target\.unsqueeze\(-1\)"):
            net.loss(net(torch.randn(4, 3)), torch.rand(4), nn.MSELoss())

    @pytest.mark.parametrize("target", [torch.tensor([0, 1]), torch.tensor(1)], ids=["too few", "none"])
    def test_the_target_must_fit_the_batch(self, target: Tensor) -> None:
        net, solution, _ = classifier()
        with pytest.raises(ValueError, match=r"the target is \[2?\], the output \[4, 3\]"):
            net.loss(solution, target, F.cross_entropy)


class TestTokenTargets:
    mask = torch.tensor([[True, True, False], [True, False, False]])

    @pytest.mark.parametrize("unit", ["example", "token"])
    @pytest.mark.parametrize("size", [3, 5], ids=["as many classes as tokens", "more classes"])
    @pytest.mark.parametrize("padded", [True, False])
    def test_classes(self, padded: bool, size: int, unit: str) -> None:
        """The mean over real tokens; three tokens and three classes are not mistaken for each other."""
        net = po.Ponder(po.GRUStep(3, 4), po.LAC(unit=unit), head=nn.Linear(4, size), max_steps=5)
        target = torch.tensor([[0, 1, 2], [2, 2, 1]])
        mask = self.mask if padded else torch.ones_like(self.mask)
        solution = net(torch.randn(2, 3, 3), mask=mask if padded else None)
        expected = F.cross_entropy(solution.output[mask], target[mask])
        close(net.loss(solution, target, nn.CrossEntropyLoss()), expected)

    def test_numbers(self) -> None:
        net = po.Ponder(po.GRUStep(3, 4), po.LAC(unit="token"), head=nn.Linear(4, 2), max_steps=5)
        target = torch.rand(2, 3, 2)
        solution = net(torch.randn(2, 3, 3), mask=self.mask)
        close(net.loss(solution, target, nn.MSELoss()), F.mse_loss(solution.output[self.mask], target[self.mask]))

    def test_what_padding_is_labelled_does_not_matter(self) -> None:
        net = po.Ponder(po.GRUStep(3, 4), po.PonderNet(unit="token"), head=nn.Linear(4, 5), max_steps=5)
        solution = net(torch.randn(2, 3, 3), mask=self.mask)
        target = torch.tensor([[0, 1, 2], [2, 2, 1]])
        close(*(net.loss(solution, t, F.cross_entropy) for t in (target, torch.where(self.mask, target, 4))))

    def test_nothing_but_padding_has_no_loss(self) -> None:
        net = po.Ponder(po.GRUStep(3, 4), po.ACT(unit="token"), head=nn.Linear(4, 5), max_steps=5)
        solution = net(torch.randn(2, 3, 3), mask=torch.zeros(2, 3, dtype=torch.bool))
        with pytest.raises(ValueError, match="without examples or real tokens"):
            net.loss(solution, torch.zeros(2, 3, dtype=torch.long), F.cross_entropy)


@pytest.mark.parametrize("lambda_", [0.6, 0.9, 0.99])
def test_pondernet_is_exact_where_hardly_anything_is_left(lambda_: float) -> None:
    """The last weight is a product of many small numbers: as a difference from 1 it would be noise, and its logarithm too."""
    halting = po.PonderNet(size=1)
    with torch.no_grad():
        halting.gate.weight.zero_()
        halting.gate.bias.fill_(math.log(lambda_ / (1 - lambda_)))
    net = po.Ponder(po.CellStep(nn.GRUCell(1, 1)), halting, max_steps=20)
    weights = net(torch.ones(1, 1)).weights[:, 0]
    expected = torch.tensor([lambda_ * (1 - lambda_) ** n for n in range(19)] + [(1 - lambda_) ** 19])
    assert torch.allclose(weights, expected, rtol=1e-4, atol=0)
