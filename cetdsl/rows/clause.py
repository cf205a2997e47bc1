"""Reads the clause MATCH_RECOGNIZE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from cetdsl.errors import ParseError
from cetdsl.rows.nodes import (
    Alternation,
    Anchor,
    Concatenation,
    Definition,
    Exclusion,
    MatchClause,
    Measure,
    Name,
    Output,
    Permutation,
    Repetition,
    RowPattern,
    Skip,
    SkipTo,
    SortKey,
    Subset,
    Variable,
    Within,
)
from cetdsl.rows.tokens import IN_BACKQUOTES, Kind, Token, end_of_type, tokens_of

T = TypeVar("T")

#: How deep parentheses of a pattern may be nested.
DEEPEST = 50
#: The words that a row pattern begins with.
_PATTERN_BEGINS = (("PATTERN", "("), ("SEEK", "PATTERN"))
#: The clauses in their order, by the words that each begins with.
_ORDER = ("PARTITION BY", "ORDER BY", "MEASURES", "... PER MATCH", "AFTER MATCH SKIP", "PATTERN", "SUBSET", "DEFINE")
_SHAPE = "the clauses are " + ", ".join(_ORDER) + ", in this order"
_OPEN, _CLOSE = {"(", "[", "{", "{-"}, {")", "]", "}", "-}"}
_BEGINS = {"PARTITION", "ORDER", "MEASURES", "ONE", "ALL", "AFTER", "INITIAL", "SEEK", "PATTERN", "SUBSET", "DEFINE"}


def parse_clause(text: str) -> MatchClause:
    """Reads a clause.

    Parameters
    ----------
    text : str
        The text between the parentheses of ``MATCH_RECOGNIZE ( ... )``.

    Returns
    -------
    MatchClause

    Raises
    ------
    ParseError
        If the text is no such clause; the error points at a place in it, and has a hint.

    Examples
    --------
    >>> clause = parse_clause("ORDER BY day PATTERN (A B+?) DEFINE B AS price > PREV(price)")
    >>> clause.output.value, clause.skip.to.value, clause.pattern.parts[1].greedy
    ('ONE ROW PER MATCH', 'PAST LAST ROW', False)
    >>> parse_clause("ORDER BY day PATTERN (A B")
    Traceback (most recent call last):
        ...
    cetdsl.errors.ParseError: the pattern does not end
      line 1: ORDER BY day PATTERN (A B
                                       ^
      hint: close it with )
    """
    return _Reader(text, tokens_of(text)).clause()


class _Reader:
    """Reads tokens from left to right."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self._text, self._tokens = text, tokens
        self._place = 0

    def clause(self) -> MatchClause:
        partition_by = self._list(self._column) if self._takes("PARTITION", "BY") else ()
        order_by = self._list(self._sort_key) if self._takes("ORDER", "BY") else ()
        measures = self._list(self._measure) if self._takes("MEASURES") else ()
        output, skip = self._output(), self._skip()
        if not self._takes("SEEK") and self._ahead("INITIAL"):
            self._fail("INITIAL is for windows of OVER, not for MATCH_RECOGNIZE", "anchor the pattern: PATTERN (^ ...)")
        if not self._takes("PATTERN"):
            if self._ahead("MATCH_RECOGNIZE"):
                hint = "give what stands between its parentheses, or a whole SELECT to cet.sql"
                self._fail("the clause is what MATCH_RECOGNIZE has in parentheses", hint)
            self._fail("PATTERN is missing" if self._ended else f"{self._next.text} is not expected here", _SHAPE)
        pattern = self._pattern()
        within = self._within()
        subsets = self._list(self._subset) if self._takes("SUBSET") else ()
        definitions = self._list(self._definition) if self._takes("DEFINE") else ()
        if not self._ended:
            self._fail(f"{self._next.text} is not expected here", _SHAPE)
        return MatchClause(
            self._text,
            partition_by,
            order_by,
            measures,
            output,
            skip,
            pattern,
            within,
            subsets,
            definitions,
        )

    # -- tokens ------------------------------------------------------------------------------------------------------

    @property
    def _ended(self) -> bool:
        return self._place >= len(self._tokens)

    @property
    def _next(self) -> Token:
        return self._tokens[self._place]

    def _ahead(self, *words: str) -> bool:
        seen = [token.upper for token in self._tokens[self._place : self._place + len(words)]]
        return seen == list(words)

    def _takes(self, *words: str) -> bool:
        found = self._ahead(*words)
        self._place += len(words) if found else 0
        return found

    def _expect(self, word: str, what: str, hint: str) -> Token:
        if not self._ahead(word):
            self._fail(what, hint)
        self._place += 1
        return self._tokens[self._place - 1]

    def _fail(self, message: str, hint: str, at: Token | None = None) -> NoReturn:
        if at is not None:
            span = at.span
        elif not self._ended:
            span = self._next.span
        else:
            end = self._tokens[-1].end if self._tokens else 0
            span = (end, end + 1)
        raise ParseError(message, hint=hint, span=span, text=self._text)

    def _fail_without(self, what: str, hint: str) -> NoReturn:
        """Raises because something that begins with a name is missing; the name may stand there in double quotes."""
        is_quoted = not self._ended and self._next.is_in_double_quotes
        self._fail(f"{what} is missing", IN_BACKQUOTES if is_quoted else hint)

    def _list(self, read: Callable[[], T]) -> tuple[T, ...]:
        found = [read()]
        while self._takes(","):
            found.append(read())
        return tuple(found)

    def _name(self, what: str, hint: str) -> Name:
        if self._ended or not self._next.is_name:
            self._fail_without(what, hint)
        token = self._next
        self._place += 1
        return Name(token.name, token.span)

    # -- clauses -----------------------------------------------------------------------------------------------------

    def _column(self) -> Name:
        name = self._name("the name of a column", "write names of columns with commas between them")
        if self._ahead(".") or self._ahead("("):
            hint = "give the expression a column of its own first: FROM (SELECT *, expression AS name FROM table)"
            self._fail("only columns can stand here", hint)
        return name

    def _sort_key(self) -> SortKey:
        column = self._column()
        ascending = not self._takes("DESC")
        if ascending:
            self._takes("ASC")
        nulls_first = ascending
        if self._takes("NULLS"):
            nulls_first = self._takes("FIRST")
            if not nulls_first:
                self._expect("LAST", "NULLS come FIRST or LAST", "write NULLS FIRST or NULLS LAST")
        return SortKey(column, ascending, nulls_first)

    def _measure(self) -> Measure:
        tokens = self._expression("a measure", until_as=True)
        self._expect("AS", "a measure has no name", "write MEASURES expression AS name")
        name = self._name("the name of a measure", "write MEASURES expression AS name")
        return Measure(name.name, tokens, (tokens[0].start, tokens[-1].end))

    def _expression(self, what: str, until_as: bool = False) -> tuple[Token, ...]:
        """Returns the tokens up to a comma outside of brackets, or, with ``until_as``, up to AS or the next clause."""
        begin, open_tokens = self._place, list[Token]()
        while not self._ended:
            word = self._next.upper
            if not open_tokens and (word in (",", ")") or (until_as and (word == "AS" or self._begins_clause()))):
                break
            if word in _OPEN:
                open_tokens.append(self._next)
            elif word in _CLOSE:
                if not open_tokens:
                    self._fail(f"the {word} closes nothing", "remove it, or write what it closes")
                open_tokens.pop()
            self._place = end_of_type(self._tokens, self._place + 1) if word == "::" else self._place + 1
        if open_tokens:
            self._fail(f"the {open_tokens[-1].text} is never closed", "close it", open_tokens[-1])
        if begin == self._place:
            self._fail(f"{what} is missing", "write an expression of Spark's SQL")
        return tuple(self._tokens[begin : self._place])

    def _begins_clause(self) -> bool:
        return any(
            self._ahead(*words)
            for words in (("PATTERN", "("), ("AFTER", "MATCH"), ("ONE", "ROW", "PER"), ("ALL", "ROWS", "PER"))
        )

    def _output(self) -> Output:
        if self._takes("ONE", "ROW", "PER", "MATCH"):
            return Output.ONE_ROW
        if not self._takes("ALL", "ROWS", "PER", "MATCH"):
            return Output.ONE_ROW
        if self._takes("OMIT", "EMPTY", "MATCHES"):
            return Output.OMIT_EMPTY
        if self._takes("WITH", "UNMATCHED", "ROWS"):
            return Output.UNMATCHED
        self._takes("SHOW", "EMPTY", "MATCHES")
        return Output.SHOW_EMPTY

    def _skip(self) -> Skip:
        if not self._takes("AFTER", "MATCH"):
            return Skip()
        hint = "write SKIP PAST LAST ROW, TO NEXT ROW, TO FIRST v, TO LAST v or TO v"
        self._expect("SKIP", "AFTER MATCH does not say where to skip to", hint)
        if self._takes("PAST", "LAST", "ROW"):
            return Skip(SkipTo.PAST_LAST)
        self._expect("TO", "AFTER MATCH SKIP does not say where to", hint)
        if self._takes("NEXT", "ROW"):
            return Skip(SkipTo.NEXT_ROW)
        # If the pattern follows directly, FIRST or LAST is the name of a variable.
        is_name = any(self._ahead(end, *pattern) for end in ("FIRST", "LAST") for pattern in _PATTERN_BEGINS)
        first = not is_name and self._takes("FIRST")
        if not first and not is_name:
            self._takes("LAST")
        variable = self._name("the variable to skip to", hint)
        return Skip(SkipTo.FIRST if first else SkipTo.LAST, variable.name, variable.span)

    def _within(self) -> Within | None:
        if not self._ahead("WITHIN"):
            return None
        begin = self._place + 1
        while not self._ended and self._next.upper not in ("SUBSET", "DEFINE"):
            self._place += 1
        tokens = tuple(self._tokens[begin : self._place])
        if not tokens:
            self._fail("the length of WITHIN is missing", "write WITHIN INTERVAL '1' HOUR")
        return Within(tokens, (tokens[0].start, tokens[-1].end))

    def _subset(self) -> Subset:
        hint = "write SUBSET u = (a, b)"
        name = self._name("the name of a subset", hint)
        self._expect("=", "a subset has no variables", hint)
        self._expect("(", "the variables of a subset are missing", hint)
        members = self._list(lambda: self._name("a variable", hint))
        self._expect(")", "the variables of a subset do not end", hint)
        return Subset(name.name, members, name.span)

    def _definition(self) -> Definition:
        hint = "write DEFINE variable AS condition"
        name = self._name("the variable of a definition", hint)
        self._expect("AS", "a variable has no condition", hint)
        return Definition(name.name, self._expression("a condition"), name.span)

    # -- the pattern -------------------------------------------------------------------------------------------------

    def _pattern(self) -> RowPattern:
        opening = self._expect("(", "the pattern is missing", "write PATTERN ( ... )")
        pattern = self._alternation(1)
        self._close(")", "the pattern does not end", opening)
        return pattern

    def _close(self, symbol: str, message: str, opening: Token) -> None:
        if self._ended:
            self._fail(message, f"close it with {symbol}")
        if self._behind_pattern():
            self._fail(message, f"close it with {symbol} before {self._next.text}", opening)
        if not self._takes(symbol):
            hint = "a pattern has variables, |, ( ), PERMUTE, {- -}, ^, $ and * + ? {n,m}"
            self._fail(f"{self._next.text} is not expected in a pattern", hint)

    def _behind_pattern(self) -> bool:
        """Whether another part of the clause begins here; its first word alone could also be a variable."""
        behind = [token.upper for token in self._tokens[self._place + 2 : self._place + 3]]
        if self._ahead("DEFINE"):
            return behind == ["AS"]
        return self._ahead("WITHIN", "INTERVAL") or (self._ahead("SUBSET") and behind == ["="])

    def _alternation(self, depth: int) -> RowPattern:
        if depth > DEEPEST:
            self._fail(f"the pattern is nested deeper than {DEEPEST} levels", "leave out parentheses that do nothing")
        parts = [self._concatenation(depth)]
        while self._takes("|"):
            parts.append(self._concatenation(depth))
        return parts[0] if len(parts) == 1 else Alternation(tuple(parts))

    def _concatenation(self, depth: int) -> RowPattern:
        parts: list[RowPattern] = []
        while (part := self._factor(depth)) is not None:
            parts.append(part)
        is_empty = not self._ended and self._next.upper == ")" and self._tokens[self._place - 1].upper == "("
        if not parts and not is_empty:
            self._fail_without("a part of the pattern", "write a variable, or () for the empty pattern")
        return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))

    def _factor(self, depth: int) -> RowPattern | None:
        begin = self._place
        body = self._primary(depth)
        return None if body is None else self._quantified(body, self._tokens[begin].start)

    def _primary(self, depth: int) -> RowPattern | None:
        if self._ended:
            return None
        token = self._next
        if self._takes("^") or self._takes("$"):
            return Anchor(token.text == "^")
        if self._takes("("):
            inside = self._alternation(depth + 1)
            self._close(")", "a parenthesis of the pattern does not end", token)
            return inside
        if self._takes("{-"):
            inside = self._alternation(depth + 1)
            self._close("-}", "an exclusion does not end", token)
            return Exclusion(inside)
        if self._takes("PERMUTE", "("):
            opening = self._tokens[self._place - 1]
            parts = self._list(lambda: self._alternation(depth + 1))
            self._close(")", "PERMUTE does not end", opening)
            return Permutation(parts, (token.start, self._tokens[self._place - 1].end))
        if not token.is_name or self._behind_pattern():
            return None
        self._place += 1
        return Variable(token.name, token.span)

    def _quantified(self, body: RowPattern, start: int) -> RowPattern:
        bounds = self._bounds()
        if bounds is None:
            return body
        greedy = not self._takes("?")
        if not self._ended and self._next.upper in ("*", "+", "?", "{"):
            self._fail("a part of the pattern has two quantifiers", "put the first one and its part into parentheses")
        return Repetition(body, *bounds, greedy, (start, self._tokens[self._place - 1].end))

    def _bounds(self) -> tuple[int, int | None] | None:
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        for symbol, bounds in simple.items():
            if self._takes(symbol):
                return bounds
        if not self._ahead("{"):
            return None
        opening = self._next
        self._place += 1
        low = self._number()
        high: int | None = low
        if self._takes(","):
            high = self._number()
        elif low is None:
            self._fail("a quantifier has no number", "write {n}, {n,}, {,m} or {n,m}")
        self._expect("}", "a quantifier does not end", "write {n}, {n,}, {,m} or {n,m}")
        if high is not None and (low or 0) > high:
            self._fail(
                f"a quantifier asks for at least {low} and at most {high}", "write the smaller one first", opening
            )
        return low or 0, high

    def _number(self) -> int | None:
        if self._ended or self._next.kind is not Kind.NUMBER:
            return None
        token = self._next
        if not token.text.isdecimal() or len(token.text) > 9:
            self._fail(f"{token.text} is no number of repetitions", "write a whole number below a thousand million")
        self._place += 1
        return int(token.text)
