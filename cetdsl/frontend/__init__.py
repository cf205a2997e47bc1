"""The user interface: the SASE-like text form, and fluent terms and patterns. Both build the same nodes."""
