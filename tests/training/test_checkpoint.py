"""Checkpoints: exact, never half-written, and never someone else's."""

import resource

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import ponderosa as po
from ponderosa.training.checkpoint import Progress, load_checkpoint, save_checkpoint


def parts(hidden=8, seed=0):
    torch.manual_seed(seed)
    net = po.Ponder(po.GRUStep(4, hidden), po.ACT(), head=nn.Linear(hidden, 1), max_steps=3)
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    return net, optimizer


def train_once(net, optimizer):
    x = torch.randn(5, 4)
    net.loss(net(x), torch.ones(5, 1), nn.MSELoss()).backward()
    optimizer.step()
    optimizer.zero_grad()


def test_everything_comes_back(tmp_path):
    path = tmp_path / "c.safetensors"
    net, optimizer = parts()
    train_once(net, optimizer)
    save_checkpoint(path, net, optimizer, Progress(batch=7, best=0.5, since_best=1))
    other, other_optimizer = parts(seed=1)
    assert load_checkpoint(path, other, other_optimizer) == Progress(batch=7, best=0.5, since_best=1)
    torch.manual_seed(3)
    train_once(net, optimizer)
    torch.manual_seed(3)
    train_once(other, other_optimizer)
    for ours, theirs in zip(net.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_full_disk_keeps_the_old_checkpoint(tmp_path):
    path = tmp_path / "c.safetensors"
    net, optimizer = parts()
    save_checkpoint(path, net, optimizer, Progress(batch=1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))  # the system refuses to write more, as a full disk does
    try:
        with pytest.raises(OSError, match=r"could not write .*c\.safetensors.*the same command goes on"):
            save_checkpoint(path, net, optimizer, Progress(batch=2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [p.name for p in tmp_path.iterdir()] == ["c.safetensors"]
    assert load_checkpoint(path, net).batch == 1


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"\x80\x04\x95pickle"])
def test_a_damaged_file_is_named(tmp_path, content):
    path = tmp_path / "c.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"c\.safetensors is damaged"):
        load_checkpoint(path, parts()[0])


def test_a_truncated_file_is_never_half_read(tmp_path):
    path = tmp_path / "c.safetensors"
    net, optimizer = parts()
    save_checkpoint(path, net, optimizer, Progress())
    path.write_bytes(path.read_bytes()[:-100])
    before = [p.clone() for p in net.parameters()]
    with pytest.raises(ValueError, match="damaged"):
        load_checkpoint(path, net)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


def test_a_foreign_file_is_refused(tmp_path):
    path = tmp_path / "c.safetensors"
    save_file({"weight": torch.ones(2)}, path)
    with pytest.raises(ValueError, match="not a checkpoint of Ponderosa"):
        load_checkpoint(path, parts()[0])


def test_another_networks_checkpoint_is_refused(tmp_path):
    path = tmp_path / "c.safetensors"
    save_checkpoint(path, *parts(hidden=8), Progress())
    with pytest.raises(ValueError, match="belongs to another network"):
        load_checkpoint(path, parts(hidden=9)[0])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        load_checkpoint(tmp_path / "none.safetensors", parts()[0])
