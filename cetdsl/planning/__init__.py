"""Plans a rewritten query: chooses columns, automaton and strategy, and keeps the reasons."""
