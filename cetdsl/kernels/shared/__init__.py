"""Many queries in one pass: the merged template, bursts, snapshots, and the benefit of sharing."""
