"""The events that are measured: made once by Spark, the same on every machine, kept as Parquet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

#: Seconds since 1970; windows of 1 hour and of 150 minutes both begin here.
ORIGIN = 1_704_060_000
#: Seconds between two events of a key, so 100 of them fall into an hour.
STEP = 36
#: The types of events with which a ride may begin. In workloads they come before ``Travel``, the type that repeats.
BEFORE_TRAVEL = (
    *("Request", "Offer", "Accept", "Decline", "Assign"),
    *("Approach", "Arrive", "Wait", "Pickup", "Detour"),
)
#: The columns of :meth:`Events.text_keys` that are its keys.
TEXT_KEYS = ("country", "branch", "account")
#: An A and seven B in turn; see :func:`trends_events`.
TRENDS_CYCLE = 8


class Events:
    """Makes each set of events when it is first asked for.

    Parameters
    ----------
    spark : SparkSession
    folder : Path
        Where Parquet files are kept, and found again.
    scale : float
        1 for the published sizes. At a smaller scale there are fewer keys, or a lone key has fewer events; otherwise
        keys look the same.
    bars : Path, optional
        A file of minute bars, see :func:`streams.read_bars`; it is read where it is.
    """

    def __init__(self, spark: SparkSession, folder: Path, scale: float, bars: Path | None = None) -> None:
        self.spark = spark
        self.folder = folder
        self.scale = scale
        self.bars = bars

    def scaled(self, count: int) -> int:
        """A number of keys, or of a lone key's events, at this scale."""
        return max(1, round(count * self.scale))

    def many_keys(self) -> DataFrame:
        """5 million events in 10,000 keys, 20 % A and 80 % B."""
        return self._kept("many-keys", 500 * self.scaled(10_000), self.scaled(10_000))

    def few_keys(self) -> DataFrame:
        """5 million events in 1,000 keys, 20 % A and 80 % B."""
        return self._kept("few-keys", 5_000 * self.scaled(1_000), self.scaled(1_000))

    def small(self, count: int) -> DataFrame:
        """So many events (before scaling) in 10 keys, 20 % A and 80 % B."""
        return self._kept("small", self.scaled(count), 10)

    def text_keys(self) -> DataFrame:
        """As :meth:`many_keys`, with three texts for each key and a number for each event; see :data:`TEXT_KEYS`."""
        keys, key = self.scaled(10_000), F.col("key")
        parts = (key % 20, F.floor(key / 20) % 25, F.floor(key / 500))
        texts = [F.format_string(f"{name} %03d", part).alias(name) for name, part in zip(TEXT_KEYS, parts, strict=True)]
        number = F.xxhash64("key", "time").alias("number")
        return self.saved(
            f"text-keys-{500 * keys}", lambda: self.many_keys().select(*texts, number, "time", "type", "price")
        )

    def made(self, count: int) -> DataFrame:
        """So many events of 10,000 keys, 20 % A and 80 % B, which Spark computes whenever they are read."""
        return self._made(count, self.scaled(10_000), F.lit(None), STEP)

    def kept_live(self, name: str, count: int, keys: int) -> DataFrame:
        """So many events of some keys, as those of :meth:`many_keys`."""
        return self._kept(name, count, keys)

    def live_keys(self) -> DataFrame:
        """5 million events in 10,000 keys, five hours long."""
        keys = self.scaled(10_000)
        return self._kept("live", 500 * keys, keys)

    def scattered(self) -> DataFrame:
        """As :meth:`many_keys`, but rows come in no order: keys and times are random whole numbers."""
        keys = self.scaled(10_000)
        count, number = 500 * keys, F.col("id")
        return self.saved(
            f"scattered-{count}",
            lambda: self.spark.range(0, count, 1, 8).select(
                _whole(number, 4, keys).alias("key"),
                _whole(number, 2, 1 << 32).alias("time"),
                F.when(_uniform(number, 1) < 0.2, "A").otherwise("B").alias("type"),
                (_uniform(number, 3) * 100).alias("price"),
            ),
        )

    def many_windows(self) -> DataFrame:
        """5 million events in 1,000 keys over 50 hours, 100 an hour, 20 % A and 80 % B."""
        return self._kept("many-windows", 5_000 * self.scaled(1_000), self.scaled(1_000))

    def one_key(self, count: int) -> DataFrame:
        """So many events (before scaling) of one key, all of them B."""
        return self._kept(f"one-key-{count}", self.scaled(count), 1, only_b=True)

    def giant_key(self) -> DataFrame:
        """2 million events of one key, 100 an hour, 20 % A and 80 % B."""
        return self._kept("giant-key", self.scaled(2_000_000), 1)

    def month(self, keys: int) -> DataFrame:
        """5 million events of so many keys within 30 days, 20 % A and 80 % B; a lone key gets shorter when scaled."""
        scaled = self.scaled(keys) if keys > 1 else 1
        count = 5_000_000 * scaled // keys if keys > 1 else self.scaled(5_000_000)
        return self._kept(f"month-{keys}", count, scaled, step=30 * 86_400 * keys / 5_000_000)

    def trends_events(self) -> DataFrame:
        """Keys of one A and seven B: 127 trends of SEQ(A, B+) with 575 bindings; 10 million of these in all."""
        keys = self.scaled(17_392)
        return self._kept("trends", TRENDS_CYCLE * keys, keys, cycle=True)

    def rides(self, burst: int, share: float, phase: int = 0) -> DataFrame:
        """20,000 events of a ridesharing service, one tick apart, in bursts: runs of ``burst`` events of one type.

        After each burst of one of :data:`BEFORE_TRAVEL`, which take turns, come three of ``Travel``. A random ``share``
        of the events has a ``speed`` from 0 to 100; that of the others is 0. If ``phase`` is given, the stream falls
        into phases of so many events, and in every other phase, the first included, all speeds are 0.
        """
        number, turn = F.col("id"), F.floor(F.col("id") / burst)
        kinds = F.array(*map(F.lit, BEFORE_TRAVEL))
        before = F.element_at(kinds, (1 + F.floor(turn / 4) % len(BEFORE_TRAVEL)).cast("int"))
        differs = _uniform(number, 4) < share
        if phase:
            differs &= F.floor(number / phase) % 2 == 1
        return self.spark.range(0, self.scaled(20_000), 1, 1).select(
            number.alias("ts"),
            F.when(turn % 4 == 0, before).otherwise("Travel").alias("kind"),
            F.when(differs, 100 * _uniform(number, 5)).otherwise(0.0).alias("speed"),
        )

    def kinds(self, count: int, kinds: str) -> DataFrame:
        """So many events (before scaling) one tick apart, each of a random kind, with four random attributes."""
        number, count = F.col("id"), self.scaled(count)
        kind = F.element_at(F.array(*map(F.lit, kinds)), (1 + _whole(number, 4, len(kinds))).cast("int"))
        return self.spark.range(0, count, 1, 1).select(
            number.alias("time"),
            kind.alias("type"),
            _whole(number, 5, 1 << 40).alias("x"),
            _whole(number, 6, 1 << 40).alias("y"),
            (100 * _uniform(number, 7)).alias("rate"),
            _whole(number, 8, max(1, count // 10)).alias("account"),
        )

    def _kept(
        self, name: str, count: int, keys: int, only_b: bool = False, cycle: bool = False, step: float = STEP
    ) -> DataFrame:
        if only_b:
            is_a = F.lit(False)
        elif cycle:
            is_a = F.floor(F.col("id") / keys) == 0
        else:
            is_a = F.lit(None)
        return self.saved(f"{name}-{count}", lambda: self._made(count, keys, is_a, step))

    def _made(self, count: int, keys: int, is_a: Column, step: float) -> DataFrame:
        """So many events; a fifth of them are an A where ``is_a`` is NULL."""
        number = F.col("id")
        place, micros = F.floor(number / keys), round(step * 1_000_000)
        # Each event is at a random moment of its own step, so those of a key are evenly spread but at uneven distances.
        time = F.timestamp_micros(F.lit(ORIGIN * 1_000_000) + place * micros + _whole(number, 2, micros))
        return self.spark.range(0, count, 1, 8).select(
            (number % keys).alias("key"),
            time.alias("time"),
            F.when(F.coalesce(is_a, _uniform(number, 1) < 0.2), "A").otherwise("B").alias("type"),
            (_uniform(number, 3) * 100).alias("price"),
        )

    def saved(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """Reads a DataFrame from a Parquet file in the folder of the events; makes the file if it is not there yet."""
        path = self.folder / name
        if not (path / "_SUCCESS").exists():
            make().write.mode("overwrite").parquet(str(path))
        return self.spark.read.parquet(str(path))


def _whole(number: Column, seed: int, below: int) -> Column:
    # A hash of the row's number: unlike rand(), it does not depend on how rows are spread over tasks.
    return F.pmod(F.xxhash64(number, F.lit(seed)), F.lit(below).cast("bigint"))


def _uniform(number: Column, seed: int) -> Column:
    return _whole(number, seed, 1 << 40) / float(1 << 40)
