"""Plans by which matches are put together, and how they are chosen and changed.

The modules (problems, plans, statistics, costs, decisions) are plain data and arithmetic. They know no query, no Spark
and no kernel.
"""
