"""Who is measured: how each is installed, started and asked. The peers live in environments of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SHARED = ("httpx", "numpy", "onnxruntime", "orjson", "pillow", "pydantic")  # in the versions that are installed here


@dataclass(frozen=True)
class Contestant:
    """A server: what to install, the command that starts it on {port}, the path that takes a JPEG."""

    name: str
    requirements: tuple[str, ...]
    command: tuple[str, ...]
    path: str = "/embed"
    environment: tuple[tuple[str, str], ...] = ()
    program: str = "nonneg"  # of this environment, where nothing has to be installed
    shares: str = ""  # the contestant whose environment this one uses

    def prepared(self, home: Path) -> list[str]:
        """Return the command, in an environment that exists and has what it needs."""
        if not self.requirements:
            return [str(Path(sys.executable).with_name(self.program)), *self.command]
        folder = home / (self.shares or self.name)
        if not (folder / "complete").exists():
            print(f"installing {self.name} in {folder}", file=sys.stderr)
            venv.create(folder, with_pip=True, clear=True)
            pip = [str(folder / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            same = [f"{name}=={version(name)}" for name in SHARED]
            subprocess.run([*pip, *same, *self.requirements], check=True)
            (folder / "complete").touch()
        return [str(folder / "bin/python"), *self.command]


SOURCES = os.pathsep.join(str(ROOT / folder) for folder in ("client", "export"))  # the peers' decoder, view and session

BARE = "bare"  # not a usable server: it shows how much there is to gain
SAME = "nonneg, fp32"  # runs the file that the others run, where a bundle has a faster form as well
EXACT = "nonneg, exact"  # runs that file on the pixels that the others give it, in every bit

RAY = ("ray[serve]==2.60.0",)
QUIET_RAY = (("RAY_USAGE_STATS_ENABLED", "0"),)
THROUGHPUT = (  # Ray Serve's own switches: HAProxy in front, gRPC between proxy and replicas, no thread for user code
    ("RAY_SERVE_ENABLE_HA_PROXY", "1"),
    ("RAY_SERVE_USE_GRPC_BY_DEFAULT", "1"),
    ("RAY_SERVE_THROUGHPUT_OPTIMIZED", "1"),
    ("RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD", "0"),
)

CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant("nonneg", (), ("serve", "--port", "{port}")),
        Contestant("mosec", ("mosec==0.9.8",), ("with_mosec.py", "--port", "{port}"), "/inference"),
        Contestant("litserve", ("litserve==0.2.19",), ("with_litserve.py",)),
        Contestant(
            "bentoml",
            ("bentoml>=1.4,<2",),
            ("-m", "bentoml", "serve", "with_bentoml:Embedder", "--port", "{port}", "--host", "127.0.0.1"),
            environment=(("BENTOML_DO_NOT_TRACK", "True"),),
        ),
        Contestant("ray", RAY, ("with_ray.py",), environment=QUIET_RAY),
        Contestant("ray, throughput", RAY, ("with_ray.py",), environment=(*QUIET_RAY, *THROUGHPUT), shares="ray"),
        Contestant("nonneg on ray", (), ("nonneg_on_ray.py",), environment=QUIET_RAY, program="python"),
        Contestant(
            "nonneg on ray, throughput",
            (),
            ("nonneg_on_ray.py",),
            environment=(*QUIET_RAY, *THROUGHPUT),
            program="python",
        ),
        Contestant(BARE, (), ("bare.py",), program="python"),
        Contestant(SAME, (), ("serve", "--port", "{port}", "--precision", "fp32")),
        Contestant(EXACT, (), ("serve", "--port", "{port}", "--precision", "fp32", "--decode", "exact")),
    )
}  # fmt: skip
