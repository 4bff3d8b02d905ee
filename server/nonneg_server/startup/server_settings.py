"""Every setting of the server: one frozen model, whose fields are the flags and the NONNEG_… environment variables."""

import ipaddress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from nonneg_core.pixels.decode import MOST_PIXELS
from nonneg_core.pixels.identify import MAX_PIXELS
from nonneg_runtime.inference.variants import PrecisionChoice
from nonneg_server.engine.admission import BUDGET
from nonneg_server.engine.workers import MAX_BYTES, MAX_IMAGES
from nonneg_server.requests.inputs import Limits

MEBIBYTE = 2**20
PREFIX = "NONNEG_"


def setting(default: Any, description: str, *, group: str, metavar: str | None = None, **rest: Any) -> Any:
    """Return a field with the group under which `--help` and the docs show it."""
    return Field(default, description=description, json_schema_extra={"group": group, "metavar": metavar}, **rest)


class Settings(BaseSettings):
    """Read once, at the edge; inside, plain arguments."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", env_ignore_empty=True)

    config: Path | None = setting(
        None,
        "TOML file of these settings, under their names with underscores; the environment and flags go before it.",
        group="Configuration",
        metavar="FILE",
    )
    model: Annotated[tuple[str, ...], NoDecode] = setting(
        (),
        "Bundle to serve, as a folder or name=folder; the first is the default. Repeat it; as a variable, with commas. "
        "None: the model that comes with nonneg.",
        group="Models",
        metavar="[NAME=]DIR",
    )
    alias: Annotated[tuple[str, ...], NoDecode] = setting(
        (),
        "Another name for a served model. Repeat it; as a variable, with commas.",
        group="Models",
        metavar="NAME=MODEL",
    )
    atlas: Annotated[tuple[str, ...], NoDecode] = setting(
        (),
        "Atlas to show beside the model it was made with (`nonneg atlas MODEL --file`). Its thumbnails are copies of "
        "the photos it was made from, and any client may see them. Repeat it; as a variable, with commas.",
        group="Models",
        metavar="FILE",
    )
    repository: Path | None = setting(
        None,
        "Folder of bundles that may be loaded while serving, by the name of theirs.",
        group="Models",
        metavar="DIR",
    )
    index: Path | None = setting(
        None,
        "Index to answer POST /search from, made by `nonneg index`. Without --model, its own model is served.",
        group="Models",
        metavar="DIR",
    )
    manage: bool = setting(False, "Let clients load, reload and unload models (POST /v2/repository/…).", group="Models")
    model_memory: int | None = setting(
        None,
        "Bytes of weights to keep loaded; beyond, the models used longest ago are unloaded until they are needed.",
        group="Models",
        ge=1,
        metavar="BYTES",
    )
    host: str = setting("127.0.0.1", "Address to listen on; 0.0.0.0 for every one.", group="Network")
    port: int = setting(8000, "Port to listen on; 0 takes a free one and prints it.", group="Network", ge=0, le=65535)
    keep_alive: int = setting(75, "Seconds an idle connection stays open.", group="Network", ge=1, metavar="SECONDS")
    drain: float = setting(
        1.0,
        "Seconds after SIGTERM in which it still answers, with /readyz saying no.",
        group="Network",
        ge=0,
        metavar="SECONDS",
    )
    grace: int = setting(
        30, "Seconds after that in which requests in flight may finish.", group="Network", ge=1, metavar="SECONDS"
    )
    tls_cert: Path | None = setting(
        None, "Certificate chain (PEM), for https; SIGHUP reads both again.", group="Network", metavar="FILE"
    )
    tls_key: Path | None = setting(None, "Its private key (PEM).", group="Network", metavar="FILE")
    api_key: Annotated[tuple[str, ...], NoDecode] = setting(
        (),
        "Key that clients must send, or its sha256:<hex>; others on this machine can read flags: prefer the variable "
        "or the file. Repeat it; as a variable, with commas. None: no key is asked.",
        group="Access",
        metavar="KEY",
    )
    api_key_file: Path | None = setting(
        None,
        "File of keys, one line each as `nonneg key` prints it; SIGHUP reads it again.",
        group="Access",
        metavar="FILE",
    )
    rate: float | None = setting(
        None,
        "Images a second for each key, or each address without keys, then 429; a request without images counts as one.",
        group="Access",
        gt=0,
    )
    burst: int = setting(
        20,
        "Images at once before the rate counts; a request that begins below it may end beyond it.",
        group="Access",
        ge=1,
    )
    trusted_proxy: Annotated[tuple[str, ...], NoDecode] = setting(
        (),
        "Address or network of a proxy, as 10.0.0.0/8, whose X-Forwarded-For names the client: for the log, and for "
        "rates without keys. Repeat it; as a variable, with commas.",
        group="Access",
        metavar="ADDRESS",
    )
    cors_origin: Annotated[tuple[str, ...], NoDecode] = setting(
        (),
        "Origin whose web pages may ask, or *. Repeat it; as a variable, with commas.",
        group="Access",
        metavar="ORIGIN",
    )
    studio: bool = setting(
        False,
        "Serve the page at / and /studio/... on other than loopback, too; on loopback they are always served.",
        group="Access",
    )
    allow_host: Annotated[tuple[str, ...], NoDecode] = setting(
        (),
        "Name by which this server may be asked where it listens on loopback without keys, and its studio anywhere, "
        "beside its own addresses: that of a proxy, say. Repeat it; as a variable, with commas.",
        group="Access",
        metavar="NAME",
    )
    threads: int | None = setting(
        None, "Images encoded at once; without it, the cores granted to this process.", group="Engine", ge=1, le=1024
    )
    decode: Literal["fast", "exact"] = setting(
        "fast",
        "fast: large JPEGs are decoded at the least scale that keeps twice the pixels the model sees, and images are "
        "resized with SIMD instructions where there is a build of them; exact: decoded at full scale and resized by "
        "Pillow, equal in every bit.",
        group="Engine",
    )
    precision: PrecisionChoice = setting(
        "auto",
        "Serve every model in this precision, by the variant in its bundle or the one that `nonneg quantize` made; one "
        "that is not there is refused. auto: the fastest form in the bundle that answers its self-test on this "
        "processor, which lies in the same space, else the bundle as it is.",
        group="Engine",
    )
    provider: Literal["cpu", "cuda", "tensorrt", "openvino"] | None = setting(
        None,
        "What computes; one that is not there is refused, never replaced in silence. None: the CPU through ONNX "
        "Runtime, and through OpenVINO for bf16.",
        group="Engine",
    )
    batch: int = setting(
        0,
        "Most images that are run at once, whatever queued during the last run; for GPUs. 0: each by itself.",
        group="Engine",
        ge=0,
        le=1024,
        metavar="IMAGES",
    )
    cache: int = setting(
        0,
        "Bytes of vectors to cache in memory by image content, so that the same image is not encoded again; 0: none.",
        group="Engine",
        ge=0,
        metavar="BYTES",
    )
    cache_dir: Path | None = setting(
        None,
        "Folder on a local disk in which vectors are cached by their image's content, across restarts and for all "
        "servers that use it.",
        group="Engine",
        metavar="DIR",
    )
    cache_dir_bytes: int = setting(2**30, "Bytes that may be used there.", group="Engine", ge=2**20, metavar="BYTES")
    all_cores: bool = setting(
        True, "Let a lone image use every core at once; costs a second copy of models up to 32 MB.", group="Engine"
    )
    queue: int = setting(MAX_IMAGES, "Images in flight, beyond which requests get 429.", group="Limits", ge=1)
    queue_bytes: int = setting(
        MAX_BYTES, "Bytes of images in flight, beyond which requests get 429.", group="Limits", ge=1024, metavar="BYTES"
    )
    timeout: float = setting(
        60.0, "Seconds a request may take once it has arrived; then 504.", group="Limits", gt=0, metavar="SECONDS"
    )
    read_timeout: float = setting(
        15.0,
        "Seconds without a byte while a request is arriving, then 408; or while its answer is not taken, then closed.",
        group="Limits",
        gt=0,
        metavar="SECONDS",
    )
    receive_timeout: float = setting(
        120.0,
        "Seconds a whole request may take to arrive, then 408; or its answer to be taken, then closed.",
        group="Limits",
        gt=0,
        metavar="SECONDS",
    )
    upload_bytes: int = setting(
        512 * MEBIBYTE,
        "Bytes of all requests that are arriving or in work, of images fetched for them, and of answers that are made "
        "or not taken yet, beyond which they get 429.",
        group="Limits",
        ge=1024,
        metavar="BYTES",
    )
    max_connections: int = setting(4096, "Open connections, beyond which new ones get 503.", group="Limits", ge=1)
    max_body: int = setting(64 * MEBIBYTE, "Bytes a request may have.", group="Limits", ge=1024, metavar="BYTES")
    max_images: int = setting(256, "Images a request may have.", group="Limits", ge=1)
    max_image_bytes: int = setting(
        32 * MEBIBYTE,
        "Bytes an image may have as a file; in base64 this is checked before it is decoded.",
        group="Limits",
        ge=1024,
        metavar="BYTES",
    )
    max_pixels: int = setting(
        MAX_PIXELS, "Pixels an image may have (from its header).", group="Limits", ge=1, le=MOST_PIXELS
    )
    image_memory: int = setting(
        BUDGET,
        "Bytes that all images being decoded may take together; others wait, and one that alone takes more than seven "
        "eighths of it gets 413.",
        group="Limits",
        ge=2**24,
        metavar="BYTES",
    )
    url_host: Annotated[tuple[str, ...], NoDecode] = setting(
        (),
        "Host that images may be fetched from: example.org, *.example.org, example.org:8080, *. Repeat it; as a "
        "variable, with commas. None: URLs are refused.",
        group="URLs",
        metavar="HOST",
    )
    url_bytes: int = setting(
        20 * MEBIBYTE, "Bytes an image behind a URL may have.", group="URLs", ge=1, metavar="BYTES"
    )
    url_timeout: float = setting(
        10.0, "Seconds an image behind a URL may take, redirects included.", group="URLs", gt=0, metavar="SECONDS"
    )

    log_format: Literal["text", "json"] = setting("text", "How the log is written to stderr.", group="Observation")
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "warning", "What is logged at least.", group="Observation"
    )
    access_log: bool = setting(
        False, "Log every request: id, route, status, time, images; never their content.", group="Observation"
    )
    otel: bool = setting(
        False,
        "Send a trace of every request to the collector that the OTEL_EXPORTER_OTLP_… variables name.",
        group="Observation",
    )

    @property
    def limits(self) -> Limits:
        """What a request may bring."""
        return Limits(self.max_images, self.max_image_bytes)

    @field_validator("trusted_proxy")
    @classmethod
    def _networks(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse what is neither an address nor a network."""
        for entry in given:
            ipaddress.ip_network(entry)
        return given

    @field_validator(
        "model", "alias", "atlas", "api_key", "trusted_proxy", "cors_origin", "allow_host", "url_host", mode="before"
    )
    @classmethod
    def _listed(cls, given: object) -> object:
        """Split text at its commas: a variable, and a single value, give a list so."""
        if isinstance(given, (str, Path)):
            return tuple(part for part in str(given).split(",") if part)
        return given


def flag(name: str) -> str:
    """Return the command-line flag of a setting."""
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper()


def group_of(field: FieldInfo) -> str:
    """Return the heading that a setting stands under."""
    return str(_extra(field)["group"])


def metavar_of(field: FieldInfo) -> str | None:
    """Return what stands for a setting's value in the help."""
    placeholder = _extra(field)["metavar"]
    return None if placeholder is None else str(placeholder)


def _extra(field: FieldInfo) -> dict[str, Any]:
    assert isinstance(field.json_schema_extra, dict)
    return dict(field.json_schema_extra)
