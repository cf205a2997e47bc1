"""Manages the folder in which compiled kernels are kept on disk, and how a file there is read and written.

To load machine code is to run it, so nobody but this process's user may have written it. A folder is used only if it is
a real folder, belongs to the user, and neither its group nor others may write to it. A file must meet the same
conditions at the moment when it is read. If there is no such folder, nothing is kept. A folder for a single process
would be of no use: the process has its kernels in memory, and Spark ends its workers without leaving them time to
remove it.

Each file begins with a digest of the rest. Without it, machine code with a wrong bit might crash, or give a wrong
answer.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

LOG = logging.getLogger("cetdsl")
_DIGEST = hashlib.sha256().digest_size
# Windows has neither owners nor these modes; there other users cannot reach a user's folders anyway.
_USER = os.geteuid() if hasattr(os, "geteuid") else None


class Untrusted(Exception):
    """Raised if somebody else may have written the files of a folder."""


@cache
def place() -> Path | None:
    """The folder of compiled kernels: the first that can be trusted and written to. None if there is none."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    for folder in _places(given):
        try:
            make(folder)
        except Untrusted as error:
            LOG.warning("compiled kernels are not kept in %s: %s", folder, error)
        except OSError as error:
            level = logging.WARNING if given and folder == _absolute(given) else logging.DEBUG
            LOG.log(level, "compiled kernels are not kept in %s: %s", folder, error)
        else:
            return folder
    LOG.warning(
        "each process compiles its kernels anew, as there is no place to keep them: set NUMBA_CACHE_DIR to a folder"
        " that belongs to the user of this process, and that nobody else may write to"
    )
    return None


def _places(given: str | None) -> Iterator[Path]:
    if given:
        yield _absolute(given)
    import platformdirs  # here, because a worker that was told the place need not load it

    with suppress(RuntimeError):  # raised where the user has no home
        home = platformdirs.user_cache_path("cetdsl", appauthor=False)
        if home.is_absolute():  # older versions say "~" then
            yield home
    with suppress(FileNotFoundError):  # raised where there is no such directory
        # Containers often have no home. Others can take this name first; then it is not used.
        yield _absolute(tempfile.gettempdir()) / f"cetdsl-{'user' if _USER is None else _USER}"


def _absolute(path: str) -> Path:
    return Path(os.path.abspath(path))


def make(folder: Path) -> None:
    """Ensures that a folder exists that only this user can write to; makes missing folders above it too.

    Raises
    ------
    Untrusted
        If it is no folder, or if somebody else owns it or may write to it.
    OSError
        If it cannot be made or written to.
    """
    missing = []
    existing = folder
    while not os.path.lexists(existing):
        missing.append(existing)
        existing = existing.parent
    if missing and _USER is not None and os.stat(existing).st_uid not in (0, _USER):
        # For example the home of a user who has called sudo, and who could not use a folder there that belongs to root.
        raise Untrusted(f"{existing} belongs to another user")
    for each in reversed(missing):
        with suppress(FileExistsError):  # another process was quicker
            each.mkdir(mode=0o700)
        _check_folder(each)
    _check_folder(folder)
    if not os.access(folder, os.W_OK):
        raise PermissionError("this process may not write to it")


def _check_folder(folder: Path) -> None:
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise Untrusted("it is " + ("a symbolic link" if stat.S_ISLNK(status.st_mode) else "no folder"))
    _check_writers(status)


def _check_writers(status: os.stat_result) -> None:
    """Refuses what another user may have written."""
    if _USER is None:
        return
    if status.st_uid != _USER:
        raise Untrusted(f"it belongs to user {status.st_uid}, and this process to user {_USER}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Untrusted(f"others may write to it: its mode is {stat.S_IMODE(status.st_mode):o}, and 700 is needed")


def read(path: Path) -> bytes | None:
    """Returns the contents of a file; None if it is not there, not to be trusted, or damaged."""
    try:
        # No link is followed, so that what is checked is what is read.
        with open(path, "rb", opener=_open_no_link) as file:
            _check_writers(os.fstat(file.fileno()))
            content = file.read()
    except FileNotFoundError:
        return None
    except (OSError, Untrusted) as error:
        LOG.warning("%s is not used: %s", path, error)
        return None
    body = content[_DIGEST:]
    if hashlib.sha256(body).digest() != content[:_DIGEST]:
        LOG.warning("%s is damaged, and is written anew", path)
        return None
    return body


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def write(path: Path, body: bytes) -> None:
    """Writes a file, which other processes see either whole or not at all; a failure is only logged."""
    draft = None
    try:
        make(path.parent)
        number, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with open(number, "wb") as file:
            file.write(hashlib.sha256(body).digest() + body)
        os.replace(draft, path)
    except (OSError, Untrusted) as error:
        LOG.warning("%s is not written: %s", path, error)
        if draft:
            with suppress(OSError):
                os.unlink(draft)
