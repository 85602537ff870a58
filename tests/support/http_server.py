"""An HTTP server in this process, whose answers a test decides."""

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import trustme

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextlib.contextmanager
def serving(answer: Answer, identity: trustme.LeafCert | Path | None = None) -> Iterator[int]:
    """A server that answers so, over TLS if it has an identity; gives its port on localhost."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            with contextlib.suppress(OSError):  # who asked may be gone
                answer(self)

        do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A client that does not trust us hangs up."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if identity is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            if isinstance(identity, Path):
                context.load_cert_chain(identity)
            else:
                identity.configure_cert(context)
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def respond(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200) -> None:
    """Send a whole answer."""
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
