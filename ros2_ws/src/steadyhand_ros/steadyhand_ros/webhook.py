"""Reports to an HTTP address, as JSON: a bounded queue, retries with back-off, a thread of its own. Never waited for.

What the other side does (hang, drip, refuse, fail) costs this thread time and nobody else: `put` returns at once, a
full queue loses the document and counts it. 2xx is success; 408, 429, 5xx and no answer are tried again; anything else
is not.
"""
from __future__ import annotations

import contextlib
import http.client
import json
import queue
import socket
import ssl
import threading
from collections import Counter
from dataclasses import dataclass
from urllib.parse import urlsplit

from steadyhand.config import check_ranges, described
from steadyhand.errors import ConfigError
from steadyhand_firmware_bridge import tls

AGAIN = frozenset({408, 429})


@dataclass(frozen=True)
class WebhookConfig:
    """Where reports are sent, and how patiently."""

    url: str = described("", "http(s) address that takes reports by POST as JSON; empty: none")
    ca_file: str = described("", "authorities (PEM) to trust for https; empty: the system's")
    timeout_s: float = described(3.0, "one attempt, from connecting to the status line", "s", 0.1, 60.0)
    attempts: int = described(6, "attempts per report", "", 1, 100)
    backoff_s: float = described(1.0, "pause after the first failed attempt; doubled after each", "s", 0.01, 60.0)
    backoff_max_s: float = described(60.0, "longest pause", "s", 0.01, 3600.0)
    queue_max: int = described(16, "reports that wait at most", "", 1, 1000)

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.url:
            _address(self.url)


def _address(url: str) -> tuple[str, str, int | None, str]:
    """Scheme, host, port, path. Raises ConfigError naming what is wrong."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"webhook.url = {url[:100]!r}: {error}") from None
    readable = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not parts.hostname or not readable:
        raise ConfigError(f"webhook.url = {url[:100]!r}: give http://host[:port]/path or https://")
    return parts.scheme, parts.hostname, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


class Webhook:
    """See the module. `counters`: sent, failed attempts, given_up, dropped."""

    def __init__(self, config: WebhookConfig):
        self.config, self.counters, self.last_error = config, Counter(), ""
        self._address = _address(config.url)
        secure = self._address[0] == "https"
        self._context = tls.client_context(tls.TlsConfig(config.ca_file, owner="webhook")) if secure else None
        self._queue: queue.Queue[bytes] = queue.Queue(config.queue_max)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="webhook", daemon=True)
        self._thread.start()

    def put(self, document: dict) -> bool:
        """Queue one document; False when it was lost because the queue is full."""
        try:
            self._queue.put_nowait(json.dumps(document, default=str).encode())
        except queue.Full:
            self.counters["dropped"] += 1
            return False
        return True

    def close(self, timeout_s: float = 1.0) -> None:
        """No more attempts; waits at most so long for the one under way. What is queued is lost."""
        self._stop.set()
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                body = self._queue.get(timeout=0.2)
            except queue.Empty:
                continue
            self._deliver(body)

    def _deliver(self, body: bytes) -> None:
        pause_s = self.config.backoff_s
        for _ in range(self.config.attempts):
            status = self._post(body)
            if status is not None and 200 <= status < 300:
                self.counters["sent"] += 1
                return
            self.counters["failed"] += 1
            if status is not None and status < 500 and status not in AGAIN:
                break  # it will not be taken the next time either
            if self._stop.wait(pause_s):
                return
            pause_s = min(2 * pause_s, self.config.backoff_max_s)
        self.counters["given_up"] += 1

    def _post(self, body: bytes) -> int | None:
        """Status of one attempt; None when there was none within `timeout_s`."""
        scheme, host, port, path = self._address
        limit_s = self.config.timeout_s
        if scheme == "https":
            connection = http.client.HTTPSConnection(host, port, timeout=limit_s, context=self._context)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=limit_s)
        late = threading.Event()
        # a peer that drips never times out by itself
        deadline = threading.Timer(limit_s, _cut, (connection, late))
        deadline.daemon = True
        deadline.start()
        try:
            connection.connect()
            if late.is_set():  # in the middle of a TLS handshake there was nothing to cut
                raise TimeoutError(f"no connection within {limit_s} s")
            connection.request("POST", path, body, {"Content-Type": "application/json", "User-Agent": "steadyhand"})
            status = connection.getresponse().status
            return None if late.is_set() else status  # cut off in the middle of an answer: none
        except ssl.SSLError as error:
            refused = isinstance(error, ssl.SSLCertVerificationError)
            peer = tls.peer_certificate(host, port or 443, limit_s) if refused else None
            self.last_error = tls.explain(error, host, peer)
            return None
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.last_error = f"{type(error).__name__}: {error}"
            return None
        finally:
            deadline.cancel()
            connection.close()


def _cut(connection: http.client.HTTPConnection, late: threading.Event) -> None:
    late.set()
    with contextlib.suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)
