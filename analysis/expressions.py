"""A small language for slices: conditions joined by `and`, `or` and `not`. A recursive-descent parser reads it; no
input is evaluated as code.

    relation:P19 and not bucket:0 and first(bm25-dev)<=5

    expression  = conjunction { "or" conjunction }
    conjunction = factor { "and" factor }
    factor      = "not" factor | "(" expression ")" | condition
    condition   = NAME [ "(" ARGUMENT ")" ] ( ":" | "=" ) VALUE | NAME [ "(" ARGUMENT ")" ] [ OPERATOR NUMBER ]

A NAME is letters and `_`. A VALUE or ARGUMENT is either a word without spaces, quotes and parentheses, or text in
double quotes. Within quotes, `\\"` is a quote and `\\\\` a backslash. OPERATOR is one of <= < >= > = !=.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

MAX_LENGTH, MAX_DEPTH = 2000, 40
OPERATORS: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "<=": np.less_equal, "<": np.less, ">=": np.greater_equal, ">": np.greater, "=": np.equal, "!=": np.not_equal,
}  # fmt: skip
_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"\\]|\\["\\])*")|(?P<sign><=|>=|!=|[<>=():])|(?P<word>[^\s"()<>=!:]+)|(?P<other>\S))"""
)
_NAME = re.compile(r"[A-Za-z_]+")
_WORDS = ("and", "or", "not")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class NotAnExpression(ValueError):
    """A syntax error and its position. `position` counts characters from 1."""

    def __init__(self, message: str, position: int):
        self.message, self.position = message, position
        super().__init__(f"{message} (at character {position})")


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: `name:value`, `name(argument):value`, `name`, `name(argument)` or `name(argument) <= number`.

    `name=text` is read as `name:text`.
    """

    name: str
    argument: str | None = None
    operator: str | None = None
    value: str | float | None = None
    position: int = 1

    def __str__(self) -> str:
        head = self.name if self.argument is None else f"{self.name}({_quoted_value(self.argument)})"
        if self.operator is None:
            return head
        return (
            f"{head}:{_quoted_value(str(self.value))}"
            if self.operator == ":"
            else f"{head}{self.operator}{self.value:g}"
        )


@dataclass(frozen=True, slots=True)
class Not:
    operand: Expression

    def __str__(self) -> str:
        return f"not {_with_brackets(self.operand)}"


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple[Expression, ...]

    def __str__(self) -> str:
        return " and ".join(_with_brackets(part) for part in self.operands)


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple[Expression, ...]

    def __str__(self) -> str:
        return " or ".join(_with_brackets(part) for part in self.operands)


Expression = Condition | Not | And | Or


def parse(text: str) -> Expression:
    """Parse an expression. Raises NotAnExpression with the expected token and its position. `str()` of the result gives
    the expression in its simplest form.
    """
    if len(text) > MAX_LENGTH:
        raise NotAnExpression(f"a slice may have at most {MAX_LENGTH} characters", MAX_LENGTH)
    reader = _Parser(_tokens(text), len(text) + 1)
    expression = reader.expression(0)
    reader.expect_end()
    return expression


def evaluate(expression: Expression, condition: Callable[[Condition], np.ndarray]) -> np.ndarray:
    """Return the matching rows, (q,) bool. `condition` is the function that evaluates a single condition."""
    if isinstance(expression, Condition):
        return condition(expression)
    if isinstance(expression, Not):
        return ~evaluate(expression.operand, condition)
    join = np.logical_and if isinstance(expression, And) else np.logical_or
    rows: np.ndarray = join.reduce([evaluate(part, condition) for part in expression.operands])
    return rows


def _quoted_value(value: str) -> str:
    if value.casefold() not in _WORDS and (match := _TOKEN.fullmatch(value)) and match["word"] == value:
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _with_brackets(operand: Expression) -> str:
    return f"({operand})" if isinstance(operand, And | Or) else str(operand)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int


def _tokens(text: str) -> list[_Token]:
    tokens, at = [], 0
    while at < len(text) and (match := _TOKEN.match(text, at)):
        kind = str(match.lastgroup)
        start = match.start(kind) + 1
        if kind == "other":
            problem = "unclosed quotation mark" if match[kind] == '"' else f"unexpected character {match[kind]!r}"
            raise NotAnExpression(problem, start)
        word = match[kind]
        if kind == "quoted":
            word = re.sub(r"\\(.)", r"\1", word[1:-1])
        tokens.append(_Token(kind, word, start))
        at = match.end()
    return tokens


class _Parser:
    """A parser with one token of look-ahead. Each method parses one rule of the grammar."""

    def __init__(self, tokens: list[_Token], end: int):
        self.tokens, self.at, self.behind = tokens, 0, _Token("end", "", end)

    @property
    def next(self) -> _Token:
        return self.tokens[self.at] if self.at < len(self.tokens) else self.behind

    def next_is_sign(self, *signs: str) -> bool:
        return self.next.kind == "sign" and self.next.text in signs

    def next_is_keyword(self, word: str) -> bool:
        return self.next.kind == "word" and self.next.text.casefold() == word

    def next_token(self) -> _Token:
        token = self.next
        self.at += 1
        return token

    def expect_end(self) -> None:
        if self.next is not self.behind:
            raise NotAnExpression(f"expected 'and' or 'or' before {self.next.text!r}", self.next.position)

    def expression(self, depth: int) -> Expression:
        return self._chain("or", Or, lambda: self._chain("and", And, lambda: self.factor(depth)))

    def _chain(self, word: str, node: type, part: Callable[[], Expression]) -> Expression:
        parts = [part()]
        while self.next_is_keyword(word):
            self.next_token()
            parts.append(part())
        return parts[0] if len(parts) == 1 else node(tuple(parts))

    def factor(self, depth: int) -> Expression:
        if depth > MAX_DEPTH:
            raise NotAnExpression(f"more than {MAX_DEPTH} levels of parentheses", self.next.position)
        if self.next_is_keyword("not"):
            self.next_token()
            return Not(self.factor(depth + 1))
        if self.next_is_sign("("):
            self.next_token()
            inner = self.expression(depth + 1)
            self._expect_closing_bracket()
            return inner
        return self.condition()

    def condition(self) -> Condition:
        token = self.next_token()
        if token.kind != "word" or token.text.casefold() in _WORDS or not _NAME.fullmatch(token.text):
            message = f"not {token.text!r}" if token.text else "but the expression ends here"
            raise NotAnExpression(f"expected a condition such as relation:P19, {message}", token.position)
        name, argument = token.text.casefold(), None
        if self.next_is_sign("("):
            self.next_token()
            argument = self._expect_text("a name")
            self._expect_closing_bracket()
        if self.next_is_sign(":"):
            self.next_token()
            return Condition(name, argument, ":", self._expect_text("a value"), token.position)
        if not self.next_is_sign(*OPERATORS):
            return Condition(name, argument, position=token.position)
        operator = self.next_token().text
        if operator == "=" and not _NUMBER.fullmatch(self.next.text):
            return Condition(name, argument, ":", self._expect_text("a value"), token.position)
        return Condition(name, argument, operator, self._expect_number(operator), token.position)

    def _expect_closing_bracket(self) -> None:
        if not self.next_is_sign(")"):
            raise NotAnExpression("expected ')'", self.next.position)
        self.next_token()

    def _expect_text(self, what: str) -> str:
        if self.next.kind not in ("word", "quoted"):
            raise NotAnExpression(f"expected {what}", self.next.position)
        return self.next_token().text

    def _expect_number(self, operator: str) -> float:
        token = self.next_token()
        try:
            number = float(token.text) if token.kind == "word" and _NUMBER.fullmatch(token.text) else None
        except ValueError:
            number = None
        if number is None:
            raise NotAnExpression(f"expected a number after {operator}", token.position)
        return number
