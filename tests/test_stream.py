"""A stream's answers are those of a batch, whatever the order, the company and what goes wrong with others."""

import asyncio
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import ponderosa as po
from ponderosa.engine.live import Live
from ponderosa.engine.schedule import Schedule
from tests import zoo
from tests.zoo import PAIRS, TOKENS, Pair

STREAMED = [p for p in PAIRS if p.unit != "batch"]


def requests_of(batch: zoo.Batch, tokens: bool) -> list[object]:
    """Each example of a batch on its own, its padding cut off."""
    if not tokens:
        return list(batch.x)
    lengths = batch.mask.sum(1).tolist()
    return [{"tokens": x[:n], "mask": m[:n]} for x, m, n in zip(batch.x["tokens"], batch.mask, lengths, strict=True)]


@pytest.mark.parametrize("pair", STREAMED, ids=str)
@given(st.integers(0, 10**6), st.sampled_from([2, 1, 3, 9]), st.sampled_from([7, 1, 12]), st.booleans())
@seed(0)
@settings(max_examples=2, deadline=None, database=None)
def test_streamed_equals_masked(pair: Pair, number: int, slots: int, examples: int, ordered: bool) -> None:
    for kind in pair.inputs:
        net, batch = pair.net(number, kind).eval(), zoo.batch(number, examples, 12 if kind == TOKENS else None)
        masked = batch.run(net, engine="unroll")
        stream = po.Stream(net, slots=slots, ordered=ordered, tokens=kind == TOKENS)
        with zoo.gathering(costs=number % 2 == 1):
            answers = list(stream(requests_of(batch, kind == TOKENS)))
        indices = [a.index for a in answers]
        assert sorted(indices) == list(range(examples))
        assert not ordered or indices == sorted(indices)
        for answer in answers:
            real = slice(None) if batch.mask is None else batch.mask[answer.index]
            steps, output = masked.steps[answer.index], masked.output[answer.index]
            torch.testing.assert_close(answer.steps, steps[real] if steps.ndim else steps)
            torch.testing.assert_close(answer.result(), output[real] if output.ndim > 1 else output, rtol=0, atol=1e-10)


def gru(**options: object) -> po.Ponder:
    torch.manual_seed(0)
    return po.Ponder(po.GRUStep(4, 8), po.LAC(), head=nn.Linear(8, 2), max_steps=9, **options)


class Picky(nn.Module):
    """A step that cannot bear a certain number, and says so at its third step only."""

    hidden_size = 4

    def forward(self, x: Tensor, state: Tensor, n: int) -> Tensor:
        if n == 3 and (x == 13).any():
            raise ArithmeticError("thirteen")
        return state + x


def picky() -> po.Ponder:
    step = po.CellStep(Picky(), initial_state=torch.zeros_like)
    return po.Ponder(step, po.PlannedDepth(5), max_steps=6)


def test_a_bad_request_does_not_harm_the_others() -> None:
    good = torch.randn(20, 4)
    asked: list[object] = [*good]
    asked[3], asked[8], asked[11] = torch.full((4,), torch.nan), torch.randn(5), "no tensor"
    answers = list(po.Stream(gru(), slots=4)(asked))
    assert [a.index for a in answers if a.error] == [3, 8, 11]
    expected = gru().eval()(good).output
    for answer in answers:
        if answer.error is None:
            torch.testing.assert_close(answer.output, expected[answer.index])
    with pytest.raises(FloatingPointError, match="the input has NaN"):
        answers[3].result()


def test_an_error_in_the_middle_of_the_work_stays_with_its_request() -> None:
    asked = torch.ones(10, 4)
    asked[6] = 13
    answers = list(po.Stream(picky(), slots=4)(asked))
    assert [(a.index, str(a.error)) for a in answers if a.error] == [(6, "thirteen")]
    assert all(torch.equal(a.output, torch.full((4,), 5.0)) for a in answers if not a.error)


def test_many_threads_and_asyncio() -> None:
    x = torch.randn(60, 4)
    expected = gru().eval()(x).output
    with po.Stream(gru(), slots=8) as stream:
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(lambda row: stream.submit(row).result(timeout=60).output, x))
        torch.testing.assert_close(torch.stack(found), expected)

        async def together() -> list[po.Answer]:
            return await asyncio.gather(*(stream.ask(row) for row in x))

        torch.testing.assert_close(torch.stack([a.output for a in asyncio.run(together())]), expected)
        with pytest.raises(FloatingPointError):
            stream.submit(torch.full((4,), torch.nan)).result(timeout=60)
    assert not any(t.name == "ponderosa-stream" for t in threading.enumerate())


def test_no_more_is_drawn_than_can_wait() -> None:
    drawn = 0

    def endless() -> object:
        nonlocal drawn
        while True:
            drawn += 1
            yield torch.randn(4)

    answers = po.Stream(gru(), slots=4, waiting=16)(endless())
    for index in range(500):
        assert next(answers).index == index
        assert drawn - index <= 17


def test_a_stack_keeps_a_queue_per_layer_and_none_waits_without_limit() -> None:
    """One deep request among many shallow ones: its queue is never full, and it is answered all the same."""
    torch.manual_seed(0)
    net = po.Ponder(po.Stack([nn.Linear(4, 4) for _ in range(6)]), po.PlannedDepth())
    asked = (po.Request(torch.randn(4), depth=6 if i == 0 else 1) for i in range(100_000))
    before = itertools.takewhile(lambda answer: answer.index != 0, po.Stream(net, slots=2, ordered=False)(asked))
    assert len(list(before)) < 2 * 64 * 6 * 2


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match='unit="batch" halts all examples'):
        po.Stream(po.Ponder(po.GRUStep(4, 8), po.LAC(unit="batch"), max_steps=3))
    with pytest.raises(ValueError, match="slots=0"):
        po.Stream(gru(), slots=0)


@pytest.mark.parametrize("signal", [None, 6])
def test_full_slots_run_ahead_of_known_depths(signal: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps until somebody ends are taken at once, and each example's are its own."""
    torch.manual_seed(0)
    net = po.Ponder(po.TransformerStep(8, 2, step_signal=signal), po.PlannedDepth(), max_steps=6).double().eval()
    lengths, depths = [3, 5, 4, 2, 5, 1], [6, 4, 6, 2, 9, 5]
    tokens = [torch.randn(n, 8, dtype=torch.float64) for n in lengths]
    rounds = 0
    run = Schedule.run

    def counted(schedule: Schedule, failed: object) -> object:
        nonlocal rounds
        rounds += 1
        return run(schedule, failed)

    monkeypatch.setattr(Schedule, "run", counted)
    answers = list(po.Stream(net, slots=2)(po.Request(x, depth=d) for x, d in zip(tokens, depths, strict=True)))
    for x, depth, answer in zip(tokens, depths, answers, strict=True):
        alone = net(x[None], depth=torch.tensor([depth]), engine="unroll")
        torch.testing.assert_close(answer.result(), alone.output[0], rtol=0, atol=1e-12)
        assert answer.steps == min(depth, 6)
    assert rounds < sum(min(depth, 6) for depth in depths) / 2


def test_a_head_that_fails_fails_for_its_request_alone() -> None:
    class Head(nn.Linear):
        def forward(self, state: Tensor) -> Tensor:
            if (state > 1e3).any():
                raise ArithmeticError("too large")
            return super().forward(state)

    step = po.CellStep(_Keep(), initial_state=lambda x: x, size=4)
    net = po.Ponder(step, po.PlannedDepth(2), head=Head(4, 1), max_steps=2)
    requests = torch.randn(6, 4)
    requests[3] = 1e6
    answers = list(po.Stream(net, slots=4)(requests))
    assert [answer.error is None for answer in answers] == [True, True, True, False, True, True]
    with po.Stream(net, slots=4) as stream:
        futures = [stream.submit(request) for request in requests]
        assert [future.exception(10) is None for future in futures] == [True, True, True, False, True, True]


class _Keep(nn.Module):
    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        return state


def test_memory_that_changes_its_kind_is_joined_by_new_requests() -> None:
    """A counter that begins as whole numbers and becomes real ones, in slots that are filled again."""

    class Counted(po.LAC):
        on_host = False

        def begin(self, state: Tensor, units: object) -> dict[str, Tensor]:
            return {**super().begin(state, units), "count": torch.zeros(len(state), dtype=torch.long)}

        def update(self, n: object, state: Tensor, output: Tensor | None, memory: dict[str, Tensor]) -> object:
            share, done, memory = super().update(n, state, output, memory)
            return share, done, {**memory, "count": memory["count"] + 0.5}

    torch.manual_seed(0)
    net, x = po.Ponder(po.GRUStep(4, 32), Counted(), max_steps=6).eval(), torch.randn(20, 4)
    with zoo.gathering(costs=False):
        answers = list(po.Stream(net, slots=4)(x))
    assert [answer.error for answer in answers] == [None] * 20
    assert [int(answer.steps) for answer in answers] == net(x).steps.tolist()


def test_depths_of_a_byte() -> None:
    net = po.Ponder(po.GRUStep(4, 8), po.Bounded(po.PlannedDepth(), max_steps=299), max_steps=300).eval()
    x, depth = torch.randn(3, 4), torch.tensor([1, 4, 3], dtype=torch.uint8)
    assert net(x, depth=depth).steps.tolist() == [1, 4, 3]
    answers = po.Stream(net, slots=2)(po.Request(row, depth=d) for row, d in zip(x, depth, strict=True))
    assert [int(answer.steps) for answer in answers] == [1, 4, 3]


def planned(max_steps: int = 400, **options: object) -> po.Ponder:
    torch.manual_seed(0)
    return po.Ponder(po.GRUStep(4, 8), po.PlannedDepth(), max_steps=max_steps, **options)


def test_a_quick_request_does_not_wait_for_slow_ones() -> None:
    """However small the network: free slots are used, and those of the halted ones, too."""
    asked = [po.Request(torch.randn(4), depth=d) for d in (400, 1, 1, 400, *[1] * 40)]
    order = [answer.index for answer in po.Stream(planned(), slots=4, ordered=False)(asked)]
    assert set(order[-2:]) == {0, 3}


@pytest.mark.parametrize("of", [int, torch.tensor])
def test_slow_requests_begin_first(of: Callable[[int], int | Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where depths are known: the last asked is slow, and the quick ones fill the other slot beside it."""
    seen: list[int] = []
    step = Live.take_step
    monkeypatch.setattr(Live, "take_step", lambda live, *given: (seen.append(len(live)), step(live, *given))[1])
    asked = [po.Request(torch.randn(4), depth=of(d)) for d in (*[1] * 10, 10)]
    net = po.Ponder(po.GRUStep(4, 2048), po.PlannedDepth(), max_steps=10)  # wide: a free slot is worth filling at once
    assert [int(answer.steps) for answer in po.Stream(net, slots=2)(asked)] == [*[1] * 10, 10]
    assert seen == [2] * 10


@pytest.mark.parametrize(
    "bad", [float("nan"), torch.tensor(torch.nan), "deep", torch.tensor(1j), torch.tensor(2, device="meta")], ids=str
)
def test_a_depth_that_makes_no_sense_is_its_requests_own_error(bad: object) -> None:
    asked = [po.Request(torch.randn(4), depth=bad if i == 5 else 2) for i in range(9)]
    answers = list(po.Stream(planned(), slots=2)(asked))
    assert [answer.index for answer in answers if answer.error is None] == [0, 1, 2, 3, 4, 6, 7, 8]


def test_a_lone_request_among_many_kinds_is_answered() -> None:
    net = po.Ponder(po.CellStep(_Keep(), initial_state=lambda x: x, size=1), po.PlannedDepth(), max_steps=3)
    others = (po.Request(torch.ones(1 + i // 2 % 130), depth=3) for i in range(4000))
    answers = po.Stream(net, slots=2, ordered=False)(itertools.chain([po.Request(torch.ones(999), depth=3)], others))
    assert len(list(itertools.takewhile(lambda answer: answer.index != 0, answers))) < 2000


def test_who_has_ended_is_not_blamed_on_who_goes_on() -> None:
    class Grows(nn.Module):
        def forward(self, x: Tensor, state: Tensor) -> Tensor:
            if (state > 25).any():
                raise ArithmeticError("too large")
            return state + x

    net = po.Ponder(po.CellStep(Grows(), initial_state=lambda x: x, size=1), po.PlannedDepth(), max_steps=9)
    asked = [po.Request(torch.tensor([10.0]), depth=2), po.Request(torch.tensor([1.0]), depth=8)]
    assert [answer.result().item() for answer in po.Stream(net, slots=2)(asked)] == [30, 9]


def test_an_ended_source_is_not_asked_again() -> None:
    class Once:
        left = 3

        def __iter__(self) -> "Once":
            return self

        def __next__(self) -> po.Request:
            assert self.left >= 0
            self.left -= 1
            if self.left < 0:
                raise StopIteration
            return po.Request(torch.randn(4), depth=3)

    assert len(list(po.Stream(planned(), slots=1, waiting=4)(Once()))) == 3


@pytest.mark.parametrize(
    "values", [torch.tensor([1.0, torch.nan, 2.0]), torch.tensor([1j, 2j, 3j])], ids=["numbers", "complex"]
)
def test_answers_of_any_kind(values: Tensor) -> None:
    class Picks(nn.Module):
        def forward(self, state: Tensor) -> Tensor:
            return values[state[:, 0].long()]

    net = po.Ponder(po.CellStep(_Keep(), initial_state=lambda x: x, size=1), po.PlannedDepth(1), head=Picks(), max_steps=1)
    errors = [answer.error for answer in po.Stream(net, slots=2)(torch.arange(3.0)[:, None])]
    assert [error is not None for error in errors] == values.isnan().tolist()
    assert all(isinstance(error, FloatingPointError) for error in errors if error is not None)


def test_steps_that_are_known_of_some_only() -> None:
    class Sometimes(po.PlannedDepth):
        def depths(self, memory: dict[str, Tensor]) -> Tensor | None:
            return None if len(memory["depth"]) % 2 else super().depths(memory)

    torch.manual_seed(0)
    net, depths = po.Ponder(po.GRUStep(4, 8), Sometimes(), max_steps=6), [2, 6, 6, 2, 6, 1, 3]
    with zoo.gathering(costs=False):
        answers = po.Stream(net, slots=2, waiting=3)(po.Request(torch.randn(4), depth=d) for d in depths)
        assert [int(answer.steps) for answer in answers] == depths


def test_requests_of_other_numbers_are_other_batches() -> None:
    """Stacked, small integers would cut large ones."""
    torch.manual_seed(0)
    net = po.Ponder(po.TransformerStep(8, 2), po.PlannedDepth(unit="token"), max_steps=300)
    depths = [torch.tensor([3, 2], dtype=torch.uint8), torch.tensor([290, 1])]
    answers = list(po.Stream(net, slots=2)(po.Request(torch.randn(2, 8), depth=d) for d in depths))
    assert [answer.steps.tolist() for answer in answers] == [[3, 2], [290, 1]]


def test_no_more_than_waiting_are_taken_in() -> None:
    class Slow(nn.Module):
        def forward(self, x: Tensor, state: Tensor) -> Tensor:
            assert go_on.wait(10)
            return state

    go_on = threading.Event()
    net = po.Ponder(po.CellStep(Slow(), initial_state=lambda x: x, size=1), po.PlannedDepth(1), max_steps=1)
    with po.Stream(net, slots=1, waiting=2) as stream, ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(stream.submit, torch.zeros(1)) for _ in range(5)]
        with pytest.raises(TimeoutError):
            [future.result(0.3) for future in asked]
        assert sum(future.done() for future in asked) == 2
        go_on.set()
        assert [future.result(10).result(10).error for future in asked] == [None] * 5
