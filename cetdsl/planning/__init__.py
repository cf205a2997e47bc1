"""From a rewritten query to a physical plan: which columns, which automaton, which strategy, and why."""
