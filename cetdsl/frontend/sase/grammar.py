"""The pyparsing grammar of a query, in the manner of SASE."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import cache

import attrs
import pyparsing as pp

from cetdsl.aggregates.functions import SPELLINGS
from cetdsl.frontend.sase import clauses, patterns, terms
from cetdsl.frontend.sase.tokens import COMMENT, DIGITS, NO_NAME, PARAMETER, QUOTED_NAME, SPACE, STRING, placed
from cetdsl.pattern.expressions import Expr, Length
from cetdsl.pattern.nodes import And, Or, Pattern, Seq
from cetdsl.pattern.query import POLICIES, TO_LAST
from cetdsl.pattern.spans import Span
from cetdsl.pattern.text import ANY_NAME, NEIGHBOURS, PLAIN_NAME, SKIPS


@attrs.frozen
class Rules:
    """The entry points of the grammar, each up to the end of the text."""

    query: pp.ParserElement
    expression: pp.ParserElement


# pyparsing keeps caches on shared elements; a query is short, so one at a time costs nothing.
LOCK = threading.RLock()


@cache
def rules_for(*, commented: bool) -> Rules:
    """The rules for texts with or without comments; looking for them before every token takes almost half the time."""
    with LOCK:
        spaces = pp.ParserElement.DEFAULT_WHITE_CHARS
        try:
            pp.ParserElement.set_default_whitespace_chars(" \n\t\r")
            return _build(commented)
        finally:
            pp.ParserElement.set_default_whitespace_chars(spaces)


_ARITHMETIC_OR_COMPARISON = r"==|!=|<>|<=|>=|[=<>+\-*/%]"


def _keyword(*words: str) -> pp.ParserElement:
    keywords = [pp.CaselessKeyword(word).set_name(word) for word in words]
    return keywords[0] if len(keywords) == 1 else pp.And(keywords)


def _before(pattern: str, following: str) -> pp.ParserElement:
    """A token that must be followed by ``following``, which it does not consume."""
    return pp.Regex(rf"(?:{pattern})(?={SPACE}(?:{following}))")


def _word_before(words: Iterable[str], following: str) -> pp.ParserElement:
    return _before(rf"(?ai:{'|'.join(words)})", following).set_name(" or ".join(words))


def _listed(item: pp.ParserElement) -> pp.ParserElement:
    return item + pp.ZeroOrMore(pp.Suppress(",") - item)


def _name(plain: str, label: str) -> pp.ParserElement:
    found = pp.Regex(rf"(?:{QUOTED_NAME})|(?:{plain})").set_name(label)
    return found.set_parse_action(lambda s, at, tokens: terms.unquote(tokens[0]) if tokens[0][0] == "`" else tokens[0])


def _build(commented: bool) -> Rules:
    expression = pp.Forward()
    expression.set_name("expression")
    name = _name(PLAIN_NAME, "name")
    expression << _expression_rule(expression, name)
    length = _length_rule()
    pattern = _pattern_rule(expression, name, length)
    query = _query_rule(pattern, expression, name, length)
    whole_expression = (expression + pp.StringEnd().set_name("end of text")).set_name("predicate")
    for rule in (query, whole_expression):
        if commented:
            rule.ignore(pp.Regex(COMMENT).set_name("comment"))
        # Tabs must stay, or the places in error messages would be wrong.
        rule.parse_with_tabs().streamline()
    return Rules(query, whole_expression)


def _operand_rule(expression: pp.Forward, name: pp.ParserElement) -> pp.ParserElement:
    lpar, rpar, lbracket, rbracket = map(pp.Suppress, "()[]")
    dot_column = pp.Suppress(".") - _name(ANY_NAME, "column name")
    string = pp.Regex(STRING).set_name("string").set_parse_action(placed(terms.string))
    number = pp.Regex(rf"(?:-\s*)?(?:{DIGITS}(?:\.{DIGITS})?|\.{DIGITS})(?:[eE][+-]?{DIGITS})?(?!\w)")
    unit = pp.Regex(PLAIN_NAME).set_name("unit of time")
    quoted = string + pp.Opt(unit + pp.Opt(pp.Suppress(_keyword("TO")) - unit))
    counted = pp.OneOrMore(pp.Regex(rf"{DIGITS}(?:\.{DIGITS})?").set_name("length") - unit)
    distinct = pp.Regex(rf"(?ai:DISTINCT)\b(?!{SPACE}[).,\[])").set_name("DISTINCT").set_parse_action(terms.distinct)
    arguments = pp.Literal("*") | expression
    rules: list[tuple[str, pp.ParserElement, Callable[[str, int, pp.ParseResults], Expr]]] = [
        ("number", number, terms.number),
        ("parameter", pp.Regex(PARAMETER), terms.parameter),
        ("typed literal", _word_before(terms.TYPED, "['\"]") - string, terms.typed_literal),
        ("interval", _word_before(["INTERVAL"], "['\"0-9]") - (quoted | counted).set_name("length"), terms.interval),
        ("constant", pp.Regex(r"(?ai:NULL|TRUE|FALSE)\b"), terms.constant),
        ("neighbour", _word_before(NEIGHBOURS, r"\(") + lpar - name - rpar - dot_column, terms.neighbour),
        ("aggregate", _word_before(SPELLINGS, r"\(") + lpar - pp.Opt(distinct) - arguments - rpar, terms.aggregate),
        (
            "function call",
            _before(f"{QUOTED_NAME}|{PLAIN_NAME}", r"\(").set_name("function")
            + lpar
            - pp.Opt(_listed(expression))
            - rpar,
            terms.call,
        ),
        (
            "length",
            pp.Regex(rf"(?ai:LENGTH)\b(?!{SPACE}[.\[])"),
            lambda text, at, tokens: Length(),
        ),
        (
            "indexed attribute",
            name + lbracket + pp.Regex(r"[^\[\]\n\r]*").set_name("index") - rbracket - dot_column,
            terms.indexed,
        ),
        ("attribute", name + pp.Opt(dot_column), terms.attribute),
        (
            "equivalence",
            lbracket - _listed(name) - rbracket,
            lambda text, at, tokens: terms.Equivalence(tuple(tokens), at),
        ),
    ]
    atoms = [string] + [rule.set_name(label).set_parse_action(placed(action)) for label, rule, action in rules]
    return pp.MatchFirst([*atoms, (lpar - expression - rpar).set_name("parenthesised")]).set_name("operand")


def _expression_rule(expression: pp.Forward, name: pp.ParserElement) -> pp.ParserElement:
    not_, and_, or_ = (_keyword(word).set_parse_action(terms.sign) for word in ("NOT", "AND", "OR"))
    minus = pp.Regex(r"-(?!\s*\.?[0-9])").set_name("minus").set_parse_action(terms.sign)
    bang = pp.Regex(r"!(?!=)").set_name("!").set_parse_action(terms.sign)
    operand = _operand_rule(expression, name)
    signed = pp.ZeroOrMore(not_ | bang | minus) + operand
    signed.set_name("operand")
    in_list = pp.Suppress("(") - _listed(expression) - pp.Suppress(")")
    test = (
        (_keyword("IS") - pp.Opt(_keyword("NOT")) - _keyword("NULL")).set_parse_action(terms.null_test)
        | (_word_before(["NOT"], r"(?ai:IN)\b") + _keyword("IN") - in_list).set_parse_action(terms.in_test)
        | (_keyword("IN") - in_list).set_parse_action(terms.in_test)
    ).set_name("test")
    worded = (
        _word_before(["NOT"], r"(?ai:BETWEEN|LIKE)\b") + (_keyword("BETWEEN") | _keyword("LIKE"))
        | _keyword("BETWEEN")
        | _keyword("LIKE")
    ).set_parse_action(terms.sign)
    symbol = (
        pp.Regex(rf"{_ARITHMETIC_OR_COMPARISON}|\^").set_name("= != < <= > >= + - * / % ^").set_parse_action(terms.sign)
    )
    operator = (and_ | or_ | symbol | worded).set_name("operator")
    return (signed + pp.ZeroOrMore(test | operator - signed)).set_parse_action(placed(terms.expression))


def _length_rule() -> pp.ParserElement:
    amount = pp.Regex(rf"{DIGITS}(?:\.{DIGITS})?").set_name("length")
    unit = pp.Regex(PLAIN_NAME).set_name("unit of time").set_parse_action(clauses.unit_of_time)
    written = pp.OneOrMore(amount + pp.Opt(unit)).set_parse_action(clauses.length)
    given = pp.Regex(PARAMETER).set_parse_action(terms.parameter_as(Span.parse))
    return (written | given).set_name("length")


def _pattern_rule(expression: pp.Forward, name: pp.ParserElement, length: pp.ParserElement) -> pp.ParserElement:
    pattern = pp.Forward()
    pattern.set_name("pattern")
    limited = (pattern + pp.Opt(pp.Suppress(_keyword("WITHIN")) - length)).set_name("pattern")
    limited.set_parse_action(patterns.limited)
    written = pp.Regex(rf"{DIGITS}(?!\w)").set_parse_action(patterns.written_count)
    count = (written | pp.Regex(PARAMETER).set_parse_action(terms.parameter_as(patterns.repetitions))).set_name("count")
    times = pp.Regex(r"[+*?]").set_name("+ * ?") | pp.Literal("{") - count - pp.Opt(
        pp.Literal(",") - pp.Opt(count)
    ) - pp.Suppress("}")
    times = times.set_name("times").set_parse_action(patterns.times)
    brackets = (pp.Suppress("[") - pp.Suppress("]")).set_parse_action(lambda text, at, tokens: patterns.Brackets(at))
    # A type is any string, the empty one too; a name is not empty.
    empty_type = pp.Regex(NO_NAME).set_name("empty type").set_parse_action(lambda text, at, tokens: "") + name
    repeats = pp.ZeroOrMore(times)
    event = (name + repeats + pp.Opt(name + pp.Opt(brackets)) | empty_type) + repeats
    event = event.set_name("event").set_parse_action(patterns.event)
    conditioned = (
        pp.Suppress(_word_before(["EVENT"], r"\("))
        + pp.Suppress("(")
        - (name + pp.Opt(name) | empty_type).set_name("name")
        - pp.Opt(pp.Suppress(",") - expression)
        - pp.Suppress(")")
    )
    conditioned = conditioned.set_name("event with condition").set_parse_action(patterns.event_with_condition)

    def group(word: str, kind: type[Pattern]) -> pp.ParserElement:
        keyword = pp.Suppress(_keyword(word))
        bodies = [pp.Suppress(left) - _listed(limited) - pp.Suppress(right) for left, right in ("()", "{}")]
        rule = keyword - pp.MatchFirst(bodies).set_name(f"( after {word}")
        return rule.set_name(word).set_parse_action(patterns.group(word, kind))

    groups = [group("SEQ", Seq), group("AND", And), group("OR", Or)]
    parenthesised = (pp.Suppress("(") - limited - pp.Suppress(")")).set_name("parenthesised pattern")
    primary = pp.MatchFirst([*groups, conditioned, event, parenthesised]).set_name("pattern part")
    negation = (_keyword("NOT") | pp.Literal("!")).set_name("NOT").set_parse_action(terms.sign)
    unit = (negation - primary + pp.ZeroOrMore(times)) | (primary + pp.ZeroOrMore(times))
    unit = unit.set_name("pattern part").set_parse_action(patterns.unit)
    connective = (_keyword("AND") | _keyword("OR")).set_name("AND or OR").set_parse_action(terms.sign)
    pattern << (unit + pp.ZeroOrMore(connective - unit)).set_parse_action(patterns.alternatives)
    return pattern


def _query_rule(
    pattern: pp.ParserElement, expression: pp.ParserElement, name: pp.ParserElement, length: pp.ParserElement
) -> pp.ParserElement:
    def clause(label: str, *words: pp.ParserElement) -> pp.ParserElement:
        return pp.And(words).set_name(label).set_parse_action(clauses.clause(label.split()[0].lower()))

    def keyword(*words: str) -> pp.ParserElement:
        return pp.Suppress(_keyword(*words)).set_name(" ".join(words))

    returned = (expression + pp.Opt(pp.Suppress(_keyword("AS")) - name)).set_name("returned aggregate")
    returned.set_parse_action(clauses.returned)
    # A column behind which a list goes on, or ends; most groups are that, and no term has to be looked for.
    column = name + pp.FollowedBy(pp.Regex(rf",|[.;]?{SPACE}\Z|(?ai:WITHIN|MAX_GAP)\b"))
    group = column | expression + pp.Opt(pp.Suppress(_keyword("AS")) - name)
    group = group.set_name("group").set_parse_action(clauses.group_of)
    policy = pp.MatchFirst([pp.CaselessKeyword(word, word) for word in POLICIES]).set_name("matching policy")
    partition_by = (keyword("PARTITION") - keyword("BY")).set_name("PARTITION BY")
    group_by = (keyword("GROUPBY") | keyword("GROUP") - keyword("BY")).set_name("GROUP BY")
    parts = [
        pp.Opt(clause("RETURN clause", keyword("RETURN") - _listed(returned))),
        clause("PATTERN clause", keyword("PATTERN") - pattern),
        pp.Opt(clause("WHERE clause", keyword("WHERE") - expression)),
        pp.Opt(clause("MATCHING clause", keyword("MATCHING") - policy)),
        pp.Opt(clause("LONGEST MATCH clause", keyword("LONGEST", "MATCH"))),
        pp.Opt(clause("FIRST MATCH clause", keyword("FIRST", "MATCH"))),
        pp.Opt(clause("AFTER MATCH clause", keyword("AFTER", "MATCH") - keyword("SKIP") - _skip_rule(name))),
        pp.Opt(clause("PARTITION BY clause", partition_by - _listed(name))),
        pp.Opt(clause("GROUP BY clause", group_by - _listed(group))),
        pp.Opt(clause("WITHIN clause", keyword("WITHIN") - length + pp.Opt(keyword("SLIDE") - length))),
        pp.Opt(clause("MAX_GAP clause", keyword("MAX_GAP") - length)),
        pp.Suppress(pp.Opt(pp.Regex(rf"[.;](?={SPACE}\Z)").set_name(". or ;"))),
        pp.StringEnd().set_name("end of text"),
    ]
    return pp.And(parts).set_name("query").set_parse_action(clauses.query)


def _skip_rule(name: pp.ParserElement) -> pp.ParserElement:
    """Returns the rule for the text behind AFTER MATCH SKIP; SQL's SKIP TO v is SKIP TO LAST v."""
    ways = [_keyword(*words.split()).set_parse_action(pp.replace_with(to)) for to, words in SKIPS.items()]
    past_last, next_row, to_first, to_last = ways
    to = _keyword("TO").set_parse_action(pp.replace_with(TO_LAST))
    return pp.MatchFirst([past_last, next_row, to_first - name, to_last - name, to - name]).set_name("place to skip to")
