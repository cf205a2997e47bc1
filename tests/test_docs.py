"""The examples on the pages of the documentation give what is printed there."""

from __future__ import annotations

import doctest
import runpy
from pathlib import Path

import pytest

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
