"""/docs: the OpenAPI document as one page that loads nothing from anywhere and runs no script."""

import html
import json
import re
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]
METHODS = ("get", "post")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


def page(document: Schema, address: str) -> str:
    """Return every operation by tag: what it takes, an example to paste into a shell, what it answers, how it fails."""
    tags: dict[str, list[str]] = {}
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                tag = item[method].get("tags", ["other"])[0]
                tags.setdefault(tag, []).append(_operation(document, address, method, path, item[method]))
    info = document["info"]
    sections = "".join(
        f'<h2 id="{_id(tag)}">{_text(tag)}</h2>{"".join(operations)}' for tag, operations in tags.items()
    )
    links = " ".join(f'<a href="#{_id(tag)}">{_text(tag)}</a>' for tag in tags)
    intro = "".join(f"<p>{_prose(part)}</p>" for part in info["description"].split("\n\n"))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{_text(info["title"])}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f"<h1>{_text(info['title'])} <small>{_text(info['version'])}</small></h1>{intro}"
        f'<nav>{links} <a href="openapi.json">openapi.json</a></nav>{sections}</body></html>'
    )


def front(version: str, pointers: dict[str, str]) -> str:
    """Return what a browser sees at /: where to go."""
    links = "".join(f'<li><a href="{path[1:]}">{_text(name)}</a>' for name, path in pointers.items() if name != "embed")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>nonneg</title><style>{_STYLE}</style>'
        f"</head><body><h1>nonneg <small>{_text(version)}</small></h1><p>Images in, non-negative sparse vectors out: "
        f"<code>POST /embed</code>.</p><ul>{links}</ul></body></html>"
    )


def _operation(document: Schema, address: str, method: str, path: str, slot: Schema) -> str:
    content = slot.get("requestBody", {}).get("content", {})
    parts = [
        _table("Parameters", [(f"{p['name']} ({p['in']})", p["schema"], p) for p in slot.get("parameters", [])]),
        *(_body(document, kind, entry) for kind, entry in content.items()),
        f"<h4>Try it</h4><pre>{_text(_curl(address, method, path, content))}</pre>",
        _answer(document, slot["responses"]["200"]),
        _failures({status: entry for status, entry in slot["responses"].items() if status != "200"}),
    ]
    title = f"<b>{method.upper()}</b> <code>{_text(path)}</code> {_text(slot['summary'])}"
    return f'<details id="{_id(method + path)}"><summary>{title}</summary>{"".join(parts)}</details>'


def _body(document: Schema, kind: str, media: Schema) -> str:
    schema = _resolved(document, media["schema"])
    tables = []
    for arm in schema.get("anyOf", [schema]):
        required = arm.get("required", [])
        fields = [(name + (" *" if name in required else ""), s, s) for name, s in arm.get("properties", {}).items()]
        tables.append(_table(f"Body: {kind}", fields))
    return "".join(tables) or f"<h4>Body: {_text(kind)}</h4><p>The bytes themselves.</p>"


def _answer(document: Schema, response: Schema) -> str:
    parts = [f"<h4>200: {_text(response['description'])}</h4>"]
    for kind, content in response.get("content", {}).items():
        names = list(_kinds(content["schema"])) if "$ref" in content["schema"] else []
        if "example" in content:
            parts.append(f"<pre>{_text(json.dumps(content['example'], indent=1, ensure_ascii=False))}</pre>")
        parts += [_shape(document, name) for name in _with_inner(document, names)] or [f"<p><code>{kind}</code></p>"]
    return "".join(parts)


def _shape(document: Schema, name: str) -> str:
    rows = document["components"]["schemas"][name].get("properties", {})
    return _table(name, [(field, schema, schema) for field, schema in rows.items()])


def _with_inner(document: Schema, names: list[str]) -> list[str]:
    """Return the named schemas and those that stand in their fields, each once."""
    closure: list[str] = []
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        if name not in closure:
            closure.append(name)
            waiting += re.findall(r"#/components/schemas/(\w+)", json.dumps(document["components"]["schemas"][name]))
    return closure


def _failures(responses: dict[str, Schema]) -> str:
    """Return the statuses in a table, the shape once."""
    rows = "".join(
        f"<tr><td><code>{status}</code></td><td>{_text(slot['description'])}</td></tr>"
        for status, slot in responses.items()
    )
    example = responses["default"]["content"]["application/json"]["example"]
    shown = json.dumps(example, indent=1, ensure_ascii=False)
    return f"<h4>Errors</h4><table>{rows}</table><pre>{_text(shown)}</pre>"


def _table(title: str, rows: list[tuple[str, Schema, Schema]]) -> str:
    if not rows:
        return ""
    lines = "".join(
        f"<tr><td><code>{_text(name)}</code></td><td>{_text(' or '.join(_kinds(schema)))}</td>"
        f"<td>{_text(details.get('description', ''))}{_default(schema)}</td></tr>"
        for name, schema, details in rows
    )
    return f"<h4>{_text(title)}</h4><table>{lines}</table>"


def _kinds(schema: Schema) -> Iterator[str]:
    """Yield what a value may be, in a few words."""
    if "anyOf" in schema:
        for arm in schema["anyOf"]:
            yield from _kinds(arm)
    elif "enum" in schema:
        yield " | ".join(map(str, schema["enum"]))
    elif "const" in schema:
        yield str(schema["const"])
    elif "$ref" in schema:
        yield str(schema["$ref"]).rpartition("/")[2]
    elif schema.get("type") == "array":
        yield f"list of {' or '.join(_kinds(schema.get('items', {}))) or 'anything'}"
    else:
        yield str(schema.get("type", "anything"))


def _default(schema: Schema) -> str:
    default = schema.get("default")
    return "" if default is None else f" <i>Default: {_text(json.dumps(default))}.</i>"


def _curl(address: str, method: str, path: str, content: Schema) -> str:
    where = f"'{address}{path}'"
    if method == "get":
        return f"curl -s {where}"
    lines = []
    if "image/*" in content:
        lines.append(f"curl -s --data-binary @photo.jpg {where}")
    if "multipart/form-data" in content:
        lines.append(f"curl -s -F images=@photo.jpg -F images=@other.jpg {where}")
    if "application/json" in content:
        example = json.dumps(content["application/json"]["example"])
        lines.append(f"curl -s --json '{example}' {where}")
    return "\n".join(lines or [f"curl -s -X POST {where}"])


def _resolved(document: Schema, schema: Schema) -> Schema:
    if "$ref" not in schema:
        return schema
    target: Schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return target


def _id(text: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in text)


def _text(value: object) -> str:
    return html.escape(str(value))


def _prose(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _text(text))


_STYLE = """
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
h1 small{font-size:1rem;font-weight:400;opacity:.7}h2{margin:2rem 0 .5rem}h4{margin:1rem 0 .3rem}
nav a{margin-right:1rem}
code,pre{font:13px/1.45 ui-monospace,monospace}pre{overflow:auto;padding:.7rem;border:1px solid #8885;border-radius:6px}
details{border:1px solid #8885;border-radius:6px;margin:.4rem 0;padding:.2rem .8rem}
summary{cursor:pointer;padding:.3rem 0}summary b{display:inline-block;min-width:3.5rem;color:#1a7f4b}
table{border-collapse:collapse;width:100%}
td{border-top:1px solid #8883;padding:.25rem .8rem .25rem 0;vertical-align:top}
"""
