"""The examples on the pages of the documentation give what is printed there."""

from __future__ import annotations

import doctest
import random
import runpy
from importlib import import_module
from pathlib import Path

import pyparsing
import pytest

from cetdsl.errors import ParseError
from cetdsl.rows.clause import parse_clause

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.rst") if "_build" not in page.parts and ">>> " in page.read_text("utf-8"))
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def names(spark: object) -> dict[str, object]:
    """What every page's examples may use: the lines that the pages say they begin with."""
    setup = (DOCS / "example_setup.py").read_text("utf-8")
    # The session of the tests, whatever its kind, stands in for the one that a reader would start.
    lines = [line for line in setup.splitlines() if "SparkSession" not in line]
    known: dict[str, object] = {"spark": spark}
    exec("\n".join(lines), known)
    return known


def test_the_picture_of_the_readme_is_as_the_code_draws_it() -> None:
    drawn = runpy.run_path(str(DOCS / "_ext" / "readme_picture.py"))
    assert drawn["PATH"].read_text("utf-8") == drawn["rising_prices"]()


@pytest.mark.classic  # the pages show its exceptions
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS).with_suffix("")))
def test_examples_of_page(page: Path, spark: object) -> None:
    examples = doctest.DocTestParser().get_doctest(page.read_text("utf-8"), names(spark), page.name, str(page), 0)
    failures: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    runner.run(examples, out=failures.append, clear_globs=False)
    assert not failures, "".join(failures)


#: A clause with everything, by tokens.
WHOLE_CLAUSE = """PARTITION BY|a|,|b|ORDER BY|c|DESC|NULLS LAST|,|d|MEASURES|x + 1|AS|y|,|LAST(A.x)|AS|z|
ALL ROWS PER MATCH|OMIT EMPTY MATCHES|AFTER MATCH SKIP|TO|LAST|B|
PATTERN|(|^|A|(|B|*|?|C|)|{|2|,|}|PERMUTE|(|A|,|B|)|{-|C|-}|$|)|
WITHIN|INTERVAL|'1' HOUR|SUBSET|u|=|(|A|,|B|)|DEFINE|A|AS|x > 1|,|B|AS|x < 2""".replace("\n", "").split("|")


def test_the_clause_is_drawn_as_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    grammar = import_module("clause_grammar").clause_grammar()

    def is_drawn(text: str) -> bool:
        try:
            grammar.parse_string(text, parse_all=True)
        except pyparsing.ParseException:
            return False
        return True

    def is_read(text: str) -> bool:
        try:
            parse_clause(text)
        except ParseError:
            return False
        return True

    # What stands in an expression, or in a length, is not looked at when the clause is read.
    opaque = {*range(WHOLE_CLAUSE.index("MEASURES"), WHOLE_CLAUSE.index("ALL ROWS PER MATCH"))}
    opaque |= {*range(WHOLE_CLAUSE.index("WITHIN"), WHOLE_CLAUSE.index("SUBSET") + 1)}
    places = [place for place in range(WHOLE_CLAUSE.index("DEFINE")) if place not in opaque]
    chance, seen = random.Random(1), set()
    for _ in range(800):
        left_out = set(chance.sample(places, chance.choice((0, 1, 1, 2, 4))))
        text = " ".join(token for place, token in enumerate(WHOLE_CLAUSE) if place not in left_out)
        seen.add(is_read(text))
        assert is_drawn(text) == is_read(text), text
    assert seen == {True, False}
