"""What a process says about itself: structured logs on stderr, standard `logging` among them."""

import logging
import sys

import structlog


def _for_people() -> structlog.typing.Processor:
    """Tracebacks stay plain: a rich one prints local variables, and with them payloads."""
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)


def configure_logs(log_format: str, level: int = logging.INFO) -> None:
    """Set up structured logs: one JSON object a line, or coloured text for a terminal."""
    renderer: structlog.typing.Processor
    if log_format == "json":
        renderer = structlog.processors.JSONRenderer()
        finish: list[structlog.typing.Processor] = [structlog.processors.format_exc_info]
    else:
        renderer, finish = _for_people(), []
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *finish,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # A line in one write: processes that share a terminal or a pipe must not break into each other's.
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def route_standard_logging() -> None:
    """Let what is said by standard `logging` be told as the rest is, if it is a warning or worse; what is said from INFO on
    reaches other handlers, of which the jobs' log is one. An application that has set up logging itself keeps what it set.
    """
    root = logging.getLogger()
    if root.handlers or root.level != logging.WARNING:
        return
    root.setLevel(logging.INFO)
    root.addHandler(_Routed(logging.WARNING))


class _Routed(logging.Handler):
    """Hands records over to structured logging."""

    def emit(self, record: logging.LogRecord) -> None:
        """Tell a record; one that cannot be formatted is told on stderr, as `logging` does."""
        log = structlog.get_logger(record.name)
        say = log.error if record.levelno >= logging.ERROR else log.warning
        try:
            say(record.getMessage(), logger=record.name, **({"exc_info": record.exc_info} if record.exc_info else {}))
        except Exception:
            self.handleError(record)
