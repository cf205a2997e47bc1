"""Races of windows that overlap much, and of one long key."""

from __future__ import annotations

from events import Events
from measure import shuffled, take_turns
from pyspark.sql import functions as F
from races import AFTER_A, RISING, B, Result, Verdict, agree, child, count, count_by, decide, discard, floor, result

import cetdsl as cet
from cetdsl.planning.strategies.kernel import kernel
from cetdsl.planning.strategies.panes import any_panes

TUMBLE, SLIDE = (AFTER_A.within("1 day", slide=slide) for slide in ("1 day", "10 minutes"))
#: Events of one key without windows.
ORDERED = 10_000_000
EXTREMES = {"low": cet.min(B.price), "high": cet.max(B.price)}


def overlap(events: Events, runs: int) -> Result:
    df = events.month(10)
    actions = {
        f"{name}, {number}": lambda query=query, number=number: discard(count(df, query, number))
        for number in ("log2", "string")
        for name, query in (("tumbling", TUMBLE), ("sliding", SLIDE))
    }
    for name, query in (("tumbling", TUMBLE), ("sliding", SLIDE)):
        actions[f"{name}, MIN and MAX"] = lambda query=query: discard(
            cet.pattern(df, query, time="time").aggregate(**EXTREMES)
        )
    measured = take_turns(actions, runs)
    about = "144 overlapping windows, MIN and MAX, against tumbling"
    verdicts = [Verdict(about, "sliding, MIN and MAX", "tumbling, MIN and MAX", 3)]
    for number in ("log2", "string"):
        one, other = (decide(df, query, number).strategy for query in (SLIDE, TUMBLE))
        about = f"144 overlapping windows, {one}, against tumbling, {other}, {number}"
        limit = 2 if number == "log2" else None
        verdicts.append(Verdict(about, f"sliding, {number}", f"tumbling, {number}", limit))
    check = agree({"kernel": count_by(df, TUMBLE, "log2", kernel), "panes": count_by(df, TUMBLE, "log2", any_panes)})
    return result(
        "5 million events, 10 keys, 30 days; windows of a day, one every 10 minutes", measured, verdicts, **check
    )


def long_key(events: Events, runs: int) -> Result:
    events.month(1)
    measured = {f"{number} cores": child("alone", events, runs, number) for number in (1, 2)}
    verdicts = [Verdict("one key on two cores, against one core", "2 cores", "1 cores", round(1 / 1.6, 3))]
    return result(
        "5 million events, one key, 30 days; windows of a day, one every 10 minutes; log2", measured, verdicts
    )


def halves(events: Events, runs: int) -> Result:
    """Counts whose predicate has an order, over one key without windows: by two threads, and by one."""
    events.one_key(ORDERED)
    measured = {f"{number} cores": child("ordered_alone", events, runs, number) for number in (1, 2)}
    about = "one key, B+ with increasing price, on two cores, against one core"
    verdicts = [Verdict(about, "2 cores", "1 cores", round(1 / 1.7, 3))]
    return result(f"{ORDERED:,} events, one key, no windows; log2", measured, verdicts)


def ordered_alone(events: Events, runs: int) -> Result:
    df = events.one_key(ORDERED)
    return take_turns({"alone": lambda: discard(count(df, RISING, "log2"))}, runs)["alone"]


def alone(events: Events, runs: int) -> Result:
    df = events.month(1)
    return take_turns({"alone": lambda: discard(count(df, SLIDE, "log2"))}, runs)["alone"]


def in_order(events: Events, runs: int) -> Result:
    """Counts where each file is one stretch of time, and where the query says so although no file is."""
    sets = {"files in order": (events.many_keys(), 0.6), "in no order": (events.scattered(), None)}
    actions, verdicts, rows = {}, [], {}
    for place, (df, limit) in sets.items():
        actions[f"floor, {place}"] = floor(df, (F.col("type") == "B").cast("double"))
        answers = {
            "as planned": lambda df=df: count(df, AFTER_A, "double"),
            "sort='input'": lambda df=df: count(df, AFTER_A, "double", "input"),
        }
        for how, answer in answers.items():
            name = f"SEQ(A, B+), {place}, {how}"
            actions[name] = lambda answer=answer: discard(answer())
            verdicts.append(Verdict(name, name, f"floor, {place}", limit if "input" in how else None))
        rows = agree({how: answer() for how, answer in answers.items()})
    measured = take_turns(actions, runs)
    planned, read = (
        shuffled(events.spark, actions[f"SEQ(A, B+), files in order, {how}"]) for how in ("as planned", "sort='input'")
    )
    notes = [f"Of files in order {read:.1f} MB are shuffled, and as planned {planned:.1f} MB."]
    return result("5 million events, 10,000 keys, double", measured, verdicts, notes=notes, **rows)


def lone_group(events: Events, runs: int) -> Result:
    """Counts over all events as one group: as planned, by the tasks that read them, by ranges of time, in one task."""
    df, query = events.month(1), cet.parse("PATTERN SEQ(A, B+)")
    ways = {
        "planned": lambda: count(df, query, "log2"),
        "as read": lambda: count(df, query, "log2", "input"),
        "ranges": lambda: count_by(df, query, "log2", any_panes),
        "one task": lambda: count_by(df, query, "log2", kernel),
    }
    mixed = events.scattered()
    in_no_order = {
        "as read, in no order": lambda: count(mixed, query, "log2", "input"),
        "one task, in no order": lambda: count_by(mixed, query, "log2", kernel),
    }
    actions = {name: lambda way=way: discard(way()) for name, way in {**ways, **in_no_order}.items()}
    measured = take_turns(actions, runs)
    strategy = decide(df, query, "log2").strategy
    verdicts = [
        Verdict("all events as one group, sort='input', against one task", "as read", "one task", round(1 / 1.7, 3)),
        Verdict("the same, against ranges of time", "as read", "ranges", None),
        Verdict("the same by ranges of time, against one task", "ranges", "one task", None),
        Verdict(f"the same as planned, {strategy}, against ranges of time", "planned", "ranges", 1.05),
        Verdict(
            "events in no order, sort='input', against one task", "as read, in no order", "one task, in no order", None
        ),
    ]
    check = agree({name: way() for name, way in ways.items()})
    agree({name: way() for name, way in in_no_order.items()})
    return result("5 million events without groups and windows; log2", measured, verdicts, **check)


RACES = {race.__name__: race for race in (overlap, long_key, halves, in_order, lone_group)}
CHILDREN = {"alone": alone, "ordered_alone": ordered_alone}
