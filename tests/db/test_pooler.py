"""Behind PgBouncer in transaction mode: the same, by polling, or woken through a direct address."""

import asyncio
import os
import shutil
import socket
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from windlass import JobContext, Windlass
from windlass.db import Database
from windlass.model import JobState
from windlass.model.errors import UnknownTenant
from windlass.processes.worker import WorkerPlan, working


def program() -> str:
    """PgBouncer, from the system's packages where they may be installed."""
    found = shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in (["update"], ["install", "-y", "--no-install-recommends", "pgbouncer"]):
            subprocess.run(
                ["apt-get", "-q", *command],
                check=False,
                capture_output=True,
                env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
            )
        found = shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin")
    if found is None:
        pytest.skip("PgBouncer is not installed, and cannot be")
    return found


@pytest.fixture
async def pooled(windlass_url, tmp_path):
    """The URL of the test's database through PgBouncer, four server connections for everybody."""
    parts = urlsplit(windlass_url)
    query = parse_qs(parts.query)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = Path("/tmp") / f"windlass-pgbouncer-{port}.ini"
    config.write_text(
        f"[databases]\n* = host={query['host'][0]} port={query['port'][0]} user=postgres\n[pgbouncer]\n"
        f"listen_addr=127.0.0.1\nlisten_port={port}\nunix_socket_dir=\nauth_type=any\npool_mode=transaction\n"
        "default_pool_size=4\nmax_client_conn=200\nserver_reset_query=\n"
    )
    config.chmod(0o644)
    # PgBouncer will not be root; the server's own user can reach the server's socket.
    owner = Path(query["host"][0]).stat().st_uid
    process = await asyncio.create_subprocess_exec(program(), str(config), stderr=asyncio.subprocess.PIPE, user=owner)
    async for line in process.stderr:
        if b"process up" in line:
            break
    drain = asyncio.create_task(process.stderr.read())
    yield f"postgresql://postgres@127.0.0.1:{port}{parts.path}?sslmode=disable"
    process.terminate()
    await process.wait()
    await drain
    config.unlink()


async def test_a_pooler_is_recognised(pooled, windlass_url):
    for url, is_pooled in ((pooled, True), (windlass_url, False)):
        database = await Database.open(url)
        assert database.pooled is is_pooled
        await database.close()


@pytest.mark.parametrize("direct", [False, True], ids=["polling", "with a direct address to listen"])
async def test_everything_works_through_a_pooler(pooled, windlass_url, direct):
    """F-35."""
    app = Windlass(pooled, name="tests")

    @app.job(max_attempts=2)
    async def job(ctx: JobContext, n: int) -> int:
        ctx.log("n", n=n)
        if n == 13 and ctx.attempt == 1:
            raise ValueError(n)
        return n

    plan = WorkerPlan(app, pooled, listen_url=windlass_url if direct else None, lease_seconds=3)
    async with app:
        async with working(plan):
            handles = await asyncio.gather(*(job.enqueue(n) for n in range(60)))
            assert [await handle.result(30) for handle in handles] == list(range(60))
            keyed = [await job.options(dedupe_key="k", delay="1h").enqueue(1) for _ in range(3)]
            assert len({handle.id for handle in keyed}) == 1
            assert await keyed[0].cancel() is JobState.CANCELED
            with pytest.raises(UnknownTenant):
                await job.options(tenant="nobody").enqueue(1)
        assert [n.message for n in await app.jobs.list_logs(handles[13].id)] == ["n", "n"]
