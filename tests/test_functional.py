"""The formulas against values worked out by hand, and the mechanisms against their formulas."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import ponderosa as po
from ponderosa.functional import act_weights, entropy, geometric_prior, kl_to_prior, lac_steps, ponder_weights
from ponderosa.keys import content_key, token_keys, uniform
from tests.zoo import scripted, states_of


def f64(*values: float | list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(ours: Tensor, theirs: Tensor | float, atol: float = 1e-12) -> None:
    torch.testing.assert_close(ours, torch.as_tensor(theirs, dtype=ours.dtype), rtol=0, atol=atol)


class TestACT:
    def test_remainder(self) -> None:
        # sums 0.3, 0.8, 1.2: past 0.99 at step 3, which weighs 1 - 0.8
        weights, steps, remainder = act_weights(f64(0.3, 0.5, 0.4, 0.9))
        close(weights, f64(0.3, 0.5, 0.2, 0.0))
        close(remainder, 0.2)
        assert steps == 3

    def test_limit(self) -> None:
        # sums 0.1, 0.3, 0.4: never past 0.99, so the last step weighs 1 - 0.3
        weights, steps, remainder = act_weights(f64(0.1, 0.2, 0.1))
        close(weights, f64(0.1, 0.2, 0.7))
        close(remainder, 0.7)
        assert steps == 3

    def test_eps(self) -> None:
        # 0.96 reaches 1 - 0.05 but not 1 - 0.01; a unit that halts at once has the remainder 1
        halt = f64(0.96, 0.96)
        assert [int(act_weights(halt, eps)[1]) for eps in (0.05, 0.01)] == [1, 2]
        close(act_weights(halt, 0.05)[0], f64(1, 0))
        close(act_weights(halt, 0.05)[2], 1.0)
        close(act_weights(halt, 0.01)[0], f64(0.96, 0.04))

    def test_gradient_goes_through_the_remainder_only(self) -> None:
        # steps + remainder = 3 + (1 - h1 - h2): h3 decides the moment, which has no gradient, and h4 is never reached
        halt = f64(0.3, 0.5, 0.4, 0.9).requires_grad_()
        _, steps, remainder = act_weights(halt)
        (steps + remainder).backward()
        close(halt.grad, f64(-1, -1, 0, 0))

    def test_weights_carry_their_gradient(self) -> None:
        # sum of n * w_n = h1 + 2 h2 + 3 (1 - h1 - h2) = 3 - 2 h1 - h2: nothing on the way is detached
        halt = f64(0.3, 0.5, 0.4).requires_grad_()
        (act_weights(halt)[0] * f64(1, 2, 3)).sum().backward()
        close(halt.grad, f64(-2, -1, 0))

    def test_units_side_by_side(self) -> None:
        halt = f64([0.3, 0.995], [0.5, 0.5], [0.4, 0.1])
        weights, steps, remainder = act_weights(halt[:, None])
        close(weights, f64([[0.3, 1.0]], [[0.5, 0.0]], [[0.2, 0.0]]))
        assert steps.tolist() == [[3, 1]]
        close(remainder, f64([0.2, 1.0]))

    @pytest.mark.parametrize("engine", ["unroll", "compact"])
    def test_mechanism_follows_the_formula(self, engine: str) -> None:
        halt = torch.rand(7, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 0.6
        x = states_of(halt)
        solution = scripted(po.ACT(), x).eval()(x, engine=engine)
        weights, steps, _ = act_weights(halt)
        close(solution.weights, weights)
        assert (solution.steps == steps).all()


class TestPonderNet:
    def test_weights(self) -> None:
        # 0.2; 0.8 * 0.5; 0.8 * 0.5 * 0.9; what is left, whatever the last lambda says
        close(ponder_weights(f64(0.2, 0.5, 0.9, 0.3)), f64(0.2, 0.4, 0.36, 0.04))

    def test_weights_of_certain_steps(self) -> None:
        # p = l1, (1 - l1) l2, (1 - l1)(1 - l2): at l1 = 1 the derivatives by l1 are 1, -l2, -(1 - l2)
        lambdas = f64(1.0, 0.25, 0.5).requires_grad_()
        weights = ponder_weights(lambdas)
        close(weights.detach(), f64(1, 0, 0))
        rows = [torch.autograd.grad(w, lambdas, retain_graph=True)[0] for w in weights]
        close(torch.stack(rows), f64([1, 0, 0], [-0.25, 0, 0], [-0.75, 0, 0]))
        close(ponder_weights(f64(0, 0, 0)), f64(0, 0, 1))
        close(ponder_weights(f64(0, 1, 1)), f64(0, 1, 0))

    def test_prior_is_cut_off_and_renormalised(self) -> None:
        # 1/2, 1/4, 1/8 sum to 7/8; 0.2, 0.16 sum to 0.36
        close(geometric_prior(0.5, 3), torch.tensor([4 / 7, 2 / 7, 1 / 7]), atol=1e-6)
        close(geometric_prior(0.2, 2), torch.tensor([5 / 9, 4 / 9]), atol=1e-6)
        assert geometric_prior(0.9, 1).tolist() == [1.0]

    def test_kl_both_ways(self) -> None:
        p, prior = f64(0.5, 0.5), f64(0.25, 0.75)
        close(kl_to_prior(p, prior), 0.5 * math.log(2) + 0.5 * math.log(2 / 3))
        close(kl_to_prior(p, prior, reverse=True), 0.25 * math.log(1 / 2) + 0.75 * math.log(3 / 2))

    def test_reverse_kl_is_torch_s_kl_div(self) -> None:
        p = torch.rand(5, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(0)
        prior = geometric_prior(0.3, 5).double()
        theirs = F.kl_div(p.log(), prior.view(5, 1, 1).expand_as(p), reduction="none").sum(0)
        close(kl_to_prior(p, prior, reverse=True), theirs)

    def test_kl_of_the_prior_itself_is_zero(self) -> None:
        prior = geometric_prior(0.3, 5).double()
        for reverse in (False, True):
            close(kl_to_prior(prior[:, None].expand(5, 2), prior, reverse), f64(0, 0), atol=1e-7)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("reverse", [False, True])
    def test_zeros_are_no_reason_for_nan(self, reverse: bool, dtype: torch.dtype) -> None:
        p = torch.tensor([1.0, 0.0, 0.0], dtype=dtype, requires_grad=True)
        kl = kl_to_prior(p, torch.tensor([0.5, 0.5, 0.0]), reverse)
        kl.backward()
        assert kl.isfinite()
        assert p.grad.isfinite().all()
        if not reverse:
            close(kl.detach(), math.log(2), atol=1e-6)

    @pytest.mark.parametrize("kl", ["paper", "reverse"])
    @pytest.mark.parametrize("logit", [-500.0, 500.0])
    def test_certain_nets_train(self, kl: str, logit: float) -> None:
        """Lambdas that are 0 or 1 to the last bit give a finite loss and finite gradients."""
        x = torch.full((2, 6, 1), logit, dtype=torch.float64)
        net = scripted(po.PonderNet(kl=kl, beta=1.0), x)
        loss = net.loss(net(x), torch.zeros(2, 1, dtype=torch.float64), F.mse_loss)
        loss.backward()
        assert loss.isfinite()
        assert all(p.grad.isfinite().all() for p in net.parameters())

    def test_mechanism_follows_the_formula(self) -> None:
        lambdas = torch.rand(7, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        x = states_of(lambdas)
        solution = scripted(po.PonderNet(), x)(x)
        close(solution.weights, ponder_weights(lambdas))
        assert (solution.steps == 7).all()
        assert solution.distribution

    def test_threshold(self) -> None:
        # cumulative p of lambda = 1/2: 0.5, 0.75, 0.875, 1
        x = states_of(torch.full((4, 1), 0.5, dtype=torch.float64))
        halts = {
            threshold: int(scripted(po.PonderNet(evaluation="threshold", threshold=threshold), x).eval()(x).steps)
            for threshold in (0.4, 0.7, 0.8, 0.999)
        }
        assert halts == {0.4: 1, 0.7: 2, 0.8: 3, 0.999: 4}

    @pytest.mark.parametrize("named", [True, False], ids=["by key", "by content"])
    def test_samples_are_those_of_bernoulli_draws(self, named: bool) -> None:
        """Step counts over many units fit lambda_n * prod(1 - lambda_j): chi-square with 4 degrees of freedom."""
        lambdas, units = f64(0.3, 0.5, 0.2, 0.6, 0.1), 40_000
        x = states_of(lambdas[:, None].expand(5, units))
        x[:, 0, 0] = torch.arange(units)  # h_0 is read by nobody, but makes the contents differ
        key = torch.arange(units) if named else None
        steps = scripted(po.PonderNet(seed=3), x).eval()(x, key=key).steps
        expected = units * ponder_weights(lambdas)
        chi_square = ((torch.bincount(steps, minlength=6)[1:] - expected) ** 2 / expected).sum()
        assert chi_square < 18.5  # one in a thousand

    def test_draws_are_bernoulli_given_survival(self) -> None:
        """Among the units that reached step n, the share that halts there is lambda_n."""
        lambdas, units = f64(0.3, 0.5, 0.2, 0.6, 0.1), 40_000
        x = states_of(lambdas[:, None].expand(5, units))
        steps = scripted(po.PonderNet(), x).eval()(x, key=torch.arange(units)).steps
        for n, chance in enumerate(lambdas.tolist()[:-1], start=1):
            reached = steps >= n
            sigma = math.sqrt(chance * (1 - chance) / int(reached.sum()))
            assert abs(float((steps[reached] == n).double().mean()) - chance) < 4 * sigma


class TestLAC:
    @pytest.mark.parametrize(
        ("norms", "alpha", "halts"),
        [
            # changes 1, 2, 0.5, 0.1. Step 2: 2 < 0? no. Step 3: 0.5 < 1.0 * (2 - 1): yes
            ([0, 1, 3, 3.5, 3.6], 1.0, 3),
            # the same. Step 3: 0.5 < 0.4 * 1? no. Step 4: 0.1 < 0.4 * (2 - 0.5): yes
            ([0, 1, 3, 3.5, 3.6], 0.4, 4),
            # changes 5, -1. Step 2: -1 < 0: yes, the earliest there is
            ([0, 5, 4, 4, 4], 1.0, 2),
            # changes -1, 2, ...: step 1 has no threshold, however far the norm falls
            ([3, 2, 4, 8, 16], 1.0, 4),
            # equal changes vary by nothing: 1 < 0 never holds, so all 4 steps
            ([0, 1, 2, 3, 4], 1.0, 4),
            # changes 3, 3, 0: the threshold is 0 at step 3 as well, and 0 < 0 does not hold; step 4: -1 < 3
            ([0, 3, 6, 6, 5], 1.0, 4),
            # changes 1, 3, -2: the sign counts, -2 < 0.5 * 2
            ([0, 1, 4, 2, 1.5], 0.5, 3),
        ],
    )
    def test_paper(self, norms: list[float], alpha: float, halts: int) -> None:
        assert lac_steps(f64(*norms), alpha) == halts

    @pytest.mark.parametrize(
        ("norms", "alpha", "halts"),
        [
            # changes 4, 1, 0.5. Call 3: |1| < 4, the range of (0, 4), whose zero is the history's filling: yes
            ([0, 4, 5, 5.5, 5.6], 1.0, 3),
            # changes 1, 3, -2. Call 3: |3| < (0, 1)? no. Call 4: |-2| < 3, the range of (0, 1, 3): yes
            ([0, 1, 4, 2, 1.5, 1.5], 1.0, 4),
            # the same. Call 4: |-2| < 0.5 * 3? no: the absolute change counts. Call 5: |-0.5| < 0.5 * 5, of (0, 1, 3, -2): yes
            ([0, 1, 4, 2, 1.5, 1.5], 0.5, 5),
            # changes 5, 0. Call 2: |5| < 0? no. Call 3: |0| < 5: yes, the earliest there is
            ([0, 5, 5, 5, 5], 1.0, 3),
            # changes -4, 0, 0: a fall at first makes a range as well, (0, -4)
            ([5, 1, 1, 1, 1], 1.0, 3),
            # changes 0, 0, 0: |0| < 0 never holds
            ([2, 2, 2, 2], 1.0, 3),
            # changes 1, 2, 4, 8: each is larger than the range before it
            ([0, 1, 3, 7, 15], 1.0, 4),
        ],
    )
    def test_reference(self, norms: list[float], alpha: float, halts: int) -> None:
        assert lac_steps(f64(*norms), alpha, "reference") == halts

    def test_reference_is_the_released_loop(self) -> None:
        """Against a transcription of the loop that formulas.md describes, on random walks."""
        walks = torch.randn(9, 200, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(0).abs()
        for alpha in (1.0, 0.5):
            assert lac_steps(walks, alpha, "reference").tolist() == [released(w.tolist(), alpha) for w in walks.T]

    def test_units_have_their_own_history(self) -> None:
        walks = torch.randn(9, 3, 50, generator=torch.Generator().manual_seed(1), dtype=torch.float64).cumsum(0).abs()
        for rule in ("paper", "reference"):
            alone = [lac_steps(walk, rule=rule) for walk in walks.flatten(1).T]
            assert lac_steps(walks, rule=rule).flatten().tolist() == alone

    @pytest.mark.parametrize("engine", ["unroll", "compact"])
    @pytest.mark.parametrize("rule", ["paper", "reference"])
    def test_mechanism_follows_the_formula(self, rule: str, engine: str) -> None:
        x = torch.randn(50, 9, generator=torch.Generator().manual_seed(2), dtype=torch.float64).cumsum(1).abs()
        solution = scripted(po.LAC(alpha=0.8, rule=rule), x[..., None]).eval()(x[..., None], engine=engine)
        assert (solution.steps == lac_steps(x.T, 0.8, rule)).all()
        assert (solution.output[:, 0] == x.gather(1, solution.steps[:, None])[:, 0]).all()  # the answer is h_t


def released(norms: list[float], alpha: float) -> int:
    """The released loop in the words of formulas.md: norms[k] is |s_k|."""
    layers = len(norms) - 1
    history, change = [0.0] * (layers + 1), 0.0
    for k in range(1, layers + 1):
        history[k] = change
        threshold = alpha * (max(history) - min(history))
        change = norms[k - 1] - norms[k - 2] if k > 1 else 0.0
        if abs(change) < threshold:
            return k
    return layers


class TestEntropy:
    def test_values(self) -> None:
        # p = 1/4, 3/4: 1/4 ln 4 + 3/4 ln 4/3; one logit is the log-odds of the second of two classes
        quarter = 0.25 * math.log(4) + 0.75 * math.log(4 / 3)
        close(entropy(f64([0, math.log(3)], [7, 7])), f64(quarter, math.log(2)))
        close(entropy(f64([math.log(3)], [0.0])), f64(quarter, math.log(2)))

    def test_certainty_is_no_reason_for_nan(self) -> None:
        logits = f64([1e4, -1e4, 0.0]).requires_grad_()
        entropy(logits).sum().backward()
        close(entropy(logits).detach(), f64(0))
        assert logits.grad.isfinite().all()


class TestKeys:
    def test_a_draw_depends_on_seed_and_key_only(self) -> None:
        keys = torch.arange(1000)
        draws, order = uniform(5, keys), torch.randperm(1000)
        assert (uniform(5, keys[order]) == draws[order]).all()
        assert (uniform(5, keys[7:8]) == draws[7:8]).all()
        assert (uniform(6, keys) != draws).all()

    def test_draws_are_uniform_and_unrelated(self) -> None:
        """Neighbouring keys and neighbouring seeds: chi-square over 100 cells, and no correlation."""
        draws, others = uniform(0, torch.arange(100_000)), uniform(1, torch.arange(100_000))
        cells = torch.histc(draws, 100, 0, 1)
        assert ((cells - 1000) ** 2 / 1000).sum() < 149  # 99 degrees of freedom, one in a thousand
        assert draws.min() >= 0
        assert draws.max() < 1
        for pair in ((draws[:-1], draws[1:]), (draws, others)):
            assert abs(float(torch.corrcoef(torch.stack(pair))[0, 1])) < 4 / math.sqrt(100_000)

    def test_different_contents_have_different_keys(self) -> None:
        """All vectors of -1, 0 and 1, whose bits are nearly all zero, as in parity; and all short words."""
        vectors = f64(*itertools.product([-1.0, 0.0, 1.0], repeat=8))
        assert len(content_key(vectors, None).unique()) == 3**8
        words = torch.tensor(list(itertools.product(range(20), repeat=3)))
        assert len(content_key(words, None).unique()) == 20**3

    def test_content_decides_and_nothing_else(self) -> None:
        x = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
        keys = content_key(x, None)
        assert (content_key(x.double(), None) == keys).all()
        assert (content_key(x.flip(0), None) == keys.flip(0)).all()
        assert (content_key(x[2:3], None) == keys[2:3]).all()
        assert (content_key(x.flip(1), None) != keys).all()
        assert (content_key(torch.zeros(1, 3), None) == content_key(-torch.zeros(1, 3), None)).all()
        assert content_key((x[:, :2], x[:, 2:]), None).tolist() != content_key((x[:, 2:], x[:, :2]), None).tolist()

    @pytest.mark.parametrize("features", [(), (4,)], ids=["words", "vectors"])
    def test_padding_is_left_out_on_either_side(self, features: tuple[int, ...]) -> None:
        x = torch.randint(9, (6, 3, *features), generator=torch.Generator().manual_seed(0))
        real, none = torch.ones(6, 3, dtype=torch.bool), torch.zeros(6, 2, dtype=torch.bool)
        garbage = torch.randint(9, (6, 2, *features))
        keys = content_key(x, None)
        for parts in ((x, garbage), (garbage, x)):
            mask = torch.cat([real if part is x else none for part in parts], 1)
            assert (content_key(torch.cat(parts, 1), mask) == keys).all()
            assert (token_keys(keys, 5, mask)[mask].view(6, 3) == token_keys(keys, 3, None)).all()
        assert len(token_keys(keys, 3, None).unique()) == 18

    def test_padding_is_not_content(self) -> None:
        """A real zero is not the same as padding."""
        x, mask = torch.zeros(1, 3), torch.tensor([[True, True, False]])
        assert content_key(x, mask) != content_key(x, None)
