"""A bad cable: stands between guard and controller and forwards bytes, or delays, drops, cuts and corrupts them.

One selector, no threads, time as the operating system gives it. Each direction has its own `Trouble`; bytes leave in
the order they came. `python -m steadyhand_cli.injection.proxy --listen A --forward B` serves the controller's ports and
reads commands, one JSON object a line, from its standard input: {"port": 30004, "way": "to_robot", "trouble": {...}} or
{"cut": PORT}; each is answered by one line. It ends when its input is closed.
"""
from __future__ import annotations

import argparse
import errno
import json
import os
import selectors
import socket
import struct
import sys
import time
from collections import deque
from dataclasses import dataclass, field, fields

from steadyhand.errors import ConfigError, RobotError

PORTS = (29999, 30002, 30004)  # dashboard, script, RTDE: those that get into trouble
SOUND = (30001,)  # primary, forwarded too
WAYS = ("to_robot", "to_guard")
MAX_READ = 65536
MAX_HELD = 1 << 22  # bytes waiting in one direction; beyond, the sender feels it as a full cable
PRIORITY = 15  # SCHED_FIFO: below the guard, above the controller; a slow cable is asked for, not suffered


@dataclass(frozen=True)
class Trouble:
    """What happens to one direction. The default forwards everything at once."""

    delay_s: float = 0.0  # every byte leaves so much later
    drop: bool = False  # bytes vanish; the connection stands: half-open
    hold: bool = False  # bytes wait until the trouble ends, then all come at once: a frozen switch
    truncate_bytes: int = -1  # the next bytes are cut off after so many, then the connection closes; -1: not
    corrupt: int = 0  # in every n-th read one byte is changed; 0: never

    def __post_init__(self) -> None:
        if not 0.0 <= self.delay_s <= 10.0:
            raise ConfigError(f"trouble delay_s={self.delay_s}: give 0 to 10")
        for name, least in (("truncate_bytes", -1), ("corrupt", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or not least <= value <= MAX_HELD:
                raise ConfigError(f"trouble {name}={value!r}: give a whole number from {least} to {MAX_HELD}")

    @staticmethod
    def of(raw: object) -> Trouble:
        """From JSON; ConfigError naming what is unknown."""
        known = {f.name: f.type for f in fields(Trouble)}
        if not isinstance(raw, dict) or set(raw) - set(known):
            raise ConfigError(f"trouble {raw!r}: known are {', '.join(known)}")
        for name, value in raw.items():
            boolean = known[name] == "bool"
            if isinstance(value, bool) != boolean or not isinstance(value, (int, float)):
                raise ConfigError(f"trouble {name}={value!r}: give {'true or false' if boolean else 'a number'}")
        return Trouble(**raw)


@dataclass(eq=False)
class _End:
    """One socket of a pair. `held` are bytes that it shall send, with the time at which they may leave."""

    sock: socket.socket
    way: str  # of the bytes that are read here
    peer: _End | None = None
    held: deque = field(default_factory=deque)  # (time, bytes); no bytes: the connection's end
    held_bytes: int = 0
    reads: int = 0
    waits: bool = False  # not read while its peer holds too much


@dataclass
class _Port:
    """A listening port and its pairs."""

    listener: socket.socket | None
    forward: tuple[str, int]
    trouble: dict[str, Trouble] = field(default_factory=lambda: dict.fromkeys(WAYS, Trouble()))
    ends: list[_End] = field(default_factory=list)


class LinkProxy:
    """Ports of one address forwarded to another. `ports` maps a port to listen on (0: a free one) to where it leads."""

    def __init__(self, listen_host: str, forward_host: str, ports: dict[int, int] | None = None):
        self.host = listen_host
        self.counters = {"pairs": 0, "cut": 0, "refused": 0, "bytes": 0, "dropped": 0, "corrupted": 0, "truncated": 0}
        self._selector = selectors.SelectSelector()
        self._ports: dict[int, _Port] = {}
        for port, target in (ports or {p: p for p in (*PORTS, *SOUND)}).items():
            self._listen(port, (forward_host, target))

    def _listen(self, port: int, forward: tuple[str, int]) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self.host, port))
            listener.listen(8)
        except OSError as error:
            listener.close()
            self.close()
            raise RobotError(f"port {port} of {self.host}: {error.strerror}") from error
        listener.setblocking(False)
        number = listener.getsockname()[1]
        self._ports[number] = _Port(listener, forward)
        self._selector.register(listener, selectors.EVENT_READ, number)

    @property
    def ports(self) -> list[int]:
        """Ports listened on."""
        return list(self._ports)

    # --- commands ---

    def set_trouble(self, port: int, way: str, trouble: Trouble) -> None:
        """Begin or end (`Trouble()`) the trouble of one direction of a port."""
        if port not in self._ports or way not in WAYS:
            raise ConfigError(f"port {port!r} way {way!r}: give one of {self.ports} and of {', '.join(WAYS)}")
        self._ports[port].trouble[way] = trouble

    def cut(self, port: int) -> None:
        """Reset every connection of a port, as a pulled plug with an attentive kernel. New ones are accepted."""
        for end in list(self._port(port).ends):
            self._drop(end, reset=True)
            self.counters["cut"] += 1

    def _port(self, port: int) -> _Port:
        if port not in self._ports:
            raise ConfigError(f"port {port!r}: give one of {self.ports}")
        return self._ports[port]

    def command(self, line: str) -> dict:
        """One command of the standard input; its answer."""
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise ConfigError("give a JSON object")
            if "cut" in request:
                self.cut(request["cut"])
            else:
                self.set_trouble(request.get("port"), request.get("way"), Trouble.of(request.get("trouble", {})))
        except (ValueError, TypeError, ConfigError) as error:
            return {"ok": False, "error": str(error)}
        return {"ok": True, "done_s": time.monotonic(), "counters": dict(self.counters)}

    # --- forwarding ---

    def service(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` for traffic and serve it; whether a watched descriptor became readable."""
        wait_s = min([timeout_s, *(max(0.0, t - time.monotonic()) for t in self._due())])
        events, ready = self._selector.select(wait_s), False
        for key, _ in events:
            if key.data is None:
                ready = True
            elif isinstance(key.data, int):
                self._accept(self._ports[key.data])
            elif key.data[1] in key.data[0].ends:
                self._read(*key.data)
        now_s = time.monotonic()
        for port in self._ports.values():
            for end in list(port.ends):
                if end in port.ends:
                    self._send(port, end, now_s)
        return ready

    def watch(self, descriptor: int) -> None:
        """Let `service` wake up for this descriptor too."""
        self._selector.register(descriptor, selectors.EVENT_READ, None)

    def _due(self) -> list[float]:
        """Times at which held bytes may leave; now and then for those that the kernel did not take."""
        soon = time.monotonic() + 0.001
        return [
            max(end.held[0][0], soon) for port in self._ports.values() for end in port.ends
            if end.held and not port.trouble[end.peer.way].hold
        ]

    def _accept(self, port: _Port) -> None:
        try:
            near, _ = port.listener.accept()
        except OSError:
            return
        far = socket.socket()
        for sock in (near, far):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if far.connect_ex(port.forward) not in (0, errno.EINPROGRESS):
            near.close()
            far.close()
            self.counters["refused"] += 1
            return
        a, b = _End(near, "to_robot"), _End(far, "to_guard")
        a.peer, b.peer = b, a
        for end in (a, b):
            port.ends.append(end)
            self._selector.register(end.sock, selectors.EVENT_READ, (port, end))
        self.counters["pairs"] += 1

    def _read(self, port: _Port, end: _End) -> None:
        if end.peer.held_bytes > MAX_HELD:
            self._selector.unregister(end.sock)
            end.waits = True
            return
        try:
            data = end.sock.recv(MAX_READ)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ENOTCONN:
                self._drop(end)
            return
        trouble = port.trouble[end.way]
        if not data:
            self._selector.unregister(end.sock)
            if not trouble.drop:  # a cable that swallows bytes swallows the farewell too
                self._hold(end.peer, b"", trouble)
            return
        end.reads += 1
        if trouble.drop:
            self.counters["dropped"] += len(data)
            return
        if trouble.corrupt > 0 and end.reads % trouble.corrupt == 0:
            middle = len(data) // 2
            data = data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1:]
            self.counters["corrupted"] += 1
        self.counters["bytes"] += len(data)
        if trouble.truncate_bytes >= 0:
            self.counters["truncated"] += 1
            port.trouble[end.way] = Trouble()
            self._selector.unregister(end.sock)
            if trouble.truncate_bytes:
                self._hold(end.peer, data[: trouble.truncate_bytes], trouble)
            self._hold(end.peer, b"", trouble)
            return
        self._hold(end.peer, data, trouble)

    @staticmethod
    def _hold(end: _End, data: bytes, trouble: Trouble) -> None:
        end.held.append((time.monotonic() + trouble.delay_s, data))
        end.held_bytes += len(data)

    def _send(self, port: _Port, end: _End, now_s: float) -> None:
        if port.trouble[end.peer.way].hold:
            return
        try:
            while end.held and end.held[0][0] <= now_s:
                at_s, data = end.held[0]
                if not data:
                    return self._drop(end)
                sent = end.sock.send(data)
                end.held_bytes -= sent
                if sent < len(data):
                    end.held[0] = at_s, data[sent:]
                else:
                    end.held.popleft()
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno not in (errno.ENOTCONN, errno.EINPROGRESS):
                return self._drop(end)
        if end.peer.waits and end.held_bytes <= MAX_HELD:
            end.peer.waits = False
            self._selector.register(end.peer.sock, selectors.EVENT_READ, (port, end.peer))
        return None

    def _drop(self, end: _End, reset: bool = False) -> None:
        """Close both sockets of a pair."""
        for one in (end, end.peer):
            port = next((p for p in self._ports.values() if one in p.ends), None)
            if port is None:
                continue
            port.ends.remove(one)
            try:
                self._selector.unregister(one.sock)
            except KeyError:
                pass  # it had ended before, or waits
            if reset:
                one.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.sock.close()

    def close(self) -> None:
        """Close everything."""
        for port in self._ports.values():
            for end in list(port.ends):
                self._drop(end)
            port.listener.close()
        self._selector.close()


def main(argv: list[str] | None = None) -> int:
    """Entry point: serve until the standard input is closed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--listen", required=True)
    parser.add_argument("--forward", required=True)
    args = parser.parse_args(argv)
    try:
        proxy = LinkProxy(args.listen, args.forward)
    except RobotError as error:
        print(json.dumps({"ok": False, "error": str(error)}), flush=True)
        return 1
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except PermissionError:
        pass
    print(json.dumps({"ok": True, "ready": args.listen}), flush=True)
    descriptor, pending = sys.stdin.fileno(), b""
    os.set_blocking(descriptor, False)
    proxy.watch(descriptor)
    while True:
        if not proxy.service(0.05):
            continue
        data = os.read(descriptor, 4096)
        if not data:
            proxy.close()
            return 0
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            print(json.dumps(proxy.command(line.decode("utf-8", "replace"))), flush=True)


if __name__ == "__main__":
    sys.exit(main())
