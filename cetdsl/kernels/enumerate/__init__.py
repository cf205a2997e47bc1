"""All trends, depth first."""
