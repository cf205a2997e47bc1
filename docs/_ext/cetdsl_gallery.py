"""How the gallery is run: one Spark session for all of its pages, figures without a network, automata as thumbnails."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def configuration() -> dict[str, Any]:
    """The settings of sphinx-gallery."""
    return {
        "examples_dirs": str(HERE.parents[1] / "examples" / "gallery"),
        "gallery_dirs": "gallery",
        "filename_pattern": r"\.py$",
        "abort_on_example_error": True,
        "capture_repr": ("_repr_html_", "__repr__"),
        "image_scrapers": ("cetdsl_gallery.draw_thumbnail",),
        "reset_modules": ("cetdsl_gallery.begin_page",),
        "within_subsection_order": "ExampleTitleSortKey",
        "first_notebook_cell": "# Needs cetdsl with its extras demo and plot, and Java.",
        # What depends on the machine and its mood.
        "min_reported_time": 10_000,
        "write_computation_times": False,
        "show_memory": False,
        "show_signature": False,
        "remove_config_comments": True,
        "plot_gallery": True,
    }


def prepare_spark() -> None:
    """Says how a session is made, by whoever asks for one first."""
    words = [f'--conf "{key}={value}"' for key, value in _SETTINGS.items()]
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(["--master local[2]", *words, "pyspark-shell"])
    os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers are this Python


def script_of(depth: int) -> str:
    """Where a page so many folders deep finds the script of Plotly, which all figures share."""
    return "../" * depth + "_static/plotly.min.js"


def begin_page(_: dict[str, Any], name: str) -> None:
    """Sets up what a page takes for granted; called before each of them."""
    import plotly.io as pio
    from plotly.io.base_renderers import MimetypeRenderer

    prepare_spark()

    class OnPage(MimetypeRenderer):
        """Figures as elements that are called the same whenever the page is built."""

        drawn = 0

        def to_mimebundle(self, figure: dict[str, Any]) -> dict[str, str]:
            self.drawn += 1
            identity = f"{Path(name).stem}-{self.drawn}"
            script = script_of(2)  # gallery/SECTION/PAGE
            html = pio.to_html(figure, include_plotlyjs=script, full_html=False, validate=False, div_id=identity)
            return {"text/html": html}

    pio.renderers["cetdsl"] = OnPage()
    pio.renderers.default = "cetdsl"


def draw_thumbnail(_: Any, block_vars: dict[str, Any], __: dict[str, Any]) -> str:
    """Keeps the automaton of the first query of a page as its thumbnail, which the page itself shows already."""
    from cetdsl import PatternFrame, Workload
    from cetdsl.explain import draw_automaton

    paths = block_vars["image_path_iterator"]
    shown = block_vars["example_globals"].get("___")
    if paths.paths or not isinstance(shown, PatternFrame | Workload):
        return ""
    query = shown.query if isinstance(shown, PatternFrame) else list(shown.queries.values())[-1]
    Path(next(paths)).with_suffix(".svg").write_text(draw_automaton(query.pattern), encoding="utf-8")
    return ""


def bring_script(app: Any, problem: Exception | None) -> None:
    """Puts Plotly's script, which is a part of its package, beside the pages."""
    import plotly

    if problem is None and app.builder.format == "html":
        source = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
        shutil.copyfile(source, Path(app.outdir) / "_static" / source.name)


def setup(app: Any) -> dict[str, object]:
    app.connect("build-finished", bring_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
