"""Choosing and changing the plan by which matches are put together: problems, plans, statistics, costs, decisions.

All of it is plain data and arithmetic. Nothing here knows a query, Spark, or a kernel.
"""
