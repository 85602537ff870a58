"""The example of a reverse proxy: nginx shows the page for the password, and keeps the token."""

import base64
import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from tests.daemon.planning import following
from tests.daemon.test_http import TOKEN, ask, free_port, listens, over_tcp, token_file
from tests.support.programs import PATIENCE, ROOT, wait_until
from tests.support.worlds import uneven

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="needs nginx of Debian's package nginx")
NAME, USER = "ganeti.example.com", "admin:secret"
# What Debian's nginx.conf has around a site, with all files in one directory.
AROUND = """{user} pid nginx.pid; error_log stderr; daemon off; events {{}}
http {{ access_log off; client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp;
uwsgi_temp_path tmp; scgi_temp_path tmp; include {site}; }}
"""


def adapted(directory: Path, port: int, backend: int) -> str:
    """The example with other ports, and with its files in a directory."""
    text = (ROOT / "contrib/nginx/htoolsd.conf").read_text()
    changes = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "127.0.0.1:9719": f"127.0.0.1:{backend}",
        "/etc/nginx/": f"{directory}/",
        "/etc/ssl/certs/ssl-cert-snakeoil.pem": f"{directory}/cert.pem",
        "/etc/ssl/private/ssl-cert-snakeoil.key": f"{directory}/key.pem",
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """The ports of nginx, and of a daemon behind it."""
    directory, port, backend = tmp_path_factory.mktemp("nginx"), free_port(), free_port()
    subject = ("-subj", f"/CN={NAME}", "-keyout", directory / "key.pem", "-out", directory / "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-nodes", *subject], check=True, capture_output=True)
    hashed = subprocess.run(["openssl", "passwd", "-6", "secret"], check=True, capture_output=True, text=True)
    (directory / "htoolsd.htpasswd").write_text(f"admin:{hashed.stdout}")
    (directory / "htoolsd.token").write_text(f'proxy_set_header Authorization "Bearer {TOKEN}";\n')
    (directory / "site").write_text(adapted(directory, port, backend))
    user = "user root;" * (os.geteuid() == 0)  # who alone reads the directory
    (directory / "nginx.conf").write_text(AROUND.format(user=user, site=directory / "site"))
    config = over_tcp(backend, token_file(directory)).replace("master.example.org", NAME)
    with following(directory, uneven(), config=config):
        wait_until(lambda: listens(backend))
        nginx = subprocess.Popen([str(NGINX), "-p", directory, "-c", "nginx.conf"])
        try:
            wait_until(lambda: listens(port))
            yield port, backend
        finally:
            nginx.terminate()
            nginx.wait(PATIENCE)


def get(port: int, path: str, user: str = USER, method: str = "GET") -> tuple[int, dict[str, str], str]:
    """Return status, headers and body of an answer of nginx."""
    secret = base64.b64encode(user.encode()).decode()
    client = HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=ssl._create_unverified_context())
    with closing(client):
        client.request(method, path, headers={"Host": NAME, "Authorization": f"Basic {secret}"})
        found = client.getresponse()
        return found.status, dict(found.getheaders()), found.read().decode()


def test_page_is_shown_to_those_who_know_the_password(proxy: tuple[int, int]) -> None:
    status, headers, page = get(proxy[0], "/")
    assert status == 200
    assert page.startswith("<!DOCTYPE html>")
    assert "Node groups" in page
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert TOKEN not in page + str(headers)
    assert get(proxy[0], "/healthz")[0] == 200


@pytest.mark.parametrize(
    ("path", "user", "method", "status"),
    [
        ("/", "admin:wrong", "GET", 401),
        ("/healthz", "nobody:secret", "GET", 401),
        ("/metrics", USER, "GET", 404),
        ("/healthz/../metrics", USER, "GET", 404),
        ("/", USER, "POST", 405),
    ],
)
def test_everything_else_is_refused(
    proxy: tuple[int, int], path: str, user: str, method: str, status: int
) -> None:
    assert get(proxy[0], path, user, method)[0] == status


def test_listener_behind_it_still_wants_the_token(proxy: tuple[int, int]) -> None:
    assert ask(proxy[1], "GET / HTTP/1.1")[0] == 401
