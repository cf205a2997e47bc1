"""What is kept of compiled kernels is read only where nobody else can have written it, and only if it is whole.

Most of this runs in this process. Where kernels are compiled and loaded, processes of their own do it, with the small
package of ``test_jit.py``.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from test_jit import Kernels

from cetdsl.kernels import _disk

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders have no owners here")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a temporary directory of their own, and no other place is named."""
    for name, folder in (("HOME", "home"), ("TMPDIR", "tmp")):
        (tmp_path / folder).mkdir()
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def place() -> Path | None:
    """Where this process would keep its kernels if it asked now."""
    return _disk.place.__wrapped__()


def in_home(machine: Path) -> Path:
    import platformdirs

    folder = platformdirs.user_cache_path("cetdsl", appauthor=False)
    assert machine / "home" in folder.parents
    return folder


def in_tmp(machine: Path) -> Path:
    return machine / "tmp" / f"cetdsl-{os.geteuid()}"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def link(folder: Path) -> None:
    target = folder.parent.parent / "target"
    target.mkdir(parents=True)
    folder.symlink_to(target)


def open_to(bits: int) -> object:
    def make(folder: Path) -> None:
        folder.mkdir()
        folder.chmod(0o700 | bits)

    return make


#: What may be in a place before we come to it, and why it is not used.
PLANTED = {
    "a folder that others may write to": (open_to(0o002), "mode is 702"),
    "a folder that its group may write to": (open_to(0o020), "mode is 720"),
    "a symbolic link": (link, "symbolic link"),
    "a link that leads nowhere": (lambda folder: folder.symlink_to(folder.parent / "nowhere"), "symbolic link"),
    "a file": (lambda folder: folder.write_text(""), "no folder"),
}


def test_the_place_is_a_folder_of_the_user_alone(machine: Path) -> None:
    before = os.umask(0)
    try:
        assert place() == in_home(machine)
    finally:
        os.umask(before)
    made = [folder for folder in (in_home(machine), *in_home(machine).parents) if machine / "home" in folder.parents]
    assert [mode(folder) for folder in made] == [0o700] * len(made)
    assert place() == in_home(machine)
    assert not list((machine / "tmp").iterdir())


def test_without_a_home_the_place_is_in_the_temporary_directory(
    machine: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in containers, whose users often have none."""
    (machine / "home").rmdir()
    (machine / "home").write_text("")
    assert place() == in_tmp(machine)
    assert mode(in_tmp(machine)) == 0o700
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert place() == in_tmp(machine)
    assert not caplog.records


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_is_refused(machine: Path, what: str, caplog: pytest.LogCaptureFixture) -> None:
    plant, why = PLANTED[what]
    for folder in (in_home(machine), in_tmp(machine)):
        folder.parent.mkdir(parents=True, exist_ok=True)
        plant(folder)
    before = sorted(machine.rglob("*"))
    assert place() is None
    assert sorted(machine.rglob("*")) == before
    *refused, nowhere = (record.getMessage() for record in caplog.records)
    assert [str(folder) in line and why in line for folder, line in zip((in_home(machine), in_tmp(machine)), refused)]
    assert len(refused) == 2
    assert "NUMBA_CACHE_DIR" in nowhere


def test_a_folder_of_another_user_is_refused(
    machine: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert place() == in_home(machine)
    in_tmp(machine).mkdir(mode=0o700)
    (in_home(machine) / "entry").touch(mode=0o600)
    monkeypatch.setattr(_disk, "_USER", os.geteuid() + 1)
    monkeypatch.setattr(_disk, "_places", lambda given: iter([in_home(machine), in_tmp(machine)]))
    assert place() is None
    assert caplog.text.count(f"it belongs to user {os.geteuid()}") == 2
    # Nor is anything made in another user's home, such as that of who has called sudo. (What is root's is trusted.)
    if os.geteuid() == 0:
        os.chown(machine / "home", 12345, 12345)
    with pytest.raises(_disk.Untrusted, match="belongs to another user"):
        _disk.make(machine / "home" / "new" / "folder")
    assert not (machine / "home" / "new").exists()
    # A file is looked at by itself.
    assert _disk.read(in_home(machine) / "entry") is None


def test_the_place_that_the_environment_names_is_held_to_the_same(
    machine: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    given = machine / "new" / "given"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(given))
    assert place() == given
    assert [mode(given), mode(given.parent)] == [0o700, 0o700]
    monkeypatch.chdir(machine)
    monkeypatch.setenv("NUMBA_CACHE_DIR", "new/given")
    assert place() == given
    given.chmod(0o755)  # others may look
    assert place() == given
    assert not caplog.records
    given.chmod(0o777)
    assert place() == in_home(machine)
    assert f"not kept in {given}: others may write to it: its mode is 777" in caplog.text
    caplog.clear()
    (machine / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(machine / "file" / "folder"))
    assert place() == in_home(machine)
    assert f"not kept in {machine / 'file' / 'folder'}" in caplog.text


def test_a_file_is_read_as_it_was_written_or_not_at_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "folder" / "entry"
    assert _disk.read(path) is None
    _disk.write(path, b"machine code")
    assert not caplog.records
    assert _disk.read(path) == b"machine code"
    assert [mode(path.parent), mode(path)] == [0o700, 0o600]
    assert list(path.parent.iterdir()) == [path]
    content = path.read_bytes()
    for position in range(len(content)):
        path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        assert _disk.read(path) is None
        path.write_bytes(content[:position])
        assert _disk.read(path) is None
    path.write_bytes(content + b"\0")
    assert _disk.read(path) is None
    assert {record.getMessage() for record in caplog.records} == {f"{path} is damaged, and is written anew"}
    _disk.write(path, b"machine code")
    assert path.read_bytes() == content
    path.chmod(0o620)
    assert _disk.read(path) is None
    path.unlink()
    path.symlink_to(shutil.copy(__file__, tmp_path))
    assert _disk.read(path) is None
    path.unlink()
    path.mkdir()
    assert _disk.read(path) is None
    assert caplog.text.count(f"{path} is not used") == 3


def test_what_cannot_be_written_is_a_line_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "entry"
    monkeypatch.setattr(os, "replace", full)
    _disk.write(path, b"machine code")
    assert caplog.messages == [f"{path} is not written: [Errno 28] No space left on device"]
    assert not list(tmp_path.iterdir())


@pytest.fixture
def kernels(tmp_path: Path) -> Kernels:
    return Kernels(tmp_path)


def entries(kernels: Kernels) -> list[Path]:
    return sorted(kernels.cache.glob("kernels-*/*"))


#: What may become of a file of a kernel.
DAMAGES = {
    "name": lambda content: b"",
    "module": lambda content: content[: len(content) // 2],
    # One bit of the machine code; unpickling notices nothing.
    "dotted": lambda content: content[:-1000] + bytes([content[-1000] ^ 4]) + content[-999:],
    # Whole files whose content cannot be loaded, or is not what was asked for.
    "relative": lambda content: whole(b"text"),
    "everything": lambda content: whole(pickle.dumps(("no key of Numba's", b"nor code"))),
}


def whole(body: bytes) -> bytes:
    return hashlib.sha256(body).digest() + body


def test_damaged_files_are_compiled_and_written_anew(kernels: Kernels) -> None:
    assert kernels.run(*DAMAGES) == dict.fromkeys(DAMAGES, (21, True))
    files = {
        name: path for name in DAMAGES for path in entries(kernels) if f"call-cetdsl.kernels.{name}.py" in str(path)
    }
    for name, damage in DAMAGES.items():
        files[name].write_bytes(damage(files[name].read_bytes()))
    assert kernels.run(*DAMAGES) == dict.fromkeys(DAMAGES, (21, True))
    logged = {name: any(files[name].parent.name in line for line in kernels.log.splitlines()) for name in DAMAGES}
    # The key that a file holds was of another kernel: this is no damage.
    assert logged == {**dict.fromkeys(DAMAGES, True), "everything": False}
    assert kernels.run(*DAMAGES) == dict.fromkeys(DAMAGES, (21, False))
    assert not kernels.log


class Attack:
    """What is planted; to unpickle it makes a folder."""

    def __init__(self, sign: Path) -> None:
        self.sign = sign

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.sign),)


def test_planted_code_does_not_run(kernels: Kernels, machine: Path) -> None:
    """Not even where the package cannot be written to, the user has no home, and somebody else was first in /tmp."""
    sign = machine / "attacked"
    (machine / "home").rmdir()
    (machine / "home").write_text("")
    kernels.folder = Path(shutil.make_archive(str(kernels.folder), "zip", kernels.folder))
    kernels.cache = in_tmp(machine)
    kernels.more = {"NUMBA_CACHE_DIR": ""}
    assert kernels.run("name") == {"name": (21, True)}
    assert entries(kernels)
    attack = pickle.dumps(Attack(sign))
    for path in entries(kernels):
        path.write_bytes(whole(attack))
    kernels.cache.chmod(0o777)
    before = sorted(machine.rglob("*"))
    assert kernels.run("name") == {"name": (21, True)}
    assert sorted(machine.rglob("*")) == before
    assert f"not kept in {in_tmp(machine)}: others may write to it" in kernels.log
    # It would have run: to load machine code is to run it.
    kernels.cache.chmod(0o700)
    assert kernels.run("name") == {"name": (21, True)}
    assert sign.exists()
