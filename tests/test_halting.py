"""When each mechanism stops and what it weighs, on runs written down step by step."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import ponderosa as po
from ponderosa import halting
from tests.zoo import Script, scripted, states_of

ENGINES = ["unroll", "compact"]


def f64(*values: float | list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def run(halting: po.Halting, states: Tensor, engine: str, **options: Tensor) -> po.Solution:
    """Goes through `states` `[batch, steps + 1(, 1)]`; the head's answer is the state, a single logit."""
    states = states if states.ndim == 3 else states[..., None]
    return scripted(halting, states, head=nn.Identity()).eval()(states, engine=engine, **options)


@pytest.mark.parametrize("engine", ENGINES)
class TestExits:
    # log-odds of (1/2, 1/2), (3/4, 1/4), (9/10, 1/10), and again
    odds = f64([0, 0, math.log(3), -math.log(9), math.log(9)])

    @pytest.mark.parametrize(("threshold", "halts"), [(0.5, 1), (0.7, 2), (0.8, 3), (0.95, 4)])
    def test_confidence(self, engine: str, threshold: float, halts: int) -> None:
        assert run(po.ConfidenceExit(threshold=threshold), self.odds, engine).steps.tolist() == [halts]

    # entropies 0.693, 0.562, 0.325, 0.325
    @pytest.mark.parametrize(("threshold", "halts"), [(0.7, 1), (0.6, 2), (0.4, 3), (0.3, 4)])
    def test_entropy(self, engine: str, threshold: float, halts: int) -> None:
        assert run(po.EntropyExit(threshold=threshold), self.odds, engine).steps.tolist() == [halts]

    # labels of the rows: 1 1 1 1 1; 0 1 1 0 0; 0 1 0 1 0. Patience 1 waits for one repetition, patience 2 for two in a row
    @pytest.mark.parametrize(("patience", "halts"), [(1, [2, 3, 5]), (2, [3, 5, 5])])
    def test_patience_counts_for_each_example(self, engine: str, patience: int, halts: list[int]) -> None:
        labels = f64([0, 1, 1, 1, 1, 1], [0, -1, 1, 1, -1, -1], [0, -1, 1, -1, 1, -1])
        assert run(po.PatienceExit(patience=patience), labels, engine).steps.tolist() == halts

    def test_the_answer_is_that_of_the_layer_s_own_head(self, engine: str) -> None:
        layers = [nn.Identity() for _ in range(3)]
        heads = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
        net = po.Ponder(po.Stack(layers, size=2), po.AnyOf([po.EntropyExit(threshold=0.0), po.PlannedDepth()]), head=heads)
        x = torch.randn(3, 2)
        solution = net.eval()(x, depth=torch.tensor([1, 3, 2]), engine=engine)
        expected = torch.stack([heads[0](x[0]), heads[2](x[1]), heads[1](x[2])])
        torch.testing.assert_close(solution.output, expected)


@pytest.mark.parametrize("engine", ENGINES)
class TestPlannedDepth:
    states = torch.arange(6.0, dtype=torch.float64).expand(4, 6)

    def test_depths_given_with_the_call(self, engine: str) -> None:
        """Beyond the limit means the limit, below one means one."""
        solution = run(po.PlannedDepth(2), self.states, engine, depth=torch.tensor([1, 4, 9, 0]))
        assert solution.steps.tolist() == [1, 4, 5, 1]
        assert solution.output[:, 0].tolist() == [1, 4, 5, 1]

    def test_plans(self, engine: str) -> None:
        assert run(po.PlannedDepth(3), self.states, engine).steps.tolist() == [3] * 4
        assert run(po.PlannedDepth(lambda x: torch.arange(len(x)) + 2), self.states, engine).steps.tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("engine", ENGINES)
class TestCompositions:
    def test_bounded_above(self, engine: str) -> None:
        # ACT would take 4 steps of 0.3; at the bound 2 the rest goes to step 2
        x = states_of(f64([0.3], [0.3], [0.3], [0.3], [0.3]))
        solution = run(po.Bounded(po.ACT(), max_steps=2), x, engine)
        torch.testing.assert_close(solution.weights[:, 0], f64(0.3, 0.7, 0, 0, 0))

    def test_bounded_below(self, engine: str) -> None:
        # ACT would halt at step 2 (0.6, 0.4): steps at which a unit may not end weigh nothing, the first that may gets it all
        x = states_of(f64([0.6], [0.6], [0.6], [0.6], [0.6]))
        solution = run(po.Bounded(po.ACT(), min_steps=4), x, engine)
        torch.testing.assert_close(solution.weights[:, 0], f64(0, 0, 0, 1, 0))
        assert solution.steps.tolist() == [4]

    def test_whoever_is_first_ends_it(self, engine: str) -> None:
        # shares 0.3: the plan ends units after 1, 2 and 3 steps, ACT itself after 4 (0.3 * 4 > 0.99)
        x = states_of(torch.full((6, 4), 0.3, dtype=torch.float64))
        solution = run(po.AnyOf([po.ACT(), po.PlannedDepth()]), x, engine, depth=torch.tensor([1, 2, 3, 6]))
        rows = [[1, 0, 0, 0, 0, 0], [0.3, 0.7, 0, 0, 0, 0], [0.3, 0.3, 0.4, 0, 0, 0], [0.3, 0.3, 0.3, 0.1, 0, 0]]
        torch.testing.assert_close(solution.weights.T, f64(*rows))

    def test_only_the_first_weighs(self, engine: str) -> None:
        # ACT is first and gives shares; the plan ends the unit at step 2 and gives none
        x = states_of(torch.full((4, 1), 0.3, dtype=torch.float64))
        solution = run(po.AnyOf([po.ACT(), po.PlannedDepth(2)]), x, engine)
        torch.testing.assert_close(solution.weights[:, 0], f64(0.3, 0.7, 0, 0))

    def test_min_steps_of_lac(self, engine: str) -> None:
        # changes -1, -2, ...: each is below zero, so the paper's rule would halt at step 2
        falling = f64([20, 19, 17, 14, 10, 5])
        halts = [run(po.LAC(min_steps=early), falling, engine).steps.tolist() for early in (1, 2, 3, 4, 9)]
        assert halts == [[2], [2], [3], [4], [5]]

    def test_alpha_of_lac_as_a_tensor(self, engine: str) -> None:
        # changes 4, 2, 3, 0.5: the last is below half of 4 - 2
        rising = f64([0, 4, 6, 9, 9.5, 10])
        halts = [run(po.LAC(alpha=alpha), rising, engine).steps.tolist() for alpha in (0.5, torch.tensor(0.5))]
        assert halts == [[4], [4]]


@pytest.mark.parametrize("engine", ENGINES)
class TestNorms:
    """What LAC takes the norm of: a batch, an example with all its tokens, a token; padding left out."""

    mask = torch.tensor([[True, True], [True, False]])

    @pytest.mark.parametrize("unit", ["batch", "example", "token"])
    def test_units(self, engine: str, unit: str) -> None:
        states = torch.randn(8, 2, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(0)
        squares = states.square().sum(-1) * self.mask
        norms = {"batch": squares.sum((1, 2)), "example": squares.sum(2), "token": squares}[unit].sqrt()
        x = states.transpose(0, 1)
        solution = scripted(po.LAC(alpha=0.5, unit=unit), x).eval()(x, mask=self.mask, engine=engine)
        wanted = po.functional.lac_steps(norms, 0.5)
        wanted = wanted * self.mask if unit == "token" else wanted.expand(2)
        assert solution.steps.tolist() == wanted.tolist()

    def test_features_are_not_taken_for_tokens(self, engine: str) -> None:
        """A mask of as many tokens as the state has features."""
        states = torch.randn(8, 2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(0)
        x = states.transpose(0, 1)
        solution = scripted(po.LAC(alpha=0.5), x).eval()(x, mask=self.mask, engine=engine)
        assert solution.steps.tolist() == po.functional.lac_steps(states.norm(dim=-1), 0.5).tolist()

    def test_images(self, engine: str) -> None:
        """More axes than tokens and features: all of an example's activations count, those of padding do not."""
        states = torch.randn(8, 2, 2, 4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64).cumsum(0)
        norms = (states.square() * self.mask[:, :, None, None]).sum((2, 3, 4)).sqrt()
        x = states.transpose(0, 1)
        solution = scripted(po.LAC(alpha=0.5), x).eval()(x, mask=self.mask, engine=engine)
        assert solution.steps.tolist() == po.functional.lac_steps(norms, 0.5).tolist()

    @pytest.mark.parametrize("shape", [(2, 3), (2, 4, 3)], ids=["tokens", "patches of pixels"])
    def test_learned_mechanisms_read_the_mean_of_what_is_real(self, engine: str, shape: tuple[int, ...]) -> None:
        x = torch.randn(2, 3, *shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        solution = scripted(po.ACT(), x).eval()(x, mask=self.mask, engine=engine)
        both, one = x[0, 1].reshape(-1, 3).mean(0), x[1, 1, 0].reshape(-1, 3).mean(0)
        torch.testing.assert_close(solution.weights[0], torch.stack([both, one]).sum(-1).sigmoid())


@pytest.mark.parametrize("path", sorted(Path(halting.__file__).parent.glob("*.py")), ids=lambda p: p.stem)
def test_a_mechanism_s_whole_logic_fits_in_one_file(path: Path) -> None:
    """Readers find it on three screens; the contract and its helpers, which all of them share, have more room."""
    assert len(path.read_text().splitlines()) < (150 if path.stem != "base" else 250)


def test_a_sentence_leaves_with_all_its_tokens() -> None:
    """Two sentences, tokens planned for 3 and 1 steps; the first sentence is content after its second step."""
    states = torch.zeros(2, 5, 2, 1, dtype=torch.float64)
    states[0, 2:], states[1, 3:] = 9.0, 9.0
    step = po.CellStep(Script(), initial_state=lambda x: x[:, 0], size=1)
    leaves = po.SentenceExit(po.PlannedDepth(unit="token"), po.ConfidenceExit(threshold=0.9))
    net = po.Ponder(step, leaves, head=Sure(), max_steps=4).eval()
    depth = torch.tensor([[3, 1], [4, 1]])
    for engine in ENGINES:
        solution = net(states, depth=depth, engine=engine)
        assert solution.steps.tolist() == [[2, 1], [3, 1]]
    net.train()
    assert net(states, depth=depth).steps.tolist() == depth.tolist()  # no exit in training


class Sure(nn.Module):
    """As certain of the second class as the sentence's largest state says."""

    def forward(self, state: Tensor) -> Tensor:
        top = state.amax((1, 2))
        return torch.stack([torch.zeros_like(top), top], -1)


def test_a_sentence_exit_says_what_it_needs() -> None:
    with pytest.raises(ValueError, match="a mechanism is needed that halts tokens"):
        po.SentenceExit(po.PlannedDepth(3), po.ConfidenceExit())
    with pytest.raises(ValueError, match="a mechanism is needed that halts tokens"):
        po.SentenceExit(po.ACT(unit="token"), po.ConfidenceExit())
    with pytest.raises(ValueError, match='an exit with unit="example" is needed'):
        po.SentenceExit(po.PlannedDepth(3, unit="token"), po.ConfidenceExit(unit="token"))


class TestMemoryOnTheHost:
    """LAC and planned depth are given arrays where units leave; what is derived from them is not, unless it says so."""

    def test_a_subclass_gets_tensors(self) -> None:
        class Mine(po.LAC):
            def update(self, n, state, output, memory):
                assert isinstance(memory["norm"], Tensor)
                share, done, memory = super().update(n, state, output, memory)
                return share, done & torch.ones_like(done), memory

        class Named(po.LAC):
            """Nothing of its own."""

        assert po.LAC.on_host and Named.on_host and not Mine.on_host and po.PlannedDepth.on_host
        torch.manual_seed(0)
        x = torch.randn(6, 4)
        mine, plain = (po.Ponder(po.GRUStep(4, 8), h, max_steps=9).eval() for h in (Mine(), po.LAC()))
        mine.load_state_dict(plain.state_dict())
        assert mine(x).steps.tolist() == plain(x).steps.tolist() == plain(x, engine="unroll").steps.tolist()

    def test_what_all_examples_share(self) -> None:
        class Shared(po.PlannedDepth):
            on_host = True

            def begin(self, state, units):
                return {**super().begin(state, units), "shared": torch.zeros(())}

        net = po.Ponder(po.GRUStep(4, 8), Shared(), max_steps=9).eval()
        assert net(torch.ones(3, 4), depth=torch.tensor([1, 5, 3])).steps.tolist() == [1, 5, 3]

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_states_of_one_number(self, dtype: torch.dtype) -> None:
        step = po.CellStep(nn.Identity(), initial_state=lambda x: x)
        step.advance = lambda context, state, n: state / 2
        net = po.Ponder(step, po.LAC(), max_steps=5).eval()
        x = torch.tensor([1.0, -3.0], dtype=dtype)
        assert net(x).steps.tolist() == net(x, engine="unroll").steps.tolist()
