"""A model of the library transformers: weights from safetensors, both towers exported through torch."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor, nn

from nonneg_core.arrays import Floats
from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.pixels.view import View
from nonneg_export.assembly.text_towers import TOKENIZER, TextEncoder, samples
from nonneg_export.graphs.canonical import silenced
from nonneg_export.share.hub_repository import LARGEST_TEXT, LARGEST_TOKENIZER, HubRepository
from nonneg_export.wrap.published_text import BY_FAMILY, check_known, padding, published_tokenizer
from nonneg_export.wrap.torch_tower import as_text_encoder, as_tower, check_weights, choose, package, unmasked
from nonneg_export.wrap.tower import OriginalPixels, Tower, TowerOverrides, pooling
from nonneg_runtime.inference.text_tower import Tokenizer, Tokens
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")
SPARE = ("pooler", "classifier", "head", "logit_", "fc.")  # weights that a picture of an image may do without


def tower(
    repository: HubRepository, config: dict[str, Any], view: View, scaling: Scaling, overrides: TowerOverrides
) -> Tower:
    """Load the model and export its image tower."""
    folder = fetch_weights(repository)
    model, missing = load(repository, folder, config)
    answer = choose(model, pooling(config), overrides, view.size)
    check_weights(model, answer, missing, view.size)
    graph, reference = as_tower(model, answer, view, scaling)
    original, unseen = original_pixels(folder, scaling, overrides)
    words = overrides.text and hasattr(model, "get_text_features")
    text, text_note = text_encoder(repository, model) if words else (None, "")
    return Tower(
        graph,
        view,
        weights=f"{repository}, {WEIGHTS}",
        notes=(
            f"{config.get('model_type')} through torch, taken: {answer}",
            *filter(None, (text_note, unseen)),
        ),
        reference=reference,
        text=text,
        original_pixels=original,
    )


def original_pixels(folder: Path, scaling: Scaling, overrides: TowerOverrides) -> tuple[OriginalPixels | None, str]:
    """Return how the library sees photos, if the model's own files are followed; else perhaps what to say of that."""
    if overrides.sees_otherwise:
        return None, ""
    try:
        return reference_pixels(folder, scaling), ""
    except Exception as error:  # the library raises what its many processors raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return None, f"how it sees photos was not compared with the library ({reason})"


def fetch_weights(repository: HubRepository) -> Path:
    """Return the folder with configuration and weights; never a pickle."""
    if INDEX in repository.files and WEIGHTS not in repository.files:
        shards = sorted(set(repository.json(INDEX).get("weight_map", {}).values()))
        repository.check_together([str(shard) for shard in shards])
        for shard in shards:
            repository.fetch(str(shard))
        repository.fetch(INDEX)
    elif WEIGHTS in repository.files:
        repository.fetch(WEIGHTS)
    else:
        pickles = [name for name in repository.files if name.endswith(PICKLES)]
        raise DataInvalid(
            f"{repository} has neither an ONNX file nor safetensors"
            + (f", only {', '.join(pickles[:3])}: reading a pickle runs what its author wrote" if pickles else ""),
            fix="take a revision with model.safetensors (the hub converts), or export it to ONNX",
            field="model",
        )
    return repository.fetch("config.json").parent


def load(repository: HubRepository, folder: Path, config: dict[str, Any]) -> tuple[nn.Module, list[str]]:
    """Return the module and which of its spare weights are lacking; code that lies in a repository is never run."""
    library = transformers()
    kind = config.get("model_type")
    if kind not in library.CONFIG_MAPPING:
        raise ConfigInvalid(
            f"{repository} is a {kind!r}, which transformers {library.__version__} does not know"
            + (" (it brings code of its own, which is not run)" if "auto_map" in config else ""),
            fix="export it to ONNX yourself and wrap the file",
            field="model",
            value=str(kind),
        )
    from safetensors import SafetensorError

    try:
        with silenced():
            model, loading = library.AutoModel.from_pretrained(
                folder,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                dtype="float32",
                output_loading_info=True,
            )
    except (SafetensorError, RuntimeError, ValueError, OSError, KeyError) as error:
        raise DataInvalid(
            f"{repository} cannot be loaded ({str(error).strip().splitlines()[0]})",
            fix="its files do not fit each other or are broken: name another revision",
        ) from error
    lacking = sorted(name for name in loading["missing_keys"] if not any(part in name for part in SPARE))
    if lacking:
        raise DataInvalid(
            f"{WEIGHTS} of {repository} lacks {len(lacking)} of the model's weights ({', '.join(lacking[:3])})",
            fix="name another revision",
        )
    return unmasked(model.eval()), list(loading["missing_keys"])


def transformers() -> Any:
    """Return the library, told not to draw bars."""
    library = package("transformers")
    library.utils.logging.disable_progress_bar()
    return library


# How transformers' own image processor sees a photo, in pixels of 0 to 255: what a view is compared with.

TRIED = (64, 48)


def reference_pixels(folder: Path, scaling: Scaling) -> OriginalPixels:
    """Return what the processor of a repository's files makes of a photo, with our scaling of it undone."""
    with silenced():
        processor = package("transformers").AutoImageProcessor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    mean, std = np.array(scaling.mean), np.array(scaling.std)

    def pixels(photo: Image.Image) -> Floats:
        with silenced():
            planes = processor(photo, return_tensors="np")["pixel_values"][0]
        rows = (np.asarray(planes, dtype=np.float64).transpose(1, 2, 0) * std + mean) / scaling.factor
        return np.asarray(rows, dtype=np.float32)  # (h, w, 3)

    pixels(Image.new("RGB", TRIED))  # so that a processor that answers something else raises here
    return pixels


# The text tower of a model of transformers, exported through torch, with its tokenizer as data.
#
# A tower is taken where it reads tokens alone: others need a mask of what is padding, and would answer otherwise.

MASKLESS = ("clip", "metaclip_2", "siglip", "siglip2")
BESIDE = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt")
TransformersText = tuple[TextEncoder | None, str]  # the tower, and what to say of it


def text_encoder(repository: HubRepository, model: Any) -> TransformersText:
    """Return the model's text tower, its tokenizer checked against it and against the library's."""
    kind = str(model.config.model_type)
    if kind not in MASKLESS:
        return None, f"its text tower is left out: only those of {', '.join(MASKLESS)} read tokens without a mask"
    if TOKENIZER not in repository.files:
        return None, f"its text tower is left out, for the repository has no {TOKENIZER}"
    length = int(model.config.text_config.max_position_embeddings)
    written = published_tokenizer(repository, {"model_type": kind})
    pad = padding(repository, written)
    reader = Tokenizer(written, length, pad)
    check_known(repository, reader, int(model.config.text_config.vocab_size))
    folder, texts = _fetch_tokenizer(repository), _texts(kind)
    try:
        expected = _reference_rows(folder, texts, length)
    except Exception as error:  # the library raises what its many tokenizers raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        note = f"with its text tower; its tokenizer was not compared with the library's ({reason})"
    else:
        if not np.array_equal(reader.rows(texts, truncate=True), expected):
            return None, f"its text tower is left out: transformers reads texts otherwise than {TOKENIZER} alone"
        note = f"with its text tower, whose tokens are the library's for {len(texts)} texts"
    return as_text_encoder(model, _features, written, length, pad), note


def _texts(kind: str) -> list[str]:
    """Return texts to compare; where ours cleans a text by itself, such that cleaning leaves as they are."""
    return [re.sub(r"[^a-z0-9 ]", "", text.lower()) for text in samples()] if kind in BY_FAMILY else samples()


def _fetch_tokenizer(repository: HubRepository) -> Path:
    """Return the folder with all that transformers reads a tokenizer from, as far as the repository has it."""
    for name in BESIDE:
        if name in repository.files:
            repository.fetch(name, LARGEST_TEXT)
    return repository.fetch(TOKENIZER, LARGEST_TOKENIZER).parent


def _reference_rows(folder: Path, texts: list[str], length: int) -> Tokens:
    """Return the tokens that transformers makes of texts."""
    with silenced():
        theirs = package("transformers").AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        rows = theirs(texts, padding="max_length", max_length=length, truncation=True)["input_ids"]
    return np.asarray(rows, dtype=np.int64)


def _features(model: Any, tokens: Tensor) -> Tensor:
    output = model.get_text_features(input_ids=tokens)
    vectors: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    return vectors
