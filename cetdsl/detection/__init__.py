"""Plans by which matches are put together, chosen and changed: problems, plans, statistics, costs, decisions.

All of it is plain data and arithmetic. Nothing here knows a query, Spark, or a kernel.
"""
