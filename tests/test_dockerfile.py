"""The Dockerfile, as far as it can be checked without an engine."""

from __future__ import annotations

import ast
import json
import re
import ssl
import subprocess
import sys
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from threading import Thread

import pytest

ROOT = Path(__file__).parent.parent
Instruction = tuple[str, str]


@pytest.fixture(scope="module")
def stages() -> list[list[Instruction]]:
    """The instructions of each stage, continuation lines joined and comments dropped."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    instructions = [(line.split(maxsplit=1)[0].upper(), line.split(maxsplit=1)[1]) for line in lines]
    starts = [i for i, (word, _) in enumerate(instructions) if word == "FROM"]
    return [instructions[a:b] for a, b in zip(starts, [*starts[1:], len(instructions)], strict=True)]


def values(stage: list[Instruction], word: str) -> list[str]:
    return [rest for name, rest in stage if name == word]


def ignored_by_docker(path: str) -> bool:
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    return path not in kept


def test_everything_it_copies_exists_and_is_let_through_by_dockerignore(stages: list[list[Instruction]]) -> None:
    sources = [word for rest in values(stages[0], "COPY") for word in rest.split()[:-1]]
    assert {"client", "training", "export", "server", "pyproject.toml", "constraints.txt"} <= set(sources)
    for source in [source.replace("${EXTRA}", extra) for source in sources for extra in ("server", "gpu")]:
        assert (ROOT / source).exists(), source
        assert not ignored_by_docker(source.split("/")[0]), source


def test_everything_that_the_build_reads_is_copied(stages: list[list[Instruction]]) -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    copied = {word for rest in values(stages[0], "COPY") for word in rest.split()[:-1]}
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    needed = {project["project"]["readme"], *project["project"]["license-files"], *(p.split("/")[0] for p in packages)}
    assert needed <= copied


def test_the_base_images_are_pinned_to_a_patch_version_and_slim() -> None:
    found = re.findall(r"^ARG PYTHON=(.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert len(found) == 1
    assert re.fullmatch(r"3\.\d+\.\d+-slim-\w+", found[0])
    assert set(re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)) == {"python:${PYTHON}"}


def test_the_last_stage_runs_as_an_unprivileged_user(stages: list[list[Instruction]]) -> None:
    assert len(stages) == 2
    user = values(stages[-1], "USER")
    assert user
    assert int(user[-1]) > 0
    assert any(f"--uid {user[-1]}" in run for run in values(stages[-1], "RUN"))


def test_the_build_argument_is_an_extra_that_exists(stages: list[list[Instruction]]) -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    default = dict(arg.split("=") for arg in values(stages[0], "ARG"))["EXTRA"]
    assert default == "server"
    assert {"server", "gpu"} <= set(extras)


def test_all_that_comes_from_elsewhere_is_known_by_its_digest(stages: list[list[Instruction]]) -> None:
    commands = [part.strip() for run in values(stages[0], "RUN") for part in run.split("&&")]
    installs = [command for command in commands if re.search(r"pip (install|wheel|download)", command)]
    assert any("image-${EXTRA}.txt" in command for command in installs)
    for command in installs:
        assert "--require-hashes -r" in command or "--no-deps" in command, command
        assert "--no-deps" not in command or "--no-index" in command or "--no-build-isolation" in command, command


@pytest.mark.parametrize("name", ["server", "gpu", "build"])
def test_the_digests_of_the_image_are_those_of_the_versions_of_ci(name: str) -> None:
    lines = (ROOT / "deploy" / f"image-{name}.txt").read_text().replace("\\\n", " ").splitlines()
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    pinned = {key.lower().replace("_", "-"): version for key, version in pinned.items()}
    listed = [line for line in lines if not line.startswith("#")]
    assert listed
    for line in listed:
        found = re.fullmatch(r"([\w.-]+)==(\S+)(?: ; [^-]+?)?(?:\s+--hash=sha256:[0-9a-f]{64})+", line)
        assert found is not None, line
        assert pinned.get(found[1], found[2]) == found[2], line


@pytest.mark.parametrize("extra", ["server", "gpu"])
def test_the_image_has_every_package_that_its_extra_asks_for(extra: str) -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = {*project["dependencies"], *extras[extra], *extras["serving"], *extras["simd"]}
    names = {re.split(r"[\[<>=!~; ]", line, maxsplit=1)[0].lower().replace("_", "-") for line in asked} - {"nonneg"}
    held = re.findall(r"^([\w.-]+)==", (ROOT / "deploy" / f"image-{extra}.txt").read_text(), re.MULTILINE)
    assert names <= set(held)


def test_it_runs_what_the_page_on_installing_says(stages: list[list[Instruction]]) -> None:
    command = json.loads(values(stages[-1], "CMD")[-1])
    assert command == ["nonneg", "serve"]
    page = (ROOT / "docs" / "install.md").read_text()
    assert " ".join(command) in page
    port = values(stages[-1], "EXPOSE")[0]
    assert f"-p {port}:{port}" in page
    assert f"NONNEG_PORT={port}" in " ".join(values(stages[-1], "ENV"))


def context_of(folder: Path) -> ssl.SSLContext:
    """What serves with a certificate that only this test knows."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    line = f"openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=x -out {cert} -keyout {key}"
    try:
        subprocess.run(line.split(), check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl here")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


def test_its_health_check_asks_readyz_with_and_without_tls(stages: list[list[Instruction]], tmp_path: Path) -> None:
    check = values(stages[-1], "HEALTHCHECK")[0]
    command = json.loads(check[check.index("[") :])
    assert command[:2] == ["python", "-c"]
    ast.parse(command[2])
    assert "/readyz" in command[2]
    (tmp_path / "readyz").write_text("")
    folder = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    for secure in (False, True):
        with HTTPServer(("127.0.0.1", 0), folder) as server:
            environment = {"NONNEG_PORT": str(server.server_port)}
            if secure:
                server.socket = context_of(tmp_path).wrap_socket(server.socket, server_side=True)
                environment["NONNEG_TLS_CERT"] = str(tmp_path / "cert.pem")
            Thread(target=server.handle_request, daemon=True).start()
            line = [sys.executable, "-c", command[2]]
            done = subprocess.run(line, env=environment, capture_output=True, timeout=20, check=False)
            assert done.returncode == 0, done.stderr
    gone = subprocess.run(
        [sys.executable, "-c", command[2]], env={"NONNEG_PORT": "9"}, capture_output=True, timeout=20, check=False
    )
    assert gone.returncode != 0
