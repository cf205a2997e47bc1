"""Number systems: doubles, scaled numbers (doubles with an exponent of their own), residues, and the choice of them."""
