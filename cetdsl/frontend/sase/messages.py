"""Builds the message and the hint for a text that does not fit the grammar."""

from __future__ import annotations

import re
from difflib import get_close_matches

from cetdsl.analysis.functions import CAST_HINT, CONDITIONAL_HINT
from cetdsl.errors import ParseError, nearest
from cetdsl.frontend.sase.clauses import FIELDS, LENGTHS
from cetdsl.frontend.sase.tokens import (
    CLOSING,
    PARAMETER,
    error_at,
    is_no_event,
    skip_blanks,
    token_at,
    tokens_from,
)
from cetdsl.pattern.intervals import HINT as INTERVALS
from cetdsl.pattern.text import ANY_NAME, NEIGHBOURS, RESERVED

SHAPE = (
    "write [RETURN ...] PATTERN ... [WHERE ...] [MATCHING ...] [LONGEST MATCH] [FIRST MATCH] [AFTER MATCH SKIP ...] "
    "[PARTITION BY ...] [GROUP BY ...] [WITHIN ...] [MAX_GAP ...]"
)
#: The words that clauses begin with.
_CLAUSES = (
    *("RETURN", "PATTERN", "WHERE", "MATCHING", "LONGEST", "FIRST", "AFTER"),
    *("PARTITION", "GROUP", "GROUPBY", "WITHIN", "MAX_GAP"),
)
#: How alike a word and the one that begins a clause are, from 0 to 1, if the word is taken for a misspelling of it.
#: ``WHER`` and ``WITHN`` are; ordinary names, such as ``other`` beside ``WHERE``, are not.
_MISSPELT = 0.75
_SKIPS = "write AFTER MATCH SKIP PAST LAST ROW, TO NEXT ROW, TO FIRST b or TO LAST b"
#: What SQL and other languages write inside a predicate, and how a query says it.
_ELSEWHERE_IN_TERMS = {
    **dict.fromkeys(("WHEN", "THEN", "ELSE"), CONDITIONAL_HINT),
    ":": CAST_HINT,
    "|": "write concat(a.x, b.x) for strings, and OR between predicates",
    "&": "write AND between predicates",
    **dict.fromkeys(("RLIKE", "REGEXP"), "write rlike(b.x, 'a.*')"),
    "ILIKE": "write ilike(b.x, 'a%')",
    "ESCAPE": "write like(b.x, 'a!%', '!')",
    "DIV": "write floor(b.x / 2)",
    ".": FIELDS,
    "[": "write element_at(b.x, 'key') for an entry of a map or an array",
    "NULL": "write IS NULL or IS NOT NULL",
}
_COMMENTS = "a comment begins with --"
#: Characters that no query has outside of strings and names, and what it has instead.
_FOREIGN = {**dict.fromkeys("‘’‚“”„«»´", "write strings in straight quotes: 'text'"), "#": _COMMENTS}
#: What other languages write between two patterns, and how a query says it.
_ELSEWHERE_IN_PATTERNS = {
    "|": "write A OR B for alternatives",
    "&": "write A AND B for events in any order",
    "-": "write SEQ(A, B) for a sequence; a type with a hyphen stands in backquotes: `my-type`",
    "/": _COMMENTS,
}
_REPETITIONS = "write A{2}, A{2,} or A{2,3}"
#: What SQL writes behind what a query has clauses for, and how the same is asked.
_ELSEWHERE_IN_CLAUSES = {
    "LIMIT": "a query has no LIMIT: ask for trends(limit=10), or call limit(10) on the answer",
    "ORDER": "a query orders nothing: call orderBy on the answer; events are ordered by their time",
    "HAVING": "filter the answer; how often a variable is bound is a predicate: WHERE COUNT(b) > 3",
    "MAX": "write MAX_GAP as one word",
    "FROM": "a query names no table: ask it of a DataFrame by df.pattern(text)",
}
#: What SQL begins with where a query says PATTERN or RETURN, and where the same is asked.
_ELSEWHERE_AT_THE_START = {
    "SELECT": "write RETURN COUNT(*) PATTERN ...; a statement with MATCH_RECOGNIZE is for cetdsl.sql(text, spark)",
    **dict.fromkeys(("PARTITION", "ORDER", "MEASURES"), "a MATCH_RECOGNIZE clause is for df.match_recognize(clause)"),
}


def explain_failure(text: str, at: int, expected: str) -> ParseError:
    """The error for text that does not fit the grammar at ``at``, where ``expected`` names the rule that failed."""
    at = skip_blanks(text, at)
    broken = _unclosed(text, at)
    if broken is not None:
        return broken
    behind = [found for found in tokens_from(text) if found.start() < at]
    before = [found.group() for found in behind]
    previous = before[-1] if before else ""
    found = token_at(text, at)
    if "``" in (found, previous):
        place = at if found == "``" else behind[-1].start()
        return error_at(text, place, "a name is empty", "write the name of a column or of an event in the backquotes")
    message, hint = _wording(expected, previous, found, before)
    return error_at(text, at, message, hint)


def _unclosed(text: str, at: int) -> ParseError | None:
    """The error for a quote that is never closed, or a bracket before ``at`` that is never closed."""
    opened: list[re.Match[str]] = []
    for found in tokens_from(text):
        token = found.group()
        if token in ("'", '"', "`"):
            return error_at(
                text,
                found.start(),
                f"the {token} that starts here is never closed",
                f"add a closing {token}; inside of quotes it is doubled: {token}it{token}{token}s{token}",
            )
        if found["open"]:
            opened.append(found)
        elif found["close"]:
            if not opened:
                if found.start() == at:
                    return error_at(text, at, f"{token} closes nothing", f"remove it, or open it before {token}")
                return None
            if CLOSING[opened.pop().group()] != token:
                return None
    if opened and opened[-1].start() < at:
        token = opened[-1].group()
        return error_at(text, opened[-1].start(), f"{token} is never closed", f"add a {CLOSING[token]}")
    return None


def _wording(expected: str, previous: str, found: str, before: list[str]) -> tuple[str, str | None]:
    """Returns the error and a hint, in the user's words."""
    instead = f"found {found!r}" if found else "the text ends"
    word = previous.upper()
    if found in _FOREIGN:
        return f"cannot read {found!r} here", _FOREIGN[found]
    if expected == "PATTERN":
        elsewhere = _ELSEWHERE_AT_THE_START.get(found.upper())
        shape = "separate aggregates by commas, and name one by AS: SUM(b.price) AS total" if before else SHAPE
        return f"PATTERN is missing: {instead}", elsewhere or nearest(found, ("PATTERN", "RETURN"), shape)
    if "pattern" in expected:
        return "a pattern is missing", _missing_pattern(word, found, before)
    if expected.startswith("( after "):
        keyword = expected.removeprefix("( after ")
        return f"{keyword} needs a list of patterns: {instead}", f"write {keyword}(A, B)"
    if expected in ("operand", "expression", "returned aggregate"):
        return _missing_operand(word, found, instead)
    if "expression" in expected:
        function = before[-2].upper()
        argument = "*), or COUNT(b" if function == "COUNT" else "b.price"
        return f"{function} does not say of what: {instead}", f"write {function}({argument})"
    if expected == "unit of time":
        return f"a unit of time is missing after {previous}: {instead}", INTERVALS
    if expected == "length":
        in_quotes = found.upper() == "INTERVAL" or found[:1] in ("'", '"')
        bare = "a length stands without INTERVAL and quotes: " if in_quotes else ""
        return f"{word} needs a length of time: {instead}", bare + LENGTHS
    if expected == "matching policy":
        return f"MATCHING needs a policy: {instead}", "write MATCHING ANY, MATCHING NEXT or MATCHING STRICT"
    if expected == "place to skip to":
        return f"AFTER MATCH SKIP does not say where to go on: {instead}", _SKIPS
    if expected == "SKIP":
        return f"AFTER MATCH does not say SKIP: {instead}", _SKIPS
    if expected == "count":
        return f"a number of repetitions is missing: {instead}", _REPETITIONS
    if expected == "end of text":
        return _left_over(word, found, before)
    if expected in ("name", "column name", "group"):
        if found.upper() in RESERVED:
            return f"{found!r} is a reserved word", f"write `{found}` in backquotes to use it as a name"
        if expected == "group":
            return f"a column to group by is missing: {instead}", "write GROUP BY sector, or GROUP BY date(ts) AS day"
        return f"a {expected} is missing: {instead}", "names that are not plain words stand in backquotes"
    sign = expected.strip("'\"")
    if sign in CLOSING.values():
        return f"{sign} is missing: {instead}", _not_closed(sign, found, before)
    if sign == ".":
        return f"a column is missing: {instead}", f"write {''.join(before[-4:])}.price"
    if sign == "NULL":
        return f"{sign} is missing: {instead}", _after_is(found.upper(), negated=word == "NOT")
    hints = {"BY": f"write {word} BY sector", "(": "write IN (1, 2)"}
    return f"{sign} is missing: {instead}", hints.get(sign, "see the form of a query: " + SHAPE)


def _after_is(found: str, *, negated: bool) -> str:
    if found in ("TRUE", "FALSE"):
        return f"write {'!=' if negated else '='} {found}; a boolean also is a predicate by itself"
    if found == "DISTINCT":
        return f"write {'' if negated else 'NOT '}equal_null(a.x, b.x)"
    return "write IS NULL or IS NOT NULL"


def _not_closed(sign: str, found: str, before: list[str]) -> str:
    if found == "." and _follows_column(before):
        return FIELDS
    if found == "." and sign == "]":
        return FIELDS if is_no_event(before[-1], before[:-1]) else "a list in brackets holds columns alone: [company]"
    if found == "." and len(before) > 2 and before[-3].upper() in NEIGHBOURS:
        return f"the column stands behind: {before[-3]}({before[-1]}).price"
    if found.upper() == "AS":
        return CAST_HINT
    if found.upper() == "FROM":
        return "a part of a time is a function: hour(b.ts), month(b.ts)"
    if sign == "}" and before[-1].isdecimal():
        return _REPETITIONS
    if found in _ELSEWHERE_IN_PATTERNS and not _has(before, "WHERE"):
        return _ELSEWHERE_IN_PATTERNS[found]
    return "separate the parts with commas, or close the list"


def _follows_column(before: list[str]) -> bool:
    """Whether a dot stands behind the column of an event, as the second one in ``A.st.a``."""
    return before[-2:-1] == ["."] and re.fullmatch(ANY_NAME, before[-1]) is not None


def _has(before: list[str], keyword: str) -> bool:
    return any(token.upper() == keyword for token in before)


def _missing_pattern(word: str, found: str, before: list[str]) -> str:
    if word in ("AND", "OR"):
        return f"{word} needs a pattern on both sides"
    if word in ("NOT", "!"):
        return "NOT needs the pattern that must not happen: SEQ(A, NOT N, B)"
    if word == ",":
        return "remove the comma, or write a part after it"
    if word in ("(", "{") and found in (")", "}"):
        keyword = before[-2].upper() if len(before) > 1 and before[-2].upper() in ("SEQ", "AND", "OR") else "the group"
        return f"{keyword} needs at least one part, as in {keyword}(A, B)" if keyword != "the group" else "write (A)"
    if found.upper() in RESERVED:
        return f"write an event such as A before {found.upper()}; a type of that name stands in backquotes: `{found}`"
    if found[:1] in ("'", '"'):
        return "a type stands without quotes, or in backquotes if it is not a plain word: `not covered`"
    return "write an event such as A, or SEQ(A, B+)"


def _missing_operand(word: str, found: str, instead: str) -> tuple[str, str]:
    if word in ("AND", "OR", "^", "NOT", "!"):
        sides = "a predicate after it" if word in ("NOT", "!") else "a predicate on both sides"
        return f"a predicate is missing after {word}: {instead}", f"{word} needs {sides}"
    if word == "WHERE":
        return f"WHERE needs a predicate: {instead}", "write WHERE b.price > 5, or leave WHERE out"
    if word == "RETURN":
        return f"RETURN needs an aggregate: {instead}", "write RETURN COUNT(*), or leave RETURN out"
    if word == "<=" and found == ">":
        return "there is no operator <=>", "write equal_null(a.x, b.x)"
    if word == "=" and found in ("<", ">"):
        return f"there is no operator ={found}", f"write {found}="
    missing = f"a value is missing after {word}: {instead}"
    if word == "/" and found in ("/", "*"):
        return missing, _COMMENTS
    if word == ",":
        return missing, "remove the comma, or write a value after it"
    if found == "+":
        return missing, "a number has no plus before it: write 1 for +1"
    return missing, "write a column such as b.price, a number or a 'string'"


def _left_over(word: str, found: str, before: list[str]) -> tuple[str, str]:
    clause = found.upper()
    if clause in _CLAUSES:
        twice = clause in (token.upper() for token in before)
        return f"{clause} stands {'twice' if twice else 'too late'} in the query", SHAPE
    if clause == "SLIDE":
        return "SLIDE needs a WITHIN before it", "write WITHIN 10 minutes SLIDE 1 minute"
    if clause == "NOT":
        return "cannot read NOT here", "after a value only IS NOT NULL, NOT IN, NOT LIKE and NOT BETWEEN can stand"
    for each in (clause, word):  # a word alone behind an event is read as the name of its variable
        if each in _ELSEWHERE_IN_CLAUSES:
            return f"cannot read {found!r} here", _ELSEWHERE_IN_CLAUSES[each]
    if word in ("PARTITION", "GROUP"):
        return f"cannot read {found!r} here", f"write {word} BY {found}"
    meant = _clause_meant(found)
    if meant is not None:
        return f"cannot read {found!r} here", f"did you mean {meant!r}?"
    keys = [token.upper().removesuffix("BY") for token in before if token.upper() in ("PARTITION", "GROUP", "GROUPBY")]
    if found == "." and keys:
        of_struct = _follows_column(before) or is_no_event(before[-1], before[:-1])
        hint = FIELDS if of_struct else f"write {keys[-1]} BY sector"
        return f"{keys[-1]} BY takes columns without an event", hint
    if found == "(" and keys and keys[-1] == "PARTITION":
        return "PARTITION BY takes columns alone", "compute it as a column of the DataFrame first, or GROUP BY it"
    if keys and re.fullmatch(ANY_NAME, found):
        return f"cannot read {found!r} here", f"separate columns by commas; a computed group is named by AS {found}"
    if _has(before, "WITHIN"):
        if re.fullmatch(PARAMETER, word):
            return f"cannot read {found!r} here", "a parameter is a whole length, with its unit: '10 minutes'"
        return f"cannot read {found!r} here", "a length is a whole number and a unit, such as 10 minutes"
    if _has(before, "WHERE"):
        if found == "." and word == ")" and before[-3:-2] == ["("]:
            neighbours = f"write {', '.join(NEIGHBOURS)} before ({before[-2]}).column"
            return f"cannot read {found!r} here", nearest(before[-4].upper(), tuple(NEIGHBOURS), neighbours)
        if _has(before[-3:], "INTERVAL"):
            return f"cannot read {found!r} here", INTERVALS
        general = "join predicates with AND or OR, and write strings in 'quotes'"
        return f"cannot read {found!r} here", _ELSEWHERE_IN_TERMS.get(clause, general)
    meant = _clause_meant(word)  # read as the name of an event's variable
    if meant is not None:
        hint = f"did you mean {meant!r} by {before[-1]!r}? Several parts stand in SEQ(A, B)"
        return f"cannot read {found!r} here", hint
    if found in (",", "-") or re.fullmatch(ANY_NAME, found):
        hint = _ELSEWHERE_IN_PATTERNS.get(found, "write PATTERN SEQ(A, B)")
        return "a pattern of several parts needs SEQ", hint
    if found in _ELSEWHERE_IN_PATTERNS:
        return f"cannot read {found!r} here", _ELSEWHERE_IN_PATTERNS[found]
    return f"cannot read {found!r} here", SHAPE


def _clause_meant(written: str) -> str | None:
    """Returns the word that begins a clause of which ``written`` seems to be a misspelling, if there is one."""
    near = get_close_matches(written.upper(), (*_CLAUSES, "SLIDE"), n=1, cutoff=_MISSPELT)
    return near[0] if near else None
