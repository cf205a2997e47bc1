"""Complete trends out of graphs: plans of cuts, graphlets, anchors, containment."""
