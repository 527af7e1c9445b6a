"""What a solution says about itself, and the trees that states are."""

from typing import NamedTuple

import pytest
import torch

import ponderosa as po
from ponderosa.tree import leaves, tree_map


def solution(weights: list, steps: list, **options: object) -> po.Solution:
    return po.Solution(torch.zeros(2, 1), torch.tensor(weights), torch.tensor(steps), torch.zeros(2, 1), **options)


class TestSolution:
    def test_depth_is_what_was_taken(self) -> None:
        found = solution([[0.5, 0.0], [0.5, 1.0], [0.0, 0.0]], [3, 2])
        assert found.depth.tolist() == [3, 2]
        assert found.mean_steps == 2.5
        assert found.max_steps == 3
        assert repr(found) == "Solution(2 examples, 2.50 steps on average, 2 to 3 of 3)"

    def test_depth_is_what_is_expected_where_nothing_is_decided(self) -> None:
        # means 1 * 0.5 + 2 * 0.5 and 2
        found = solution([[0.5, 0.0], [0.5, 1.0]], [2, 2], distribution=True)
        assert found.expected_steps.tolist() == [1.5, 2.0]
        assert found.depth.tolist() == [1.5, 2.0]
        assert repr(found) == "Solution(2 examples, 1.75 steps on average, 1.5 to 2 of 2)"

    def test_expected_steps_are_differentiable(self) -> None:
        found = solution([[0.5, 0.0], [0.5, 1.0]], [2, 2])
        found.weights.requires_grad_()
        found.expected_steps.sum().backward()
        assert found.weights.grad.tolist() == [[1, 1], [2, 2]]

    def test_padding_has_no_depth(self) -> None:
        weights = [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]]
        mask = torch.tensor([[True, True], [True, False]])
        found = solution(weights, [[1, 2], [2, 0]], mask=mask)
        assert found.depth.tolist() == [1, 2, 2]
        assert repr(found) == "Solution(3 tokens, 1.67 steps on average, 1 to 2 of 2)"
        assert solution(weights, [[1, 2], [2, 0]], mask=mask, distribution=True).depth.tolist() == [1, 2, 2]

    def test_a_mask_of_tokens_is_none_of_examples(self) -> None:
        found = solution([[1.0, 0.0], [0.0, 1.0]], [1, 2], mask=torch.tensor([[True, False], [True, False]]))
        assert found.depth.tolist() == [1, 2]

    def test_nothing(self) -> None:
        found = po.Solution(torch.zeros(0, 1), torch.zeros(3, 0), torch.zeros(0, dtype=torch.long), torch.zeros(0, 1))
        assert repr(found) == "Solution(no examples)"
        assert found.mean_steps == 0


class Pair(NamedTuple):
    left: int
    right: list


class TestTree:
    def test_structure_is_kept(self) -> None:
        tree = Pair(1, [2, {"a": (3, None)}])
        assert tree_map(lambda v: 10 * v, tree) == Pair(10, [20, {"a": (30, None)}])
        assert isinstance(tree_map(lambda v: v, tree), Pair)
        assert leaves(tree) == [1, 2, 3]

    def test_trees_that_do_not_match_are_refused(self) -> None:
        with pytest.raises(ValueError, match="shorter"):
            tree_map(lambda a, b: a + b, (1, 2), (1,))
