"""The algebra of event patterns: nodes, terms, queries, automata. Knows neither Spark nor text."""
