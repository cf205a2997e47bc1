"""Writes nodes as text: the form that the SASE-like grammar reads back into equal nodes."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from typing import Any

import attrs

from cetdsl.aggregates.functions import SPELLINGS
from cetdsl.errors import NotExpressible
from cetdsl.pattern.expressions import (
    Aggregate,
    Attribute,
    Binary,
    Call,
    Expr,
    Guarded,
    Length,
    Literal,
    Role,
    SparkColumn,
    Unary,
    conjuncts,
)
from cetdsl.pattern.intervals import interval_text
from cetdsl.pattern.nodes import And, Event, Not, Or, Pattern, Repeat, Seq, Within, transform
from cetdsl.pattern.query import (
    NEXT_ROW,
    PAST_LAST,
    TO_FIRST,
    TO_LAST,
    AfterMatch,
    Computed,
    Query,
    Returned,
    Selection,
)

#: Words that are names only in backquotes.
RESERVED = (
    *(
        "RETURN",
        "PATTERN",
        "WHERE",
        "MATCHING",
        "GROUPBY",
        "GROUP",
        "WITHIN",
        "SLIDE",
        "MAX_GAP",
        "SEQ",
        "AND",
        "OR",
        "NOT",
    ),
    *("AS", "IS", "IN", "BETWEEN", "LIKE", "NULL", "TRUE", "FALSE"),
)
#: Roles that are written as a function of the variable.
NEIGHBOURS = {"NEXT": Role.NEXT, "PREV": Role.PREV, "FIRST": Role.FIRST, "LAST": Role.LAST}
_NEIGHBOUR_WORDS = {role: word for word, role in NEIGHBOURS.items()}
_OWN_FUNCTIONS = {*NEIGHBOURS, *(name.upper() for name in SPELLINGS)}

#: A name as it may follow a dot, and a name as it may stand alone.
ANY_NAME = r"[^\W\d]\w*"
#: Pairs of words that together begin a clause, while each word alone may be a name.
_OPENINGS = r"PARTITION\s+BY|AFTER\s+MATCH|FIRST\s+MATCH|LONGEST\s+MATCH"
PLAIN_NAME = rf"(?!(?ai:{'|'.join(RESERVED)}|{_OPENINGS})\b){ANY_NAME}"
#: The wording of the clause AFTER MATCH SKIP, by where the search continues.
SKIPS = {PAST_LAST: "PAST LAST ROW", NEXT_ROW: "TO NEXT ROW", TO_FIRST: "TO FIRST", TO_LAST: "TO LAST"}

# The precedence of operators; a term whose precedence is lower than its place requires is put in parentheses.
OR, AND, NOT, COMPARISON, SUM, PRODUCT, SIGN, ATOM = range(1, 9)
LEVELS = {
    "or": OR,
    "and": AND,
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">="), COMPARISON),
    **dict.fromkeys(("+", "-"), SUM),
    **dict.fromkeys(("*", "/", "%"), PRODUCT),
}
_WIDTH = 100


def unparse(query: Query, *, lenient: bool = False) -> str:
    """The text of a query, one clause per line; it parses back to an equal query.

    NotExpressible is raised if an event's condition is a Spark column, or a constant is of a type without text form.
    With ``lenient`` such a condition is shown as ``<...>``, which does not parse.

    Examples
    --------
    >>> from cetdsl.pattern.nodes import Event, Repeat, Seq
    >>> from cetdsl.pattern.query import Query, Window
    >>> from cetdsl.pattern.spans import Span
    >>> pattern = Seq((Event("a", "Start"), Repeat(Event("B", "B"))))
    >>> print(unparse(Query(pattern, partition_by=("user",), window=Window(Span.parse("1 day")))))
    PATTERN SEQ(Start a, B+)
    WHERE [user]
    WITHIN 1 day
    """
    write = _Writer(lenient)
    lines = []
    if query.returning:
        lines.append("RETURN " + ", ".join(write.returned(item) for item in query.returning))
    lines.append("PATTERN " + write.pattern(query.pattern))
    predicates = [write.term(part, NOT) for whole in query.where for part in conjuncts(whole)]
    if query.partition_by:
        predicates.insert(0, f"[{', '.join(map(quote_name, query.partition_by))}]")
    if predicates:
        line = "WHERE " + " AND ".join(predicates)
        lines.append(line if len(line) <= _WIDTH else "WHERE " + "\n  AND ".join(predicates))
    if query.policy is not None:
        lines.append(f"MATCHING {query.policy.upper()}")
    lines += selection_lines(query.selection)
    if query.group_by:
        computed = {item.name: write.computed(item) for item in query.computed}
        lines.append("GROUP BY " + ", ".join(computed.get(name) or quote_name(name) for name in query.group_by))
    if query.window is not None:
        lines.append(str(query.window))
    if query.max_gap is not None:
        lines.append(f"MAX_GAP {query.max_gap}")
    return "\n".join(lines)


def write_after_match(after: AfterMatch) -> str:
    """Writes the clause that says where the search continues after a match."""
    return f"AFTER MATCH SKIP {SKIPS[after.to]}" + (f" {quote_name(after.variable)}" if after.variable else "")


def selection_lines(selection: Selection) -> list[str]:
    """The clauses that say which matches are taken if they are taken one at a time."""
    lines = ["LONGEST MATCH"] if selection.longest else []
    lines += ["FIRST MATCH"] if selection.first else []
    return lines + ([write_after_match(selection.after)] if selection.after is not None else [])


def unparse_pattern(pattern: Pattern, *, lenient: bool = False) -> str:
    """The text of a pattern.

    Examples
    --------
    >>> from cetdsl.pattern.nodes import Event, Not, Or, Repeat, Seq
    >>> a, b, c = (Event(name, type=name) for name in "ABC")
    >>> unparse_pattern(Seq((a, Not(c), Repeat(Or((a, b)), 2, 3))))
    'SEQ(A, NOT C, (A OR B){2,3})'
    """
    return _Writer(lenient).pattern(pattern)


def unparse_expression(expr: Expr, *, lenient: bool = False) -> str:
    """The text of a term or predicate.

    Examples
    --------
    >>> from cetdsl.pattern.expressions import Attribute, Binary, Literal, Role
    >>> price = Attribute("b", "price")
    >>> next_price = Attribute("b", "price", Role.NEXT)
    >>> unparse_expression(Binary("<", Binary("*", Binary("+", price, Literal(1)), Literal(1.5)), next_price))
    '(b.price + 1) * 1.5 < NEXT(b).price'
    """
    return _Writer(lenient).term(expr)


def quote(node: Expr | Pattern) -> str:
    """A term or pattern as messages show it: its text, or its repr when it has no text form.

    Examples
    --------
    >>> quote(Binary("<", Attribute("b", "price"), Literal(5)))
    'b.price < 5'
    """
    try:
        if isinstance(node, Expr):
            return unparse_expression(node, lenient=True)
        return unparse_pattern(node, lenient=True)
    except NotExpressible:
        return repr(node)


def short_pattern(pattern: Pattern) -> str:
    """The text of a pattern that shows only the variables of its events.

    Examples
    --------
    >>> short_pattern(Seq((Event("a", "Start"), Repeat(Event("b", None, Literal(True))))))
    'SEQ(a, b+)'
    """

    def change(node: Pattern) -> Pattern:
        return attrs.evolve(node, type=node.variable, condition=None) if isinstance(node, Event) else node

    return quote(transform(pattern, change))


def quote_name(name: str) -> str:
    """Writes the name of a variable, type or column: in backquotes unless it is plain and not reserved.

    Examples
    --------
    >>> print(quote_name("sector"), quote_name("not covered"), quote_name("order`s"), quote_name("in"))
    sector `not covered` `order``s` `in`
    """
    if re.fullmatch(PLAIN_NAME, name) and name.upper() != "LENGTH":
        return name
    return in_backquotes(name)


def in_backquotes(name: str) -> str:
    """Writes any name in backquotes, as SQL accepts it.

    Examples
    --------
    >>> print(in_backquotes("limit price"), in_backquotes("order`s"))
    `limit price` `order``s`
    """
    return "`" + name.replace("`", "``") + "`"


def quote_text(value: str) -> str:
    """A string constant: in single quotes, which are doubled inside.

    Examples
    --------
    >>> print(quote_text("it's"))
    'it''s'
    """
    return "'" + value.replace("'", "''") + "'"


def literal_text(value: Any) -> str:
    """A constant as text; NotExpressible is raised if its type has none.

    Examples
    --------
    >>> import datetime
    >>> print(literal_text(None), literal_text(True), literal_text(-1.5), literal_text(float("nan")))
    NULL TRUE -1.5 DOUBLE 'nan'
    >>> print(literal_text(datetime.date(2024, 2, 29)), literal_text(datetime.timedelta(hours=1)))
    DATE '2024-02-29' INTERVAL '1' HOUR
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"DOUBLE '{value}'"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return quote_text(value)
    if isinstance(value, Decimal):
        return f"DECIMAL '{value}'"
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value.isoformat(' ')}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, datetime.timedelta):
        return interval_text(value)
    raise NotExpressible(
        f"a constant of type {type(value).__name__} has no text form",
        hint="use None, bool, int, float, str, Decimal, date, datetime or timedelta",
    )


def _function_name(call: Call) -> str:
    name = call.name
    plain = re.fullmatch(PLAIN_NAME, name) and name == name.lower() and name.upper() not in _OWN_FUNCTIONS
    # LENGTH() without arguments is the number of bindings, not Spark's length of a string.
    if plain and not (name == "length" and not call.arguments):
        return name
    return in_backquotes(name)


class _Writer:
    """Writes nodes; if ``lenient``, Spark columns are written as ``<...>``, and are no error."""

    def __init__(self, lenient: bool) -> None:
        self.lenient = lenient

    def returned(self, item: Returned) -> str:
        text = self.term(item.aggregate)
        return text if item.name is None else f"{text} AS {quote_name(item.name)}"

    def computed(self, item: Computed) -> str:
        return f"{self.term(item.term)} AS {quote_name(item.name)}"

    def pattern(self, node: Pattern, *, alone: bool = True) -> str:
        """Writes a pattern; ``alone`` if nothing beside it could be taken as an operand of its infix operator."""
        if isinstance(node, Event):
            return self.event(node)
        if isinstance(node, Seq):
            return self.group("SEQ", node)
        if isinstance(node, (Or, And)):
            word = "OR" if isinstance(node, Or) else "AND"
            if len(node.parts) == 1:
                return self.group(word, node)
            text = f" {word} ".join(self.pattern(part, alone=False) for part in node.parts)
            return text if alone else f"({text})"
        if isinstance(node, Repeat):
            part = self.pattern(node.part, alone=False)
            return (f"({part})" if isinstance(node.part, Repeat) else part) + _times(node)
        if isinstance(node, Not):
            return "NOT " + self.pattern(node.part, alone=False)
        if isinstance(node, Within):
            return f"({self.limited(node)})"
        raise NotExpressible(f"{type(node).__name__} has no text form")

    def group(self, word: str, node: Pattern) -> str:
        parts = (self.limited(part) if isinstance(part, Within) else self.pattern(part) for part in node.children)
        return f"{word}({', '.join(parts)})"

    def limited(self, node: Within) -> str:
        return f"{self.pattern(node.part)} WITHIN {node.length}"

    def event(self, node: Event) -> str:
        name = quote_name(node.variable)
        bare = node.type is None or (node.type == node.variable and node.condition is None)
        if not bare and node.type is not None:
            kind = quote_name(node.type)
            opens = re.fullmatch(rf"(?i:{_OPENINGS})", f"{kind} {name}")
            name = f"{in_backquotes(node.type) if opens else kind} {name}"
        if node.condition is not None:
            return f"EVENT({name}, {self.term(node.condition)})"
        return f"EVENT({name})" if node.type is None else name

    def term(self, node: Expr, floor: int = OR) -> str:
        """The text of ``node``, in parentheses if its precedence is lower than ``floor``."""
        text, level = self.leveled(node)
        return text if level >= floor else f"({text})"

    def leveled(self, node: Expr) -> tuple[str, int]:
        if isinstance(node, Binary):
            level = LEVELS[node.op]
            # Comparisons do not associate; the others associate to the left.
            left = self.term(node.left, level + 1 if level == COMPARISON else level)
            return f"{left} {node.op.upper()} {self.term(node.right, level + 1)}", level
        if isinstance(node, Unary):
            if node.op == "not":
                return "NOT " + self.term(node.operand, NOT), NOT
            # -(5) is a sign before 5, -5 is a constant; and two dashes would start a comment.
            needs_parentheses = isinstance(node.operand, (Literal, Unary))
            return "-" + self.term(node.operand, ATOM + 1 if needs_parentheses else ATOM), SIGN
        if isinstance(node, Call):
            return self.call(node)
        if isinstance(node, Guarded):
            return self.leveled(node.term)  # as the user has written it
        return self.atom(node), ATOM

    def call(self, node: Call) -> tuple[str, int]:
        arguments = node.arguments
        if node.name in ("isnull", "isnotnull") and len(arguments) == 1:
            negation = "NOT " if node.name == "isnotnull" else ""
            return f"{self.term(arguments[0], SUM)} IS {negation}NULL", COMPARISON
        if node.name == "like" and len(arguments) == 2:
            return f"{self.term(arguments[0], SUM)} LIKE {self.term(arguments[1], SUM)}", COMPARISON
        if node.name == "in" and len(arguments) > 1:
            listed = ", ".join(self.term(item) for item in arguments[1:])
            return f"{self.term(arguments[0], SUM)} IN ({listed})", COMPARISON
        return f"{_function_name(node)}({', '.join(self.term(item) for item in arguments)})", ATOM

    def atom(self, node: Expr) -> str:
        if isinstance(node, Literal):
            return literal_text(node.value)
        if isinstance(node, Attribute):
            return _attribute(node)
        if isinstance(node, Length):
            return "LENGTH"
        if isinstance(node, Aggregate):
            if node.argument is not None:
                inner = self.term(node.argument)
            else:
                inner = "*" if node.variable is None else quote_name(node.variable)
            return f"{node.function.upper()}({inner})"
        if isinstance(node, SparkColumn):
            if self.lenient:
                return f"<{node.column}>"
            raise NotExpressible(
                "what is given as a Spark column has no text form",
                hint="write it with cetdsl's own terms: event('big', col('amount') > 1000)",
            )
        raise NotExpressible(f"{type(node).__name__} has no text form")


def _attribute(node: Attribute) -> str:
    if node.variable is None:
        return quote_name(node.name)
    owner = quote_name(node.variable)
    if node.role is Role.NTH:
        owner = f"{owner}[{node.index}]"
    elif node.role is not Role.EACH:
        owner = f"{_NEIGHBOUR_WORDS[node.role]}({owner})"
    # After a dot no word is reserved.
    name = node.name if re.fullmatch(ANY_NAME, node.name) else in_backquotes(node.name)
    return f"{owner}.{name}"


def _times(node: Repeat) -> str:
    low, high = node.at_least, node.at_most
    signs: dict[tuple[int, int | None], str] = {(1, None): "+", (0, None): "*", (0, 1): "?"}
    if (low, high) in signs:
        return signs[low, high]
    if high is None:
        return f"{{{low},}}"
    return f"{{{low}}}" if low == high else f"{{{low},{high}}}"
