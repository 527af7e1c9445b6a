"""Operations: the mapped operators, the closed form of every solution, and the two against each other."""

import pytest
import torch
import torch.nn.functional as F
from tests import zoo
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import ponderosa as po
from ponderosa.engine import thrift
from ponderosa.measure.cost import Cost, cost
from ponderosa.measure.operations import count, counting
from ponderosa.measure.price import Price, price

BATCH, TIME, SIZE, HIDDEN = 3, 5, 8, 6
TOKENS = torch.randn(BATCH, TIME, SIZE)
PADDED = torch.arange(TIME) >= torch.tensor([[2], [5], [3]])
PROJECTIONS = 2 * 4 * SIZE * SIZE
"""Queries, keys, values and the output of one token."""


@pytest.fixture(autouse=True)
def no_filling(monkeypatch):
    """Padding that only fills up a common call of attention is no work that was needed, and no price counts it."""
    monkeypatch.setattr("ponderosa.steps.attention.WASTE", 0)


def encoder_layer() -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(SIZE, 2, HIDDEN, batch_first=True).eval()


def attention(x):
    heads = x.unflatten(-1, (2, -1)).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads)


def multihead(x):
    return nn.MultiheadAttention(SIZE, 2, batch_first=True).eval()(x, x, x)


def padded_encoder(x):
    return nn.TransformerEncoder(encoder_layer(), 2)(x, src_key_padding_mask=PADDED)


LSTM = 2 * BATCH * TIME * 4 * HIDDEN
ATTENDED = 4 * BATCH * TIME * TIME * SIZE
LAYER = BATCH * TIME * (PROJECTIONS + 2 * 2 * SIZE * HIDDEN) + ATTENDED
MAPPED = {
    "attention": (attention, ATTENDED),
    "lstm": (nn.LSTM(SIZE, HIDDEN, batch_first=True), LSTM * (SIZE + HIDDEN)),
    "lstm of two layers": (nn.LSTM(SIZE, HIDDEN, 2, batch_first=True), LSTM * (SIZE + 3 * HIDDEN)),
    "lstm of two directions": (nn.LSTM(SIZE, HIDDEN, bidirectional=True, batch_first=True), 2 * LSTM * (SIZE + HIDDEN)),
    "self-attention": (multihead, BATCH * TIME * PROJECTIONS + ATTENDED),
    "encoder layer": (encoder_layer(), LAYER),
    # ten real tokens in two layers; the attention itself pads them again
    "nested encoder": (padded_encoder, 2 * (10 * (PROJECTIONS + 2 * 2 * SIZE * HIDDEN) + ATTENDED)),
    "bilinear": (lambda x: nn.Bilinear(SIZE, SIZE, HIDDEN)(x, x), 2 * BATCH * TIME * HIDDEN * SIZE * SIZE),
    "matrix and vector": (lambda x: x[0] @ x[1, 0], 2 * TIME * SIZE),
    "vector and vector": (lambda x: x[0, 0] @ x[1, 0], 2 * SIZE),
    "sum, matrix and vector": (lambda x: torch.addmv(x[2, :, 0], x[0], x[1, 0]), 2 * TIME * SIZE),
}
KNOWN = {
    "gru": (nn.GRU(SIZE, HIDDEN, batch_first=True), 2 * BATCH * TIME * 3 * HIDDEN * (SIZE + HIDDEN)),
    "rnn": (nn.RNN(SIZE, HIDDEN, batch_first=True), 2 * BATCH * TIME * HIDDEN * (SIZE + HIDDEN)),
    "lstm cell": (lambda x: nn.LSTMCell(SIZE, HIDDEN)(x[:, 0]), 2 * BATCH * 4 * HIDDEN * (SIZE + HIDDEN)),
    "linear": (nn.Linear(SIZE, HIDDEN), 2 * BATCH * TIME * SIZE * HIDDEN),
}
"""What torch's own counter sees on a CPU."""


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", [*MAPPED, *KNOWN])
def test_operators(name):
    call, expected = (MAPPED | KNOWN)[name]
    assert count(call, TOKENS) == expected


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", MAPPED)
def test_what_is_mapped_was_missing(name):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        MAPPED[name][0](TOKENS)
    assert counter.get_total_flops() == 0


def backward(call) -> int:
    """The operations of the backward pass alone."""
    answer = call(TOKENS.clone().requires_grad_())
    answer = answer[0] if isinstance(answer, tuple) else answer
    with counting() as counter:
        answer.sum().backward()
    return counter.get_total_flops()


def test_backward_passes():
    assert backward(MAPPED["attention"][0]) == 5 * ATTENDED / 2  # the scores again, and two products for each of forward's
    assert backward(MAPPED["lstm"][0]) == 2 * MAPPED["lstm"][1]


# Closed forms by hand. Planned depths say who takes which step. The networks are so large that leaving a halted example
# behind always pays, so that the engine does what has to be done and no more.

LIMIT = 4
DEPTHS = torch.tensor([1, 4, 2])
EXAMPLES = len(DEPTHS)


def ran(net: po.Ponder, x, **given) -> int:
    """The operations that the engine does, counted while it runs."""
    return count(lambda: net.eval()(x, **given))


def check(net: po.Ponder, x, done: int, full: int, full_padded: int | None = None, *, mask=None, **given) -> None:
    """The cost is what was worked out by hand, and what the engine does."""
    full_padded = full_padded or full
    whole = po.Ponder(net.step, po.Fixed(), head=net.head, max_steps=net.max_steps, encoder=net.encoder)
    start = net.begin(x, mask=mask, **given)[1]
    assert thrift.Thrift(net.step, start).pays(1, EXAMPLES - 1), "choose a larger network"
    assert ran(net, x, mask=mask, **given) == done
    assert ran(whole, x, mask=mask) == full
    assert ran(whole, x) == full_padded
    with torch.no_grad():
        solution = net(x, mask=mask, **given)
    expected = Cost(done / EXAMPLES, full / EXAMPLES, full_padded / EXAMPLES)
    assert cost(net, x, solution, mask=mask, **given) == cost(net, x, mask=mask, **given) == expected
    assert expected.bound == full / done


GRU_STEP, GRU_ONCE, HEAD = 2 * 1024 * 3072, 2 * 5 * 3072, 2 * 1024 * 7
"""Of one example: a step, the input's projection, the head."""


def gru(halting: po.Halting) -> po.Ponder:
    return po.Ponder(po.GRUStep(5, 1024), halting, head=nn.Linear(1024, 7), max_steps=LIMIT)


def test_gru():
    check(gru(po.PlannedDepth()), torch.randn(3, 5), 3 * (GRU_ONCE + HEAD) + 7 * GRU_STEP,
          3 * (GRU_ONCE + HEAD) + 12 * GRU_STEP, depth=DEPTHS)  # fmt: skip


def test_learned_gates_count_where_they_decide():
    torch.manual_seed(0)
    net, x = gru(po.PonderNet()).eval(), torch.randn(3, 5)
    steps = int(net(x).steps.sum())
    assert 3 < steps < 12
    check(net, x, 3 * (GRU_ONCE + HEAD) + steps * (GRU_STEP + 2 * 1024), 3 * (GRU_ONCE + HEAD) + 12 * GRU_STEP)


def test_a_router_counts():
    router = nn.Linear(5, LIMIT)
    net = gru(po.PlannedDepth(lambda x: router(x).argmax(1) + 1))
    x = torch.randn(3, 5)
    steps = int(net.eval()(x).steps.sum())
    check(net, x, 3 * (GRU_ONCE + HEAD + 2 * 5 * LIMIT) + steps * GRU_STEP, 3 * (GRU_ONCE + HEAD) + 12 * GRU_STEP)


def test_mlp_and_encoder():
    step = po.MLPStep(6, 1200, width=1000)
    net = po.Ponder(step, po.PlannedDepth(), max_steps=LIMIT, encoder=nn.Linear(5, 6))
    once, each = 2 * (5 * 6 + 6 * 1000), 2 * 2 * 1000 * 1200
    check(net, torch.randn(3, 5), 3 * once + 7 * each, 3 * once + 12 * each, depth=DEPTHS)


def perceptron(width: int, out: int = 900) -> nn.Module:
    return nn.Sequential(nn.Linear(900, width), nn.ReLU(), nn.Linear(width, out))


WIDTHS = (1700, 1900, 2100, 2300)
LAYERS = [2 * 2 * 900 * width for width in WIDTHS]


def test_stack_with_a_head_for_each_layer():
    heads = nn.ModuleList(perceptron(width, 3) for width in (10, 20, 30, 40))
    net = po.Ponder(po.Stack([perceptron(width) for width in WIDTHS]), po.PlannedDepth(), head=heads)
    layers = 3 * LAYERS[0] + 2 * LAYERS[1] + LAYERS[2] + LAYERS[3]
    check(net, torch.randn(3, 900), layers + 2 * 903 * (10 + 20 + 40), 3 * (sum(LAYERS) + 2 * 903 * 40), depth=DEPTHS)


def test_exits_count_the_head_of_every_step_they_take():
    torch.manual_seed(0)
    exits = po.ConfidenceExit(threshold=0.36)
    net = po.Ponder(po.Stack([perceptron(width) for width in WIDTHS]), exits, head=nn.Linear(900, 3)).eval()
    x = torch.randn(3, 900)
    going = [int((net(x).steps >= n).sum()) for n in range(1, LIMIT + 1)]
    assert 3 < sum(going) < 12
    done = sum(rows * (layer + 2 * 900 * 3) for rows, layer in zip(going, LAYERS, strict=True))
    check(net, x, done, 3 * (sum(LAYERS) + 2 * 900 * 3))


# Tokens: three examples of six, three and five, padded to six.

TOKEN, LONGEST = 192, 6
LENGTHS = torch.tensor([6, 3, 5])
MASK = torch.arange(LONGEST) < LENGTHS[:, None]
TOKEN_DEPTHS = torch.tensor([[1, 1, 2, 3, 1, 1], [4, 2, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
KEYS_VALUES, OTHERS, PAIR = 4 * TOKEN**2, 20 * TOKEN**2, 4 * TOKEN
"""Of a token: keys and values; queries, attention's output and a feed-forward network four times as wide. Of two: attention."""
TOKEN_HEADS = EXAMPLES * LONGEST * 2 * TOKEN * 3
KINDS: dict[str, dict[str, object]] = {
    "untied": {"layers": LIMIT}, "tied": {}, "frozen": {"layers": LIMIT, "frozen_kv": True},
    "tied and frozen": {"frozen_kv": True}, "with a signal": {"step_signal": LIMIT},
}  # fmt: skip
FRESH = {"untied": 35, "tied": 28, "frozen": 21, "tied and frozen": 21, "with a signal": 35}
"""Keys and values computed for TOKEN_DEPTHS. All that are seen: 14 + 9 + 9 + 3. Those that changed in the step before: 14 + 9 +
4 + 1. Those that go on: 14 + 4 + 2 + 1."""


def transformer(kind: str, unit: str) -> po.Ponder:
    step = po.TransformerStep(TOKEN, 4, **KINDS[kind])
    return po.Ponder(step, po.PlannedDepth(unit=unit), head=nn.Linear(TOKEN, 3), max_steps=LIMIT)


def at_full_depth(tokens: int, pairs: int) -> int:
    return LIMIT * (tokens * (KEYS_VALUES + OTHERS) + pairs * PAIR) + TOKEN_HEADS


FULL, FULL_PADDED = at_full_depth(14, 36 + 9 + 25), at_full_depth(18, 3 * 36)


@pytest.mark.parametrize("kind", KINDS)
def test_transformer_whose_examples_halt(kind):
    tokens, pairs = 14 + 8 + 3 + 3, (36 + 9 + 25) + (9 + 25) + 9 + 9
    done = tokens * (KEYS_VALUES + OTHERS) + pairs * PAIR + TOKEN_HEADS
    x = torch.randn(EXAMPLES, LONGEST, TOKEN)
    check(transformer(kind, "example"), x, done, FULL, FULL_PADDED, mask=MASK, depth=DEPTHS)


@pytest.mark.parametrize("kind", KINDS)
def test_transformer_whose_tokens_halt(kind):
    active, pairs = 14 + 4 + 2 + 1, (36 + 9 + 25) + (2 * 6 + 2 * 3) + (6 + 3) + 3
    done = active * OTHERS + FRESH[kind] * KEYS_VALUES + pairs * PAIR + TOKEN_HEADS
    x = torch.randn(EXAMPLES, LONGEST, TOKEN)
    check(transformer(kind, "token"), x, done, FULL, FULL_PADDED, mask=MASK, depth=TOKEN_DEPTHS)


def test_transformer_without_padding():
    active, shown, pairs = 18 + 7 + 2 + 1, 18 + 12 + 12 + 6, 3 * 36 + 6 * (7 + 2 + 1)
    depths = torch.tensor([[1, 1, 2, 2, 2, 3], [4, 2, 2, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    done = active * OTHERS + shown * KEYS_VALUES + pairs * PAIR + TOKEN_HEADS
    check(transformer("untied", "token"), torch.randn(EXAMPLES, LONGEST, TOKEN), done, FULL_PADDED, depth=depths)


def test_tokens_that_never_meet_are_packed():
    net = po.Ponder(po.GRUStep(5, 512), po.PlannedDepth(unit="token"), max_steps=LIMIT)
    once, each = 18 * 2 * 5 * 1536, 2 * 512 * 1536
    x = torch.randn(EXAMPLES, LONGEST, 5)
    full, padded = once + LIMIT * 14 * each, once + LIMIT * 18 * each
    check(net, x, once + 21 * each, full, padded, mask=MASK, depth=TOKEN_DEPTHS)


# Every kind of step and of halting against the counter.


@pytest.mark.parametrize(
    "pair", [pair for pair in zoo.PAIRS if pair.halting in ("act", "lac-paper", "confidence") and pair.unit != "batch"], ids=str
)
def test_cost_is_what_the_engine_does(pair, monkeypatch):
    monkeypatch.setattr(thrift, "GATHER", 0)  # so small a network would carry halted examples along
    monkeypatch.setattr(thrift, "BYTE", 0)
    monkeypatch.setattr("ponderosa.steps.modules.contraction.WASTE", 0)  # no rows that only fill up a common call
    tokens = pair.inputs[-1]
    net, batch = pair.net(3, tokens), zoo.batch(5, 6, 4 if tokens else None)
    found = cost(net, batch.x, mask=batch.mask)
    assert found.done == count(lambda: batch.run(net.eval())) / 6
    whole = po.Ponder(net.step, po.Fixed(), head=net.head, max_steps=net.max_steps, encoder=net.encoder).eval()
    assert found.full == count(lambda: batch.run(whole)) / 6


def test_work_that_does_not_grow_with_the_rows():
    weight = torch.randn(SIZE, SIZE)
    assert price(lambda h: h @ (weight @ weight), TOKENS[0]) == Price(fixed=2 * SIZE**3, each=2 * SIZE**2)


class Own(nn.Module):
    """A user's layer without weights: only attention multiplies."""

    heads = 1

    def queries(self, h):
        return h

    def keys_values(self, h):
        return torch.cat([h, h], -1)

    def finish(self, h, attended):
        return h + attended


def test_a_layer_of_the_users_own():
    net = po.Ponder(po.TokenStep(Own(), size=SIZE), po.PlannedDepth(unit="token"), max_steps=LIMIT)
    found = cost(net, torch.randn(EXAMPLES, LONGEST, SIZE), mask=MASK, depth=TOKEN_DEPTHS)
    assert found.done == 4 * SIZE * (70 + 18 + 9 + 3) / EXAMPLES


def test_another_limit_and_state():
    cell, x = nn.GRUCell(5, SIZE), torch.randn(3, 5)
    net, state = po.Ponder(po.CellStep(cell), po.Fixed(), max_steps=LIMIT).eval(), torch.randn(3, SIZE)
    each = 2 * 3 * SIZE * (5 + SIZE)
    assert cost(net, x, net(x, state=state, max_steps=9), state=state) == Cost(9 * each, 9 * each, 9 * each)


def test_modes_are_left_as_they_were():
    net = gru(po.PonderNet()).train()
    net.head.eval()
    cost(net, torch.randn(2, 5))
    assert net.training and net.step.training and net.halting.training and not net.head.training


def test_nothing_costs_nothing():
    assert cost(gru(po.LAC()), torch.randn(0, 5)) == Cost(0, 0, 0)
    assert Cost(0, 0, 0).bound == 1


def test_costs_are_readable():
    assert repr(Cost(1000, 2500, 2500)) == "Cost(1,000 operations per example of 2,500, at most 2.50 times sooner)"
    assert "of 2,500 (3,000 padded)" in repr(Cost(1000, 2500, 3000))
