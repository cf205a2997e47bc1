"""A slow and obvious reference for matches that are found one after another: it chooses among the reference's trends.

A match is a trend under the query's matching policy. Of the trends that begin at an event, the match is the one that is
preferred. To find it, the words of the pattern (sequences of variables) are written down in order of preferment by
walking the pattern's tree: earlier alternatives first, as many repetitions as there can be.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import reference

from cetdsl.pattern.nodes import And, Event, Or, Pattern, Repeat, Seq
from cetdsl.pattern.query import AfterMatch, Query

Word = tuple[str, ...]
#: Whether some match begins with a word.
Alive = Callable[[Word], bool]


def matches(query: Query, rows: Sequence[Any], tie_break: Sequence[str]) -> dict[reference.Key, list[reference.Trend]]:
    """The matches of each group, window and partition, in the order in which they are found.

    The tie break must order all events, so that the first event of a trend and its word determine the others.
    """
    stream = reference.Stream(rows, "t", tuple(tie_break), "type")
    trends = reference.trends(query, rows, tie_break=tie_break)
    answer: dict[reference.Key, list[reference.Trend]] = {}
    for key, members in reference._cells(query, stream, "error").items():
        order = sorted(members, key=stream._position)
        answer[key] = list(_search(query, order, trends.get(key, set())))
    return answer


def _search(query: Query, order: Sequence[int], trends: set[reference.Trend]) -> Iterator[reference.Trend]:
    place = 0
    while place < len(order):
        found = _chosen(query, {trend for trend in trends if trend[0][0] == order[place]})
        if found is None:
            place += 1
            continue
        yield found
        if query.selection.first:
            return
        place = _next_place(query.selection.after or AfterMatch(), found, place, order)


def _next_place(after: AfterMatch, found: reference.Trend, place: int, order: Sequence[int]) -> int:
    if after.to == "next_row":
        return place + 1
    if after.to == "past_last":
        return order.index(found[-1][0]) + 1
    bound = [event for event, variable in found if variable == after.variable]
    if not bound:
        raise LookupError("no row to go to")
    target = order.index(bound[0] if after.to == "to_first" else bound[-1])
    if target == place:
        raise LookupError("first row of match")
    return target


def _chosen(query: Query, trends: set[reference.Trend]) -> reference.Trend | None:
    by_word = {tuple(variable for _, variable in trend): trend for trend in trends}
    assert len(by_word) == len(trends), "a word binds different events"
    beginnings = {word[:length] for word in by_word for length in range(len(word) + 1)}
    preferred = [word for word in dict.fromkeys(words(query.pattern, (), beginnings.__contains__)) if word in by_word]
    if not preferred:
        assert not trends
        return None
    return by_word[max(preferred, key=len) if query.selection.longest else preferred[0]]


def words(pattern: Pattern, before: Word, alive: Alive) -> Iterator[Word]:
    """The words that begin with ``before`` and go on with a word of the pattern, the preferred first."""
    if isinstance(pattern, Event):
        word = (*before, pattern.variable)
        if alive(word):
            yield word
    elif isinstance(pattern, Seq):
        yield from _in_turn(pattern.parts, before, alive)
    elif isinstance(pattern, Or):
        for part in pattern.parts:
            yield from words(part, before, alive)
    elif isinstance(pattern, And):
        for order in itertools.permutations(pattern.parts):
            yield from _in_turn(order, before, alive)
    else:
        assert isinstance(pattern, Repeat), pattern
        yield from _again(pattern, 0, before, alive)


def _in_turn(parts: Sequence[Pattern], before: Word, alive: Alive) -> Iterator[Word]:
    if not parts:
        yield before
        return
    for word in words(parts[0], before, alive):
        yield from _in_turn(parts[1:], word, alive)


def _again(pattern: Repeat, done: int, before: Word, alive: Alive) -> Iterator[Word]:
    """An iteration that binds nothing counts while more are required; otherwise it ends the repetition, as in Perl."""
    if pattern.at_most is None or done < pattern.at_most:
        for word in words(pattern.part, before, alive):
            if word == before and done >= pattern.at_least:
                yield before
            else:
                yield from _again(pattern, done + 1, word, alive)
    if done >= pattern.at_least:
        yield before
