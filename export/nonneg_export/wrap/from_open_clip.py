"""A model of open_clip with both of its towers, its weights from the hub as safetensors: `open_clip:NAME/TAG`."""

from typing import Any

import numpy as np

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.pixels.view import View
from nonneg_export.assembly.text_towers import TOKENIZER, TextEncoder, samples
from nonneg_export.graphs.canonical import silenced
from nonneg_export.share import hub_repository
from nonneg_export.share.model_card import check_licence, licence_of
from nonneg_export.wrap.published_text import SAME, cleaned, normalizer
from nonneg_export.wrap.published_text import library as tokenizers
from nonneg_export.wrap.torch_tower import as_text_encoder, as_tower, fetch_weights, package
from nonneg_export.wrap.tower import Tower, TowerOverrides
from nonneg_runtime.inference.text_tower import Tokenizer
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling

WEIGHTS = "open_clip_model.safetensors"


def tower(where: hub_repository.ModelAddress, overrides: TowerOverrides) -> Tower:
    """Load both towers of that architecture with the weights of that tag."""
    library = package("open_clip")
    tag = where.rest or ""
    config = library.get_pretrained_cfg(where.name, tag)
    hub_id = str((config or {}).get("hf_hub") or "").strip("/")
    if not hub_id:
        known = library.list_pretrained_tags_by_model(where.name)
        raise ConfigInvalid(
            f"open_clip has no weights {tag!r} of {where.name!r} on the hub",
            fix=f"choose a tag of {', '.join(known)}" if known else "see open_clip.list_pretrained()",
            field="model",
            value=str(where),
        )
    repository = hub_repository.open_repository(hub_repository.hub_address(f"hf:{hub_id}"), overrides.limit)
    licence = licence_of(repository.card)
    warning = check_licence(licence, str(where), accepted=overrides.accepted)
    model, described = load(repository, where.name)
    view, scaling = overrides.applied(*seen_by(model.visual, config))
    graph, reference = as_tower(model, lambda inner, x: inner.encode_image(x), view, scaling)
    text, text_note = text_encoder(repository, where.name, model) if overrides.text else (None, "")
    notes = (f"licence: {licence}", "its image tower through torch, projected", text_note, warning or "")
    weights = f"{where} ({repository})"
    fetched = {**repository.fetched(), **described}
    return Tower(graph, view, weights, licence, tuple(filter(None, notes)), reference, text, fetched)


def load(repository: hub_repository.HubRepository, name: str) -> tuple[Any, dict[str, str]]:
    """Return the model with the repository's weights, and what else was fetched to know its architecture."""
    library = package("open_clip")
    path = fetch_weights(repository, WEIGHTS, fix="choose a tag whose repository has it")
    options, described = text_architecture(library.get_model_config(name), repository.limit)
    try:
        with silenced():
            model = library.create_model(name, pretrained=None, **options)
            library.load_checkpoint(model, str(path))
    except Exception as error:  # safetensors' and torch's many classes
        raise DataInvalid(
            f"{repository} cannot be loaded ({str(error).strip().splitlines()[0]})", fix="choose another tag"
        ) from error
    return model.eval(), described


def text_architecture(config: dict[str, Any], limit: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what makes open_clip take a text tower of transformers from its configuration alone.

    By itself open_clip fetches that tower's own weights as well, whatever they are, and then replaces them.
    """
    text = config.get("text_cfg", {})
    named = text.get("hf_model_name")
    if not named:
        return {}, {}
    described = hub_repository.open_repository(hub_repository.hub_address(f"hf:{named}"), limit)
    folder = described.fetch(hub_repository.CONFIG, hub_repository.LARGEST_TEXT).parent
    options = {**text, "hf_model_name": str(folder), "hf_model_pretrained": False}
    return {"text_cfg": options}, described.fetched()


def seen_by(visual: Any, config: dict[str, Any]) -> tuple[View, Scaling]:
    """Return open_clip's own evaluation view."""
    size = visual.image_size[0] if isinstance(visual.image_size, (tuple, list)) else visual.image_size
    mode = config.get("resize_mode") or "shortest"
    view = View(
        size=int(size),
        crop=1.0,
        fit="squash" if mode == "squash" else "contain" if mode == "longest" else "cover",
        interpolation=config.get("interpolation") or "bicubic",
    )
    return view, Scaling(mean=tuple(config["mean"]), std=tuple(config["std"]))


# The text tower of a model of open_clip, exported through torch, with its tokenizer as data.
#
# open_clip reads texts with a tokenizer of its own, or with that of a repository of the hub. Ours must give the same
# tokens for two hundred texts; a tower that is read otherwise is left out, and that is said.

USUAL_LENGTH = 77
START, END = "<start_of_text>", "<end_of_text>"
WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"  # as open_clip's own tokenizer splits a text
CONFIGURATION = ("tokenizer_config.json", "special_tokens_map.json")
OpenClipText = tuple[TextEncoder | None, str]  # the tower, and what to say of it


def text_encoder(repository: hub_repository.HubRepository, name: str, model: Any) -> OpenClipText:
    """Return the model's text tower where its tokenizer can be had as data; `name`: the architecture."""
    config = package("open_clip").get_model_config(name)["text_cfg"]
    length = int(config.get("context_length") or USUAL_LENGTH)
    options = dict(config.get("tokenizer_kwargs") or {})
    if not config.get("hf_tokenizer_name"):
        theirs = package("open_clip").tokenizer.SimpleTokenizer(context_length=length, **options)
        written = of_open_clip(theirs, options.get("clean", "lower"))
    elif TOKENIZER in repository.files:
        theirs, path = (
            _of_hub(repository, config, length, options),
            repository.fetch(TOKENIZER, hub_repository.LARGEST_TOKENIZER),
        )
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


def _of_hub(
    repository: hub_repository.HubRepository, config: dict[str, Any], length: int, options: dict[str, Any]
) -> Any:
    """Return open_clip's tokenizer around the repository's own files, not those of the repository that it would ask."""
    folder = repository.fetch(TOKENIZER, hub_repository.LARGEST_TOKENIZER).parent
    for name in CONFIGURATION:
        if name in repository.files:
            repository.fetch(name, hub_repository.LARGEST_TEXT)
    return package("open_clip").tokenizer.HFTokenizer(
        str(folder),
        context_length=length,
        tokenizer_mode=config.get("tokenizer_mode"),
        local_files_only=True,
        trust_remote_code=False,
        **options,
    )
