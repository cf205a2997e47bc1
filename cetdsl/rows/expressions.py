"""Reads expressions of Spark's SQL as trees, as far as they can be evaluated without Spark.

Where a table function matches a clause, Spark passes rows to it and evaluates no expressions. This module then reads
the expressions of the clause: names, constants, comparisons, arithmetic, logic, CASE, CAST and calls. It does not know
functions; :mod:`cetdsl.kernels.rows.evaluate`, which evaluates the trees, knows some.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NoReturn

import attrs

from cetdsl.errors import UnsupportedQuery
from cetdsl.rows.tokens import Kind, Token, tokens_of
from cetdsl.rows.words import COMPARED

_ROUTE = "write it with cetdsl's own cet.sql(...) or df.match_recognize(...), where Spark evaluates expressions"
#: The operators that bind like sums and like products.
_SUMS, _PRODUCTS = ("+", "-", "||"), ("*", "/", "%")
_TYPED = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
_ESCAPES = {
    quote: re.compile(
        rf"\\(?:u([0-9a-fA-F]{{4}})|U([0-9a-fA-F]{{8}})|([01][0-7]{{2}})|(.))|{quote}({quote})", re.DOTALL
    )
    for quote in "'\""
}
#: The characters that letters after a backslash stand for. Before % and _ the backslash stays, because LIKE reads it.
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a", "%": "\\%", "_": "\\_"}


@attrs.frozen
class Column:
    """A column, by its name."""

    name: str


@attrs.frozen
class Constant:
    """A number, text, truth value, or None; ``kind`` is its type, or empty if SQL gives it none."""

    value: int | float | str | bool | None
    kind: str = ""


@attrs.frozen
class Call:
    """An operator or function, by its name in upper case, with its arguments; ``kind`` is the type of a CAST."""

    name: str
    arguments: tuple[Node, ...]
    kind: str = ""


Node = Column | Constant | Call


@lru_cache(maxsize=1024)
def read_expression(sql: str) -> Node:
    """Returns the tree of an expression. A process reads each expression once, and keeps the tree.

    Parameters
    ----------
    sql : str

    Returns
    -------
    Node

    Raises
    ------
    UnsupportedQuery
        If the expression has syntax that is not known here.

    Examples
    --------
    >>> read_expression("`col 0` > 1 AND NOT `col 1` IS NULL").name
    'AND'
    >>> read_expression("`x` BETWEEN 1 AND 2") == read_expression("`x` >= 1 AND `x` <= 2")
    True
    """
    return _Reader(tokens_of(sql)).whole()


def _refuse(what: str) -> NoReturn:
    raise UnsupportedQuery(
        f"{what} is not known in a table function, where Spark evaluates no expressions", hint=_ROUTE
    )


class _Reader:
    """A recursive descent parser: each method reads the operators of one precedence."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens, self._place = tokens, 0

    def whole(self) -> Node:
        """Reads the whole expression."""
        found = self._either()
        if self._place < len(self._tokens):
            _refuse(self._tokens[self._place].text)
        return found

    def _upper(self, ahead: int = 0) -> str:
        place = self._place + ahead
        return self._tokens[place].upper if place < len(self._tokens) else ""

    def _takes(self, *words: str) -> bool:
        found = all(self._upper(ahead) == word for ahead, word in enumerate(words))
        self._place += len(words) if found else 0
        return found

    def _expect(self, word: str) -> None:
        if not self._takes(word):
            found = self._tokens[self._place].text if self._place < len(self._tokens) else "the end"
            _refuse(f"{found}, in place of {word},")

    def _either(self) -> Node:
        found = self._both()
        while self._takes("OR"):
            found = Call("OR", (found, self._both()))
        return found

    def _both(self) -> Node:
        found = self._negated()
        while self._takes("AND"):
            found = Call("AND", (found, self._negated()))
        return found

    def _negated(self) -> Node:
        if self._takes("NOT") or self._takes("!"):
            return Call("NOT", (self._negated(),))
        return self._predicate()

    def _predicate(self) -> Node:
        found = self._sum()
        while True:
            word = self._upper()
            if word in COMPARED:
                self._place += 1
                found = Call(COMPARED[word], (found, self._sum()))
            elif word == "IS":
                self._place += 1
                negated = self._takes("NOT")
                found = _not(self._is(found), negated)
            elif word in ("IN", "BETWEEN", "LIKE") or (word == "NOT" and self._upper(1) in ("IN", "BETWEEN", "LIKE")):
                negated = self._takes("NOT")
                found = _not(self._worded(found), negated)
            else:
                return found

    def _is(self, tested: Node) -> Node:
        if self._takes("NULL"):
            return Call("IS NULL", (tested,))
        if self._takes("DISTINCT", "FROM"):
            return Call("NOT", (Call("<=>", (tested, self._sum())),))
        if self._upper() not in ("TRUE", "FALSE"):
            _refuse(f"IS {self._upper()}")
        return Call("<=>", (tested, self._primary()))

    def _worded(self, tested: Node) -> Node:
        if self._takes("IN"):
            self._expect("(")
            options = self._list()
            found: Node = Call("=", (tested, options[0]))
            for option in options[1:]:
                found = Call("OR", (found, Call("=", (tested, option))))
            return found
        if self._takes("LIKE"):
            return Call("LIKE", (tested, self._sum()))
        self._expect("BETWEEN")
        low = self._sum()
        self._expect("AND")
        return Call("AND", (Call(">=", (tested, low)), Call("<=", (tested, self._sum()))))

    def _sum(self) -> Node:
        found = self._product()
        while self._upper() in _SUMS:
            sign = self._upper()
            self._place += 1
            found = Call(sign, (found, self._product()))
        return found

    def _product(self) -> Node:
        found = self._signed()
        while self._upper() in _PRODUCTS:
            sign = self._upper()
            self._place += 1
            found = Call(sign, (found, self._signed()))
        return found

    def _signed(self) -> Node:
        if self._takes("-"):
            if self._place < len(self._tokens) and self._tokens[self._place].kind is Kind.NUMBER:
                self._place += 1
                return _number(self._tokens[self._place - 1].text, -1)
            return Call("NEGATIVE", (self._signed(),))
        if self._takes("+"):
            return self._signed()
        return self._primary()

    def _primary(self) -> Node:
        if self._place == len(self._tokens):
            _refuse("an expression without an operand")
        token = self._tokens[self._place]
        word, behind = token.upper, self._upper(1)
        self._place += 1
        if word == "(":
            found = self._either()
            self._expect(")")
            return found
        if token.kind is Kind.NUMBER:
            return _number(token.text)
        if token.kind is Kind.STRING:
            return Constant(self._texts(_text(token.text)), "string")
        if token.kind is Kind.QUOTED:
            return Column(token.name)
        if word in ("TRUE", "FALSE", "NULL"):
            return Constant({"TRUE": True, "FALSE": False}.get(word), "" if word == "NULL" else "boolean")
        if word in _TYPED and self._place < len(self._tokens) and self._tokens[self._place].kind is Kind.STRING:
            self._place += 1
            return Call("CAST", (Constant(_text(self._tokens[self._place - 1].text), "string"),), word.lower())
        if word == "CASE":
            return self._case()
        if word in ("CAST", "TRY_CAST") and behind == "(":
            return self._cast(word)
        if token.is_name and behind == "(":
            self._place += 1
            return Call(word, self._list())
        _refuse(token.text)

    def _texts(self, found: str) -> str:
        """Returns a text joined with the texts that follow it directly, as SQL reads them."""
        while self._place < len(self._tokens) and self._tokens[self._place].kind is Kind.STRING:
            found += _text(self._tokens[self._place].text)
            self._place += 1
        return found

    def _list(self) -> tuple[Node, ...]:
        """Reads arguments up to the closing parenthesis."""
        if self._takes(")"):
            return ()
        found = [self._either()]
        while self._takes(","):
            found.append(self._either())
        self._expect(")")
        return tuple(found)

    def _case(self) -> Node:
        tested = None if self._upper() == "WHEN" else self._either()
        parts: list[Node] = []
        while self._takes("WHEN"):
            condition = self._either()
            parts.append(condition if tested is None else Call("=", (tested, condition)))
            self._expect("THEN")
            parts.append(self._either())
        if self._takes("ELSE"):
            parts.append(self._either())
        self._expect("END")
        return Call("CASE", tuple(parts))

    def _cast(self, word: str) -> Node:
        if word == "TRY_CAST":
            _refuse("TRY_CAST")
        self._place += 1
        found = self._either()
        self._expect("AS")
        begin = self._place
        while self._place < len(self._tokens) and self._upper() != ")":
            if self._takes("("):
                while not self._takes(")"):
                    self._place += 1
            else:
                self._place += 1
        kind = "".join(token.text for token in self._tokens[begin : self._place]).lower()
        self._expect(")")
        return Call("CAST", (found,), kind)


def _not(node: Node, negated: bool) -> Node:
    return Call("NOT", (node,)) if negated else node


def _number(text: str, sign: int = 1) -> Constant:
    """Returns a number with its sign; without the sign, the digits of the least BIGINT would not fit a BIGINT."""
    suffix = text[-1].upper()
    digits = text[:-1] if suffix == "L" else text
    whole = sign * int(digits) if digits.isdecimal() else 0
    if suffix in "SYF" or text.upper().endswith("BD") or not -(2**63) <= whole < 2**63:
        _refuse(f"the number {text}")
    if digits.isdecimal():
        is_int = suffix != "L" and -(2**31) <= whole < 2**31
        return Constant(whole, "int" if is_int else "bigint")
    return Constant(sign * float(text[:-1] if suffix == "D" else text), "double")


def _text(token: str) -> str:
    """Returns the text of a string constant."""
    if token[0] in "rR":
        return token[2:-1]
    if token[0] in "xX":
        _refuse(f"the constant {token}")
    return _ESCAPES[token[0]].sub(_unescaped, token[1:-1])


def _unescaped(escape: re.Match[str]) -> str:
    """Returns the character for which a backslash and the characters after it, or two quotes, stand in Spark's SQL."""
    short, long, octal, letter, quote = escape.groups()
    if quote:
        return str(quote)
    if letter:
        return _ESCAPED.get(letter, letter)
    code = int(octal, 8) if octal else int(short or long, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        _refuse(f"{escape.group()}, which is no character by itself,")
    return chr(code)
