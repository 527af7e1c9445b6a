"""Modulation: values worked out by hand, the three contractions, variances and numbers of parameters."""

import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import ponderosa as po
from ponderosa.steps.modules import contraction
from ponderosa.steps.modules.contraction import CONTRACTIONS, Mixture, Shape
from ponderosa.steps.modules.film import FilmedLinear
from ponderosa.steps.modules.generator import FactorisedGenerator, FullGenerator
from ponderosa.steps.modules.latents import CrossAttention, LatentPool
from ponderosa.steps.modules.pool import Pool
from ponderosa.steps.tokens import Tokens
from ponderosa.training.experiment import experiment_parser

numbers = st.integers(1, 5)


def mixture(examples: int, shape: Shape, dtype: torch.dtype) -> Mixture:
    scores = torch.randn(examples, shape.modules, dtype=dtype).softmax(-1)
    values = torch.randn(shape.modules, shape.value, dtype=dtype)
    return Mixture(scores, values, scores @ values)


def one_by_one(x: Tensor, mix: Mixture, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The definition: each example's layer, one after the other."""
    out = []
    for rows, scores in zip(x, mix.scores, strict=True):
        value = sum(score * v for score, v in zip(scores, mix.values, strict=True))
        y = rows @ torch.einsum("v,vio->io", value, weight)
        out.append(y if bias is None else y + value @ bias)
    return torch.stack(out)


@given(numbers, numbers, numbers, numbers, numbers, numbers, st.booleans(), st.sampled_from([torch.float32, torch.float64]))
@seed(0)
@settings(max_examples=30, deadline=None, database=None)
def test_the_three_contractions_agree(examples, rows, modules, value, inputs, outputs, bias, dtype) -> None:
    shape = Shape(modules, value, inputs, outputs, bias)
    generator, mix = FullGenerator(shape).to(dtype), mixture(examples, shape, dtype)
    x = torch.randn(examples, rows, inputs, dtype=dtype)
    counts = torch.randint(1, rows + 1, (examples,)).tolist()
    packed = torch.cat([part[:count] for part, count in zip(x, counts, strict=True)])
    expected = one_by_one(x, mix, generator.weight, generator.bias)
    picked = torch.cat([part[:count] for part, count in zip(expected, counts, strict=True)])
    atol = 1e-5 if dtype == torch.float32 else 1e-12
    for contract in CONTRACTIONS:
        for grad in (True, False):
            with torch.set_grad_enabled(grad):
                found = contract(x, mix, generator.weight, generator.bias, None)
                torch.testing.assert_close(found, expected, rtol=0, atol=atol)
                found = contract(packed, mix, generator.weight, generator.bias, counts)
                torch.testing.assert_close(found, picked, rtol=0, atol=atol)


def test_many_weights_are_generated_some_inputs_at_a_time(monkeypatch) -> None:
    monkeypatch.setattr(contraction, "CACHE", 24)  # four of the nine inputs of two examples and three outputs
    shape = Shape(4, 5, 9, 3)
    generator, mix, x = FullGenerator(shape).double(), mixture(2, shape, torch.float64), torch.randn(2, 6, 9).double()
    expected = generator(x, mix, None)
    with torch.no_grad():
        torch.testing.assert_close(generator(x, mix, None), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("shape", "examples", "rows", "expected"),
    [
        (Shape(32, 32, 8, 8), 16, 400, contraction.embeddings_first),
        (Shape(4, 32, 8, 8), 16, 400, contraction.matrices_first),
        (Shape(2, 32, 8, 8), 16, 16, contraction.outputs_last),
    ],
)
def test_the_cheapest_contraction_is_chosen(shape, examples, rows, expected) -> None:
    assert shape.cheapest(examples, rows) is expected


def test_a_tiny_hyper_module_by_hand() -> None:
    """(1, 3) normalised is (-1, 1), and the query ln 2 / 2. The keys 1 and 0 give, at temperature 1/2, scores 2/3 and 1/3, the
    values 3 and 6 a mixed one of 4, weights (1, 2) times 4 and a bias of 0.5 times 4: (1, 1) becomes 4 + 8 + 2."""
    pool, generator = Pool(2, 2, 2, temperature=0.5).double(), FullGenerator(Shape(2, 1, 2, 1)).double()
    with torch.no_grad():
        pool.query[0].eps = 0.0
        pool.query[1].weight.copy_(torch.tensor([[0.0, 0.5 * torch.log(torch.tensor(2.0))]]))
        pool.query[1].bias.zero_()
        pool.keys.copy_(torch.tensor([[1.0], [0.0]]))
        pool.values.copy_(torch.tensor([[3.0], [6.0]]))
        generator.weight.copy_(torch.tensor([[[1.0], [2.0]]]))
        generator.bias.fill_(0.5)
    mix = pool(torch.tensor([[1.0, 3.0]]).double())
    torch.testing.assert_close(mix.scores, torch.tensor([[2 / 3, 1 / 3]]).double())
    torch.testing.assert_close(mix.mixed, torch.tensor([[4.0]]).double())
    rows = torch.tensor([[[1.0, 1.0], [0.0, -1.0]]]).double()
    torch.testing.assert_close(generator(rows, mix, None), torch.tensor([[[14.0], [-6.0]]]).double())


def test_the_router_pools_over_all_tokens_but_padding() -> None:
    network = po.TransformerStep(8, 2, modulation=po.HyperModules(modules=3, embedding=4)).hyper
    h, mask = torch.randn(3, 5, 8), torch.arange(5) < torch.tensor([[5], [2], [0]])
    h[2] = torch.nan
    plan = network.plan(h, mask)
    for slot, pool in (("query", "qkv"), ("key_value", "qkv"), ("out", "out"), ("up", "mlp"), ("down", "mlp")):
        expected = network.pools[pool](torch.stack([h[0].mean(0), h[1, :2].mean(0), torch.zeros(8)])).scores
        torch.testing.assert_close(plan.layers[slot][1].scores, expected)


@pytest.mark.parametrize("rank", [None, 6])
def test_generated_layers_begin_with_a_dense_layers_variance(rank: int | None) -> None:
    torch.manual_seed(0)
    weights, biases = [], []
    for _ in range(20):
        pool, shape = Pool(40, 8, 24, 1.0), Shape(8, 12, 40, 30)
        generator = FullGenerator(shape) if rank is None else FactorisedGenerator(shape, rank)
        with torch.no_grad():
            mix = pool(torch.randn(10, 40))
            bias = generator(torch.zeros(10, 1, 40), mix, None)
            weights.append(generator(torch.eye(40).expand(10, -1, -1), mix, None) - bias)
            biases.append(bias)
    assert torch.stack(weights).std() == pytest.approx((3 * 40) ** -0.5, rel=0.05)
    assert torch.stack(biases).std() == pytest.approx((3 * 40) ** -0.5, rel=0.05)


def parameters(step: nn.Module) -> int:
    return sum(p.numel() for p in step.parameters())


def test_factors_need_a_quarter_of_the_parameters() -> None:
    full, factorised = (
        po.TransformerStep(64, 4, modulation=po.HyperModules(modules=16, rank=rank)).hyper for rank in (None, 8)
    )
    weights, biases, pools = 12 * 64**2, 9 * 64, 3 * (2 * 64 + 65 * 32 + 16 * 64)
    assert parameters(full) == 32 * (weights + biases) + pools
    assert parameters(factorised) == weights + biases + 32 * (8 * (2 + 3 + 2 + 5 + 5) * 64 + biases) + pools
    assert parameters(factorised) < parameters(full) / 4


def test_layers_share_pools_generators_and_latents() -> None:
    def grown(modulation: po.Modulation) -> int:
        """What another layer adds."""
        one, two = (parameters(po.TransformerStep(8, 2, layers=layers, modulation=modulation)) for layers in (1, 2))
        return two - one

    assert grown(po.HyperModules()) == 2 * 2 * 8  # the norms
    assert grown(po.HyperModules(out=False)) == 2 * 2 * 8 + 9 * 8
    plain = parameters(po.TransformerStep(8, 2))
    assert grown(po.Latents(count=5)) == plain + 2 * 8 + 2 * 9 * 8  # a norm, queries and output
    assert parameters(po.TransformerStep(8, 2, modulation=po.Latents(count=5))) == grown(po.Latents()) + 5 * 2 * 8


def test_a_stack_of_hyper_modules_in_a_checkpoint() -> None:
    step = po.TransformerStep(8, 2, layers=3, modulation=po.HyperModules(modules=2, embedding=4))
    names = [name for name in step.state_dict() if "norm" not in name and not name.startswith("hyper.")]
    assert names == []


def test_film_by_hand() -> None:
    linear = FilmedLinear(nn.Linear(2, 1), hidden=1)
    plain = linear.linear
    torch.testing.assert_close(linear(torch.ones(3, 2)), plain(torch.ones(3, 2)))
    with torch.no_grad():
        plain.weight.copy_(torch.tensor([[2.0, 1.0]]))
        plain.bias.fill_(1.0)
        linear.film[0].weight.copy_(torch.tensor([[100.0, 0.0]]))  # far above 0, where GELU is the identity
        linear.film[0].bias.zero_()
        linear.film[2].weight.copy_(torch.tensor([[0.01], [0.02]]))
        linear.film[2].bias.copy_(torch.tensor([0.5, 0.0]))
    # 2 * 1 + 1 * 3 + 1 = 6, scaled by 1 + 0.01 * 100 + 0.5 and shifted by 0.02 * 100
    torch.testing.assert_close(linear(torch.tensor([[1.0, 3.0]])), torch.tensor([[17.0]]))


def test_latents_by_hand() -> None:
    """One head of size 1: the query ln 2 and the keys 1 and 0 weigh the values 3 and 6 by 2/3 and 1/3."""
    cross = CrossAttention(LatentPool(2, 1), size=1, heads=1)
    with torch.no_grad():
        for part, weight in ((cross.query, 1.0), (cross.out, 10.0)):
            part.weight.fill_(weight)
            part.bias.zero_()
        cross.latents.keys.copy_(torch.tensor([[1.0], [0.0]]))
        cross.latents.values.copy_(torch.tensor([[3.0], [6.0]]))
    x = torch.tensor([[[2.0]], [[1.0]]]).log()
    torch.testing.assert_close(cross(x), torch.tensor([[[40.0]], [[45.0]]]))


@pytest.mark.parametrize("modulation", [po.FiLM(), po.Latents(count=3), po.HyperModules(modules=2, embedding=4)], ids=type)
def test_known_keys_and_values_are_kept_only_where_they_stay_the_same(modulation: po.Modulation) -> None:
    step = po.TransformerStep(8, 2, modulation=modulation)
    rows: list[int] = []
    original = type(step.layers[0]).keys_values

    def counted(block: nn.Module, h: Tensor, *plan: object) -> Tensor:
        rows.append(h[..., 0].numel())
        return original(block, h, *plan)

    net = po.Ponder(step, po.PlannedDepth(unit="token"), max_steps=3).eval()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(step.layers[0]), "keys_values", counted)
        net(torch.randn(1, 5, 8), depth=torch.tensor([[1, 1, 2, 3, 3]]))
    assert rows == ([5, 5, 5] if isinstance(modulation, po.HyperModules) else [5, 5, 3])


def test_an_example_without_tokens_to_compute_has_no_weights_generated() -> None:
    """Of three examples two have ended: only the third's plan is made."""
    step = po.TransformerStep(8, 2, modulation=po.HyperModules(modules=2, embedding=4))
    planned: list[int] = []
    step.hyper.pools["out"].register_forward_hook(lambda module, given, out: planned.append(len(given[0])))
    x, active = torch.randn(3, 2, 8), Tokens(torch.tensor([[False, False], [True, False], [False, False]]))
    step.advance_packed(step.prepare(x), x, 1, active)
    assert planned == [1]


def test_modulation_from_the_command_line() -> None:
    parser = experiment_parser()
    given = ["--task", "ponderosa.tasks.CPVR", "--step", "ponderosa.TransformerStep", "--step.size", "8", "--step.heads", "2"]
    chosen = ["--step.modulation", "ponderosa.HyperModules", "--step.modulation.modules", "3", "--step.modulation.mlp", "false"]
    made = parser.instantiate_classes(parser.parse_args([*given, *chosen]))
    assert len(made.step.hyper.pools["qkv"].keys) == 3
    assert "mlp" not in made.step.hyper.pools


def test_what_makes_no_sense_is_refused() -> None:
    for options in ({"modules": 0}, {"embedding": 1}, {"temperature": 0.0}, {"rank": 0}):
        with pytest.raises(ValueError, match="one module at least"):
            po.HyperModules(**options)
    with pytest.raises(ValueError, match="nothing is left to modulate"):
        po.HyperModules(qkv=False, out=False, mlp=False)
    with pytest.raises(ValueError, match="at least one latent"):
        po.Latents(count=0)
    with pytest.raises(ValueError, match="at least one unit"):
        po.FiLM(hidden=0)
    block = po.TransformerStep(8, 2, modulation=po.HyperModules()).layers[0]
    with pytest.raises(ValueError, match="generated for each example"):
        block.queries(torch.randn(1, 8))
