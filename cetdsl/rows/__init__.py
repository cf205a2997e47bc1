"""SQL's row pattern recognition: the clause MATCH_RECOGNIZE as nodes, and the conditions that it puts on rows.

The clause is read (:mod:`~cetdsl.rows.clause`), its pattern becomes an automaton whose arrows are ordered by
preferment (:mod:`~cetdsl.rows.automaton`), and its expressions are split into what Spark evaluates for each row and
what is known of matches only (:mod:`~cetdsl.rows.resolve`): those of MEASURES (:mod:`~cetdsl.rows.measures`) and of
DEFINE (:mod:`~cetdsl.rows.conditions`) differ in what stands for a reference to rows of the match, and share the rest
(:mod:`~cetdsl.rows.references`, over the names of a :mod:`~cetdsl.rows.scope`).
"""
