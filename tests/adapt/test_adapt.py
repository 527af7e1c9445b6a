"""Adapted models: the original's answers at full depth, every mechanism, saving and loading, pipelines, streams."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import ponderosa as po
from tests.adapt.models import LAYERS, MODELS, TEXT, answer, inputs, model, real_encoder, small_encoder, transformers, wordpiece

HALTINGS: dict[str, Callable[[], po.Halting]] = {
    "fixed": po.Fixed,
    "planned-example": lambda: po.PlannedDepth(2),
    "planned-token": lambda: po.PlannedDepth(plan, unit="token"),
    "lac-example": lambda: po.LAC(alpha=0.8),
    "lac-token": lambda: po.LAC(alpha=0.8, unit="token"),
    "act-example": lambda: po.ACT(bias=0.0),
    "act-token": lambda: po.ACT(bias=0.0, unit="token"),
    "pondernet": lambda: po.PonderNet(evaluation="threshold"),
    "confidence": lambda: po.ConfidenceExit(threshold=0.6),
    "patience": lambda: po.PatienceExit(patience=1),
    "composed": lambda: po.AnyOf([po.ConfidenceExit(threshold=0.7), po.PlannedDepth(3)]),
    "sentence-exit": lambda: po.SentenceExit(po.LAC(alpha=0.8, unit="token"), po.ConfidenceExit(threshold=0.6)),
}


def plan(x: Tensor) -> Tensor:
    """A depth for each token, from its id."""
    return x % LAYERS + 1


@pytest.mark.parametrize("name", MODELS)
def test_at_full_depth_the_answer_is_the_original_s(name: str) -> None:
    of = model(name)
    given = inputs(of)
    fast = po.adapt(of, po.Fixed())
    torch.testing.assert_close(answer(fast, given), answer(of, given), rtol=0, atol=1e-10)
    torch.testing.assert_close(answer(fast.float(), {k: v.float() if v.is_floating_point() else v for k, v in given.items()}),
                               answer(of, given).float(), rtol=0, atol=1e-5)  # fmt: skip


@pytest.mark.parametrize("frozen_kv", [False, True])
@pytest.mark.parametrize("name", ["bert", "distilbert", "mpnet", "vit"])
@pytest.mark.parametrize("halting", HALTINGS)
def test_compacted_equals_masked(name: str, halting: str, frozen_kv: bool) -> None:
    of = model(name)
    if halting == "planned-token" and name == "vit":
        pytest.skip("images have no ids to plan by")
    fast = po.adapt(of, HALTINGS[halting](), frozen_kv=frozen_kv)
    given = inputs(of, seed=3)
    x = given.get("input_ids", given.get("pixel_values"))
    mask = given["attention_mask"].bool() if "attention_mask" in given else None
    with torch.no_grad():
        packed, masked = (fast.net(x, mask=mask, engine=engine) for engine in ("compact", "unroll"))
    torch.testing.assert_close(packed.output, masked.output, rtol=0, atol=1e-10)
    assert packed.steps.tolist() == masked.steps.tolist()
    assert fast(**given).steps.shape == packed.steps.shape


def test_a_token_past_its_depth_copies_its_state() -> None:
    """Against the original's own layers, run by hand with frozen states."""
    of = model("bert-encoder")
    given = inputs(of)
    ids, mask = given["input_ids"], given["attention_mask"].bool()
    fast = po.adapt(of, po.PlannedDepth(plan, unit="token"))
    with torch.no_grad():
        h = of.embeddings(ids)
        attended = torch.where(mask, 0.0, -torch.inf)[:, None, None].double()
        for n, layer in enumerate(of.encoder.layer, start=1):
            h = torch.where((plan(ids) >= n)[..., None], layer(h, attended), h)
    torch.testing.assert_close(answer(fast, given), h[mask], rtol=0, atol=1e-10)


def test_other_inputs_mean_what_they_meant() -> None:
    of = model("bert")
    fast = po.adapt(of, po.Fixed())
    given = inputs(of)
    given["token_type_ids"] = torch.randint(2, given["input_ids"].shape)
    given["position_ids"] = torch.randperm(7)[None]
    torch.testing.assert_close(answer(fast, given), answer(of, given), rtol=0, atol=1e-10)
    embedded = {"inputs_embeds": of.get_input_embeddings()(given["input_ids"]), "attention_mask": given["attention_mask"]}
    torch.testing.assert_close(answer(fast, embedded), answer(of, embedded), rtol=0, atol=1e-10)
    assert isinstance(fast(**given, return_dict=False), tuple)
    with pytest.raises(ValueError, match="either input_ids or inputs_embeds"):
        fast(attention_mask=given["attention_mask"])


def test_in_place_or_as_a_copy() -> None:
    of = model("bert")
    before = answer(of, inputs(of))
    copy = po.adapt(of, po.PlannedDepth(1))
    assert copy is not of
    assert type(of).__name__ == "BertForSequenceClassification"
    with torch.no_grad():
        copy.classifier.bias += 1
    torch.testing.assert_close(answer(of, inputs(of)), before)
    same = po.adapt(of, po.PlannedDepth(1), in_place=True)
    assert same is of
    assert isinstance(of, transformers.BertForSequenceClassification)
    assert of(**inputs(of)).steps.tolist() == [1, 1, 1]


@pytest.mark.parametrize("halting", [name for name in HALTINGS if name != "planned-token"])
@pytest.mark.parametrize("name", ["bert", "mpnet", "vit"])
def test_saved_and_loaded(name: str, halting: str, tmp_path: Path) -> None:
    of = model(name)
    fast = po.adapt(of, HALTINGS[halting]())
    given = inputs(of)
    fast.save_pretrained(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}
    auto = transformers.AutoModelForImageClassification if name == "vit" else transformers.AutoModelForSequenceClassification
    for again in (po.adapt.load(tmp_path), auto.from_pretrained(tmp_path), type(fast).from_pretrained(tmp_path)):
        assert type(again) is type(fast)
        torch.testing.assert_close(answer(again.double(), given), answer(fast, given), rtol=0, atol=1e-12)
    original = type(of).from_pretrained(tmp_path).double()  # the weights keep their names
    if not isinstance(fast.halting, po.ConfidenceExit | po.PatienceExit):
        torch.testing.assert_close(answer(original, given), answer(of, given), rtol=0, atol=1e-12)


def test_a_depth_estimator_is_saved_with_the_model(tmp_path: Path) -> None:
    words = ["good", "bad", "film", "play", "##ing"]
    tokenizer = wordpiece(words)
    depths = po.MutualInformation.fit(["good film", "bad film", "good playing", "bad"], [1, 0, 1, 0], tokenizer, layers=LAYERS)
    of = model("bert")
    fast = po.adapt(of, po.PlannedDepth(depths))
    assert fast.halting.unit == "token"
    given = dict(tokenizer(["good film playing", "bad"], padding=True, return_tensors="pt"))
    fast.save_pretrained(tmp_path)
    again = po.adapt.load(tmp_path).double()
    assert again(**given).steps.tolist() == fast(**given).steps.tolist()
    torch.testing.assert_close(answer(again, given), answer(fast, given), rtol=0, atol=1e-12)
    assert po.adapt(of, po.PlannedDepth(depths, unit="example"))(**given).steps.tolist() == fast(**given).steps.amax(1).tolist()


def test_the_pipeline(tmp_path: Path) -> None:
    tokenizer = wordpiece(["good", "bad", "film"])
    fast = po.adapt(model("bert").float(), po.ConfidenceExit(threshold=0.5))
    texts = ["good film", "bad", "a bad bad film"]
    classify = transformers.pipeline("text-classification", model=fast, tokenizer=tokenizer)
    answers = classify(texts, batch_size=2)
    given = tokenizer(texts, padding=True, return_tensors="pt")
    best = fast(**given).logits.softmax(-1).max(-1)
    assert [a["label"] for a in answers] == [f"LABEL_{i}" for i in best.indices.tolist()]
    assert [a["score"] for a in answers] == pytest.approx(best.values.tolist(), abs=1e-5)
    fast.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert transformers.pipeline("text-classification", model=str(tmp_path))(texts)[1]["label"] == answers[1]["label"]


def test_exits_train_jointly_or_on_a_frozen_encoder() -> None:
    of = model("bert")
    given = inputs(of)
    labels = torch.tensor([0, 1, 2])
    for frozen in (False, True):
        fast = po.adapt(of, po.PatienceExit(patience=2)).train()
        assert len(fast.head) == LAYERS
        if frozen:
            fast.freeze_encoder()
            assert not any(part.training for part in fast.net.step.modules())
        fast(**given, labels=labels).loss.backward()
        moved = {name.split(".")[0] for name, p in fast.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
        assert moved == ({"head"} if frozen else {"head", "bert"})


def test_the_loss_is_the_mechanism_s() -> None:
    of = model("bert")
    given, labels = inputs(of), torch.tensor([0, 1, 2])
    expected = nn.functional.cross_entropy(of(**given).logits, labels)
    torch.testing.assert_close(po.adapt(of, po.Fixed())(**given, labels=labels).loss, expected)
    fast = po.adapt(of, po.ACT(tau=0.1))
    solution = fast.solve(**given)
    torch.testing.assert_close(fast(**given, labels=labels).loss, fast.net.loss(solution, labels, nn.functional.cross_entropy))


def test_other_heads_keep_padding_out() -> None:
    """ReLU([max; mean]) of the real tokens, whatever else is in the batch; also where each layer has a head."""
    of = model("bert")
    given = inputs(of)
    for halting in (po.Fixed(), po.PlannedDepth(plan, unit="token"), po.PlannedDepth(2), po.ConfidenceExit(threshold=0.5)):
        fast = po.adapt(of, halting, head="max-mean").double()
        together = answer(fast, given)
        for row, length in enumerate((7, 3, 1)):
            alone = answer(fast, {"input_ids": given["input_ids"][row : row + 1, :length]})
            torch.testing.assert_close(together[row : row + 1], alone, rtol=0, atol=1e-10)
        masked = fast.net(given["input_ids"], mask=given["attention_mask"].bool(), engine="unroll")
        torch.testing.assert_close(masked.output, together, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", TEXT)
def test_a_stream_answers_as_the_model(name: str) -> None:
    of = model(name)
    fast = po.adapt(of, po.LAC(alpha=0.8))
    texts = [torch.randint(5, 60, (length,)) for length in (7, 3, 1, 9, 3)]
    answers = [a.result() for a in po.Stream(fast, slots=2)(texts)]
    for text, found in zip(texts, answers, strict=True):
        expected = fast.solve(text[None]).output[0]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


def test_a_stream_of_images() -> None:
    fast = po.adapt(model("vit"), po.LAC(alpha=0.8))
    images = inputs(fast)["pixel_values"]
    for image, found in zip(images, po.Stream(fast, slots=2, tokens=False)(images), strict=True):
        torch.testing.assert_close(found.result(), fast.solve(pixel_values=image[None]).output[0], rtol=0, atol=1e-10)


def test_another_mechanism_on_trained_heads() -> None:
    fast = po.adapt(model("bert"), po.ConfidenceExit(threshold=0.9))
    with torch.no_grad():
        for head in fast.head:
            head[-1].bias += torch.tensor([9.0, 0.0, 0.0])
    other = po.adapt(fast, po.PlannedDepth(2))
    assert other(**inputs(fast)).logits.argmax(-1).tolist() == [0, 0, 0]


def test_what_cannot_be_adapted_is_refused() -> None:
    gpt = transformers.GPT2Model(transformers.GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=9))
    with pytest.raises(ValueError, match=r"GPT2Model \(type 'gpt2'\) cannot be made adaptive: supported are bert, roberta"):
        po.adapt(gpt, po.Fixed())
    with pytest.raises(TypeError, match="a transformers model is needed"):
        po.adapt(nn.Linear(2, 2), po.Fixed())
    with pytest.raises(ValueError, match="has no classes"):
        po.adapt(model("bert-encoder"), po.Fixed(), head="max-mean")
    with pytest.raises(TypeError, match="must be a ponderosa Halting"):
        po.adapt(model("bert"), "LAC")
    fast = po.adapt(model("bert"), po.Fixed())
    with pytest.raises(ValueError, match="keeps no attentions"):
        fast(**inputs(fast), output_attentions=True)
    with pytest.raises(ValueError, match="cannot be saved"):
        po.adapt(fast, po.PlannedDepth(plan, unit="token")).save_pretrained("/nowhere")


@pytest.mark.shared
@pytest.mark.parametrize(("layers", "find"), [(12, real_encoder), (6, small_encoder)])
def test_a_real_encoder_is_itself_at_full_depth(layers: int, find: Callable[[], Path]) -> None:
    folder = find()
    of = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = ["What is an atom ?", "the film is a dull , lifeless and overlong affair .", "Who ?"]
    given = tokenizer(texts, padding=True, return_tensors="pt")
    fast = po.adapt(of, po.Fixed())
    assert fast.net.max_steps == layers
    torch.testing.assert_close(answer(fast, given), answer(of, given), rtol=0, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(fast(**given).pooler_output, of(**given).pooler_output, rtol=0, atol=1e-5)
