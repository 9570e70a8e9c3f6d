"""The webhook against real HTTP servers on this machine: good, failing, refusing, hanging, dripping, gone."""
import json
import re
import socket
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from steadyhand.errors import ConfigError
from steadyhand_firmware_bridge.tls import TlsConfig, server_context
from steadyhand_ros.webhook import Webhook, WebhookConfig
from tests.support.authority import Authority


class Receiver:
    """An HTTP server that answers with the given statuses in turn, the last one for ever."""

    def __init__(self, *statuses: int, context: ssl.SSLContext | None = None):
        self.bodies, self.arrived, left = [], threading.Event(), list(statuses)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.bodies.append((self.path, self.headers["Content-Type"], body))
                self.send_response(left.pop(0) if len(left) > 1 else left[0])
                self.end_headers()
                receiver.arrived.set()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        scheme = "https" if context else "http"
        self.url = f"{scheme}://127.0.0.1:{self.server.server_port}/reports?cell=1"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class RawServer:
    """Accepts connections and does what `act(connection)` does."""

    def __init__(self, act):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url, self.connections = f"http://127.0.0.1:{self.listener.getsockname()[1]}/", []
        threading.Thread(target=self._accept, args=(act,), daemon=True).start()

    def _accept(self, act):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=act, args=(connection,), daemon=True).start()

    def close(self):
        self.listener.close()
        for connection in self.connections:
            connection.close()


def hang(connection):
    """Takes everything and never answers."""


def drip(connection):
    """One byte of a header now and then, for ever."""
    try:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while True:
            connection.sendall(b"x")
            time.sleep(0.02)
    except OSError:
        pass


QUICK = dict(timeout_s=0.2, attempts=3, backoff_s=0.01)
PATIENT = QUICK | {"timeout_s": 10.0}  # for servers that answer, on a busy machine too


def until(condition, limit_s=5.0):
    end_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.005)


@pytest.fixture
def opened():
    things = []
    yield lambda thing: things.append(thing) or thing
    for thing in reversed(things):
        thing.close()


def test_a_report_arrives_as_json(opened):
    receiver = opened(Receiver(200))
    hook = opened(Webhook(WebhookConfig(receiver.url)))
    assert hook.put({"event": "task_given_up", "layer": "hardware", "findings": ("a", "b")})
    until(lambda: hook.counters["sent"] == 1)
    path, kind, body = receiver.bodies[0]
    assert (path, kind) == ("/reports?cell=1", "application/json")
    assert json.loads(body) == {"event": "task_given_up", "layer": "hardware", "findings": ["a", "b"]}


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_what_may_pass_is_tried_again(opened, status):
    receiver = opened(Receiver(status, status, 204))
    hook = opened(Webhook(WebhookConfig(receiver.url, **PATIENT)))
    hook.put({})
    until(lambda: hook.counters["sent"] == 1)
    assert len(receiver.bodies) == 3 and hook.counters["failed"] == 2


@pytest.mark.parametrize("status", [301, 400, 401, 404])
def test_what_will_not_pass_is_not_tried_again(opened, status):
    receiver = opened(Receiver(status))
    hook = opened(Webhook(WebhookConfig(receiver.url, **PATIENT)))
    hook.put({})
    until(lambda: hook.counters["given_up"] == 1)
    assert len(receiver.bodies) == 1


def test_for_ever_500_is_given_up_and_the_next_report_is_sent(opened):
    receiver = opened(Receiver(500, 500, 500, 200))
    hook = opened(Webhook(WebhookConfig(receiver.url, **PATIENT)))
    hook.put({"n": 1})
    hook.put({"n": 2})
    until(lambda: hook.counters["sent"] == 1)
    assert hook.counters["given_up"] == 1 and json.loads(receiver.bodies[-1][2]) == {"n": 2}


@pytest.mark.parametrize("act", [hang, drip])
def test_a_server_that_does_not_finish_costs_its_time_limit_only(opened, act):
    server = opened(RawServer(act))
    hook = opened(Webhook(WebhookConfig(server.url, **QUICK)))
    hook.put({})
    until(lambda: hook.counters["given_up"] == 1)
    assert hook.counters["failed"] == 3 and hook.counters["sent"] == 0


def test_nobody_there_is_given_up(opened):
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
    hook = opened(Webhook(WebhookConfig(url, **QUICK)))
    hook.put({})
    until(lambda: hook.counters["given_up"] == 1)


def test_a_full_queue_loses_and_counts_and_never_waits(opened):
    server = opened(RawServer(hang))
    hook = opened(Webhook(WebhookConfig(server.url, timeout_s=30.0, queue_max=2)))
    hook.put({})
    until(lambda: server.connections)
    assert [hook.put({}) for _ in range(4)] == [True, True, False, False]
    assert hook.counters["dropped"] == 2


def test_pauses_double_up_to_their_limit(opened, monkeypatch):
    receiver, pauses = opened(Receiver(500)), []
    hook = opened(Webhook(WebhookConfig(receiver.url, attempts=6, backoff_s=0.5, backoff_max_s=3.0)))
    monkeypatch.setattr(hook._stop, "wait", lambda s: pauses.append(s) and False)
    hook.put({})
    until(lambda: hook.counters["given_up"] == 1)
    assert pauses == [0.5, 1.0, 2.0, 3.0, 3.0, 3.0]


def test_over_tls_a_known_server_takes_the_report_and_others_are_named_and_told_nothing(opened, tmp_path):
    authority, strange = Authority(tmp_path), Authority(tmp_path, "Somebody else")
    good, expired = authority.issue("reports"), authority.issue("old", days=(-9, -2))
    receiver = opened(Receiver(200, context=server_context(TlsConfig(cert_file=good[0], key_file=good[1]))))
    hook = opened(Webhook(WebhookConfig(receiver.url, authority.ca_file, **PATIENT)))
    hook.put({"n": 1})
    until(lambda: hook.counters["sent"] == 1)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old.load_cert_chain(*expired)
    forgotten = opened(Receiver(200, context=old))
    for server, ca_file, said in (
        (receiver, strange.ca_file, "authority is not trusted"), (forgotten, authority.ca_file, "CN=old'.* expired on"),
    ):
        taken = len(server.bodies)
        hook = opened(Webhook(WebhookConfig(server.url, ca_file, **PATIENT)))
        hook.put({"secret": 1})
        until(lambda hook=hook: hook.counters["given_up"] == 1)
        assert re.search(said, hook.last_error) and len(server.bodies) == taken


def test_a_server_that_is_slow_to_connect_to_and_to_shake_hands_is_not_waited_for_beyond_the_limit(
    opened, tmp_path, monkeypatch
):
    authority, begun = Authority(tmp_path), []
    context = server_context(TlsConfig(cert_file=(files := authority.issue("slow"))[0], key_file=files[1]))
    connect = socket.create_connection

    def slow(*given, **named):
        begun.append(time.monotonic())
        time.sleep(0.3)  # of 0.5 s; so the limit is reached in the middle of the handshake
        return connect(*given, **named)

    def shake_hands_and_drip(plain):
        time.sleep(0.35)
        with context.wrap_socket(plain, server_side=True) as secure:
            drip(secure)

    server = opened(RawServer(shake_hands_and_drip))
    monkeypatch.setattr(socket, "create_connection", slow)
    url = server.url.replace("http:", "https:")
    hook = opened(Webhook(WebhookConfig(url, authority.ca_file, timeout_s=0.5, attempts=2, backoff_s=0.01)))
    hook.put({})
    until(lambda: hook.counters["given_up"] == 1)
    assert hook.counters["failed"] == 2 and "0.5 s" in hook.last_error and len(begun) == 2


@pytest.mark.parametrize("url", [
    "ftp://x/", "http://", "x", "http://a b/", "http://x:99999/", "http://x\r\nHost: y/", "file:///etc/passwd",
])
def test_a_wrong_address_is_refused_by_name(url):
    with pytest.raises(ConfigError, match="webhook.url"):
        WebhookConfig(url)
