"""The text tower of a model of open_clip, exported through torch, with its tokenizer as data.

open_clip reads texts with a tokenizer of its own, or with that of a repository of the hub. Ours must give the same
tokens for two hundred texts; a tower that is read otherwise is left out, and that is said.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nonneg_export.published.repository import LARGEST_TEXT, LARGEST_TOKENIZER, HubRepository
from nonneg_export.published.text_cleaning import SAME, cleaned, normalizer
from nonneg_export.published.text_cleaning import library as tokenizers
from nonneg_export.published.torch_tower import as_text_encoder, package
from nonneg_export.texts.text_towers import TOKENIZER, TextEncoder, samples
from nonneg_runtime.words.text_tower import Tokenizer

USUAL_LENGTH = 77
START, END = "<start_of_text>", "<end_of_text>"
WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"  # as open_clip's own tokenizer splits a text
CONFIGURATION = ("tokenizer_config.json", "special_tokens_map.json")
FoundText = tuple[TextEncoder | None, str]  # the tower, and what to say of it


def text_encoder(repository: HubRepository, name: str, model: Any) -> FoundText:
    """Return the model's text tower where its tokenizer can be had as data; `name`: the architecture."""
    config = package("open_clip").get_model_config(name)["text_cfg"]
    length = int(config.get("context_length") or USUAL_LENGTH)
    options = dict(config.get("tokenizer_kwargs") or {})
    if not config.get("hf_tokenizer_name"):
        theirs = package("open_clip").tokenizer.SimpleTokenizer(context_length=length, **options)
        written = of_open_clip(theirs, options.get("clean", "lower"))
    elif TOKENIZER in repository.files:
        theirs, path = _of_hub(repository, config, length, options), repository.fetch(TOKENIZER, LARGEST_TOKENIZER)
        written = cleaned(path.read_text(encoding="utf-8"), options.get("clean", SAME))
    else:
        return None, f"its text tower is left out, for {repository} has no {TOKENIZER}"
    pad = int(np.asarray(theirs(["a"]))[0, -1])
    if not _reads_alike(Tokenizer(written, length, pad), theirs):
        return None, "its text tower is left out: open_clip reads texts otherwise than its tokenizer alone does"
    encoder = as_text_encoder(model, lambda whole, tokens: whole.encode_text(tokens), written, length, pad)
    return encoder, "with its text tower"


def _reads_alike(ours: Tokenizer, theirs: Any) -> bool:
    expected = np.asarray(theirs(samples()), dtype=np.int64)
    return np.array_equal(ours.rows(samples(), truncate=True), expected)


def of_open_clip(theirs: Any, clean: str) -> str:
    """Return open_clip's own tokenizer as a file of the package `tokenizers`."""
    library = tokenizers()
    ends = {token: theirs.encoder[token] for token in (START, END)}
    merges = list(theirs.bpe_ranks)
    model = library.models.BPE(vocab=theirs.encoder, merges=merges, end_of_word_suffix="</w>", unk_token=END)
    made = library.Tokenizer(model)
    made.normalizer = normalizer(clean)
    made.pre_tokenizer = library.pre_tokenizers.Sequence([
        library.pre_tokenizers.Split(library.Regex(WORDS), "removed", invert=True),
        library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    made.post_processor = library.processors.TemplateProcessing(
        single=f"{START} $A {END}", special_tokens=list(ends.items())
    )
    return str(made.to_str())


def _of_hub(repository: HubRepository, config: dict[str, Any], length: int, options: dict[str, Any]) -> Any:
    """Return open_clip's tokenizer around the repository's own files, not those of the repository that it would ask."""
    folder = repository.fetch(TOKENIZER, LARGEST_TOKENIZER).parent
    for name in CONFIGURATION:
        if name in repository.files:
            repository.fetch(name, LARGEST_TEXT)
    return package("open_clip").tokenizer.HFTokenizer(
        str(folder),
        context_length=length,
        tokenizer_mode=config.get("tokenizer_mode"),
        local_files_only=True,
        trust_remote_code=False,
        **options,
    )
