"""The clause MATCH_RECOGNIZE as nodes."""

from __future__ import annotations

from enum import Enum

import attrs

from cetdsl.rows.tokens import Token


@attrs.frozen
class Variable:
    """One row for which the condition of a variable holds."""

    name: str
    span: tuple[int, int] = attrs.field(eq=False, repr=False, default=(0, 0))


@attrs.frozen
class Anchor:
    """The beginning of the partition (``^``), or its end (``$``): no row."""

    at_start: bool


@attrs.frozen
class Concatenation:
    """The parts one after the other; without parts it is the empty pattern."""

    parts: tuple[RowPattern, ...]


@attrs.frozen
class Alternation:
    """One of the parts; an earlier one is preferred."""

    parts: tuple[RowPattern, ...]


@attrs.frozen
class Permutation:
    """All parts, in any order; orders that begin with earlier parts are preferred."""

    parts: tuple[RowPattern, ...]
    span: tuple[int, int] = attrs.field(eq=False, repr=False, default=(0, 0))


@attrs.frozen
class Repetition:
    """The body ``low`` to ``high`` times (None: without limit); more times are preferred if ``greedy``, else fewer."""

    body: RowPattern
    low: int
    high: int | None
    greedy: bool
    span: tuple[int, int] = attrs.field(eq=False, repr=False, default=(0, 0))


@attrs.frozen
class Exclusion:
    """Rows that belong to the match but are not shown by ALL ROWS PER MATCH."""

    body: RowPattern


RowPattern = Variable | Anchor | Concatenation | Alternation | Permutation | Repetition | Exclusion


class Output(Enum):
    """The rows that are shown."""

    ONE_ROW = "ONE ROW PER MATCH"
    SHOW_EMPTY = "ALL ROWS PER MATCH SHOW EMPTY MATCHES"
    OMIT_EMPTY = "ALL ROWS PER MATCH OMIT EMPTY MATCHES"
    UNMATCHED = "ALL ROWS PER MATCH WITH UNMATCHED ROWS"


class SkipTo(Enum):
    """The place where the search goes on after a match."""

    PAST_LAST = "PAST LAST ROW"
    NEXT_ROW = "TO NEXT ROW"
    FIRST = "TO FIRST"
    LAST = "TO LAST"


@attrs.frozen
class Skip:
    """AFTER MATCH SKIP; ``variable`` is the one that TO FIRST or TO LAST names."""

    to: SkipTo = SkipTo.PAST_LAST
    variable: str = ""
    span: tuple[int, int] = attrs.field(eq=False, repr=False, default=(0, 0))


@attrs.frozen
class Name:
    """The name of a column, and where it stands."""

    name: str
    span: tuple[int, int] = attrs.field(eq=False, repr=False)


@attrs.frozen
class SortKey:
    """A column of ORDER BY."""

    column: Name
    ascending: bool
    nulls_first: bool


@attrs.frozen
class Measure:
    """A column that is computed for each match, or for each of its rows."""

    name: str
    tokens: tuple[Token, ...]
    span: tuple[int, int] = attrs.field(eq=False, repr=False)


@attrs.frozen
class Definition:
    """The condition of a variable."""

    variable: str
    tokens: tuple[Token, ...]
    span: tuple[int, int] = attrs.field(eq=False, repr=False)


@attrs.frozen
class Subset:
    """A name for several variables at once."""

    name: str
    members: tuple[Name, ...]
    span: tuple[int, int] = attrs.field(eq=False, repr=False)


@attrs.frozen
class Within:
    """The most that the last row of a match may be later than its first."""

    tokens: tuple[Token, ...]
    span: tuple[int, int] = attrs.field(eq=False, repr=False)


@attrs.frozen
class MatchClause:
    """A whole clause; the spans of its parts are offsets into ``text``."""

    text: str = attrs.field(repr=False)
    partition_by: tuple[Name, ...]
    order_by: tuple[SortKey, ...]
    measures: tuple[Measure, ...]
    output: Output
    skip: Skip
    pattern: RowPattern
    within: Within | None
    subsets: tuple[Subset, ...]
    definitions: tuple[Definition, ...]
