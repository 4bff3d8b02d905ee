"""The models this process serves, by name."""

from __future__ import annotations

from nonneg_client.errors import ModelNotFound
from nonneg_server.engine import Engine


class Registry:
    """Engines by model name; the first one is the default."""

    def __init__(self, *engines: Engine) -> None:
        self._engines = {engine.bundle.manifest.name: engine for engine in engines}

    def get(self, name: str | None = None) -> Engine:
        """The engine of that name, or the default one."""
        if name is None:
            return next(iter(self._engines.values()))
        if name not in self._engines:
            known = ", ".join(self._engines)
            raise ModelNotFound(f"no model {name!r} here", fix=f"ask for {known} or omit it", field="model", value=name)
        return self._engines[name]

    def all(self) -> list[Engine]:
        return list(self._engines.values())

    def ready(self) -> bool:
        return bool(self._engines)

    def ailment(self) -> str | None:
        """Why this process can no longer be trusted; None while it works."""
        return next((found for engine in self._engines.values() if (found := engine.ailment())), None)

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()
