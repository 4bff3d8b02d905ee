"""What a kind of work is to a study, and the kinds by name: each checks its settings and turns them into figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from nonneg_core.errors import ConfigInvalid
from research.study.plan import Record

Figures = dict[str, float | list[float] | None]


class TaskSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Task(ABC):
    """Settings in, figures out; the same settings and seed give the same figures."""

    @abstractmethod
    def settle(self, record: Record, root: Path | None) -> Record:
        """Return the settings with nothing left to default; refuses what does not exist."""

    @abstractmethod
    def check_measure(self, record: Record) -> Record:
        """Return what is measured, with nothing left to default."""

    @abstractmethod
    def figures(self, measure: Record) -> frozenset[str]:
        """Return the names of all figures that a result can have."""

    @abstractmethod
    def check_data(self, settings: Record, measure: Record, root: Path | None) -> None:
        """Refuse what is measured where its images are not there, or where it does not go with these settings."""

    @abstractmethod
    def defaults(self) -> tuple[Record, Record]:
        """Return settings and measure as they are where nothing is said."""

    @abstractmethod
    def run(self, settings: Record, measure: Record, seed: int, work: Path, root: Path | None) -> Figures:
        """Return one run."""


P = TypeVar("P", bound=TaskSettings)


def checked(kind: type[P], record: Record, where: str) -> P:
    """Return the record as `kind`; the first thing wrong is named."""
    try:
        return kind.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join([where, *(str(part) for part in first["loc"])])
        message = "not a setting" if first["type"] == "extra_forbidden" else first["msg"].lower()
        raise ConfigInvalid(
            f"{field}={first['input']!r}: {message}", fix=f"known: {', '.join(kind.model_fields)}", field=field
        ) from error


class Alone(Task):
    """A task of one function: its settings are one flat record, and nothing is measured beside them."""

    kind: type[TaskSettings]
    known: frozenset[str]  # its figures

    def settle(self, record: Record, root: Path | None) -> Record:
        return checked(self.kind, record, "base").model_dump(mode="json")

    def check_measure(self, record: Record) -> Record:
        return checked(TaskSettings, record, "measure").model_dump(mode="json")

    def figures(self, measure: Record) -> frozenset[str]:
        return self.known

    def check_data(self, settings: Record, measure: Record, root: Path | None) -> None:
        return  # it measures nothing beside its own data

    def defaults(self) -> tuple[Record, Record]:
        return {name: field.default for name, field in self.kind.model_fields.items()}, {}


_HOMES = {
    "encoder": "research.study.encoder_task:TASK",
    "parts": "research.study.parts_task:TASK",
    "towers": "research.study.towers_task:TASK",
    "theory": "research.study.theory_task:TASK",
}


def task(name: str) -> Task:
    """Return the kind of work of that name."""
    if name not in _HOMES:
        raise ConfigInvalid(f"task={name} is not known", fix=f"choose of {', '.join(_HOMES)}", field="task", value=name)
    module, _, attribute = _HOMES[name].partition(":")
    instance: Task = getattr(import_module(module), attribute)
    return instance
