"""Stepping by hand: the same calls that an engine makes, and the same steps."""

import torch
from torch import nn

import ponderosa as po

torch.manual_seed(0)
step, halting, head = po.GRUStep(8, 32), po.LAC(alpha=0.5), nn.Linear(32, 1)
x = torch.randn(6, 8)

context = step.prepare(x)
state = step.initial_state(x)
memory = halting.begin(step.read(state), po.Units(torch.Size([6]), x))
steps = torch.zeros(6, dtype=torch.long)
alive = torch.ones(6, dtype=torch.bool)
for n in range(1, 11):
    state = step.advance(context, state, n)
    share, done, memory = halting.update(n, step.read(state), None, memory)
    steps += alive
    alive &= ~done
    print(f"step {n:2}: norms {[round(v, 2) for v in memory['norm'].tolist()]}, alive {int(alive.sum())}")

net = po.Ponder(step, halting, head=head, max_steps=10).eval()
assert torch.equal(net(x).steps, steps)
print("steps:", steps.tolist())
