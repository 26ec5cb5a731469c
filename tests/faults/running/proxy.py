"""A bad line to the broker: a TCP proxy that delays, throttles and cuts what passes through it."""

import contextlib
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, field

LOOPBACK = "127.0.0.1"
PIECE = 16 * 1024
TICK = 0.02


@dataclass(slots=True)
class Line:
    """One direction of one connection: what came in, and when it may go out."""

    source: socket.socket
    target: socket.socket
    waiting: deque[tuple[float, bytes]] = field(default_factory=deque)
    ended: bool = False


class Proxy:
    """Passes connections on to a port of this machine.

    Args:
        port: Where the broker listens.
        delay: Seconds that each byte is under way, in each direction.
        rate: Bytes a second, in each direction of each connection.
        cut_every: Seconds after which all connections are cut, again and again; 0: never.
    """

    def __init__(self, port: int, *, delay: float, rate: float, cut_every: float) -> None:
        self._target, self._delay, self._rate, self._cut_every = port, delay, rate, cut_every
        self._server = socket.create_server((LOOPBACK, 0))
        self.port = int(self._server.getsockname()[1])
        self.passed = 0  # bytes
        self.cuts = 0  # connections
        self._open: set[socket.socket] = set()
        self._lock, self._closed = threading.Lock(), threading.Event()
        for work in (self._accept, self._cut):
            threading.Thread(target=work, daemon=True).start()

    def close(self) -> None:
        """End every connection and stop listening."""
        self._closed.set()
        self._server.close()
        self._cut_all()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._server.accept()
                broker = socket.create_connection((LOOPBACK, self._target), 10)
            except OSError:
                continue
            with self._lock:
                self._open |= {client, broker}
            for line in (Line(client, broker), Line(broker, client)):
                for work in (self._receive, self._forward):
                    threading.Thread(target=work, args=(line,), daemon=True).start()

    def _receive(self, line: Line) -> None:
        """Read as fast as the rate allows."""
        try:
            while piece := line.source.recv(PIECE):
                line.waiting.append((time.monotonic() + self._delay, piece))
                time.sleep(len(piece) / self._rate)
        except OSError:
            pass  # cut
        line.ended = True

    def _forward(self, line: Line) -> None:
        """Pass on what has been under way for long enough."""
        try:
            while line.waiting or not line.ended:
                if line.waiting and line.waiting[0][0] <= time.monotonic():
                    _, piece = line.waiting.popleft()
                    line.target.sendall(piece)
                    self.passed += len(piece)
                else:
                    time.sleep(TICK)
        except OSError:
            pass  # cut
        self._end({line.source, line.target})

    def _cut(self) -> None:
        while self._cut_every and not self._closed.wait(self._cut_every):
            self.cuts += self._cut_all()

    def _cut_all(self) -> int:
        with self._lock:
            _open = set(self._open)
        self._end(_open)
        return len(_open) // 2

    def _end(self, sockets: set[socket.socket]) -> None:
        with self._lock:
            self._open -= sockets
        for connection in sockets:
            with contextlib.suppress(OSError):  # the other side was faster
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
