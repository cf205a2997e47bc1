"""Many queries in one pass: the merged template, bursts, snapshots, and when sharing pays."""
