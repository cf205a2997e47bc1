"""Runs the command line: ``python -m cetdsl``."""

import sys

from cetdsl.cli import main

if __name__ == "__main__":
    sys.exit(main())
