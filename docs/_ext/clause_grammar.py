"""The clause MATCH_RECOGNIZE as a grammar that is drawn: cetdsl reads the clause by hand, for the sake of its messages.

A test has both read the same texts, so that what is drawn is what is read.
"""

from __future__ import annotations

import re

import pyparsing as pp


def clause_grammar() -> pp.ParserElement:
    """The clause, between the parentheses of ``MATCH_RECOGNIZE ( ... )``."""
    word = pp.CaselessKeyword
    name = pp.Regex(r"`[^`]+`|(?!\d)\w+").set_name("name")
    number = pp.Regex(r"\d+").set_name("number")
    expression = pp.Regex(r"(?:(?!\bAS\b|\bPATTERN\b)(?:[^,()]|\([^()]*\)))+", re.IGNORECASE)
    expression.set_name("expression of Spark's SQL")

    def listed(item: pp.ParserElement) -> pp.ParserElement:
        return pp.DelimitedList(item)

    sort_key = name + pp.Opt(word("ASC") | word("DESC")) + pp.Opt(word("NULLS FIRST") | word("NULLS LAST"))
    empty = word("SHOW EMPTY MATCHES") | word("OMIT EMPTY MATCHES") | word("WITH UNMATCHED ROWS")
    # Right before the pattern, these are names of variables.
    first, last = (pp.Regex(rf"{end}\b(?!\s+PATTERN\s*\()", re.I).set_name(end) for end in ("FIRST", "LAST"))
    to = word("PAST LAST ROW") | word("TO NEXT ROW") | word("TO") + pp.Opt(first | last) + name
    length = (word("INTERVAL") + pp.Regex(r"(?:'[^']*'|\d+)\s+\w+").set_name("length")) | number
    subset = name + "=" + "(" + listed(name) + ")"
    parts = {
        "partition": word("PARTITION BY") + listed(name),
        "order": word("ORDER BY") + listed(sort_key.set_name("sort key")),
        "measures": word("MEASURES") + listed(expression + word("AS") + name),
        "rows per match": word("ONE ROW PER MATCH") | word("ALL ROWS PER MATCH") + pp.Opt(empty),
        "after match": word("AFTER MATCH SKIP") + to,
        "row pattern": word("PATTERN") + "(" + pattern_grammar(name, number) + ")",
        "within": word("WITHIN") + length,
        "subsets": word("SUBSET") + listed(subset),
        "definitions": word("DEFINE") + listed(name + word("AS") + expression),
    }
    named = [part.set_name(name) for name, part in parts.items()]
    return pp.And([part if part.name == "row pattern" else pp.Opt(part) for part in named]).set_name("clause")


def pattern_grammar(name: pp.ParserElement, number: pp.ParserElement) -> pp.ParserElement:
    """A row pattern."""
    pattern = pp.Forward().set_name("pattern")
    bounds = pp.Literal("{") + (number + pp.Opt("," + pp.Opt(number)) | "," + pp.Opt(number)) + "}"
    quantifier = ((pp.one_of("* + ?") | bounds) + pp.Opt("?")).set_name("quantifier")
    permute = pp.CaselessKeyword("PERMUTE") + "(" + pp.DelimitedList(pattern) + ")"
    excluded = pp.Literal("{-") + pattern + "-}"
    group = pp.Literal("(") + pp.Opt(pattern) + ")"
    primary = (permute | name | "^" | "$" | group | excluded).set_name("part")
    pattern <<= pp.DelimitedList(pp.OneOrMore((primary + pp.Opt(quantifier)).set_name("factor")), delim="|")
    return pattern
