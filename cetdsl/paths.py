"""Paths of files: how Spark is made to read one literally, and whether two of them share files."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePath, PurePosixPath

#: The scheme of a URI, as in ``s3a:`` or ``file:``. A single letter would be a drive.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
#: The characters that are special in Hadoop's patterns of files.
_OF_PATTERNS = re.compile(r"([\\*?\[\]{}])")
_INNERMOST_BRACES = re.compile(r"(?<!\\)\{((?:\\.|[^{}\\])*)\}")


def literal(path: str) -> str:
    r"""Returns a pattern of Hadoop that matches exactly a path.

    Examples
    --------
    >>> print(literal("events[1].csv"))
    events\[1\].csv
    """
    # On Windows, where \ stands between folders, Hadoop takes it for / and has no way to escape.
    return path if os.name == "nt" else _OF_PATTERNS.sub(r"\\\1", path)


def as_written(path: str) -> str:
    """Returns a path for Spark to read: a pattern of files, unless there is a file or folder of just that name."""
    return literal(in_full(path)) if _is_there(place_of(path)) else path


def in_full(path: str) -> str:
    """Returns a local path as an absolute one if it has a colon, before which Hadoop would else expect a scheme.

    Examples
    --------
    >>> in_full("s3a://bucket/12:30.csv"), in_full("events.csv")
    ('s3a://bucket/12:30.csv', 'events.csv')
    """
    return os.path.abspath(path) if ":" in path and _local(path) == path else path


def place_of(path: str) -> PurePath:
    """Returns where a path leads: on this machine a ``Path`` with links resolved, else the path as it is written.

    Examples
    --------
    >>> place_of("file:///tmp/../a.csv") == place_of("/a.csv")
    True
    >>> place_of("s3a://bucket/a.csv/")
    PurePosixPath('s3a:/bucket/a.csv')
    """
    local = _local(path)
    return PurePosixPath(path) if local is None else Path(local).resolve()


def _local(path: str) -> str | None:
    """Returns a path on this machine without its scheme; None if the path leads elsewhere."""
    scheme = _SCHEME.match(path)
    if scheme is None or os.path.exists(path):
        return path
    return re.sub(r"^//[^/]*(?=/)", "", path[scheme.end() :]) if scheme[1].lower() == "file" else None


def lies_in(path: str, folder: str) -> bool:
    """Whether a path is a folder or leads into it.

    Examples
    --------
    >>> lies_in("events/new/../kept", "file:events"), lies_in("events.kept", "events")
    (True, False)
    """
    return _is_inside(place_of(path), place_of(folder))


def share_files(path: str, pattern: str) -> bool:
    """Whether a path is, lies in, or contains any file or folder that Spark reads for a pattern of files."""
    place = place_of(path)
    return any(_is_inside(place, read) or _is_inside(read, place) for read in _places_of(pattern))


def _places_of(pattern: str) -> Iterator[PurePath]:
    """The place of a pattern as it is written, and those of what it matches on this machine."""
    place = place_of(pattern)
    yield place
    local = _local(pattern)
    if local is not None and not _is_there(place):
        for each in _without_braces(local):
            yield from (Path(found).resolve() for found in glob.glob(_of_python(each)))


def _without_braces(pattern: str) -> Iterator[str]:
    """The patterns without braces that one of Hadoop stands for: ``a.csv`` and ``b.csv`` for ``{a,b}.csv``."""
    braces = _INNERMOST_BRACES.search(pattern)
    if braces is None:
        yield pattern
        return
    for choice in braces[1].split(","):
        yield from _without_braces(pattern[: braces.start()] + choice + pattern[braces.end() :])


def _of_python(pattern: str) -> str:
    """Returns a pattern of Hadoop without braces as one of Python's ``glob``, where escapes and negation differ."""
    if os.name == "nt":
        return pattern
    return re.sub(r"\\(.)|\[\^", lambda found: glob.escape(found[1]) if found[1] else "[!", pattern)


def _is_there(place: PurePath) -> bool:
    return isinstance(place, Path) and place.exists()


def _is_inside(place: PurePath, folder: PurePath) -> bool:
    """Whether a place is a folder or below it."""
    return any(_are_same(above, folder) for above in (place, *place.parents))


def _are_same(one: PurePath, other: PurePath) -> bool:
    """Whether two places are the same; in some file systems they are even if their names differ in case."""
    if one == other:
        return True
    if not (isinstance(one, Path) and isinstance(other, Path)):
        return False
    try:
        return one.samefile(other)
    except OSError:
        return False
