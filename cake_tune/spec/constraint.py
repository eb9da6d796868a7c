"""Constraints: truth expressions over the axes, such as ``num_tokens * num_heads <= 4096 and topk in [128, 512]``.

A small grammar read by recursive descent into closures; nothing is ever passed to Python's evaluator::

    either   := both ("or" both)*
    both     := negation ("and" negation)*
    negation := "not" negation | relation
    relation := sum (("<" | "<=" | ">" | ">=" | "==" | "!=") sum)* | sum ["not"] "in" "[" sum ("," sum)* "]"
    sum      := product (("+" | "-") product)*
    product  := sign (("*" | "/" | "//" | "%") sign)*
    sign     := ("-" | "+") sign | integer | name | "(" either ")"

It means what it means in Python, except that numbers are exact (``/`` gives a fraction) and that numbers and truths do
not mix: ``and`` takes comparisons and flags, ``+`` and ``<`` take numbers.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from cake_tune.spec.problems import did_you_mean, quoted
from cake_tune.spec.tokens import ConstraintError, Token, tokens

Number = int | Fraction
Names = Mapping[str, int]
Kind = Literal["number", "truth"]

SHAPE_NUMBERS = ("num_tokens", "num_heads", "topk", "extra_topk", "page_size", "extra_page_size", "chunks")
SHAPE_FLAGS = ("lengths", "sink")
PLAN_NUMBERS = ("head_tiles", "num_splits", "chunks_per_block")
NAMES = (*SHAPE_NUMBERS, *SHAPE_FLAGS, *PLAN_NUMBERS)

MAX_LENGTH = 2000
"""Longest constraint, in characters."""

MAX_NESTING = 50
"""Deepest nesting of parentheses, signs and ``not``."""

_WORDS = frozenset({"and", "or", "not", "in"})
_COMPARE: dict[str, Callable[[Number, Number], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_ADD: dict[str, Callable[[Number, Number], Number]] = {"+": operator.add, "-": operator.sub}
_MULTIPLY: dict[str, Callable[[Number, Number], Number]] = {
    "*": operator.mul,
    "/": lambda left, right: Fraction(left) / right,
    "//": operator.floordiv,
    "%": operator.mod,
}


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint that was read: ``text`` as given, the ``names`` it uses, and its meaning."""

    text: str
    names: frozenset[str]
    evaluate: Callable[[Names], Number]

    @property
    def about_plans(self) -> bool:
        """True if it names a part of the plan: then it drops plans, not only shapes."""
        return not self.names.isdisjoint(PLAN_NUMBERS)

    def holds(self, names: Names) -> bool:
        """The truth for these values; raises ``ConstraintError`` for a division by zero."""
        return bool(self.evaluate(names))


class _Term(NamedTuple):
    kind: Kind
    value: Callable[[Names], Number]
    offset: int


def parse_constraint(text: str) -> Constraint:
    """Read a constraint; raises ``ConstraintError`` with the offset of what cannot be understood."""
    if len(text) > MAX_LENGTH:
        raise ConstraintError(f"too long: expected at most {MAX_LENGTH} characters, got {len(text)}", 0)
    return _Parser(text).constraint()


class _Parser:
    def __init__(self, text: str):
        self.text = text
        self.tokens = tokens(text)
        self.next = 0
        self.nesting = 0
        self.names: set[str] = set()

    def constraint(self) -> Constraint:
        term = self.either()
        self.check(term, "truth", "a constraint")
        if self.peek().kind != "end":
            raise ConstraintError(
                f"expected an operator or the end, got {quoted(self.peek().text)}", self.peek().offset
            )
        return Constraint(self.text, frozenset(self.names), term.value)

    def peek(self) -> Token:
        token = self.tokens[self.next]
        if token.kind == "unreadable":
            raise ConstraintError(token.text, token.offset)
        return token

    def take(self, *texts: str) -> Token | None:
        """The next token if it is one of ``texts``."""
        token = self.peek()
        if token.kind in ("number", "end") or token.text not in texts:
            return None
        self.next += 1
        return token

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise ConstraintError(f"expected {quoted(text)}, got {self.found()}", self.peek().offset)

    def found(self) -> str:
        return quoted(self.peek().text) if self.peek().text else "the end"

    def check(self, term: _Term, kind: Kind, who: str) -> None:
        if term.kind != kind:
            wanted, got = ("a number", "a truth") if kind == "number" else ("a comparison or a flag", "a number")
            raise ConstraintError(f"{who} takes {wanted}, got {got}", term.offset)

    def deeper(self, offset: int) -> None:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise ConstraintError(f"nested too deeply: expected at most {MAX_NESTING} levels", offset)

    def either(self) -> _Term:
        return self.joined("or", self.both, any)

    def both(self) -> _Term:
        return self.joined("and", self.negation, all)

    def joined(self, word: str, part: Callable[[], _Term], join: Callable[..., bool]) -> _Term:
        terms = [part()]
        while self.take(word):
            terms.append(part())
        if len(terms) == 1:
            return terms[0]
        for term in terms:
            self.check(term, "truth", word)
        values = [term.value for term in terms]
        return _Term("truth", lambda names: join(value(names) for value in values), terms[0].offset)

    def negation(self) -> _Term:
        token = self.take("not")
        if not token:
            return self.relation()
        self.deeper(token.offset)
        term = self.negation()
        self.nesting -= 1
        self.check(term, "truth", "not")
        return _Term("truth", lambda names: not term.value(names), token.offset)

    def relation(self) -> _Term:
        first = self.sum()
        if self.peek().text in ("in", "not"):
            return self.membership(first)
        steps: list[tuple[Callable[[Number, Number], bool], Callable[[Names], Number]]] = []
        while token := self.take(*_COMPARE):
            self.check(first, "number", token.text)
            other = self.sum()
            self.check(other, "number", token.text)
            steps.append((_COMPARE[token.text], other.value))
        if not steps:
            return first

        def chain(names: Names) -> bool:
            left = first.value(names)
            for compare, other in steps:
                right = other(names)
                if not compare(left, right):
                    return False
                left = right
            return True

        return _Term("truth", chain, first.offset)

    def membership(self, first: _Term) -> _Term:
        negated = self.take("not") is not None
        self.expect("in")
        self.check(first, "number", "in")
        self.expect("[")
        members = [self.sum()]
        while self.take(","):
            members.append(self.sum())
        self.expect("]")
        for member in members:
            self.check(member, "number", "a list")
        values = [member.value for member in members]

        def contains(names: Names) -> bool:
            wanted = first.value(names)
            # All of them, as Python does: a division by zero behind a match is one all the same.
            return (wanted in [value(names) for value in values]) != negated

        return _Term("truth", contains, first.offset)

    def sum(self) -> _Term:
        return self.arithmetic(self.product, _ADD)

    def product(self) -> _Term:
        return self.arithmetic(self.sign, _MULTIPLY)

    def arithmetic(self, part: Callable[[], _Term], table: dict[str, Callable[[Number, Number], Number]]) -> _Term:
        first = part()
        steps: list[tuple[Callable[[Number, Number], Number], Callable[[Names], Number], int]] = []
        while token := self.take(*table):
            self.check(first, "number", token.text)
            other = part()
            self.check(other, "number", token.text)
            steps.append((table[token.text], other.value, token.offset))
        if not steps:
            return first

        def fold(names: Names) -> Number:
            value = first.value(names)
            for apply, other, offset in steps:
                try:
                    value = apply(value, other(names))
                except ZeroDivisionError:
                    raise ConstraintError("division by zero", offset) from None
            return value

        return _Term("number", fold, first.offset)

    def sign(self) -> _Term:
        token = self.peek()
        if not self.take("-", "+"):
            return self.atom()
        self.deeper(token.offset)
        term = self.sign()
        self.nesting -= 1
        self.check(term, "number", token.text)
        return _Term("number", (lambda names: -term.value(names)) if token.text == "-" else term.value, token.offset)

    def atom(self) -> _Term:
        token = self.peek()
        if self.take("("):
            self.deeper(token.offset)
            term = self.either()
            self.nesting -= 1
            self.expect(")")
            return term._replace(offset=token.offset)
        if token.kind == "number":
            self.next += 1
            number = int(token.text)
            return _Term("number", lambda _names: number, token.offset)
        if token.kind != "word" or token.text in _WORDS:
            raise ConstraintError(f"expected a name, an integer or (, got {self.found()}", token.offset)
        self.next += 1
        return self.name(token)

    def name(self, token: Token) -> _Term:
        word = token.text
        if word not in NAMES:
            known = did_you_mean(word, NAMES) or f"; known names: {', '.join(NAMES)}"
            raise ConstraintError(f"unknown name {quoted(word)}{known}", token.offset)
        self.names.add(word)
        return _Term("truth" if word in SHAPE_FLAGS else "number", lambda names: names[word], token.offset)
