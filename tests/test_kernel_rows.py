"""Matches of row patterns, found by the kernels, are those of the reference."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest
import rows_reference as reference
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cetdsl.errors import CountOverflow, EngineError, NullTime, UnsupportedQuery
from cetdsl.ir.rows import (
    COUNT,
    COUNTED,
    EQUAL,
    GREATEST,
    IS_NULL,
    LABEL,
    LEAST,
    LIST,
    NEITHER,
    NOWHERE,
    NUMBER,
    OMIT_EMPTY,
    ONE_ROW,
    PAST_LAST,
    ROW,
    ROWS,
    SHOW_EMPTY,
    SKIPS,
    SUM,
    UNMATCHED,
    Arrows,
    Dependent,
    MatchSpec,
    Slot,
)
from cetdsl.kernels.rows.stream import match_stream
from cetdsl.kernels.rows.walk import Effort
from cetdsl.rows.automaton import MOST_POSITIONS, automaton_of
from cetdsl.rows.clause import parse_clause
from cetdsl.rows.nodes import (
    Alternation,
    Anchor,
    Concatenation,
    Exclusion,
    Permutation,
    Repetition,
    RowPattern,
    Skip,
    SkipTo,
    Variable,
)

NAMES = ("A", "B", "C")
#: The columns of the rows that the kernel reads, without words of tests.
KEY, WORD, ROW_NUMBER, TIME, ROW_ID, VALUE, WHOLE, TEXT, TRUTH = range(9)


def patterns() -> st.SearchStrategy[RowPattern]:
    """Patterns over three variables, with everything that a pattern may have."""
    rows = st.sampled_from(NAMES).map(Variable)
    leaves = st.one_of(rows, rows, rows, rows, st.just(Concatenation(())), st.booleans().map(Anchor))

    def around(inner: st.SearchStrategy[RowPattern]) -> st.SearchStrategy[RowPattern]:
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        low, more = st.integers(0, 2), st.one_of(st.none(), st.integers(0, 2))
        repetitions = st.builds(
            lambda body, least, extra, greedy: Repetition(
                body, least, None if extra is None else least + extra, greedy
            ),
            inner,
            low,
            more,
            st.booleans(),
        )
        return st.one_of(
            several.map(Concatenation),
            several.map(Alternation),
            several.map(Concatenation),
            repetitions,
            repetitions,
            several.map(Permutation),
            inner.map(Exclusion),
        )

    return st.recursive(leaves, around, max_leaves=6)


def spec_of(pattern: RowPattern, **more: Any) -> MatchSpec:
    """What the kernel is told of a pattern; all variables have tests."""
    automaton = automaton_of(pattern)
    arrows = Arrows(
        tuple(map(NAMES.index, automaton.variable)),
        automaton.excluded,
        automaton.first,
        automaton.first_of_partition,
        automaton.follow,
        automaton.ends,
        NAMES,
        (0, 1, 2),
    )
    usual: dict[str, Any] = {
        "keys": ("key",),
        "words": (WORD,),
        "arrows": arrows,
        "output": SHOW_EMPTY,
        "skip": SKIPS["PAST LAST ROW"],
        "skip_members": (True,) * 3,
        "shown": (KEY, ROW_ID),
        "slots": (Slot(NUMBER), Slot(ROW, (True,) * 3, True)),
        "number": ROW_NUMBER,
    }
    return MatchSpec(**(usual | more))


#: A condition of every variable that always holds, but has the kernel search for matches.
ALWAYS = Dependent(
    (),
    (),
    (),
    ((True,) * 3,),
    (),
    (),
    ((ROWS, 0, -1),),
    (((COUNTED, 0, -1, -1), (IS_NULL, -1, -1, -1), (NEITHER, -1, -1, -1)),) * 3,
)
HOW = st.sampled_from([None, ALWAYS])


@attrs.frozen
class Partition:
    """The bits of the tests that hold of each row, and values for measures; None is NULL."""

    tests: tuple[int, ...]
    times: tuple[int, ...] = ()
    values: tuple[float | None, ...] = ()

    def holds(self, name: str, row: int, start: int, bound: reference.Bound) -> bool:
        return bool(self.tests[row] >> NAMES.index(name) & 1)


def batches(partitions: list[Partition], size: int) -> Iterator[pa.RecordBatch]:
    """The rows of partitions, so many in each batch."""
    rows = [
        (key, tests, row + 1, (partition.times or range(99))[row], row, (partition.values or [None] * 99)[row])
        for key, partition in enumerate(partitions)
        for row, tests in enumerate(partition.tests)
    ]
    for begin in range(0, len(rows), size):
        keys, tests, numbers, times, ids, values = map(list, zip(*rows[begin : begin + size]))
        columns = [pa.array(each, pa.int64()) for each in (keys, tests, numbers, times, ids)]
        columns += [
            pa.array(values, pa.float64()),
            pa.array([None if value is None else int(value) for value in values], pa.int64()),
            pa.array([None if value is None else f"t{value}" for value in values], pa.string()),
            pa.array([value is not None for value in values], pa.bool_()),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=[f"c{n}" for n in range(len(columns))])


def answer_of(
    spec: MatchSpec, partitions: list[Partition], size: int, chunk_rows: int, patience: int = 0
) -> list[tuple[Any, ...]]:
    """The rows of the kernel's answer; what leads to no match is remembered from so many failures on."""
    rows: list[tuple[Any, ...]] = []
    for columns in match_stream(spec, batches(partitions, size), chunk_rows, Effort(patience, 1 << 20)):
        rows += zip(*(column.to_pylist() for column in columns))
    return rows


def few_ways(pattern: RowPattern, partition: Partition) -> bool:
    """Whether the reference ends soon."""
    rows = len(partition.tests)
    everything = (reference.ways(pattern, rows, row, (), partition.holds) for row in range(rows))
    return sum(len(list(islice(ways, 3000))) for ways in everything) < 3000


#: Few of each pattern: what is to be tried is the patterns, 2,000 of them in all.
PARTITIONS = st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=7), min_size=4, max_size=4)
CUTS = st.tuples(st.integers(1, 9), st.integers(1, 20), st.sampled_from([0, 3, 1 << 20]))
OUTPUTS = st.sampled_from([ONE_ROW, SHOW_EMPTY, OMIT_EMPTY, UNMATCHED])


@settings(max_examples=780, deadline=None)
@given(patterns(), PARTITIONS, OUTPUTS, st.sampled_from([SkipTo.PAST_LAST, SkipTo.NEXT_ROW]), CUTS, HOW)
def test_matches_are_those_of_the_reference(
    pattern: RowPattern,
    tests: list[list[int]],
    output: str,
    to: SkipTo,
    cuts: tuple[int, int, int],
    dependent: Dependent | None,
) -> None:
    partitions = [Partition(tuple(each)) for each in tests]
    assume(all(few_ways(pattern, partition) for partition in partitions))
    expected = []
    for key, partition in enumerate(partitions):
        found = list(reference.matches(pattern, len(partition.tests), partition.holds, Skip(to)))
        for shown in reference.shown_rows(found, output):
            label = shown.match.bound[shown.seen - 1][0] if shown.seen and shown.match else None
            expected.append((key, shown.row, shown.match and shown.match.number, label))
    spec = spec_of(pattern, output=output, skip=SKIPS[to.value], dependent=dependent)
    assert answer_of(spec, partitions, *cuts) == expected


@settings(max_examples=240, deadline=None)
@given(patterns(), PARTITIONS, st.sampled_from([SkipTo.FIRST, SkipTo.LAST]), st.sampled_from(["A", "B", "U"]), CUTS)
def test_skipping_to_a_variable_goes_where_the_reference_goes(
    pattern: RowPattern, tests: list[list[int]], to: SkipTo, name: str, cuts: tuple[int, int, int]
) -> None:
    subsets = {"U": ("B", "C")}
    wanted = subsets.get(name, (name,))
    partitions = [Partition(tuple(each)) for each in tests]
    assume(all(few_ways(pattern, partition) for partition in partitions))
    expected, fails = [], None
    for key, partition in enumerate(partitions):
        try:
            for match in reference.matches(pattern, len(partition.tests), partition.holds, Skip(to, name), subsets):
                if isinstance(match, reference.Match):
                    expected.append((key, match.start, match.number, match.bound[-1][0] if match.bound else None))
        except reference.SkipFails as error:
            fails = str(error)
            break
    members = tuple(each in wanted for each in NAMES)
    spec = spec_of(pattern, output=ONE_ROW, skip=SKIPS[to.value], skip_members=members)
    if fails is None:
        assert answer_of(spec, partitions, *cuts) == expected
    else:
        with pytest.raises(EngineError, match="no row to go to" if fails == "no row" else "first row of match"):
            answer_of(spec, partitions, *cuts)


@settings(max_examples=380, deadline=None)
@given(
    patterns(),
    st.lists(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3)), min_size=1, max_size=7), min_size=4, max_size=4),
    st.integers(1, 6),
    st.booleans(),
    CUTS,
    HOW,
)
def test_matches_within_a_span_are_those_of_the_reference(
    pattern: RowPattern,
    rows: list[list[tuple[int, int]]],
    span: int,
    falling: bool,
    cuts: tuple[int, int, int],
    dependent: Dependent | None,
) -> None:
    partitions = []
    for each in rows:
        times = np.cumsum([step for _, step in each]) * (-1 if falling else 1)
        partitions.append(Partition(tuple(tests for tests, _ in each), tuple(times.tolist())))
    assume(all(few_ways(pattern, partition) for partition in partitions))
    expected = []
    for key, partition in enumerate(partitions):

        def short(start: int, end: int, times: tuple[int, ...] = partition.times) -> bool:
            return abs(times[end] - times[start]) <= span

        for match in reference.matches(pattern, len(partition.tests), partition.holds, longest=short):
            if isinstance(match, reference.Match):
                expected.append((key, match.start, match.number, match.bound[-1][0] if match.bound else None))
    spec = spec_of(pattern, output=ONE_ROW, time=TIME, span=span, descending=falling, dependent=dependent)
    assert answer_of(spec, partitions, *cuts) == expected


#: Whole matches bind as many rows to A as to B.
BALANCED = Dependent(
    *((), (), (), ((True, False, False), (False, True, False)), (), (), ((ROWS, 0, -1), (ROWS, 1, -1))),
    ((),) * 3,
    ((COUNTED, 0, -1, -1), (COUNTED, 1, -1, -1), (EQUAL, -1, -1, -1)),
)


@settings(max_examples=300, deadline=None)
@given(
    patterns(), PARTITIONS, CUTS, st.sampled_from([None, ALWAYS, BALANCED]), st.booleans(), st.booleans(), st.booleans()
)
def test_longest_and_first_matches_and_those_judged_as_a_whole_are_those_of_the_reference(
    pattern: RowPattern,
    tests: list[list[int]],
    cuts: tuple[int, int, int],
    dependent: Dependent | None,
    longest: bool,
    first: bool,
    brief: bool,
) -> None:
    partitions = [Partition(tuple(each)) for each in tests]
    assume(all(few_ways(pattern, partition) for partition in partitions))
    expected = []
    for key, partition in enumerate(partitions):
        found = reference.matches(
            pattern,
            len(partition.tests),
            partition.holds,
            longest=lambda start, end: not brief or end - start < 3,
            judge=lambda bound: dependent is not BALANCED or balanced(bound),
            choose=lambda ways: max(ways, key=len, default=None) if longest else next(ways, None),
        )
        matches = [match for match in found if isinstance(match, reference.Match)]
        for match in matches[:1] if first else matches:
            expected.append((key, match.start, match.number, [name for name, _ in match.bound]))
    spec = spec_of(pattern, output=ONE_ROW, slots=(Slot(NUMBER), Slot(LIST, (True,) * 3)), longest=longest)
    spec = attrs.evolve(spec, dependent=dependent, skip=NOWHERE if first else PAST_LAST)
    if brief:
        spec = attrs.evolve(spec, time=TIME, span=2)
    assert answer_of(spec, partitions, *cuts) == expected


def balanced(bound: reference.Bound) -> bool:
    names = [name for name, _ in bound]
    return names.count("A") == names.count("B")


SLOTS = st.builds(
    Slot,
    st.sampled_from([ROW, COUNT, SUM, LEAST, GREATEST, LIST]),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.booleans(),
    st.sampled_from([VALUE, WHOLE, TEXT, LABEL]),
    st.booleans(),
    st.integers(0, 2),
)


def value_of(slot: Slot, shown: reference.Shown, partition: Partition) -> object:
    """A slot by its definition."""
    if shown.match is None:
        return None
    rows = reference.bound_rows(shown, [name for name, asked in zip(NAMES, slot.members) if asked], slot.running)
    labels = {shown.match.start + place: name for place, (name, _) in enumerate(shown.match.bound)}
    convert: Callable[[float], object] = {WHOLE: int, TEXT: lambda value: f"t{value}"}.get(slot.column, float)

    def value(row: int) -> Any:
        if slot.column == LABEL:
            return labels[row]
        return None if partition.values[row] is None else convert(partition.values[row])

    if slot.kind == COUNT:
        return len(rows) if slot.column == LABEL else sum(partition.values[row] is not None for row in rows)
    if slot.kind == ROW:
        if len(rows) <= slot.offset:
            return None
        return value(rows[slot.offset] if slot.first else rows[-1 - slot.offset])
    present = [value(row) for row in rows if value(row) is not None]
    if slot.kind == LIST:
        return present
    if not present:
        return None
    return {SUM: sum, LEAST: min, GREATEST: max}[slot.kind](present)


@settings(max_examples=300, deadline=None)
@given(
    patterns(),
    st.lists(
        st.lists(st.tuples(st.integers(0, 7), st.none() | st.integers(-3, 3)), min_size=1, max_size=6),
        min_size=3,
        max_size=3,
    ),
    OUTPUTS,
    st.lists(SLOTS, min_size=4, max_size=4),
    CUTS,
)
def test_slots_are_those_of_the_reference(
    pattern: RowPattern,
    rows: list[list[tuple[int, int | None]]],
    output: str,
    slots: list[Slot],
    cuts: tuple[int, int, int],
) -> None:
    partitions = [Partition(tuple(tests for tests, _ in each), (), tuple(value for _, value in each)) for each in rows]
    assume(all(few_ways(pattern, partition) for partition in partitions))
    asked = []
    for slot in slots:
        if slot.kind == COUNT and slot.column != LABEL:
            slot = attrs.evolve(slot, column=TRUTH)
        elif slot.kind in (SUM, LEAST, GREATEST) and slot.column not in (VALUE, WHOLE):
            slot = attrs.evolve(slot, column=VALUE)
        asked.append(slot)
    expected = [
        (key, *(value_of(slot, shown, partition) for slot in asked))
        for key, partition in enumerate(partitions)
        for shown in reference.shown_rows(
            list(reference.matches(pattern, len(partition.tests), partition.holds)), output
        )
    ]
    spec = spec_of(pattern, output=output, shown=(KEY,), slots=tuple(asked))
    assert answer_of(spec, partitions, *cuts) == expected


def pattern_of(text: str) -> RowPattern:
    return parse_clause(f"PATTERN ({text})").pattern


@pytest.mark.parametrize(
    ("text", "tests", "expected"),
    [
        # The alternatives of a repetition are tried before its end: AA, AB, A, BA, BB, B.
        ("(A | B){1,2}", "AB B", ["AB"]),
        # A repetition of no row, once it is enough, is the last one.
        ("(A??)* B", "AB B", ["B", "B"]),
        ("(A?){2,3}", "A A A B", ["AAA", ""]),
        ("(() | A)* B", "AB B", ["B", "B"]),
        ("(A | ())* B", "AB B", ["AB"]),
        ("PERMUTE(A, B, C)", "ABC ABC ABC", ["ABC"]),
        ("PERMUTE(C, B, A)", "ABC ABC ABC", ["CBA"]),
        ("^ A+", "A A B A", ["AA"]),
        ("A+ $", "A B A A", ["AA"]),
        ("^ $", "A", []),
    ],
)
def test_preferred_matches(text: str, tests: str, expected: list[str]) -> None:
    bits = tuple(sum(1 << NAMES.index(name) for name in row) for row in tests.split())
    slots = (Slot(LIST, (True,) * 3),)
    rows = answer_of(spec_of(pattern_of(text), output=ONE_ROW, shown=(), slots=slots), [Partition(bits)], 9, 9)
    assert ["".join(labels) for (labels,) in rows] == expected


@pytest.mark.parametrize("text", ["(A | B | A B)* C", "(A* B*)* C", "((A+)+)+ C", "(A?){40} A{40} C"])
def test_no_pattern_takes_exponential_time(text: str) -> None:
    """Without a C, each reading of the rows fails at their end."""
    spec = spec_of(pattern_of(text), output=ONE_ROW)
    answer_of(spec, [Partition((3,) * 9)], 9, 9)
    many = pa.table({"key": np.zeros(20_000, int), "word": np.full(20_000, 3), "id": np.arange(20_000)})
    spec = attrs.evolve(spec, number=-1, shown=(0, 2))
    started = time.monotonic()
    assert list(match_stream(spec, iter(many.to_batches()))) == []
    assert time.monotonic() - started < 5


def test_a_long_partition_is_not_held() -> None:
    """Of rows whose matches are short, no more than a chunk is kept."""
    held = []

    def stream() -> Iterator[pa.RecordBatch]:
        for begin in range(0, 400_000, 10_000):
            number = np.arange(begin, begin + 10_000)
            held.append(pa.total_allocated_bytes())
            columns = {"key": np.zeros(10_000, int), "word": 1 << number % 2, "id": number}
            yield pa.RecordBatch.from_pydict({name: pa.array(column) for name, column in columns.items()})

    spec = spec_of(pattern_of("A B"), number=-1, output=ONE_ROW, shown=(2,), slots=())
    assert sum(len(column) for (column,) in match_stream(spec, stream(), 20_000)) == 200_000
    assert max(held[10:]) <= 2 * max(held[:10])


def test_quantifiers_that_are_too_large_are_refused() -> None:
    assert len(automaton_of(pattern_of(f"A{{{MOST_POSITIONS}}}")).variable) == MOST_POSITIONS
    with pytest.raises(UnsupportedQuery, match="more than 4096 places"):
        automaton_of(pattern_of("(A{100}){100}"))
    with pytest.raises(UnsupportedQuery, match="more than 4096 places"):
        automaton_of(pattern_of("A{100000000}"))
    with pytest.raises(UnsupportedQuery, match="PERMUTE of 8 parts has 40320 orders"):
        automaton_of(pattern_of("PERMUTE(A, B, C, A, B, C, A, B)"))


def test_many_positions_and_many_tests_take_several_words() -> None:
    spec = spec_of(pattern_of("A{70} B{70,80} C"), output=ONE_ROW, slots=(Slot(COUNT, (False, True, False)),))
    word = np.array([1] * 70 + [2] * 75 + [4])
    rows = pa.table({"key": np.zeros(146, int), "word": word, "id": np.arange(146)})
    answers = list(match_stream(attrs.evolve(spec, number=-1, shown=(2,)), iter(rows.to_batches())))
    assert [[column.to_pylist() for column in columns] for columns in answers] == [[[0], [75]]]


def test_errors_of_rows() -> None:
    numbered = spec_of(pattern_of("A"))
    rows = {"key": [1, 1], "word": [1, 1], "number": [1, 3], "time": [1, None], "id": [0, 1]}
    batch = pa.RecordBatch.from_pydict(rows)
    with pytest.raises(EngineError, match="did not arrive in their order"):
        list(match_stream(numbered, iter([batch])))
    timed = attrs.evolve(numbered, number=-1, time=3, time_name="ts", span=1)
    with pytest.raises(NullTime, match="'ts', which WITHIN goes by, is NULL"):
        list(match_stream(timed, iter([batch])))
    large = pa.RecordBatch.from_pydict({"key": [1, 1], "word": [1, 1], "value": [2**62, 2**62]})
    summed = attrs.evolve(spec_of(pattern_of("A+")), number=-1, shown=(), slots=(Slot(SUM, (True,) * 3, False, 2),))
    with pytest.raises(CountOverflow, match="does not fit BIGINT"):
        list(match_stream(summed, iter([large])))
