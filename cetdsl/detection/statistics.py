"""Statistics of the events: their rates per unit of time, and the selectivities of predicates.

Statistics are kept by the names of variables, apart from any query, so that several patterns may share them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from cetdsl.detection.checks import from_zero
from cetdsl.errors import InvalidNode, UnknownVariable, is_one_of, nearest, shown

#: The rate of a variable without a known rate. Plans depend only on how rates compare.
DEFAULT_RATE = 1.0
#: The selectivity of predicates without a known one: that of a comparison in System R (Selinger et al., "Access
#: Path Selection in a Relational Database Management System", SIGMOD 1979, table 1).
DEFAULT_SELECTIVITY = 1 / 3

Pair = tuple[str, str]


def pair_of(first: str, second: str) -> Pair:
    """Returns the key of two variables, or of one with itself, whichever is named first.

    Examples
    --------
    >>> pair_of("b", "a"), pair_of("b", "b")
    (('a', 'b'), ('b', 'b'))
    """
    return (first, second) if first <= second else (second, first)


def _by_pair(selectivities: Mapping[Pair, float]) -> dict[Pair, float]:
    return {pair_of(*pair): float(value) for pair, value in selectivities.items()}


@attrs.frozen
class Statistics:
    """Rates and selectivities by the names of variables; those of missing names are unknown.

    Parameters
    ----------
    rates : mapping of str to float
        For each variable, the events per unit of time that satisfy its own conditions.
    selectivities : mapping of (str, str) to float
        For each pair of variables, the share (from 0 to 1) of the pairs of their events, in an order in time that the
        pattern allows, that satisfy all predicates between the two. For a variable with itself, the share of its
        events, or of neighbours among its repetitions, that satisfy its own predicates.

    Examples
    --------
    >>> statistics = Statistics({"A": 100, "B": 15}, {("B", "A"): 0.01})
    >>> statistics.rate("A"), statistics.rate("C")
    (100.0, 1.0)
    >>> statistics.selectivity("A", "B", compared=True), statistics.selectivity("A", "C", compared=False)
    (0.01, 1.0)
    """

    rates: Mapping[str, float] = attrs.field(factory=dict)
    selectivities: Mapping[Pair, float] = attrs.field(factory=dict, converter=_by_pair)

    def rate(self, name: str) -> float:
        """Returns the events of a variable per unit of time; 1 if that is not known."""
        return float(self.rates.get(name, DEFAULT_RATE))

    def selectivity(self, first: str, second: str, compared: bool) -> float:
        """Returns the selectivity of a pair; if it is not known, 1/3 if predicates compare the two, and otherwise 1."""
        return self.selectivities.get(pair_of(first, second), DEFAULT_SELECTIVITY if compared else 1.0)

    def updated(self, newer: Statistics) -> Statistics:
        """Returns these statistics with those of ``newer`` in place of the same ones here.

        Examples
        --------
        >>> Statistics({"A": 1, "B": 2}).updated(Statistics({"B": 3})).rates
        {'A': 1, 'B': 3}
        """
        return Statistics({**self.rates, **newer.rates}, {**self.selectivities, **newer.selectivities})


def given_statistics(given: object, known: Collection[str] | None, negated: Collection[str] = ()) -> Statistics:
    """Returns the statistics that a user gives.

    Parameters
    ----------
    given : mapping or None
        ``"rates"``: events per unit of time by variable. ``"selectivities"``: shares from 0 to 1 by pair of variables,
        or by a single variable for its own conditions. Either may be left out, and so may any variable.
    known : collection of str or None
        The positive variables of the pattern. None for statistics of event types, of which there may be any.
    negated : collection of str
        The variables under NOT, which no plan orders.

    Returns
    -------
    Statistics

    Raises
    ------
    InvalidNode
        Something is not of this form, or negated; a number is negative, not finite, or a share above 1.
    UnknownVariable
        The pattern has no such variable.

    Examples
    --------
    >>> given_statistics({"rates": {"A": 100}, "selectivities": {("A", "B"): 0.01}}, ["A", "B"])
    Statistics(rates={'A': 100.0}, selectivities={('A', 'B'): 0.01})
    >>> given_statistics({"selectivities": {("A", "B"): 1.5}}, ["A", "B"])
    Traceback (most recent call last):
        ...
    cetdsl.errors.InvalidNode: the selectivity of ('A', 'B') is 1.5, and no share is above 1
      hint: a selectivity is the share of pairs of events that go together, from 0 to 1
    """
    if given is None:
        return Statistics()
    parts = ("rates", "selectivities")
    example = 'write {"rates": {"A": 100}, "selectivities": {("A", "B"): 0.01}}'
    if not isinstance(given, Mapping):
        raise InvalidNode(f"the statistics {shown(given)} are not a mapping", hint=example)
    for key, values in given.items():
        if not is_one_of(key, parts):
            hint = nearest(key, parts, example) if isinstance(key, str) else example
            raise InvalidNode(f"statistics have no {shown(key)}", hint=hint)
        if not isinstance(values, Mapping):
            raise InvalidNode(f"the {key} {shown(values)} are not a mapping", hint=example)
    return Statistics(
        _rates(given.get("rates", {}), known, negated), _selectivities(given.get("selectivities", {}), known, negated)
    )


def _rates(given: Mapping[object, object], known: Collection[str] | None, negated: Collection[str]) -> dict[str, float]:
    return {
        _variable(name, known, negated, f"the rate of {shown(name)}"): from_zero(
            rate, f"the rate of {shown(name)}", "a rate is a number of events per unit of time, 0 or more"
        )
        for name, rate in given.items()
    }


def _selectivities(
    given: Mapping[object, object], known: Collection[str] | None, negated: Collection[str]
) -> dict[Pair, float]:
    hint = "a selectivity is the share of pairs of events that go together, from 0 to 1"
    found: dict[Pair, float] = {}
    for key, selectivity in given.items():
        what = f"the selectivity of {shown(key)}"
        names = (key, key) if isinstance(key, str) else key
        if not isinstance(names, tuple) or len(names) != 2:
            pair_of_what = "variables" if known is not None else "types"
            raise InvalidNode(
                f"{what} is of no pair of {pair_of_what}", hint='write ("A", "B"), or "A" for a single one'
            )
        pair = pair_of(*(_variable(name, known, negated, what) for name in names))
        share = from_zero(selectivity, what, hint)
        if share > 1:
            raise InvalidNode(f"{what} is {shown(selectivity)}, and no share is above 1", hint=hint)
        if pair in found:
            raise InvalidNode(f"{what} is given twice", hint="a pair has one selectivity, whichever is named first")
        found[pair] = share
    return found


def _variable(name: object, known: Collection[str] | None, negated: Collection[str], what: str) -> str:
    if not isinstance(name, str):
        of_what = "variable" if known is not None else "type"
        raise InvalidNode(f"{what} names {shown(name)}, which is not the name of a {of_what}", hint='write "A"')
    if name in negated:
        raise InvalidNode(
            f"{what} is of a variable under NOT",
            hint="leave it out: plans order only the variables that are not under NOT",
        )
    if known is not None and name not in known:
        raise UnknownVariable.among(name, known)
    return name
