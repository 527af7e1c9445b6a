"""Images through networks: patches and features, and ViTs that halt, masked, compacted and streamed alike."""

import pytest
import torch
from torch import Tensor, nn

import ponderosa as po
from tests.zoo import gathering

IMAGE, CLASSES, LIMIT, SIZE = (2, 8, 12), 4, 5, 8


def test_patches_are_those_of_a_convolution() -> None:
    encoder = po.PatchEncoder(IMAGE, 4, SIZE, positions="none").double()
    x = torch.randn(3, *IMAGE, dtype=torch.float64)
    weight = encoder.linear.weight.view(SIZE, 2, 4, 4)
    convolved = nn.functional.conv2d(x, weight, encoder.linear.bias, stride=4).flatten(2).mT
    h = encoder(x)
    assert torch.allclose(h[:, 1:], convolved)
    assert torch.equal(h[:, 0], encoder.class_token.expand(3, -1))


@pytest.mark.parametrize(("class_token", "tokens"), [(True, 7), (False, 6)])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
def test_a_class_token_is_one_more(class_token: bool, tokens: int, positions: str) -> None:
    encoder = po.PatchEncoder(IMAGE, 4, SIZE, class_token=class_token, positions=positions)
    assert encoder(torch.zeros(2, *IMAGE)).shape == (2, tokens, SIZE)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="8x12 do not divide evenly"):
        po.PatchEncoder(IMAGE, 5, SIZE)
    with pytest.raises(ValueError, match="channels, height and width"):
        po.ConvEncoder((28, 28), 32)
    for encoder in (po.PatchEncoder(IMAGE, 4, SIZE), po.ConvEncoder(IMAGE, 6)):
        with pytest.raises(ValueError, match=r"\[batch, 2, 8, 12\] are needed"):
            encoder(torch.zeros(3, 12, 8, 2))


@pytest.mark.parametrize("side", [4, 7, 8, 28, 32])
def test_features_of_images_of_any_side(side: int) -> None:
    assert po.ConvEncoder((1, side, side + 1), 6)(torch.zeros(2, 1, side, side + 1)).shape == (2, 6)


HALTINGS = {
    "fixed": po.Fixed,
    "lac-batch": lambda: po.LAC(alpha=0.8, unit="batch"),
    "lac-example": lambda: po.LAC(alpha=0.8),
    "lac-token": lambda: po.LAC(alpha=0.8, unit="token"),
    "act-token": lambda: po.ACT(unit="token", bias=-1.0),
    "pondernet": lambda: po.PonderNet(lambda_p=0.3),
    "confidence": lambda: po.ConfidenceExit(threshold=0.5),
    "patience": lambda: po.PatienceExit(patience=1),
}
MODELS = {
    "vit": {"layers": LIMIT}, "universal": {}, "hyper": {"modulation": po.HyperModules(modules=3, embedding=4, out=False)},
}  # fmt: skip


def build(model: str, halting: str, place: str = "query") -> po.Ponder:
    torch.manual_seed(0)
    step = po.TransformerStep(SIZE, 2, mlp_size=6, **MODELS[model])
    encoder = po.PatchEncoder(IMAGE, 4, SIZE, class_token=place == "query")
    head = po.ReadOut(SIZE, CLASSES, place=place)
    net = po.Ponder(step, HALTINGS[halting](), head=head, max_steps=LIMIT, encoder=encoder).double()
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.5)
    return net


def pictures(count: int = 6) -> Tensor:
    return torch.randn(count, *IMAGE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("place", ["query", "mean"])
@pytest.mark.parametrize("halting", HALTINGS)
@pytest.mark.parametrize("model", MODELS)
def test_masked_compacted_streamed_and_alone_agree(model: str, halting: str, place: str) -> None:
    net, x, key = build(model, halting, place).eval(), pictures(), torch.arange(6)
    with torch.no_grad(), gathering(costs=False):
        masked, ours = net(x, key=key, engine="unroll"), net(x, key=key)
        assert torch.equal(ours.steps, masked.steps)
        assert torch.allclose(ours.output, masked.output, atol=1e-10, rtol=0)
        if halting == "lac-batch":  # one decision for all, by definition
            return
        alone = torch.cat([net(x[i : i + 1], key=key[i : i + 1]).output for i in range(6)])
        assert torch.allclose(alone, ours.output, atol=1e-10, rtol=0)
        streamed = list(po.Stream(net, slots=2)([po.Request(x[i], key=i) for i in range(6)]))
    for i, answer in enumerate(streamed):
        assert torch.allclose(answer.result(), ours.output[i], atol=1e-10, rtol=0)
        assert torch.equal(answer.steps, ours.steps[i])


@pytest.mark.parametrize("halting", HALTINGS)
@pytest.mark.parametrize("model", MODELS)
def test_every_vit_can_be_trained(model: str, halting: str) -> None:
    net, x, y = build(model, halting), pictures(), torch.arange(6) % CLASSES
    loss = net.loss(net(x, key=torch.arange(6)), y, nn.functional.cross_entropy)
    loss.backward()
    assert net.encoder.class_token.grad.abs().sum() > 0
    assert net.encoder.linear.weight.grad.abs().sum() > 0
