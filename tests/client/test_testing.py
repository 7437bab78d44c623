"""`windlass.testing`, as a product's tests use it."""

from windlass import Windlass
from windlass.model import JobState
from windlass.testing import drain, enqueued

app = Windlass(name="shop")
sent: list[int] = []


@app.job
async def send_welcome(user_id: int) -> None:
    sent.append(user_id)


@app.job
async def later(user_id: int) -> None: ...


async def test_a_products_test_reads_like_this(windlass_url):
    async with app:
        await send_welcome.enqueue(user_id=1)
        handle = await later.options(delay="1h").enqueue(user_id=1)
        assert await enqueued(app, send_welcome, user_id=1)
        assert not await enqueued(app, send_welcome, user_id=2)
        assert len(await enqueued(app)) == 2
        await drain(app)
        assert sent == [1]
        assert not await enqueued(app, send_welcome)
        assert (await handle.view()).status is JobState.SCHEDULED
