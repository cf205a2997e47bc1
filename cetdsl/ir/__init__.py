"""The physical vocabulary: plain data in numbers, shared by whoever plans a query, runs it and explains it."""
