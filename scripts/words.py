#!/usr/bin/env python3
"""Check the words of this project: docstrings, phrases that are not plain, and names that stand for nothing any more.

First words of docstrings, long sentences, names that say nothing, names of files in the docs, of our modules in code
that is kept as text, and of variables that no page documents.

    words.py        prints what is missing or wrong, one line each, and exits with 1 if there is anything

Needs Python alone. The rules are in CONTRIBUTING.md, under "Words".
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("client/", "export/", "server/", "training/")
PACKAGES = (*PRODUCT, "research/")
# Participles that say nothing of a value as its name: the noun (rows, session, lengths) says it.
EMPTY = {"asked", "found", "held", "kept", "said", "seen", "told", "wanted", "wishes"}
# Where one of them is a field of a file that is written: a manifest's, and that of `index.json`.
WRITTEN = {
    "client/nonneg_client/commands/index_update.py": {"kept"},
    "client/nonneg_client/engines/engine_upload.py": {"kept"},
    "client/nonneg_vectors/search/index.py": {"kept"},
    "client/nonneg_vectors/search/vector_engine.py": {"kept"},
    "export/nonneg_export/checks/agreement.py": {"kept"},
    "export/nonneg_export/checks/quality.py": {"asked"},
    "export/nonneg_export/share/manifest_report.py": {"asked", "kept"},
    "export/nonneg_runtime/bundle/evidence.py": {"asked"},
    "export/nonneg_runtime/bundle/manifest.py": {"kept"},
}
MOST_WORDS = 30  # of a sentence
MESSAGES = {"description", "fix", "help"}  # arguments that are shown to users, beside the text of what is raised
# A phrase, and what to write in its place.
BANNED = {
    r"(?<![a-z])(somebody|nobody|whoever|anybody)(?![a-z])": "name the thing: the client, the worker, another process",
    r"\banew\b": "again",
    r"\bamid\b": "during, inside",
    r"(?<![a-z])is[ _]no[ _](?!longer|more)": "is not a, does not exist, without",
    r"\b(beholds?|hereby|whilst|hitherto|thereof)\b": "plain words",
    r"(?<!there )\bare no (?!longer\b|more\b)[a-z]": "are not",
}
# What a function's docstring does not begin with; nor with another word that is not one, or with a plural in -s.
NOT_VERBS = re.compile(
    "A|All|An|Another|Any|As|At|Both|By|Each|Either|Every|Everything|First|For|From|How|If|In|Inner|Into|It|Its"
    "|Last|Most|No|None|Not|Nothing|Of|On|One|Only|Or|Other|Same|Some|Something|That|The|Their|These|They|This|Those"
    "|Three|To|Two|What|When|Where|Whether|Which|Who|Whole|Why|With|Without|You"
)
EXEMPT = {"scripts/words.py", "research/log.md", "research/log-of-speed.md"}  # records stay as they are
NAMED = re.compile(r"`([\w./-]+\.(?:py|toml|ya?ml|md|js|css))(?::(\w+))?`")
IMPORTED = re.compile(r"^[> ]*from (nonneg_[\w.]+) import (?:\(([^)]*)\)|([\w, ]+))", re.MULTILINE)
VARIABLE = re.compile(r"NONNEG_[A-Z][A-Z_]+")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")


def main() -> None:
    """Print every finding and exit accordingly."""
    checks = (docstrings, verbs, empty_names, long_sentences, phrases, links, named_files, imports, variables)
    findings = [finding for check in checks for finding in check()]
    print(*findings, sep="\n", end="\n" if findings else "")
    sys.exit(bool(findings))


def docstrings() -> Iterator[str]:
    """Yield modules and public functions of the packages without a docstring."""
    for name in tracked("*.py"):
        if name.startswith(PACKAGES):
            tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
            if not ast.get_docstring(tree):
                yield f"{name}:1: the module has no docstring"
            yield from missing(name, tree)


def missing(name: str, tree: ast.Module) -> Iterator[str]:
    """Yield the public functions of a module that have no docstring."""
    for node in tree.body:
        public = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_")
        if public and not ast.get_docstring(node) and not is_documented_route(node):
            yield f"{name}:{node.lineno}: {node.name} has no docstring"


def is_documented_route(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a decorator describes the function for the OpenAPI document."""
    names = {ast.unparse(decorator.func) for decorator in node.decorator_list if isinstance(decorator, ast.Call)}
    return "documented" in names


def verbs() -> Iterator[str]:
    """Yield docstrings of functions and methods that do not begin with a verb; a property is named by a noun."""
    for name in tracked(*(f"{folder}*.py" for folder in (*PACKAGES, "benchmarks/", "examples/"))):
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (text := ast.get_docstring(node)):
                first = text.split()[0].rstrip(".,:;")
                if not is_property(node) and not is_verb(first):
                    yield f"{name}:{node.lineno}: the docstring of {node.name} begins with {first!r}: write a verb"


def is_verb(word: str) -> bool:
    """Return whether a sentence's first word may be a verb in the imperative."""
    plural = word.endswith("s") and not word.endswith("ss")
    return bool(re.fullmatch("[A-Z][a-z]+", word)) and not plural and not NOT_VERBS.fullmatch(word)


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a decorator makes the function a property."""
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def empty_names() -> Iterator[str]:
    """Yield names of variables, parameters, attributes and functions in the product that say nothing of the value."""
    for file in tracked("*.py"):
        if file.startswith(PRODUCT):
            for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
                names = {str(getattr(node, part, "")) for part in ("id", "arg", "attr", "name")}
                for name in sorted(names & EMPTY - WRITTEN.get(file, set())):
                    yield f"{file}:{node.lineno}: {name!r} is a name: write the noun"


def long_sentences() -> Iterator[str]:
    """Yield sentences of public docstrings and of messages that have too many words."""
    for file in tracked("*.py"):
        if file.startswith(PRODUCT):
            for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
                for text in texts(node):
                    for sentence in sentences(text):
                        if (count := len(sentence.split())) > MOST_WORDS:
                            yield f"{file}:{getattr(node, 'lineno', 1)}: a sentence of {count} words: {sentence[:60]!r}"


def texts(node: ast.AST) -> Iterator[str]:
    """Yield what a node of a module says to readers: a public docstring, the message of an error, a help text."""
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        if not getattr(node, "name", "").startswith("_"):
            yield ast.get_docstring(node) or ""
    elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        yield from map(as_text, node.exc.args)
    elif isinstance(node, ast.keyword) and node.arg in MESSAGES:
        yield as_text(node.value)


def as_text(node: ast.expr) -> str:
    """Return a string of the source, each value within it as one word."""
    if isinstance(node, ast.JoinedStr):
        return "".join(as_text(part) for part in node.values)
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "x" if isinstance(node, ast.FormattedValue) else ""


def sentences(text: str) -> list[str]:
    """Return the sentences of a text; lines that are set in, drawn or tables are not prose."""
    prose = "\n".join(line if line[:1].strip() and "  " not in line else "" for line in text.splitlines())
    paragraphs = re.split(r"\n\n+", prose)
    return [sentence for part in paragraphs for sentence in re.split(r"(?<=[.!?;])\s", part.replace("\n", " "))]


def phrases() -> Iterator[str]:
    """Yield lines with a phrase that is not plain English."""
    for name in tracked("*.py", "*.md", "*.toml", "*.yaml", "*.js", "*.html", "scripts/*", "deploy/*", "Dockerfile"):
        if name == "scripts/words.py" or name.endswith((".json", ".lock")):
            continue
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1):
            for pattern, better in BANNED.items():
                if hit := re.search(pattern, line, re.IGNORECASE):
                    yield f"{name}:{number}: {hit[0]!r}: write {better}"


def links() -> Iterator[str]:
    """Yield links of the docs to files that are not there."""
    for name in tracked("*.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for target in sorted(set(LINK.findall(text))):
            if not ((ROOT / name).parent / target).exists():
                yield f"{name}: links to {target}, which does not exist"


def named_files() -> Iterator[str]:
    """Yield files, and functions or classes in them, that a page or a docstring names and that are not there."""
    files = tracked()
    for page in tracked("*.md", "*.py"):
        if page in EXEMPT or page == "CHANGELOG.md" or page.startswith(("docs/adr/", "tests/")):
            continue
        for path, name in sorted(set(NAMED.findall((ROOT / page).read_text(encoding="utf-8")))):
            where = [file for file in files if f"/{file}".endswith(f"/{path.removeprefix('./')}")]
            if not where and (path.endswith(".py") or "/" in path):
                yield f"{page}: names {path}, which does not exist"
            elif name and not any(defines(file, name) for file in where):
                yield f"{page}: names {name} in {path}, which is not there"


def imports() -> Iterator[str]:
    """Yield imports of our modules, in code that is kept as text as well, of names that are not there."""
    for file in tracked("*.py", "*.md"):
        if file in EXEMPT:
            continue
        for module, lines, line in IMPORTED.findall((ROOT / file).read_text(encoding="utf-8")):
            known = names_in(module)
            for name in re.findall(r"(\w+)(?: as \w+)?", lines or line):
                if name not in known:
                    yield f"{file}: imports {name} from {module}, where it is not"


@cache
def names_in(module: str) -> set[str]:
    """Return what can be imported from a module: what it defines or imports, and a package's modules."""
    for base in (ROOT / home / module.replace(".", "/") for home in PACKAGES):
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                tree = ast.parse(path.read_text(encoding="utf-8"))
                return set(bound(tree)) | ({part.stem for part in base.iterdir()} if base.is_dir() else set())
    return set()


def bound(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module binds; of a lazy package those in its strings."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


def variables() -> Iterator[str]:
    """Yield environment variables of the packages that no page names."""
    documented = {name for page in tracked("*.md") for name in VARIABLE.findall((ROOT / page).read_text("utf-8"))}
    for file in tracked("*.py"):
        if file.startswith(PACKAGES):
            for name in sorted(set(VARIABLE.findall((ROOT / file).read_text("utf-8"))) - documented):
                yield f"{file}: reads {name}, which no page names"


def defines(file: str, name: str) -> bool:
    """Return whether a file has a function, method or class of this name."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return bool(re.search(rf"^ *(async )?(def|class) {name}\b", text, re.MULTILINE))


def tracked(*patterns: str) -> list[str]:
    """Return the files that git tracks, by pattern, as far as they exist."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", *patterns], capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


if __name__ == "__main__":
    main()
