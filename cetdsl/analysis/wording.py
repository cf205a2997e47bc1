"""How messages quote parts of a query."""

from __future__ import annotations

from cetdsl.errors import NotExpressible
from cetdsl.pattern.expressions import Expr
from cetdsl.pattern.nodes import Pattern
from cetdsl.pattern.text import unparse_expression, unparse_pattern


def quote(node: Expr | Pattern) -> str:
    """The text of a term or pattern; its repr when it has no text form.

    Examples
    --------
    >>> from cetdsl.pattern.expressions import Attribute, Binary, Literal
    >>> quote(Binary("<", Attribute("b", "price"), Literal(5)))
    'b.price < 5'
    """
    try:
        if isinstance(node, Expr):
            return unparse_expression(node, lenient=True)
        return unparse_pattern(node, lenient=True)
    except NotExpressible:
        return repr(node)
