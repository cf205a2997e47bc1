"""The rewrite rules, one family per file."""
