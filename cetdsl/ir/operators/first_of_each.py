"""TopOfEach and SampleOfEach: a number of trends of each key and window, the heaviest ones or drawn at random."""

from __future__ import annotations

import attrs

from cetdsl.ir.operators import words
from cetdsl.ir.operators.operator import Step
from cetdsl.ir.operators.sample_trends import SampleTrends
from cetdsl.ir.operators.top_trends import TopTrends

#: How ``explain`` describes that each task chooses first, so that few trends are sent.
_OF_EACH = ("of each task, and then of all that tasks have left",)


@attrs.frozen
class TopOfEach(TopTrends):
    """Keeps the ``size`` heaviest trends of each key and window; on a stream, when the window closes."""

    stage = "first"
    only_batch = None

    def steps(self) -> tuple[Step, ...]:
        by = words.weight(self.by, self.name)
        return Step(f"work out {by}"), Step(words.heaviest(self.size, by, of_each=True), _OF_EACH)


@attrs.frozen
class SampleOfEach(SampleTrends):
    """Draws ``size`` trends of each key and window."""

    stage = "first"
    only_batch = None

    def steps(self) -> tuple[Step, ...]:
        return Step("a random key per trend"), Step(f"the {self.size} greatest of each key and window", _OF_EACH)
