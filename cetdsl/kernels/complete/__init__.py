"""Extracts complete trends from graphs: plans of cuts, graphlets, anchors, containment."""
