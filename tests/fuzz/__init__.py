"""Random attacks on the library, one module per kind of attack; ``python3 run.py fuzz`` runs them.

A module has classes of cases, each of which can be checked and made smaller, and functions that make a case from a
random generator, ``choose``. ``__main__`` runs the kinds by turns.
"""
