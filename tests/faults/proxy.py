"""A TCP proxy before PostgreSQL that understands just enough of its protocol to be cruel at the right moment."""

import asyncio
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit


class Proxy:
    """`url` leads through it. `black_hole` stops all bytes without a word, `forget` those of the lines that are open
    now; `lose_answer_to` forwards a command and cuts the line when its answer comes back; while it is `away` there is no
    line at all."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        self._socket = f"{query['host'][0]}/.s.PGSQL.{query['port'][0]}"
        self._database = parts.path
        self.black_hole = False
        self.away = False
        self.lose_answer_to: bytes | None = None
        self.lost = 0
        self.connections = 0
        self._forgotten = 0
        self._tasks: set[asyncio.Task] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{port}{self._database}?sslmode=disable"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Close every connection now."""
        for writer in list(self._writers):
            writer.transport.abort()

    def leave(self) -> None:
        """Be away, until `come_back`."""
        self.away = True
        self.cut()

    def come_back(self) -> None:
        """Take connections again."""
        self.away = False

    def forget(self) -> None:
        """Pass nothing on any more on the lines that are open, as a firewall does that lost its table."""
        self._forgotten = self.connections

    async def _serve(self, reader, writer) -> None:
        self.connections += 1
        number = self.connections
        if self.away:
            writer.transport.abort()
            return
        with suppress(OSError):
            up_reader, up_writer = await asyncio.open_unix_connection(self._socket)
            self._writers |= {writer, up_writer}
            pumps = [
                asyncio.create_task(self._pump(number, reader, up_writer)),
                asyncio.create_task(self._pump(number, up_reader, writer, answers=True)),
            ]
            self._tasks |= set(pumps)
            await asyncio.wait(pumps, return_when="FIRST_COMPLETED")
            for one in (writer, up_writer):
                one.transport.abort()
                self._writers.discard(one)

    async def _pump(self, number, reader, writer, *, answers: bool = False) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                if answers and self.lose_answer_to and self.lose_answer_to in data:
                    self.lose_answer_to = None
                    self.lost += 1
                    return
                while self.black_hole or number <= self._forgotten:
                    await asyncio.sleep(0.01)
                writer.write(data)
                await writer.drain()
