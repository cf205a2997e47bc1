"""Arrow in and out: columns, sorted runs, the order of events, chunks and windows."""
