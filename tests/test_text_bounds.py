"""What a text costs to read grows with its length alone, whatever stands in it."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator
from functools import cache

import pyparsing as pp
import pytest

from cetdsl.errors import CetdslError, ParseError
from cetdsl.frontend.sase import parse, parse_queries, reading
from cetdsl.frontend.sase import tokens as tokens_of_text
from cetdsl.frontend.sase.grammar import rules_for
from cetdsl.pattern import spans
from cetdsl.pattern.expressions import Role

#: What a token may begin with, and what may then repeat until something does not fit.
BEGINNINGS = ("", "'", '"', "`", "1", "1.", "1e", "-", "a", "AND", "--")
REPEATED = ("-", "--", "--\n", "-- ", "--\r", " ", "\n", "'", "''", '"', "`", "``", "1", "1 ", "1a", "1a ", ".1", "1.")
REPEATED += ("a", "a ", "a`", "e1", "(", "[", "+", "\\", "é", "٣")
ENDINGS = ("", "!", "\x00", "(", "\n:")
#: One that splits its text in every way is found with the first of these lengths, and takes for ever with the others;
#: one that tries each place from each other place is found with the last.
LENGTHS, SECONDS = (32, 400, 4000), 0.02


@cache
def tokens() -> tuple[re.Pattern[str], ...]:
    """Every regular expression of the grammar, with and without comments, and those beside it."""
    found = [tokens_of_text._BLANK, tokens_of_text._TOKEN, reading._NAMED, re.compile(spans._PART)]
    for commented in (False, True):
        rules = rules_for(commented=commented)
        found += [rule.re for whole in (rules.query, rules.expression) for rule in every_rule(whole)]
    return tuple(dict.fromkeys(found))


def every_rule(whole: pp.ParserElement) -> Iterator[pp.Regex]:
    """The rules that are regular expressions, those for what is left out too."""
    seen: set[int] = set()
    left = [whole]
    while left:
        rule = left.pop()
        if id(rule) in seen:
            continue
        seen.add(id(rule))
        left += [*rule.recurse(), *rule.ignoreExprs]
        if isinstance(rule, pp.Regex):
            yield rule


def matched(token: re.Pattern[str], text: str) -> float:
    """Processor seconds of one attempt; of the best of three if the first was slow, for the machine may be busy."""
    taken = []
    while len(taken) < 3 and (not taken or min(taken) > SECONDS):
        begun = time.thread_time()
        token.match(text)
        taken.append(time.thread_time() - begun)
    return min(taken)


def test_the_grammar_is_walked() -> None:
    patterns = [token.pattern for token in tokens()]
    assert len(patterns) > 25
    for part in (tokens_of_text.COMMENT, tokens_of_text.STRING, tokens_of_text.QUOTED_NAME, tokens_of_text.DIGITS):
        assert any(part in pattern for pattern in patterns)


def test_every_token_is_linear() -> None:
    for length in LENGTHS:
        slow = (
            (token.pattern, begun, unit, end)
            for begun, unit, end in itertools.product(BEGINNINGS, REPEATED, ENDINGS)
            for text in [begun + unit * (length // len(unit)) + end]
            for token in tokens()
            if matched(token, text) > SECONDS
        )
        assert next(slow, None) is None


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN A a " + "-" * 5000 + "\n (",
        "PATTERN A WHERE abs" + " -- -" * 2000 + "\n, 1",
        "PATTERN A WITHIN " + "1" * 5000 + "." + "1" * 5000 + " min",
        "PATTERN A WITHIN " + "1 " * 3000 + "!",
        "PATTERN A WHERE A.x = " + "'a''" * 3000,
    ],
)
def test_texts_that_do_not_parse_are_refused_soon(text: str) -> None:
    begun = time.thread_time()
    with pytest.raises(ParseError):
        parse(text)
    assert time.thread_time() - begun < 1


def test_many_named_queries_are_each_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    plain = reading._read
    monkeypatch.setattr(reading, "_read", lambda text, *more: (read.append(len(text)), plain(text, *more))[1])
    text = ";\n".join(f"NAME q{number}: PATTERN SEQ(A, B+)" for number in range(200))
    assert len(parse_queries(text)) == 200
    assert sum(read) <= len(text)


def test_errors_of_named_queries_point_into_the_whole_text() -> None:
    text = "NAME a: PATTERN A;\n-- and\nNAME b: PATTERN A\n  WHERE A.x >;"
    with pytest.raises(ParseError, match=r"line 4:   WHERE A\.x >;\n +\^") as caught:
        parse_queries(text)
    assert caught.value.text == text
    assert caught.value.span == (text.rindex(";"), text.rindex(";") + 1)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_comment_ends_with_its_line(end: str) -> None:
    assert len(parse(f"PATTERN A -- not WHERE{end}WHERE A.x > 1 -- 2{end}AND A.y > 2").where) == 2
    with pytest.raises(ParseError, match=r"line 3:   AND !\n {17}\^\n"):
        parse(f"PATTERN A{end}WHERE A.x > 1 -- and{end}  AND !{end}")


@pytest.mark.parametrize("index", ["²", "i²", "½", "٣", "1 2", "i 1", "i-2", "+", "i-²", "9" * 5000, "-3", "- 3"])
def test_what_is_no_index(index: str) -> None:
    with pytest.raises(ParseError):
        parse(f"PATTERN A+ WHERE A[{index}].x > 1")


@pytest.mark.parametrize(
    ("index", "role"),
    [("", Role.EACH), (" größe ", Role.EACH), ("i - 1", Role.PREV), ("+ 1", Role.NEXT), (" 12 ", Role.NTH)],
)
def test_what_is_an_index(index: str, role: Role) -> None:
    [predicate] = parse(f"PATTERN A+ WHERE A[{index}].x > 1").where
    assert predicate.left.role is role  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["WHERE A.x > ٣", "WITHIN ٣ minutes", "WITHIN 1٣", "WHERE A.x > 1٣"])
def test_digits_are_those_of_ascii(text: str) -> None:
    with pytest.raises(ParseError):
        parse(f"PATTERN A+ {text}")


@pytest.mark.parametrize("text", ["\ud800", "PATTERN A WHERE A.x = '\udfff' 1", "PATTERN `\ud800`{2,1}"])
def test_errors_can_be_printed(text: str) -> None:
    with pytest.raises(CetdslError, match=r"\\ud") as refused:
        parse(text)
    assert str(refused.value).encode()
