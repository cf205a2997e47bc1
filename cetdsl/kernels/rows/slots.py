"""Computes the inputs of measures for every row of every match: rows, counts, sums and extremes up to it.

A *label* is a bound row of a match; labels are numbered over all matches of a chunk (``Found.label``). Most functions
take the matches of a chunk and the positions whose rows count (``members``), and return a value for each label, over
the rows of the match up to it. So the value of a whole match is that at its last label.
"""

from __future__ import annotations

import numpy as np

from cetdsl.kernels._jit import jit
from cetdsl.kernels.rows.walk import Found
from cetdsl.kernels.vocabulary import Bools, Floats, Index, Ints, Places


@jit
def rows_of_labels(found: Found, count: Index) -> Ints:
    """Returns the row of each label."""
    start, label = found.start, found.label
    rows = np.empty(label[count], dtype=np.int64)
    for match in range(count):
        first, low = start[match], label[match]
        for place in range(low, label[match + 1]):
            rows[place] = first + place - low
    return rows


@jit
def rows_to_show(found: Found, count: Index, excluded: Bools, show_empty: bool) -> tuple[Ints, Ints, Ints]:
    """Lists the rows that ALL ROWS PER MATCH shows; also returns the match of each, and its label (-1: none)."""
    start, number, label, position = found.start, found.number, found.label, found.position
    most = label[count] + count
    rows, matches, labels = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    many = 0
    for match in range(count):
        low, high = label[match], label[match + 1]
        if low == high and (show_empty or number[match] == 0):
            rows[many], matches[many], labels[many] = start[match], match, -1
            many += 1
        for place in range(low, high):
            if not excluded[position[place]]:
                rows[many], matches[many], labels[many] = start[match] + place - low, match, place
                many += 1
    return rows[:many], matches[:many], labels[:many]


@jit
def navigate(label: Ints, count: Index, position: Places, members: Bools, first: bool, offset: Index) -> Ints:
    """Returns the label to which FIRST or LAST refers, moved ``offset`` rows inwards; -1 where there is none."""
    answer = np.full(label[count], -1, dtype=np.int64)
    met = np.empty(label[count], dtype=np.int64)
    for match in range(count):
        many = 0
        for place in range(label[match], label[match + 1]):
            if members[position[place]]:
                met[many] = place
                many += 1
            if many > offset:
                answer[place] = met[offset] if first else met[many - 1 - offset]
    return answer


@jit
def navigate_to_end(label: Ints, count: Index, position: Places, members: Bools, first: bool, offset: Index) -> Ints:
    """Returns what :func:`navigate` returns at the last label of each match, but looks at no more rows than needed."""
    answer = np.full(count, -1, dtype=np.int64)
    for match in range(count):
        low, high = label[match], label[match + 1]
        left = offset
        for step in range(high - low):
            place = low + step if first else high - 1 - step
            if members[position[place]]:
                if left == 0:
                    answer[match] = place
                    break
                left -= 1
    return answer


@jit
def count_rows(label: Ints, count: Index, position: Places, members: Bools, rows: Ints, counted: Bools) -> Ints:
    """Counts the member rows for which ``counted`` is true."""
    answer = np.empty(label[count], dtype=np.int64)
    for match in range(count):
        many = 0
        for place in range(label[match], label[match + 1]):
            if members[position[place]] and counted[rows[place]]:
                many += 1
            answer[place] = many
    return answer


@jit
def sum_doubles(label: Ints, count: Index, position: Places, members: Bools, rows: Ints, values: Floats) -> Floats:
    """Adds up doubles; NULLs must come as 0."""
    answer = np.empty(label[count], dtype=np.float64)
    for match in range(count):
        total = 0.0
        for place in range(label[match], label[match + 1]):
            if members[position[place]]:
                total += values[rows[place]]
            answer[place] = total
    return answer


@jit
def sum_integers(
    label: Ints, count: Index, position: Places, members: Bools, rows: Ints, values: Ints
) -> tuple[Ints, bool]:
    """Adds up whole numbers; NULLs must come as 0. Also returns whether all sums fit 64 bits."""
    answer = np.empty(label[count], dtype=np.int64)
    for match in range(count):
        total = 0
        for place in range(label[match], label[match + 1]):
            if members[position[place]]:
                value = values[rows[place]]
                more = total + value
                # The sum overflows if both terms have the same sign, and the sum has the other one.
                if (total ^ more) & (value ^ more) < 0:
                    return answer, False
                total = more
            answer[place] = total
    return answer, True


@jit
def extremes(
    label: Ints, count: Index, position: Places, members: Bools, rows: Ints, codes: Ints, valid: Bools, greatest: bool
) -> Ints:
    """Returns the label of the least or greatest value; -1 where all values are NULL."""
    answer = np.empty(label[count], dtype=np.int64)
    for match in range(count):
        best = -1
        for place in range(label[match], label[match + 1]):
            row = rows[place]
            if members[position[place]] and valid[row]:
                if best < 0:
                    best = place
                elif greatest:
                    if codes[row] > codes[rows[best]]:
                        best = place
                elif codes[row] < codes[rows[best]]:
                    best = place
            answer[place] = best
    return answer


@jit
def list_labels(
    label: Ints, position: Places, members: Bools, rows: Ints, valid: Bools, matches: Ints, until: Ints
) -> tuple[Ints, Ints]:
    """Lists, for each shown row, the labels of its match up to ``until``, of member rows whose values are not NULL.

    Returns where the list of each row begins, with the end of the last list as one more entry, and the labels.
    """
    start = np.zeros(len(until) + 1, dtype=np.int64)
    for pass_ in range(2):
        listed = np.empty(start[-1] if pass_ else 0, dtype=np.int64)
        many = 0
        for shown in range(len(until)):
            for place in range(label[matches[shown]], until[shown] + 1):
                if members[position[place]] and valid[rows[place]]:
                    if pass_:
                        listed[many] = place
                    many += 1
            start[shown + 1] = many
    return start, listed
