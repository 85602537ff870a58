"""Requests that are refused."""

import pytest

from htoolsd.http.requests import Request, refuse_action, refuse_host, refuse_token

NAMES = {"localhost", "127.0.0.1", "[::1]", "master.example.org"}
TOKEN = b"0123456789abcdef"


def request(method: str = "GET", target: str = "/metrics", **headers: str) -> Request:
    return Request(method, target, headers)


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:9719", "LOCALHOST", "127.0.0.1:1", "[::1]", "[::1]:9719", "Master.example.org"],
)
def test_answers_to_its_names(host: str) -> None:
    assert refuse_host(request(host=host), NAMES) is None


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example",
        "evil.example:localhost",
        "127.0.0.1.evil.example",
        "localhost:",
        "localhost:9719:1",
        "::1",
        "[::1",
        "[::1]evil",
        "localhost@evil.example",
        " localhost",
    ],
)
def test_refuses_other_hosts(host: str) -> None:
    refused = refuse_host(request(host=host), NAMES)
    assert refused is not None
    assert refused.status == 403


def test_refuses_a_request_without_host() -> None:
    assert refuse_host(request(), NAMES) is not None


@pytest.mark.parametrize("given", [f"Bearer {TOKEN.decode()}", f"bearer  {TOKEN.decode()} "])
def test_accepts_the_token(given: str) -> None:
    assert refuse_token(request(authorization=given), TOKEN) is None


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Bearer",
        "Bearer ",
        TOKEN.decode(),
        f"Basic {TOKEN.decode()}",
        f"Bearer {TOKEN.decode()[:-1]}",
        f"Bearer {TOKEN.decode()}x",
        "Bearer éÿ",
    ],
)
def test_refuses_other_tokens(given: str) -> None:
    refused = refuse_token(request(authorization=given), TOKEN)
    assert refused is not None
    assert (refused.status, refused.headers["WWW-Authenticate"][:6]) == (401, "Bearer")


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/metrics", None),
        ("HEAD", "/healthz", None),
        ("GET", "/metrics?name=up", None),
        ("GET", "/", None),
        ("POST", "/", 405),
        ("GET", "/metrics/", 404),
        ("GET", "http://localhost/metrics", 404),
        ("GET", "/../metrics", 404),
        ("POST", "/metrics", 405),
        ("PUT", "/healthz", 405),
        ("get", "/metrics", 405),
        ("POST", "/status", 404),
    ],
)
def test_only_reads_what_there_is(method: str, target: str, status: int | None) -> None:
    refused = refuse_action(request(method, target))
    assert (refused and refused.status) == status
