"""Arrow in and out: columns, sorting, sorted runs, chunks and windows."""
