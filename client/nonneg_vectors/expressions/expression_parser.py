"""From text to an expression, or to an error that says at which character what was expected.

    expression = clause { ["&"] clause }              behind a sum only a `!` may follow without `&`
    clause     = "!" leaf | sum
    sum        = ["-"] term { ("+" | "-") term }
    term       = [number "*"] ( leaf | "(" expression ")" )
    leaf       = "words" | dim:17 | dim:goldfish | dim:"polar bear" | photo.jpg | photo:"my photo.jpg"

A text of plain words that is the whole query needs no quotes.
A name without quotes ends at a space or a bracket; `""` within quotes is one quote. Brackets with an `&` inside may
stand only where `&` may, since a sum of two "both" has no meaning as one weighting of dimensions.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from nonneg_core.errors import ExpressionInvalid
from nonneg_vectors.expressions.expression import Dimension, Expression, Leaf, Photo, Term, Words

MOST_CHARACTERS = 4096
MOST_TERMS = 32
MOST_BRACKETS = 16  # open at once
MOST_WEIGHT = 1000.0

_TOKEN = re.compile(
    r"""(?:
    (?P<words>"(?:[^"]|"")*")
  | (?P<sign>[-+&!()])
  | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))\s*\*
  | dim:(?:(?P<dim_number>[0-9]+)(?=[\s+\-&!()]|$) | (?P<dim_quoted>"(?:[^"]|"")*") | (?P<dim>[^\s"()]+))
  | photo:(?:(?P<photo_quoted>"(?:[^"]|"")*") | (?P<photo_named>[^\s"()]+))
  | (?P<photo>[^\s"()]+(?:\([^\s"()]*\)[^\s"()]*)*)
    )\s*""",
    re.VERBOSE,
)
_WORD = r"[^\W_]+(?:['’-][^\W_]+)*"
_PLAIN = re.compile(rf"[^\W\d_]+|{_WORD}(?:,?\s+{_WORD})+[.?]?")  # letters alone, or several words
_END = "the end"
_LEAVES: dict[str, type[Photo] | type[Words] | type[Dimension]] = {
    "photo": Photo, "photo_named": Photo, "photo_quoted": Photo, "words": Words,
    "dim": Dimension, "dim_number": Dimension, "dim_quoted": Dimension,
}  # fmt: skip
_QUOTED = frozenset(("words", "dim_quoted", "photo_quoted"))


class _Clauses(NamedTuple):
    """What a pair of brackets, or the whole, comes to."""

    parts: list[tuple[Term, ...]]
    without: list[Leaf]


@lru_cache(maxsize=256)
def parse(text: str) -> Expression:
    """Return the expression that a text writes; raise ExpressionInvalid with the place of the first mistake."""
    if len(text) > MOST_CHARACTERS:
        raise ExpressionInvalid(
            f"the expression has {len(text)} characters", fix=f"write at most {MOST_CHARACTERS}",
            field="expression", value=len(text), limit=MOST_CHARACTERS,
        )  # fmt: skip
    if _PLAIN.fullmatch(text.strip()):
        return Expression(((Term(1.0, Words(text.strip())),),))
    reader = _Reader(text)
    terms = reader.clauses(0)
    if reader.kind != _END:
        raise reader.error(f"{reader.text!r} closes no bracket", "leave it out or open one before")
    return Expression(tuple(terms.parts), tuple(dict.fromkeys(terms.without)))


class _Reader:
    """The tokens of a text, one after the other, and the rules that take them."""

    def __init__(self, text: str) -> None:
        self.whole = text
        self._next = len(text) - len(text.lstrip())
        self._terms = 0
        self.kind, self.text, self.at = "", "", 0
        self.advance()

    def advance(self) -> None:
        """Read the next token."""
        match = _TOKEN.match(self.whole, self._next)
        if match is not None:
            group = match.lastgroup or ""
            self.text, self.at = match[group], self._next
            self.kind = self.text if group == "sign" else group
            self._next = match.end()
            return
        self.at = self._next
        if self.at < len(self.whole):
            raise self.error("a quotation mark is not closed", 'close it with "; write "" for a quote inside')
        self.kind, self.text, self._next = _END, _END, len(self.whole)

    def clauses(self, depth: int) -> _Clauses:
        """Read sums and unwanted leaves, up to a closing bracket or the end."""
        terms = _Clauses([], [])
        while True:
            if self.kind == "!":
                terms.without.append(self._unwanted())
            else:
                inner = self._sum(depth)
                terms.parts.extend(inner.parts)
                terms.without.extend(inner.without)
            if self.kind == "&":
                self.advance()
            elif self.kind in (_END, ")"):
                return terms
            elif self.kind != "!" and terms.parts:
                raise self.error(
                    f"{self._shown()} follows without an operator",
                    'write +, - or & before it; a name with spaces in quotes: photo:"a b.jpg", dim:"polar bear"',
                )

    def error(self, message: str, fix: str, at: int | None = None) -> ExpressionInvalid:
        """Return an error with its place in the text, counted from 1 for people and from 0 for programs."""
        at = self.at if at is None else at
        return ExpressionInvalid(
            f"character {at + 1} of the expression: {message}",
            fix=fix, field=f"expression[{at}]", value=self.whole[at : at + 40],
        )  # fmt: skip

    def _unwanted(self) -> Leaf:
        self.advance()
        if self.kind.startswith("photo"):
            raise self.error(
                "! takes a dimension or words, not a photo", "subtract the photo (- photo.jpg), or name what it shows"
            )
        return self._leaf()

    def _sum(self, depth: int) -> _Clauses:
        """Read terms joined by + and -, or one pair of brackets that holds more than a sum."""
        terms: list[Term] = []
        sign = 1.0
        if self.kind == "-":
            self.advance()
            sign = -1.0
        while True:
            start = self.at
            weight = sign * self._weight()
            if self.kind != "(":
                terms.append(Term(weight, self._leaf()))
            else:
                inner = self._bracket(depth)
                if len(inner.parts) == 1 and not inner.without:
                    terms += [Term(weight * term.weight, term.leaf) for term in inner.parts[0]]
                elif not terms and weight == 1 and self.kind not in ("+", "-"):
                    return inner
                else:
                    raise self.error(
                        "brackets with & or ! inside cannot be added or weighted", "move them out", at=start
                    )
            if self.kind not in ("+", "-"):
                break
            sign = 1.0 if self.kind == "+" else -1.0
            self.advance()
        if all(term.weight < 0 for term in terms):
            raise self.error("everything here is subtracted", "add what a hit should have", at=terms[0].leaf.at)
        return _Clauses([tuple(terms)], [])

    def _weight(self) -> float:
        if self.kind != "number":
            return 1.0
        weight = float(self.text)
        if not 0 < weight <= MOST_WEIGHT:
            raise self.error(f"the weight {self.text}", f"give one above 0 and up to {MOST_WEIGHT:g}")
        self.advance()
        return weight

    def _bracket(self, depth: int) -> _Clauses:
        if depth >= MOST_BRACKETS:
            raise self.error(f"more than {MOST_BRACKETS} brackets are open", "write it with fewer")
        self.advance()
        inner = self.clauses(depth + 1)
        if self.kind == _END:
            raise self.error("a bracket is not closed", "close it with )")
        self.advance()
        return inner

    def _leaf(self) -> Leaf:
        kind, text, at = self.kind, self.text, self.at
        if kind not in _LEAVES:
            raise self.error(f'a photo, "words" or dim:17 should stand here, not {self._shown()}', "add one")
        if text[-1] == ":" and text.lower() in ("dim:", "photo:"):
            raise self.error(f"{text} names nothing", "write dim:17, dim:goldfish or photo:cat.jpg")
        self._terms += 1
        if self._terms > MOST_TERMS:
            raise self.error(f"more than {MOST_TERMS} terms", "ask for less at once")
        if kind in _QUOTED:
            text = text[1:-1].replace('""', '"')
            if not text.strip():
                raise self.error("there is nothing in the quotation marks", "write a word there")
        self.advance()
        return _LEAVES[kind](text, at)

    def _shown(self) -> str:
        return _END if self.kind == _END else repr(self.text + "*" if self.kind == "number" else self.text)
