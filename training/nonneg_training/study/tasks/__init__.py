"""The kinds of work a study can consist of: each checks its settings, and turns them into figures."""

from __future__ import annotations

from importlib import import_module

from nonneg_core.errors import ConfigInvalid
from nonneg_training.study.plan import Record
from nonneg_training.study.tasks.task import Figures, Task

__all__ = ["Figures", "Record", "Task", "task"]

_HOMES = {
    "encoder": "nonneg_training.study.tasks.encoder:TASK",
    "parts": "nonneg_training.study.tasks.parts:TASK",
    "towers": "nonneg_training.study.tasks.towers:TASK",
    "theory": "nonneg_training.study.tasks.theory:TASK",
}


def task(name: str) -> Task:
    """Return the kind of work of that name."""
    if name not in _HOMES:
        raise ConfigInvalid(f"task={name} is not known", fix=f"choose of {', '.join(_HOMES)}", field="task", value=name)
    module, _, attribute = _HOMES[name].partition(":")
    found: Task = getattr(import_module(module), attribute)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
