"""An app whose jobs leave what cannot be stored, on the loop, in threads and in processes."""

from collections.abc import Callable

from windlass import Cancel, Fail, JobContext, Retry, Windlass

app = Windlass(name="odd")


class Unprintable(Exception):
    """Refuses to be shown."""

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def deep() -> list:
    nest: list = []
    for _ in range(5000):
        nest = [nest]
    return nest


THINGS: dict[str, Callable[[], object]] = {
    "nul": lambda: "a\x00b",
    "surrogate": lambda: "a\ud800b",
    "nan": lambda: float("nan"),
    "infinity": lambda: [float("inf")],
    "deep": deep,
    "large": lambda: "x" * 2_000_000,
    "object": object,
    "unprintable": Unprintable,
}


def leave(how: str, what: str) -> object:
    """End with a thing as the result, the error, or the reason."""
    thing = THINGS[what]()
    match how:
        case "result":
            return thing
        case "raise":
            raise thing if isinstance(thing, Exception) else ValueError(thing)
        case "fail":
            return Fail(thing)
        case "cancel":
            return Cancel(thing)
        case _:
            return Retry(0, thing)


def speak(ctx: JobContext, what: str) -> str:
    """Say a thing in all the ways there are, and end well."""
    thing = THINGS[what]()
    ctx.log(thing)
    ctx.log("fields", thing=thing)
    ctx.progress(float("nan"), "no number")
    ctx.progress(0.5, thing)
    return "said"


@app.job(key="leave_async", max_attempts=1)
async def leave_async(how: str, what: str):
    return leave(how, what)


@app.job(key="leave_thread", max_attempts=1)
def leave_thread(how: str, what: str):
    return leave(how, what)


@app.job(key="leave_process", max_attempts=1, process=True)
def leave_process(how: str, what: str):
    return leave(how, what)


@app.job(key="speak_async", max_attempts=1)
async def speak_async(ctx: JobContext, what: str):
    return speak(ctx, what)


@app.job(key="speak_thread", max_attempts=1)
def speak_thread(ctx: JobContext, what: str):
    return speak(ctx, what)


@app.job(key="speak_process", max_attempts=1, process=True)
def speak_process(ctx: JobContext, what: str):
    return speak(ctx, what)
