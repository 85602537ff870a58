import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import trustme

from ganeti_htools.backends.rapi import RESOURCES
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.sources import rapi_http
from tests.support.http_server import Answer, respond, serving


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def echo(handler: BaseHTTPRequestHandler) -> None:
    respond(handler, handler.path.encode())


async def test_every_resource_is_fetched() -> None:
    with serving(echo) as port:
        for address in (f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port}/"):
            assert await rapi_http.fetch(address) == {name: path.encode() for name, path in RESOURCES.items()}


@pytest.mark.parametrize(("lacking", "refused"), [("/2/networks?bulk=1", False), ("/2/groups?bulk=1", True)])
async def test_older_servers_know_no_networks(lacking: str, refused: bool) -> None:
    def without(handler: BaseHTTPRequestHandler) -> None:
        respond(handler, b"[]", 404 if handler.path == lacking else 200)

    with serving(without) as port:
        address = f"http://127.0.0.1:{port}"
        if refused:
            with pytest.raises(HtoolsError, match=r"the server answers 404 Not Found$"):
                await rapi_http.fetch(address)
        else:
            assert set(await rapi_http.fetch(address)) == set(RESOURCES) - {"networks"}


async def test_who_asks_may_have_to_say_who_it_is() -> None:
    with serving(guarded) as port:
        assert len(await rapi_http.fetch(f"http://me:secret@127.0.0.1:{port}")) == 5
        with pytest.raises(
            HtoolsError, match=r"/2/groups\?bulk=1: the server answers 401 Unauthorized$"
        ) as caught:
            await rapi_http.fetch(f"http://me:wrong@127.0.0.1:{port}")
    assert "wrong" not in str(caught.value)


def guarded(handler: BaseHTTPRequestHandler) -> None:
    known = handler.headers["Authorization"] == "Basic bWU6c2VjcmV0"
    respond(handler, b"{}", 200 if known else 401)


@pytest.mark.parametrize("whose", ["machine 127.0.0.1", "default"])
async def test_takes_user_and_password_from_a_file(tmp_path: Path, whose: str) -> None:
    path = tmp_path / "netrc"
    path.write_text(f"machine elsewhere login other password wrong\n{whose} login me password secret\n")
    with serving(guarded) as port:
        address = f"http://127.0.0.1:{port}"
        assert len(await rapi_http.fetch(address, None, str(path))) == len(RESOURCES)
        with pytest.raises(HtoolsError, match=r": has a user; expected it here or in .*netrc, not in both$"):
            await rapi_http.fetch(address.replace("//", "//me:secret@"), None, str(path))


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, "cannot be read: No such file or directory"),
        (
            b"machine a login b password c",
            "no login for host; expected machine host login USER password PASSWORD",
        ),
        (b"machine host login me", "no login for host; .*"),
        (b"machine host\nlogin me secret", "line 2: expected the format of netrc.5."),
        (b"\xff", ".*"),
    ],
)
async def test_names_what_is_wrong_with_a_file_of_credentials(
    tmp_path: Path, content: bytes | None, error: str
) -> None:
    path = tmp_path / "netrc"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(HtoolsError, match=f"^{path}: {error}$") as caught:
        await rapi_http.fetch("host", None, str(path))
    assert "secret" not in str(caught.value)


def test_warns_of_what_is_not_safe(tmp_path: Path) -> None:
    path = tmp_path / "netrc"
    path.write_text("default login me password secret")
    path.chmod(0o600)

    def said(address: str, ca: str | None = None) -> list[str]:
        return list(rapi_http.warnings(address, ca, str(path)))

    unverified = "its certificate is not verified; --rapi-ca=FILE verifies it"
    assert said("host") == [f"https://host:5080: {unverified}"]
    assert said("https://me:secret@host") == [f"https://host: {unverified}"]
    assert said("host", "ca.pem") == said("http://host") == said("host:x") == []
    path.chmod(0o640)
    assert said("host", "ca.pem") == [f"{path}: other users can read the password; expected mode 0600"]


def raw(data: bytes) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(data)
        handler.close_connection = True

    return answer


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "disconnected"),
        (b"what?\r\n\r\n", "illegal status line"),
        (b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", "the server answers 302 Found"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "peer closed connection"),
    ],
)
async def test_answers_that_make_no_sense(data: bytes, error: str) -> None:
    with serving(raw(data)) as port:
        url = f"http://127.0.0.1:{port}"
        with pytest.raises(HtoolsError) as caught:
            await rapi_http.fetch(url)
    assert str(caught.value).startswith(f"{url}/2/groups?bulk=1: ")
    assert error in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_an_answer_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rapi_http, "_MOST", 1 << 20)

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b" " * 65536)

    with serving(endless) as port, pytest.raises(HtoolsError, match=r"the answer is larger than 1 MiB$"):
        await rapi_http.fetch(f"http://127.0.0.1:{port}")


async def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rapi_http, "PATIENCE", 0.05)
    gone = threading.Event()

    def silent(_handler: BaseHTTPRequestHandler) -> None:
        gone.wait()

    with serving(silent) as port:
        try:
            with pytest.raises(HtoolsError, match=r"no complete answer within 0 seconds$"):
                await rapi_http.fetch(f"http://127.0.0.1:{port}")
        finally:
            gone.set()


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "ftp://127.0.0.1", "http://127.0.0.1:x", "http://a b", "http://"]
)
async def test_addresses_that_lead_nowhere(address: str) -> None:
    with pytest.raises(HtoolsError) as caught:
        await rapi_http.fetch(address)
    assert "/2/groups?bulk=1: " in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def saved(path: Path, *blobs: trustme.Blob) -> str:
    path.write_bytes(b"".join(blob.bytes() for blob in blobs))
    return str(path)


async def test_without_certificates_any_server_is_trusted(authority: trustme.CA) -> None:
    with serving(echo, authority.issue_cert("elsewhere.example.org")) as port:
        assert await rapi_http.fetch(f"127.0.0.1:{port}")


async def test_a_server_with_a_certificate_of_the_authority(authority: trustme.CA, tmp_path: Path) -> None:
    ca = saved(tmp_path / "ca.pem", authority.cert_pem)
    with serving(echo, authority.issue_cert("127.0.0.1")) as port:
        assert await rapi_http.fetch(f"https://127.0.0.1:{port}", ca)


async def test_a_server_with_the_certificate_that_ganeti_makes() -> None:
    """It signs itself, is of X.509 version 1, and bears no host's name."""
    own = Path(__file__).with_name("self_signed.pem")
    with serving(echo, own) as port:
        assert await rapi_http.fetch(f"https://127.0.0.1:{port}", str(own))


@pytest.mark.parametrize("name", ["127.0.0.1", "elsewhere.example.org"])
async def test_servers_that_are_not_trusted(authority: trustme.CA, tmp_path: Path, name: str) -> None:
    issuer = trustme.CA() if name == "127.0.0.1" else authority
    ca = saved(tmp_path / "ca.pem", authority.cert_pem)
    with (
        serving(echo, issuer.issue_cert(name)) as port,
        pytest.raises(HtoolsError, match=r"/2/groups\?bulk=1: .*certificate verify failed"),
    ):
        await rapi_http.fetch(f"https://127.0.0.1:{port}", ca)


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
async def test_files_without_certificates(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(HtoolsError, match=r"ca\.pem: expected certificates in PEM format: "):
        await rapi_http.fetch("localhost", str(path))
