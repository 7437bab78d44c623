"""An application that says itself how it wants to log."""

import logging
import sys

from windlass import Windlass

logging.basicConfig(level=logging.INFO, format="MINE %(message)s", stream=sys.stderr)
app = Windlass()


@app.job
async def chat() -> None:
    logging.getLogger("library").info("chatter")
