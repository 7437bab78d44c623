"""Waiting for what somebody else does: until it is so, and not for a time."""

import asyncio
from collections.abc import Callable


async def eventually(so: Callable, within: float = 20):
    """Wait until something is so, and answer it."""
    async with asyncio.timeout(within):
        while True:
            found = so()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.01)
