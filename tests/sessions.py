"""The Spark session of a run of tests, or of fuzzing; ``conftest.py`` says which kinds there are."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from modes import QUICK_JAVA
from py4j.java_gateway import JavaClass, JavaPackage, JVMView

CONFIGURATION = {
    "spark.driver.memory": "2g",  # must be known when the JVM starts
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.executor.extraJavaOptions": QUICK_JAVA,
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
}
#: Further settings that save time: workers are forked with the kernels loaded; calls of Spark's functions do not look
#: up where in the program they stand, which errors would tell (a tenth of the time of a small test); and Spark writes
#: the texts of plans, which nobody reads, in their shortest form.
QUICK = {
    "spark.python.daemon.module": "preloaded_daemon",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
}


def remember_lookups() -> None:
    """Has py4j remember what it found in the JVM under a name.

    By default py4j asks the JVM each time that a name is read, as each ``F.col`` reads ``functions``. The JVM then
    searches its 250 jars for a class of that name, which takes a tenth of the time of a small test.
    """
    for holder in (JVMView, JavaPackage, JavaClass):

        def look_up(self: Any, name: str, plain: Any = holder.__getattr__) -> Any:
            known = vars(self).setdefault("_known_names", {})
            if name not in known:
                known[name] = plain(self, name)
            return known[name]

        holder.__getattr__ = look_up


@contextmanager
def session(mode: str, scratch: str) -> Iterator[Any]:
    """A Spark session of one of the modes of ``conftest.py``, which keeps its files in the folder ``scratch``."""
    from pyspark.sql import SparkSession

    remember_lookups()
    # Workers must be this Python, with cetdsl in it, and not the first one on the path.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # A function that a test hands to Spark is pickled by the name of its module, which workers then import.
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    os.environ["PYTHONPATH"] = path
    configuration = {
        **CONFIGURATION,
        "spark.executorEnv.PYTHONPATH": path,
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": scratch,
    }
    if mode != "cluster":
        configuration.update(QUICK)
    if mode == "connect":
        # Takes a free port instead of Connect's usual one, so that two runs can share a machine.
        os.environ["SPARK_TESTING"] = "1"
        # With it Spark would also check the work of its own optimizer, and fail where an ordinary session answers.
        configuration["spark.sql.planChangeValidation"] = "false"
    submit = [word for name, value in configuration.items() for word in ("--conf", f'"{name}={value}"')]
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*submit, "pyspark-shell"])
    builder = SparkSession.builder.appName("cetdsl-tests")
    if mode == "connect":
        spark = builder.remote("local[2]").getOrCreate()
    elif mode == "cluster":
        # The workers of a local cluster start executors from Spark's home.
        import pyspark

        os.environ.setdefault("SPARK_HOME", os.path.dirname(pyspark.__file__))
        spark = builder.master("local-cluster[2,1,1024]").getOrCreate()
    else:
        spark = builder.master("local[2]").getOrCreate()
    application = spark.sparkContext.applicationId if mode == "cluster" else None
    yield spark
    spark.stop()
    if application:
        # The folder of the executors, which a local cluster leaves inside the installed package.
        shutil.rmtree(Path(os.environ["SPARK_HOME"]) / "work" / application, ignore_errors=True)
