"""`nonneg doctor`: what is installed, what the machine grants, whether the model answers; each finding with its fix.

It imports the server's parts only inside the checks, so that it runs, and says so, where they are missing.
"""

import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING, Literal

import click

from nonneg_core.errors import NonnegError
from nonneg_core.process.cores_and_allocator import affinity, available_cores, cgroup_quota
from nonneg_core.process.python_child import start_python
from nonneg_core.terminal.installing import extra_hint
from nonneg_core.version import __version__
from nonneg_server.http.connection_limits import open_files, raise_file_limit

if TYPE_CHECKING:
    from nonneg_runtime.bundle.bundle_folder import Bundle

Severity = Literal["ok", "note", "bad"]

CLIENT = ("httpx", "numpy", "pillow", "ormsgpack")
EXTRAS = {
    "server": ("fastapi", "uvicorn", "orjson", "pydantic-settings", "python-multipart"),
    "training": ("torch", "torchvision", "onnxscript", "safetensors", "scikit-learn"),
    "export": ("onnx", "matplotlib"),
    "search": ("faiss-cpu", "scipy"),
    "scale": ("pyarrow",),
    "cloud": ("fsspec",),
    "ray": ("ray",),
    "heic": ("pi-heif",),
    "simd": ("cykooz-resizer",),
    "hub": ("huggingface_hub",),
    "text": ("tokenizers",),
    "wrap": ("transformers", "timm", "open_clip_torch"),
    "otel": ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"),
    "openvino": ("openvino",),
}
RUNTIMES = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino")


@dataclass(frozen=True)
class Diagnosis:
    """One thing that was looked at."""

    subject: str
    verdict: Severity
    message: str
    fix: str | None = None


@click.command()
@click.option("--model", type=click.Path(path_type=Path), metavar="DIR", help="Test this bundle, not the default one.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON document.")
def doctor(model: Path | None, as_json: bool) -> None:
    """Check this installation and say how to mend it; the exit code is 1 if something is broken."""
    findings = list(examine(model))
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        show(findings)
    sys.exit(any(finding.verdict == "bad" for finding in findings))


def examine(model: Path | None = None) -> Iterator[Diagnosis]:
    """Yield every check in turn; one that fails does not keep the others from running."""
    yield Diagnosis("nonneg", "ok", f"{__version__} on Python {platform.python_version()}, {platform.platform()}")
    yield Diagnosis("client", "ok", ", ".join(f"{name} {installed(name)}" for name in CLIENT))
    yield from extras()
    yield from torch_builds()
    yield from runtime()
    yield cores()
    yield files()
    yield from self_test(model)


def extras() -> Iterator[Diagnosis]:
    """Yield which parts are installed, and which pip command brings the others."""
    for extra, packages in EXTRAS.items():
        versions = {name: installed(name) for name in packages}
        absent = [name for name, number in versions.items() if number is None]
        fix = extra_hint(extra)
        if not absent:
            yield Diagnosis(extra, "ok", ", ".join(f"{name} {number}" for name, number in versions.items()))
        elif extra == "server" and len(absent) < len(versions) and any(map(installed, RUNTIMES)):
            yield Diagnosis(extra, "bad", f"without {', '.join(absent)}", fix)  # a runtime is there to serve with
        else:
            yield Diagnosis(extra, "note", f"an extra that is not installed (without {', '.join(absent)})", fix)


def torch_builds() -> Iterator[Diagnosis]:
    """Yield a note where torch and torchvision are of two builds: other programs may fail to import torchvision."""
    versions = {name: installed(name) for name in ("torch", "torchvision")}
    if None in versions.values():
        return
    if len({str(number).partition("+")[2] for number in versions.values()}) > 1:
        message = " and ".join(f"{name} {number}" for name, number in versions.items())
        fix = "install both from the index that one of them came from; nonneg itself works with these"
        yield Diagnosis("torchvision", "note", f"{message} are of two builds", fix)


def runtime() -> Iterator[Diagnosis]:
    """Yield ONNX Runtime: one build of it, and the providers it has; a client needs none."""
    builds = [name for name in RUNTIMES if installed(name)]
    if not builds:
        if all(map(installed, EXTRAS["server"])):
            fix = extra_hint("server")
            yield Diagnosis("onnxruntime", "bad", "not installed, and the server cannot answer without it", fix)
        else:
            message = "not installed: it comes with the extras `local` and `server`"
            yield Diagnosis("onnxruntime", "note", message, extra_hint("local"))
        return
    if len(builds) > 1:
        fix = f"pip uninstall {' '.join(builds)}, then install the one you want"
        yield Diagnosis("onnxruntime", "bad", f"{' and '.join(builds)} overwrite each other", fix)
    import onnxruntime as ort

    providers = [name.removesuffix("ExecutionProvider") for name in ort.get_available_providers()]
    yield Diagnosis("onnxruntime", "ok", f"{ort.__version__} with {', '.join(providers)}")


def cores() -> Diagnosis:
    """Return what the container grants, beside what the host shows."""
    quota = cgroup_quota()
    limit = "no CPU limit" if quota is None else f"a CPU limit of {quota:g}"
    message = f"{available_cores()} of {os.cpu_count()} cores ({affinity()} by affinity, {limit})"
    if quota is not None and quota < 1:
        return Diagnosis("cores", "note", message, "grant at least one whole core: less makes every image wait")
    return Diagnosis("cores", "ok", message)


def files() -> Diagnosis:
    """Open files: each connection of a server is one."""
    limit = open_files()
    try:
        return Diagnosis("files", "ok", f"{raise_file_limit(limit)} may be open at once")
    except NonnegError as error:
        return Diagnosis("files", "bad", error.message, error.fix)


def self_test(model: Path | None) -> Iterator[Diagnosis]:
    """Yield whether the bundle opens, and its encoder answers the golden vector that the exporter wrote down."""
    from nonneg_runtime.bundle.bundle_folder import open_bundle
    from nonneg_runtime.inference.variants import as_variant

    try:
        bundle = open_bundle(model)
        manifest = bundle.manifest
        yield Diagnosis(
            "model", "ok", f"{manifest.name} {manifest.version}, {manifest.dimensions} dimensions, verified"
        )
    except NonnegError as error:
        yield Diagnosis("model", "bad", error.message, error.fix)
        return
    if any(installed(name) for name in RUNTIMES):
        yield answered("self-test", bundle)
        for variant in manifest.variants:
            diagnosis = answered(f"self-test {variant.precision}", as_variant(bundle, variant))
            yield (
                diagnosis
                if diagnosis.verdict == "ok"
                else replace(diagnosis, verdict="note", fix="nothing: it is not used here")
            )
        if all(map(installed, EXTRAS["server"])):
            yield memory(bundle)
        if installed("onnxruntime-gpu"):  # it names CUDA wherever it is; whether it runs there, only a session shows
            yield answered("gpu", bundle, "cuda")


def memory(bundle: "Bundle") -> Diagnosis:
    """Return what a server of this model takes before its first image: one is started, asked with a text, and ended."""
    from httpx import HTTPError, post

    command = ("serve", "--host", "127.0.0.1", "--port", "0", "--model", str(bundle.path), "--drain", "0")
    with start_python("nonneg_cli", *command, stdout=PIPE, stderr=DEVNULL) as server:
        assert server.stdout is not None
        ready = server.stdout.readline()
        if address := re.search(rb"http://\S+", ready):
            with suppress(HTTPError):  # where a model takes texts, their encoder is loaded by the first
                post(f"{address[0].decode()}/embed", json={"texts": ["a dog"]}, timeout=30, trust_env=False)
        status = Path(f"/proc/{server.pid}/status")
        peak = status.read_text().partition("VmHWM:")[2].split() if ready and status.exists() else []
        server.terminate()
    if not peak:
        why = "this system does not tell it" if ready else "the server did not start: see `nonneg serve`"
        return Diagnosis("memory", "note", f"not measured: {why}")
    need = f"{int(peak[0]) // 1024} MB for a server of {bundle.manifest.name} when it has read a text"
    return Diagnosis("memory", "ok", f"{need}, plus --image-memory and --upload-bytes (512 MB each, if not set)")


def answered(subject: str, bundle: "Bundle", provider: str | None = None) -> Diagnosis:
    """Return whether the encoder, computed there, gives the vector that the exporter wrote down."""
    from nonneg_runtime.inference.encoder import open_session
    from nonneg_runtime.inference.runner import PROVIDERS, golden_cosine

    manifest = bundle.manifest
    try:
        where = None if provider is None else PROVIDERS[provider]
        cosine = golden_cosine(open_session(bundle.encoder, providers=where, precision=manifest.precision), manifest)
    except NonnegError as error:
        return Diagnosis(subject, "bad", error.message, error.fix)
    good = cosine >= manifest.golden.tolerance
    message = f"cosine {cosine:.6f} to the exporter's vector (at least {manifest.golden.tolerance})"
    fix = None if good else "reinstall onnxruntime, or export the bundle again on this machine"
    return Diagnosis(subject, "ok" if good else "bad", message, fix)


def show(findings: list[Diagnosis], echo: Callable[[str], None] = click.echo) -> None:
    """Print one line a finding, its fix below."""
    marks = {"ok": click.style("ok  ", fg="green"), "note": click.style("note", fg="yellow")}
    for finding in findings:
        mark = marks.get(finding.verdict, click.style("BAD ", fg="red"))
        echo(f"{mark}  {finding.subject:<12} {finding.message}")
        if finding.fix:
            echo(f"      {'':<12} fix: {finding.fix}")


def installed(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
