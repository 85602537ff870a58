"""Where the daemon's log goes and how it looks."""

import sys

import orjson
import structlog


def configure() -> None:
    """Log to stderr: key=value at a terminal, one JSON object a line otherwise."""
    common: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
    ]
    if sys.stderr.isatty():
        structlog.configure(
            processors=[*common, structlog.dev.ConsoleRenderer()],
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )
    else:
        structlog.configure(
            processors=[
                *common,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(orjson.dumps),
            ],
            logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
        )
