"""Named rules that improve a resolved query without changing its trends."""

from __future__ import annotations

from cetdsl.rewrite.batches import BATCHES, all_rules, rewrite
from cetdsl.rewrite.engine import Batch, Step, Trace, run_batches
from cetdsl.rewrite.rule import Keeps, Rule, rule

__all__ = ["BATCHES", "Batch", "Keeps", "Rule", "Step", "Trace", "all_rules", "rewrite", "rule", "run_batches"]
