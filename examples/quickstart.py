"""Ten lines: wrap a GRU in LAC, train it for a moment on parity, and see what it saves."""

import torch
from torch import nn

import ponderosa as po
from ponderosa.tasks import Parity

torch.manual_seed(0)
task = Parity(length=8)
net = po.Ponder(po.GRUStep(8, 64), po.LAC(alpha=1.0), head=nn.Linear(64, 1), max_steps=10)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for index in range(200):
    batch = task.batch("train", index, 128)
    solution = net(batch.x)  # training: differentiable
    loss = net.loss(solution, batch.y, nn.BCEWithLogitsLoss())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

net.eval()
print(net(task.batch("test", 0, 1000).x))  # the same answer, halted examples no longer computed
