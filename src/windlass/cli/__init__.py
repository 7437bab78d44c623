"""The command line: one file per noun, each loaded when it is asked for.

A noun's file holds the words people type. What is heavy (the database, tables on a terminal) is a `Later` in it, so
that `--help` costs nothing but the words. Errors of `windlass.model.errors` are told in one place, `_root`.
"""

from windlass.cli._root import main

__all__ = ["main"]
