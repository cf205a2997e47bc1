"""SQL's row pattern recognition: the clause MATCH_RECOGNIZE as nodes, and the conditions that it puts on rows.

:mod:`~cetdsl.rows.clause` reads the clause. :mod:`~cetdsl.rows.automaton` turns its pattern into an automaton whose
arrows are ordered by preferment. :mod:`~cetdsl.rows.resolve` splits its expressions into parts that Spark evaluates for
each row, and parts that depend on a match. The readers of MEASURES (:mod:`~cetdsl.rows.measures`) and of DEFINE
(:mod:`~cetdsl.rows.conditions`) differ in what they put in place of a reference to rows of the match, and share all
else (:mod:`~cetdsl.rows.references`, over the names of a :mod:`~cetdsl.rows.scope`).
"""
