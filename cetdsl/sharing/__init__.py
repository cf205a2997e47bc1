"""Several queries as one: what they have in common, and what can be computed once for all of them."""

from cetdsl.sharing.template import MergedTemplate, SharableSet, TemplateStep, merge_templates

__all__ = ["MergedTemplate", "SharableSet", "TemplateStep", "merge_templates"]
