"""Finds the Java that Spark would start, and says what is wrong with it before Spark fails.

Uses the standard library alone, so that ``run.py`` can load this file before anything is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping

#: The oldest Java that Spark 4 runs on.
OLDEST = 17

INSTALL = """\
install Java 17 or 21, then run the same command again:
    Debian, Ubuntu   sudo apt-get install openjdk-17-jre-headless   (or openjdk-21-jre-headless)
    Fedora, RHEL     sudo dnf install java-21-openjdk-headless
    macOS            brew install --cask temurin@21
    Windows          winget install EclipseAdoptium.Temurin.21.JRE"""


def java_path(environ: Mapping[str, str] | None = None) -> str | None:
    """The program of the Java that Spark would start, or None when there is none.

    It looks where Spark's own launcher looks: ``JAVA_HOME`` when it is set, else ``java`` on the path. The environment
    is this process's own unless another one is given.

    Examples
    --------
    >>> java_path({"JAVA_HOME": "/nowhere"}) is None
    True
    """
    environ = os.environ if environ is None else environ
    home = environ.get("JAVA_HOME")
    return shutil.which("java", path=os.path.join(home, "bin") if home else environ.get("PATH", os.defpath))


def java_problem(environ: Mapping[str, str] | None = None) -> tuple[str, str] | None:
    """Returns the problem of the Java that Spark would start, and a hint; None when it is fine.

    The environment is this process's own unless another one is given.

    Examples
    --------
    >>> java_problem({"JAVA_HOME": "/nowhere"})[0]
    'JAVA_HOME is /nowhere, but there is no Java in it'
    """
    environ = os.environ if environ is None else environ
    home, found = environ.get("JAVA_HOME"), java_path(environ)
    if not home:
        if found is None:
            return "Java was not found; Spark runs on it", INSTALL
        return _too_old("the Java on the path", found)
    problem = (
        (f"JAVA_HOME is {home}, but there is no Java in it", INSTALL)
        if found is None
        else _too_old(f"the Java in JAVA_HOME ({home})", found)
    )
    on_path = java_path({**environ, "JAVA_HOME": ""})
    if problem and on_path and not _too_old("", on_path):
        return problem[0], "unset JAVA_HOME: the Java on the path is new enough"
    return problem


def require_java(environ: Mapping[str, str] | None = None) -> None:
    """Raise one clear error unless Spark will find a Java that it can run on.

    Does nothing when ``SPARK_REMOTE`` names a server, because then Spark runs there.

    Raises
    ------
    MissingDependency
        If Java is missing or too old; the hint says what to install.

    Examples
    --------
    >>> require_java({"JAVA_HOME": "/nowhere", "SPARK_REMOTE": "sc://cluster:15002"})
    """
    from cetdsl.errors import MissingDependency

    environ = os.environ if environ is None else environ
    if environ.get("SPARK_REMOTE", "").startswith("sc://"):
        return
    problem = java_problem(environ)
    if problem:
        raise MissingDependency(problem[0], hint=problem[1])


def java_version(text: str) -> int | None:
    """The major version in the output of ``java -version``; None when there is none.

    Examples
    --------
    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_402"')
    (17, 8)
    """
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if not found:
        return None
    major, minor = int(found[1]), int(found[2] or 0)
    # Until Java 8 the version began with "1.".
    return minor if major == 1 else major


def _too_old(what: str, executable: str) -> tuple[str, str] | None:
    try:
        shown = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{what} does not start: {error}", INSTALL
    version = java_version(shown)
    if version is None:
        # macOS has a java on every path that only says that there is no Java.
        return f"{what} does not start: {shown.strip() or executable}", INSTALL
    if version < OLDEST:
        return f"{what} is version {version}; Spark needs {OLDEST} or newer", INSTALL
    return None
