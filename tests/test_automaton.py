"""Automata have the words of their patterns, each with its NOTs in the right gaps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import reference
from generators import random_case

import cetdsl as cet
from cetdsl.errors import UnsupportedQuery
from cetdsl.pattern.automaton import MAX_STATES, Automaton, build_automaton, intersect, minimise, restrict_count
from cetdsl.pattern.nodes import Not, Pattern
from cetdsl.pattern.properties import sides

#: Longer words are not compared.
LONGEST = 4
#: The variables of a word, and the NOTs in each of its gaps, the ones before and behind it included.
Word = tuple[tuple[str, ...], tuple[frozenset[Not], ...]]


def pattern_of(text: str) -> Pattern:
    return cet.parse("PATTERN " + text)._query().pattern


def words_of_pattern(todo: reference.Todo, length: int = LONGEST) -> Iterator[Word]:
    """All derivations of all words, as the reference reads the pattern."""
    for crossed in reference.finishes(todo):
        yield (), (crossed,)
    if length:
        for crossed, event, left in reference.steps(todo):
            for names, gaps in words_of_pattern(left, length - 1):
                yield (event.variable, *names), (crossed, *gaps)


def words_of(automaton: Automaton) -> dict[tuple[str, ...], tuple[frozenset[Not], ...]]:
    """All words, each with its only derivation."""
    final = dict(automaton.final)
    found: dict[tuple[str, ...], tuple[frozenset[Not], ...]] = {}

    def nodes(guards: frozenset[int]) -> frozenset[Not]:
        return frozenset(automaton.negations[guard] for guard in guards)

    def follow(state: int, names: tuple[str, ...], gaps: tuple[frozenset[Not], ...]) -> None:
        names = (*names, automaton.variables[state])
        if state in final:
            assert names not in found, "two paths spell one word"
            found[names] = (*gaps, nodes(final[state]))
        if len(names) < LONGEST:
            for transition in automaton.transitions:
                if transition.source == state:
                    follow(transition.target, names, (*gaps, nodes(transition.guards)))

    for state, guards in automaton.initial:
        follow(state, (), (nodes(guards),))
    return found


def check(pattern: Pattern) -> None:
    expected: dict[tuple[str, ...], set[tuple[frozenset[Not], ...]]] = {}
    for names, gaps in words_of_pattern((pattern,)):
        if names:
            expected.setdefault(names, set()).add(gaps)
    found = words_of(build_automaton(pattern))
    assert found.keys() == expected.keys()
    for names, gaps in found.items():
        assert gaps in expected[names]
        # Of several derivations, the one that any other one implies.
        assert all(weak <= strong for other in expected[names] for weak, strong in zip(gaps, other, strict=True))


@pytest.mark.parametrize(
    "pattern",
    [
        "A{2,4}",
        "A{0,3}",
        "A{2,}",
        "SEQ(A, B){1,3}",
        "SEQ(A?, B?){2,3}",
        "SEQ(A?, B?){2,}",
        "(A OR B?){1,2}",
        "SEQ(A, B{1,2}){0,2}",
        "SEQ((A AND B AND C), D)",
        "SEQ(A AND A, B)",
        "SEQ(A?, B?, A?, B?)",
        "SEQ(NOT N, A?){2,3}",
        "SEQ(A, SEQ(NOT N, B){1,3})",
        "SEQ(SEQ(A, NOT N){2,}, B)",
        "SEQ(A, NOT N, B?, NOT M, C?)",
        "(SEQ(A, NOT N, B) OR C){1,2}",
    ],
)
def test_words_of_chosen_patterns(pattern: str) -> None:
    check(pattern_of(pattern))


def test_ways_that_differ_in_their_nots_are_refused() -> None:
    with pytest.raises(UnsupportedQuery, match="two ways that differ in their NOTs"):
        build_automaton(pattern_of("SEQ(A?, NOT N){1,2}"))


def test_words_of_random_patterns() -> None:
    refused = 0
    for seed in range(300):
        for side in sides(random_case(seed).query.pattern):
            try:
                check(side)
            except UnsupportedQuery:
                refused += 1
    assert refused < 30


def test_minimal_automata() -> None:
    states = {"A{2,3} OR A{3,4}": 4, "SEQ(A, C) OR SEQ(B, C)": 3, "SEQ(A?, A?, A?)": 3, "(A OR B OR A)+": 2}
    for pattern, number in states.items():
        automaton = build_automaton(pattern_of(pattern))
        assert len(automaton.variables) == number
        assert minimise(automaton) == automaton


def test_restricted_and_common_words() -> None:
    both = build_automaton(pattern_of("SEQ(A, B?){1,2}"))
    twice = words_of(restrict_count(both, "A", 3, lambda times: times == 2))
    assert twice.keys() == {names for names in words_of(both) if names.count("A") == 2}
    left, right = (build_automaton(pattern_of(text)) for text in ("SEQ(A, B{1,3})", "SEQ(A?, B{2,4})"))
    assert words_of(intersect(left, right)).keys() == words_of(left).keys() & words_of(right).keys()


def test_bounded_repetitions_are_linear() -> None:
    automaton = build_automaton(pattern_of("SEQ(A, B){1,2000}"))
    assert len(automaton.variables) == 4000
    assert len(automaton.transitions) == 3999
    long = build_automaton(pattern_of(f"SEQ(A, B{{1,{MAX_STATES - 1}}})"))
    assert len(intersect(long, long).variables) == MAX_STATES
