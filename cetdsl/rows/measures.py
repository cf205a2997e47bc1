"""Reads measures: each reference to rows of the match becomes a *slot*, a value that the matcher computes."""

from __future__ import annotations

from cetdsl.ir.rows import NUMBER, ROW
from cetdsl.rows.nodes import Name, Output
from cetdsl.rows.references import ExpressionReader, navigated
from cetdsl.rows.resolved import Value, Wanted, column
from cetdsl.rows.words import LOGICAL, PHYSICAL


class MeasureReader(ExpressionReader):
    """Reads a measure, with a slot for every reference to rows of the match."""

    def reference(self, name: Name | None, number: int, span: tuple[int, int]) -> str:
        value = Value(column(number))
        return self.scope.slot(Wanted(ROW, self._members(name), self._is_running(), value, span=span))

    def _is_running(self, word: str = "") -> bool:
        return word != "FINAL" and self.scope.clause.output is not Output.ONE_ROW

    def call(self, begin: int) -> tuple[str, int]:
        prefix = self._upper(begin) if self._upper(begin) in ("RUNNING", "FINAL") else ""
        place = begin + bool(prefix)
        token, word = self.tokens[place], self._upper(place)
        self._require_call(place)
        if prefix and word in ("PREV", "NEXT", "CLASSIFIER", "MATCH_NUMBER"):
            hint = f"write {prefix} before FIRST, LAST or an aggregate"
            self._fail(f"{prefix} cannot stand before {token.text}", hint, self.tokens[begin])
        running = self._is_running(prefix)
        if word == "MATCH_NUMBER":
            return self.scope.slot(Wanted(NUMBER)), self._behind_match_number(place)
        if word == "CLASSIFIER":
            name, behind = self._classified(place)
            return self.scope.slot(Wanted(ROW, self._members(name), running)), behind
        if word in PHYSICAL or word in LOGICAL:
            return self._navigation(place, running)
        return self._aggregate(place, running)

    def _navigation(self, place: int, running: bool) -> tuple[str, int]:
        move, logical, arguments, behind = navigated(self, place)
        begin, end = arguments[0]
        first, offset = False, 0
        call = self.tokens[place]
        if logical is not None:
            call = self.tokens[logical]
            if logical != place:
                running = self._is_running(self._upper(logical - 1))
            first = call.upper == "FIRST"
            inner, _ = self._arguments(logical)
            offset = self._offset(logical, inner, 0)
            begin, end = inner[0]
        value, name = self._inner(begin, end, call, move)
        moved = move if value is None else 0
        span = (self.tokens[place].start, self.tokens[behind - 1].end)
        wanted = Wanted(ROW, self._members(name), running, value, first, offset, move=moved, span=span)
        return self.scope.slot(wanted), behind

    def _aggregate(self, place: int, running: bool) -> tuple[str, int]:
        found = self._aggregated(place)
        span = (self.tokens[place].start, self.tokens[found.behind - 1].end)
        members = self._members(found.name)
        wanted = Wanted(found.kind, members, running, found.value, distinct=found.distinct, span=span)
        return self.scope.slot(wanted), found.behind
