"""The only room that knows the PostgreSQL driver: pool, transactions, SQL files, LISTEN, migrations, embedded.

Invariants: nothing here outlives a transaction on a session (a pooler may stand between); every driver error
leaves as one of `windlass.model.errors`. It knows nothing of jobs.
"""

from windlass.db import embedded, migrate, partitions
from windlass.db._database import Database, Row, Session, Tx
from windlass.db._errors import refusal
from windlass.db._listen import MISSED, Listener
from windlass.db._statement import Statement, statement

__all__ = [
    "MISSED", "Database", "Listener", "Row", "Session", "Statement", "Tx", "embedded", "migrate", "partitions", "refusal",
    "statement",
]  # fmt: skip
