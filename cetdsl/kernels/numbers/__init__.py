"""Number systems: doubles, scaled numbers, residues, and the ladder between them."""
