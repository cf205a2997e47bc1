"""Physical strategies, one per file: each builds a physical node or declines with a reason."""
