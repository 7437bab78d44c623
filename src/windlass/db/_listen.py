"""LISTEN on a connection of its own. What is heard is a hint: everything also polls.

A session that looks open may be dead at the other end (no FIN, no RST), so it is asked now and then, with a
deadline. After every reconnect the hearers are told that they may have missed something.
"""

import contextlib
from collections.abc import Callable

import asyncpg
import structlog

from windlass.db._database import connect_to
from windlass.db._errors import translated
from windlass.lifecycle import Loop
from windlass.model.errors import Disconnected

_log = structlog.get_logger("windlass.db.listen")
_ASK_EVERY, _ANSWER_WITHIN = 3.0, 3.0
_ADDRESS = "listen URL (WINDLASS_LISTEN_URL)"
MISSED = ""  # heard after a reconnect: anything may have happened


class Listener:
    """Calls `hear(payload)` for each notification on a channel; `hear("")` when some may have been missed."""

    def __init__(self, url: str, channel: str, hear: Callable[[str], None] = lambda _: None) -> None:
        self._url, self._channel = url, channel
        self.hear = hear
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._loop = Loop("listen", self._tend)

    @property
    def connected(self) -> bool:
        """Whether notifications can reach us right now."""
        return self._connection is not None and not self._connection.is_closed()

    async def start(self) -> None:
        """Connect once before returning, so that nothing sent after is missed; from then on tend to it. Raises
        NotConfigured if the URL can never do: what is only away just now is tried again.
        """
        with contextlib.suppress(Disconnected):
            await self._connect()
        self._loop.start()

    async def stop(self) -> None:
        """Stop listening."""
        await self._loop.stop()
        await self._drop()

    async def _tend(self) -> float:
        if not self.connected:
            await self._drop()
            await self._connect()
            self._tell(MISSED)
        else:
            await self._ask()
        return _ASK_EVERY

    async def _connect(self) -> None:
        with translated(_ADDRESS):
            connection = await connect_to(self._url, statements=0, opening=_ANSWER_WITHIN, address=_ADDRESS)
            connection.add_termination_listener(lambda _: self._loop.wake())
            await connection.add_listener(self._channel, self._heard)
        self._connection = connection

    async def _ask(self) -> None:
        assert self._connection is not None
        try:
            with translated():
                await self._connection.fetchval("select 1 from pg_listening_channels()", timeout=_ANSWER_WITHIN)
        except Disconnected:
            await self._drop()
            raise

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        self._tell(str(payload))

    def _tell(self, payload: str) -> None:
        try:
            self.hear(payload)
        except Exception:
            # One hearer's fault must not silence the rest (F-34).
            _log.exception("a hearer failed", channel=self._channel, payload=payload)
