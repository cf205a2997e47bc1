"""Streams whose rates and selectivities are known, the patterns that are asked of them, and bars out of a file.

Two streams have the shapes of the data of Kolchinsky and Schuster, "Efficient Adaptive Detection of Complex Event
Patterns" (PVLDB 11(11), 2018): *skewed* and stable with few but extreme changes, as observations of traffic are, and
*even* with frequent small changes, as stock prices are. Random numbers are doubles of a seeded generator and nothing
else, so that they are the same everywhere.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Doubles = npt.NDArray[np.float64]

#: The type that stands under NOT, and its share of the events.
NEGATED, NEGATED_SHARE = "Z", 0.02
#: The numbers of events in a pattern, in the pattern sets of the paper.
SIZES = (3, 4, 5, 6, 7, 8)
#: What makes the ticks of a window (there is one event a tick): over the skewed stream the first times the square of a
#: pattern's size, as each further condition lets less through; over the even stream the second times the size; and
#: where a variable repeats the third times the size.
SKEWED_TICKS, EVEN_TICKS, KLEENE_TICKS = 10, 20, 12


def names_of(size: int) -> list[str]:
    """So many types of events."""
    return [f"T{number}" for number in range(size)]


def skewed(count: int, size: int) -> pa.Table:
    """A stream in which shares fall with the square of a type's rank; four times, types change ranks and attributes.

    At each change the rarest type suddenly becomes the most frequent one, and the ranks of the others are drawn anew.
    ``x`` and ``y`` are uniform in an interval of length 1 whose start, below 1/2, each type draws anew at each change.
    """
    random = np.random.default_rng(20_180_711 + size)
    share, shift = np.empty((count, size)), np.empty((count, size))
    borders = [count * part // 5 for part in range(6)]
    order = np.argsort(random.random(size))
    for begin, end in pairwise(borders):
        share[begin:end, order] = 1.0 / np.arange(1, size + 1) ** 2
        shift[begin:end] = random.random(size) / 2
        others = order[:-1]
        order = np.concatenate([order[-1:], others[np.argsort(random.random(size - 1))]])
    return _stream(share, shift, random)


def even(count: int, size: int) -> pa.Table:
    """A stream in which types are about equally frequent; 256 times their shares and attributes change a little.

    Logarithms of shares, and shifts of attributes, follow random walks that revert to their mean.
    """
    random = np.random.default_rng(20_180_712 + size)
    steps = 0.1 * (random.random((256, 2 * size)) - 0.5)
    walks = np.array(list(accumulate(steps, lambda at, step: 0.9 * at + step)))
    now = np.arange(count) * 256 // count
    return _stream(np.exp(walks[now, :size]), walks[now, size:], random)


def steady(count: int, weights: Sequence[float]) -> pa.Table:
    """A stream in which the shares of types are always as their weights; ``x`` and ``y`` are uniform from 0 to 1.

    ``key`` is a whole number from 0 to 99, in all streams.
    """
    random = np.random.default_rng(20_180_713)
    share = np.broadcast_to(np.array(weights, dtype=np.float64), (count, len(weights)))
    return _stream(share, np.zeros_like(share), random)


def _stream(share: Doubles, shift: Doubles, random: np.random.Generator) -> pa.Table:
    """Draws one event a tick; shares of types, and shifts of attributes, have a row for each event."""
    count, size = share.shape
    part = np.cumsum(share, axis=1) * ((1 - NEGATED_SHARE) / share.sum(axis=1))[:, None]
    kind = (random.random(count)[:, None] >= part).sum(axis=1)
    own = np.where(kind < size, shift[np.arange(count), np.minimum(kind, size - 1)], 0.0)
    return pa.table(
        {
            "time": np.arange(count),
            "type": pa.array([*names_of(size), NEGATED]).take(pa.array(kind)),
            "x": random.random(count) + own,
            "y": random.random(count) + own,
            "key": np.floor(100 * random.random(count)).astype(np.int64),
        }
    )


# ------------------------------------------------------------------------------------------------ pattern sets


def sequence(names: Sequence[str], columns: Sequence[str], within: int, kleene: int = -1, negated: bool = False) -> str:
    """SEQ in which each of the columns rises from event to event."""
    parts = [f"{name}{'+' if k == kleene else ''} v{k}" for k, name in enumerate(names)]
    if negated:
        parts.insert(1, f"NOT {NEGATED} z")
    inner = [f"v{kleene}.{column} < NEXT(v{kleene}).{column}" for column in columns if kleene >= 0]
    return _text(f"SEQ({', '.join(parts)})", [*_rising(len(names), columns), *inner], within)


def conjunction(names: Sequence[str], columns: Sequence[str], within: int) -> str:
    """AND in which each of the columns rises from event to event."""
    parts = [f"{name} v{k}" for k, name in enumerate(names)]
    return _text(f"AND({', '.join(parts)})", _rising(len(names), columns), within)


def disjunction(names: Sequence[str], columns: Sequence[str], within: int) -> str:
    """OR of three sequences of the same types in different orders, each with variables of its own."""
    size = len(names)
    sequences, conditions = [], []
    for branch in range(3):
        turned = [names[(k + branch * size // 3) % size] for k in range(size)]
        sequences.append(f"SEQ({', '.join(f'{name} v{branch}{k}' for k, name in enumerate(turned))})")
        conditions += _rising(size, columns, f"v{branch}")
    return _text(" OR ".join(sequences), conditions, within)


def _rising(size: int, columns: Sequence[str], variable: str = "v") -> list[str]:
    return [f"{variable}{k}.{column} < {variable}{k + 1}.{column}" for k in range(size - 1) for column in columns]


def _text(pattern: str, conditions: Sequence[str], within: int) -> str:
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"PATTERN {pattern}{where} WITHIN {within}"


#: The five sets of patterns: what makes a text, given the types of events, the columns that rise, and the window.
PATTERNS: dict[str, Callable[[Sequence[str], Sequence[str], int], str]] = {
    "sequence": sequence,
    "negation": partial(sequence, negated=True),
    "conjunction": conjunction,
    "Kleene": partial(sequence, kleene=1),
    "disjunction": disjunction,
}


# -------------------------------------------------------------------------------------------------------- bars


def read_bars(path: Path) -> pa.Table:
    """Reads minute bars, in order of time.

    The first columns of the file, which has a line of headings, are ticker, minute (YYYYMMDDhhmm), and opening price.
    ``time`` is in minutes, ``open`` the price, and ``diff`` how much it is above that of the ticker's previous bar (0
    for the first).
    """
    with path.open(newline="", encoding="utf-8") as file:
        rows = [(row[1], row[0], float(row[2])) for row in list(csv.reader(file))[1:]]
    rows.sort(key=lambda row: row[0])
    minutes = np.array([f"{m[:4]}-{m[4:6]}-{m[6:8]}T{m[8:10]}:{m[10:12]}" for m, _, _ in rows], dtype="datetime64[m]")
    before: dict[str, float] = {}
    diff = []
    for _, ticker, price in rows:
        diff.append(price - before.get(ticker, price))
        before[ticker] = price
    return pa.table(
        {
            "time": minutes.astype(np.int64) - int(minutes[0].astype(np.int64)),
            "type": [ticker for _, ticker, _ in rows],
            "open": [price for *_, price in rows],
            "diff": diff,
        }
    )


def most_frequent(bars: pa.Table, count: int) -> list[str]:
    """The tickers that have most bars, of equally many the first by name."""
    counted = bars.column("type").value_counts().to_pylist()
    ranked = sorted(counted, key=lambda one: (-one["counts"], one["values"]))
    return [one["values"] for one in ranked[:count]]


def renamed(bars: pa.Table, ticker: str, name: str) -> pa.Table:
    """The bars with another name for a ticker."""
    kinds = [name if kind == ticker else kind for kind in bars.column("type").to_pylist()]
    return bars.set_column(bars.schema.get_field_index("type"), "type", pa.array(kinds))


def repeated(bars: pa.Table, tickers: Sequence[str], count: int, apart: int) -> pa.Table:
    """``count`` bars of some tickers: theirs are repeated, each time later, with ``apart`` minutes between."""
    own = bars.filter(pa.array([ticker in tickers for ticker in bars.column("type").to_pylist()]))
    times = -(-count // len(own))
    span = int(own.column("time")[-1].as_py()) - int(own.column("time")[0].as_py()) + apart
    time = np.add.outer(span * np.arange(times), own.column("time").to_numpy()).ravel()
    whole = pa.concat_tables([own] * times).set_column(0, "time", pa.array(time))
    return whole.slice(0, count).combine_chunks()
