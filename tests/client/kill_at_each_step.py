"""Run a command of nonneg, killed before each write it makes, and then again: `kill_at_each_step.py FOLDER ARGUMENTS`.

One line of JSON a step: which write it was, what lay in FOLDER then, how the second run ended, what it said, and what
lay in FOLDER after it.
The steps are the interpreter's own audit events, so that a write that is added later is one of them, too.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from importlib import import_module
from itertools import count
from pathlib import Path

CLIENT = ("commands.embed", "commands.index_update", "bulk.data_set_run", "bulk.file_run", "client")
CLIENTS = (
    "httpx",
    "pyarrow.fs",
    "pyarrow.parquet",
    "nonneg_vectors.search.local_engine",
    "nonneg_vectors.storage.vector_files",
    *(f"nonneg_client.{module}" for module in CLIENT),
)
EXPORT = (
    "assembly.calibrate_and_seal",
    "calibrate.activations",
    "checks.encoder_checks",
    "checks.quality_report",
    "commands.bundle_from_bundle",
    "commands.export",
)
EXPORTS = (
    "onnxruntime",
    "onnx",
    "nonneg_runtime.inference.onnx_session",
    *(f"nonneg_export.{module}" for module in EXPORT),
)
TRAINING = ("torch._dynamo", "nonneg_training.loop.training_run", "nonneg_training.train_command")
ADAPTS = ("commands.adapt", "adapt.adaptation", "graphs.head_layers")
LOADED = {
    "embed": CLIENTS, "index": CLIENTS, "rank": EXPORTS, "export": (*EXPORTS, *TRAINING), "train": TRAINING,
    "pull": ("nonneg_export.commands.whole_bundles",),
    "quantize": EXPORTS, "atlas": (*EXPORTS, "nonneg_export.commands.atlas"),
    "adapt": (*EXPORTS, *(f"nonneg_export.{module}" for module in ADAPTS)),
}  # fmt: skip
WRITES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "shutil.rmtree"}


def main() -> None:
    folder, arguments = Path(sys.argv[1]), sys.argv[2:]
    for module in LOADED[arguments[0]]:  # once, and not in every child
        import_module(module)
    if arguments[0] == "export":
        read_once()

    start = folder.with_name("start")
    shutil.copytree(folder, start)
    for step in count(1):
        shutil.rmtree(folder)
        shutil.copytree(start, folder)
        said = folder.with_name("said")
        if killed(arguments, folder, step, said) is None:
            return
        step_name, left = said.with_suffix(".step").read_text(), names_in(folder)
        code = child(arguments, said)
        found = {"step": step_name, "left": left, "code": code, "said": said.read_text(), "there": names_in(folder)}
        print(json.dumps(found), flush=True)


def names_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def read_once() -> None:
    """Have every child find what torch makes of the run, which writes nothing and takes a second."""
    command = import_module("nonneg_export.commands.export")
    checkpoint = import_module("nonneg_export.assembly.run_draft")
    found = checkpoint.draft(Path(sys.argv[3]), checkpoint.About("b", "1", "", ""))
    vars(command)["draft"] = lambda *_, **__: found


def killed(arguments: list[str], folder: Path, step: int, said: Path) -> int | None:
    """The signal that ended the command before its write number `step`; None where it made fewer."""
    left = [step]

    def on_event(event: str, details: tuple[object, ...]) -> None:
        writes = event == "open" and isinstance(details[2], int) and details[2] & (os.O_WRONLY | os.O_RDWR)
        if (writes or event in WRITES) and details and str(details[0]).startswith(str(folder)):
            left[0] -= 1
            if not left[0]:
                said.with_suffix(".step").write_text(f"{step} {event} {details[0]}")
                os.kill(os.getpid(), signal.SIGKILL)

    code = child(arguments, said, on_event)
    return -code if code < 0 else None


def child(arguments: list[str], said: Path, on_event: object = None) -> int:
    """How the command ends in a process of its own; negative by a signal."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 99
    try:
        with said.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        from nonneg_cli.table import main as command

        sys.argv = ["nonneg", *arguments]
        if on_event is not None:
            sys.addaudithook(on_event)
        command()
        code = 0
    except SystemExit as error:
        code = int(error.code or 0)
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
