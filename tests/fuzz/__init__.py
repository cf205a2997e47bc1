"""Attacks that chance makes up, one module per kind of attack; ``python3 run.py fuzz`` runs them.

A module has a class of cases, which know how to be checked, to become smaller and to be written down, and a function
that makes a case out of choices. ``__main__`` runs them by turns.
"""
