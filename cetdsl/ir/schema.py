"""The columns of a DataFrame as names and type strings, and how a query's names find them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import count

import attrs

from cetdsl.errors import RENAME_KEY, QueryTypeError, ResolutionError, UnknownColumn, UnsupportedQuery, shown


@attrs.frozen
class Field:
    """A column of any name, and its type as Spark's simple string: ``bigint``, ``decimal(10,2)``, ``array<int>``."""

    name: str
    type: str


def _tuple(fields: Iterable[Field]) -> tuple[Field, ...]:
    return tuple(fields)


def unused_name(prefix: str, names: Iterable[str]) -> str:
    """Returns a name that begins with ``prefix`` and differs from all ``names``, ignoring case.

    Examples
    --------
    >>> unused_name("bucket", ["ts", "Bucket_0"])
    'bucket_1'
    """
    folded = {name.lower() for name in names}
    return next(name for n in count() if (name := f"{prefix}_{n}") not in folded)


@attrs.frozen
class Schema:
    """The columns of a DataFrame in their order; names may occur more than once.

    ``case_sensitive`` says whether names that differ in case alone are names of two columns, as a session may ask for.

    Examples
    --------
    >>> schema = Schema([Field("Price", "double"), Field("id", "bigint"), Field("id", "int")])
    >>> schema.resolve("price")
    Field(name='Price', type='double')
    >>> schema.resolve("id")
    Traceback (most recent call last):
        ...
    cetdsl.errors.ResolutionError: the column 'id' is ambiguous: the DataFrame has 'id' (bigint), 'id' (int)
      hint: rename or drop all but one of them
    """

    fields: tuple[Field, ...] = attrs.field(converter=_tuple)
    case_sensitive: bool = attrs.field(default=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(field.name for field in self.fields)

    def folded(self, name: str) -> str:
        """Returns the form in which all spellings of a column's name are equal.

        Examples
        --------
        >>> Schema([]).folded("Price"), Schema([], case_sensitive=True).folded("Price")
        ('price', 'Price')
        """
        return name if self.case_sensitive else name.lower()

    def refuse_duplicates(self, names: Sequence[str]) -> None:
        """Raises if an event would show two columns of one name."""
        folded = [self.folded(name) for name in names]
        twice = sorted({name for name in names if folded.count(self.folded(name)) > 1})
        if twice:
            raise UnsupportedQuery(
                f"an event cannot show two columns of the name {twice[0]!r}",
                hint="choose the columns to show with columns=[...], each once, or rename them",
            )

    def refuse_clashing_keys(self, keys: Iterable[str], own: Collection[str]) -> None:
        """Raises if a key column has the name of one of an answer's ``own`` columns."""
        for name in keys:
            if self.folded(name) in own:
                raise ResolutionError(
                    f"the key column {name!r} clashes with the {self.folded(name)} column of the answer",
                    hint=RENAME_KEY,
                )

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """Returns some names of columns, in the order of the columns."""
        return tuple(name for name in self.names if name in names)

    def resolve(self, name: str, what: str = "column") -> Field:
        """Returns the column that a name means: an exact match, or else the only one that differs in case alone.

        Raises :class:`UnknownColumn` if there is none, and :class:`ResolutionError` if there are several.
        """
        if not isinstance(name, str):
            raise QueryTypeError(
                f"the name of a {what} is a string, not {shown(name)}", hint="write its name in quotes"
            )
        found = [field for field in self.fields if field.name == name]
        if not found:
            found = [field for field in self.fields if field.name.lower() == name.lower()]
        if not found:
            raise UnknownColumn.among(name, self.names, what)
        if len(found) > 1:
            candidates = ", ".join(f"{field.name!r} ({field.type})" for field in found)
            raise ResolutionError(
                f"the {what} {name!r} is ambiguous: the DataFrame has {candidates}",
                hint="rename or drop all but one of them",
            )
        return found[0]

    def type_of(self, name: str) -> str | None:
        """Returns the type of the column of exactly this name; None if there is no single one."""
        types = [field.type for field in self.fields if field.name == name]
        return types[0] if len(types) == 1 else None
