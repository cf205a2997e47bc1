"""The physical vocabulary: plain data in numbers, shared by planning, execution and explain."""
