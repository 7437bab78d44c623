"""A pool of connections to one PostgreSQL, and transactions on it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

import asyncpg
from asyncpg.transaction import Transaction

from windlass.db._errors import DATABASE_URL, is_answer, translated
from windlass.db._pool import Connection, Pool
from windlass.db._statement import Statement
from windlass.model.errors import Disconnected, NotConfigured

Row = asyncpg.Record
_OPENING = 10.0
# A line may die without a word (a firewall that forgot it): what the hot path asks is answered within this, or asked
# anew on another line. Its statements can all be repeated.
_PATIENCE = 20.0
_SETTINGS = "set jit = off; set timezone = 'UTC'"
# Table sizes swing from nothing to millions between two ANALYZEs, and a statement planned while a table is empty
# is run when it is full: a claim that sorts the backlog takes 80 ms instead of 3. So the hot path's statements,
# which look rows up by key and read them in an index's order, are pinned to doing just that.
_PINNED = ("enable_hashjoin", "enable_mergejoin", "enable_seqscan", "enable_bitmapscan", "enable_sort")


def _pins(scope: str = "") -> str:
    return "".join(f"set {scope}{name} = off; " for name in _PINNED) + f"set {scope}plan_cache_mode = force_generic_plan"


class Tx:
    """A transaction in progress; what a function needs to read or write in it."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def rows(self, statement: Statement, *values: Any) -> list[Row]:
        """All rows of the answer."""
        with translated():
            return await self._connection.fetch(statement.text, *values)

    async def row(self, statement: Statement, *values: Any) -> Row | None:
        """The first row, or None."""
        with translated():
            return await self._connection.fetchrow(statement.text, *values)

    async def value(self, statement: Statement, *values: Any) -> Any:
        """The first column of the first row, or None."""
        with translated():
            return await self._connection.fetchval(statement.text, *values)

    async def script(self, text: str) -> None:
        """Several statements without values: migrations and partitions."""
        with translated():
            await self._connection.execute(text)

    async def copy(self, table: str, columns: Sequence[str], records: Sequence[tuple[Any, ...]]) -> None:
        """Append many rows by COPY."""
        with translated():
            await self._connection.copy_records_to_table(table, schema_name="windlass", columns=list(columns), records=records)


class Database:
    """A pool; each of its calls is a transaction of its own, `transaction()` is one of several statements.

    Behind a pooler in transaction mode a session is nobody's: nothing is prepared, nothing set for longer
    than a transaction, and every statement is wrapped in one.
    """

    def __init__(self, url: str, pool: Pool, *, pooled: bool, pinned: bool) -> None:
        self.url = url
        self.pooled = pooled
        self._pool = pool
        self._beside: list[Database] = []
        self._pinned = pinned
        self._pins = _pins("local ") if pinned and pooled else ""

    @classmethod
    async def open(cls, url: str, *, size: int = 10, pinned: bool = False, patience: float = _PATIENCE) -> Self:
        """Connect, and find out whether a pooler stands between. `pinned` is for the hot path's statements; only they
        are bound to answer within `patience` seconds.
        """
        pooled = await _behind_pooler(url)
        settings = "" if pooled else _SETTINGS + ("; " + _pins() if pinned else "")

        async def connect() -> Connection:
            with translated():
                connection = await connect_to(url, statements=0 if pooled else 200, patience=patience if pinned else None)
                if settings:
                    await connection.execute(settings)
                return connection

        return cls(url, Pool(connect, size), pooled=pooled, pinned=pinned)

    def beside(self, size: int) -> "Database":
        """A second pool on the same database, for what must not use up this one. It connects when it is first used, and is
        closed with this one.
        """
        other = Database(self.url, Pool(self._pool.connect, size), pooled=self.pooled, pinned=self._pinned)
        self._beside.append(other)
        return other

    async def close(self) -> None:
        """Close every connection; those that are stuck are cut after a few seconds."""
        await asyncio.gather(self._pool.close(), *(other.close() for other in self._beside))

    async def rows(self, statement: Statement, *values: Any) -> list[Row]:
        """All rows of the answer. The hot path's way: written out, since each layer around it costs microseconds."""
        if self.pooled:
            async with self.transaction() as transaction:
                return await transaction.rows(statement, *values)
        connection = await self._pool.acquire()
        try:
            answer = await connection.fetch(statement.text, *values)
        except BaseException as problem:
            self._pool.release(connection, sound=is_answer(problem))
            if isinstance(problem, TimeoutError):
                self._pool.distrust()
            with translated():
                raise
        self._pool.release(connection, sound=True)
        return answer

    async def row(self, statement: Statement, *values: Any) -> Row | None:
        """The first row, or None."""
        async with self._session() as session:
            return await session.row(statement, *values)

    async def value(self, statement: Statement, *values: Any) -> Any:
        """The first column of the first row, or None."""
        async with self._session() as session:
            return await session.value(statement, *values)

    async def copy(self, table: str, columns: Sequence[str], records: Sequence[tuple[Any, ...]]) -> None:
        """Append many rows by COPY."""
        async with self._session() as session:
            await session.copy(table, columns, records)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Tx]:
        """Several statements that count together or not at all."""
        async with self._lent() as connection:
            transaction = connection.transaction()
            with translated():
                await transaction.start()
            try:
                await self._pin(connection)
                yield Tx(connection)
            except Disconnected:
                raise  # the connection is not lent again, and the transaction goes with it
            except BaseException:
                await _roll_back(transaction)
                raise
            with translated():
                await transaction.commit()

    async def _pin(self, connection: Connection) -> None:
        if self._pins:
            with translated():
                await connection.execute(self._pins)

    @asynccontextmanager
    async def _session(self) -> AsyncGenerator[Tx]:
        if self.pooled:
            async with self.transaction() as transaction:
                yield transaction
        else:
            async with self._lent() as connection:
                yield Tx(connection)

    @asynccontextmanager
    async def _lent(self) -> AsyncGenerator[Connection]:
        connection = await self._pool.acquire()
        sound = False
        try:
            yield connection
            sound = True
        except Exception as problem:
            # A cancelled wait leaves a question open; any other error is an answer, unless the line is what broke.
            sound = not isinstance(problem, Disconnected)
            if not sound and isinstance(problem.__cause__, TimeoutError):
                self._pool.distrust()
            raise
        finally:
            self._pool.release(connection, sound=sound)


Session = Database | Tx


async def _roll_back(transaction: Transaction) -> None:
    try:
        await transaction.rollback()
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        return  # the connection is gone, and the transaction with it


async def _behind_pooler(url: str) -> bool:
    """A pooler answers the start of a session with a process id of its own making."""
    with translated():
        connection = await connect_to(url, statements=0)
        try:
            async with connection.transaction():
                real = await connection.fetchval("select pg_backend_pid()")
            return real != connection.get_server_pid()
        finally:
            await connection.close(timeout=2)


async def connect_to(
    url: str, *, statements: int, patience: float | None = None, opening: float = _OPENING, address: str = DATABASE_URL
) -> Connection:
    """A connection of one's own; raises NotConfigured if the URL is none. `address` is what the URL is called."""
    try:
        return await asyncpg.connect(url, statement_cache_size=statements, timeout=opening, command_timeout=patience)
    except OSError:
        raise  # some of these are ValueErrors, too
    except ValueError as problem:
        msg = f"The {address} is wrong: {str(problem).rstrip('.')}. It is like postgresql://user:password@host:5432/name."
        raise NotConfigured(msg) from problem
