#!/usr/bin/env python3
"""Write the reference of the public Python API from its docstrings: `python scripts/api_reference.py > docs/api.md`.

Public is what the packages below name in `__all__`. A test compares the page with what this prints.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from types import GenericAlias
from typing import Any

PACKAGES = {
    "nonneg_client": "Embed, shorten and evaluate images: the client of the server, and the same in this process.",
    "nonneg_client.search": "Search: the extra `search`.",
    "nonneg_client.storage": "Files of vectors.",
    "nonneg_client.converters": "Vectors in the forms of databases and libraries.",
    "nonneg_vectors": "What needs stored vectors alone: no server, no model.",
    "nonneg_training": "Training and studies: the extra `training`.",
}
HEAD = """# The Python API

Written from the docstrings by `python scripts/api_reference.py > docs/api.md`; a test keeps it true. How the parts are
used together: [the client](client.md), [training](training.md).
"""


def main() -> None:
    """Print the page."""
    print(HEAD)
    listed = []
    for package, about in PACKAGES.items():
        print(f"## {package}\n\n{about}\n")
        for name, value in members(package):
            if value not in listed:
                print("\n".join(entry(name, value)))
            listed.append(value)


def members(package: str) -> Iterator[tuple[str, Any]]:
    """Yield the public names of a package; of a module without `__all__` its own functions and classes."""
    module = importlib.import_module(package)
    for name in sorted(getattr(module, "__all__", None) or vars(module)):
        value = getattr(module, name)
        documented = (inspect.isclass(value) and not isinstance(value, GenericAlias)) or inspect.isfunction(value)
        own = hasattr(module, "__all__") or getattr(value, "__module__", None) == package
        if documented and own and not name.startswith("_"):
            yield name, value


def entry(name: str, value: Any, level: str = "###") -> Iterator[str]:
    """Yield the lines of one name: its signature, its docstring and, for a class, its methods."""
    yield f"{level} {name}\n\n```text\n{name}{signature(value)}\n```\n"
    yield f"{described(value)}\n"
    if inspect.isclass(value):
        for method, found in sorted(inspect.getmembers(value, inspect.isfunction)):
            if not method.startswith("_") and found.__module__.startswith("nonneg_") and found.__doc__:
                yield f"- `{method}{signature(found)}`\n  {described(found).splitlines()[0]}"
        yield ""


def signature(value: Any) -> str:
    """Return the arguments as they are written, without `self`."""
    if inspect.isclass(value) and issubclass(value, dict):  # a typed dictionary: its keys
        return ": " + ", ".join(value.__annotations__)
    found = inspect.signature(value)
    given = [
        parameter.replace(annotation=Plain(parameter.annotation))
        if isinstance(parameter.annotation, str)
        else parameter
        for name, parameter in found.parameters.items()
        if name not in ("self", "cls")
    ]
    returns = found.return_annotation
    text = str(
        found.replace(parameters=given, return_annotation=Plain(returns) if isinstance(returns, str) else returns)
    )
    return re.sub(r"<function (\w+) at \w+>", r"\1", text).replace(" -> None", "").replace("<factory>", "...")


class Plain(str):
    """An annotation that shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def described(value: Any) -> str:
    """Return the docstring; examples in it become code."""
    lines = (inspect.getdoc(value) or "").splitlines()
    code = (">>>", "...", "with ", "async with ", "    ")
    return "\n".join(f"    {line}" if line.startswith(code) else line for line in lines)


if __name__ == "__main__":
    main()
