"""Open connections to share. The driver's own pool spends more on lending one (a task, a proxy, a reset) than an
insert takes: 45 µs of 200. Here lending is a list's pop, and what is not known to be sound is not lent again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import asyncpg

from windlass.model.errors import Disconnected

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
_PATIENCE = 5.0


class Pool:
    """Up to `size` connections, made when needed; the one used last is lent first."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], size: int) -> None:
        self.connect = connect
        self._size = size
        self._room = asyncio.Semaphore(size)
        self._free: list[Connection] = []
        self._lent: set[Connection] = set()
        self._closed = False

    async def acquire(self) -> Connection:
        """Borrow one; waits for room."""
        await self._room.acquire()
        try:
            connection = await self._any()
        except BaseException:
            self._room.release()
            raise
        self._lent.add(connection)
        return connection

    def release(self, connection: Connection, *, sound: bool) -> None:
        """Give it back; `sound` if whatever was asked of it has been answered."""
        self._lent.discard(connection)
        if sound and not self._closed and not connection.is_closed():
            self._free.append(connection)
        else:
            connection.terminate()
        self._room.release()

    def distrust(self) -> None:
        """A line has died without a word, so those that lie idle have most likely, too: let none be lent again."""
        for connection in self._free:
            connection.terminate()
        self._free.clear()

    async def close(self) -> None:
        """Wait a little for those that are lent, then close all; what is stuck is cut."""
        self._closed = True
        try:
            async with asyncio.timeout(_PATIENCE):
                for _ in range(self._size):
                    await self._room.acquire()
                await asyncio.gather(*(connection.close() for connection in self._free))
        except TimeoutError:
            for connection in [*self._free, *self._lent]:
                connection.terminate()

    async def _any(self) -> Connection:
        if self._closed:
            msg = "The database connection failed: it was closed here."
            raise Disconnected(msg)
        while self._free:
            connection = self._free.pop()
            if not connection.is_closed():
                return connection
        return await self.connect()
