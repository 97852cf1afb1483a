"""HTTP by hand: what is compared byte for byte must not pass through a library."""

import socket
from dataclasses import dataclass, field


@dataclass
class Answer:
    """An answer as it came: its head in order and in its own case, its body unframed."""

    status_line: str
    fields: list
    body: bytes
    framing: str
    rest: bytes = field(default=b"", repr=False)

    @property
    def status(self):
        return int(self.status_line.split()[1])

    def get(self, name):
        values = [v for n, v in self.fields if n.lower() == name.lower()]
        return values[0] if values else None


class Closed(Exception):
    """The connection ended before the answer did; holds what came."""


class Wire:
    """One connection."""

    def __init__(self, host, port, within=30.0):
        self.socket = socket.create_connection((host, port), timeout=within)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def send(self, data):
        self.socket.sendall(data)

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes it with an RST: what the other side sends next fails."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _more(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise Closed(self.buffer)
        self.buffer += data

    def _take_until(self, mark):
        searched = 0
        while True:
            at = self.buffer.find(mark, max(0, searched - len(mark)))
            if at >= 0:
                taken, self.buffer = self.buffer[:at], self.buffer[at + len(mark) :]
                return taken
            searched = len(self.buffer)
            self._more()

    def _take(self, count):
        parts, missing = [self.buffer[:count]], count - len(self.buffer[:count])
        self.buffer = self.buffer[count:]
        while missing:
            data = self.socket.recv(min(missing, 1 << 20))
            if not data:
                raise Closed(b"".join(parts))
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def head(self):
        """Reads a head: status line and fields."""
        lines = self._take_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        fields = []
        for line in lines[1:]:
            name, value = line.split(":", 1)
            fields.append((name, value.strip()))
        return lines[0], fields

    def answer(self, method="GET"):
        """Reads an answer whole; interim answers are passed over."""
        while True:
            status_line, fields = self.head()
            status = int(status_line.split()[1])
            if not 100 <= status < 200:
                break
        low = [(n.lower(), v) for n, v in fields]
        length = next((int(v) for n, v in low if n == "content-length"), None)
        chunked = any(n == "transfer-encoding" for n, _ in low)
        if method == "HEAD" or status in (204, 304):
            return Answer(status_line, fields, b"", "none")
        if chunked:
            return Answer(status_line, fields, self._chunks(), "chunked")
        if length is not None:
            return Answer(status_line, fields, self._take(length), "length")
        return Answer(status_line, fields, self._to_end(), "close")

    def _chunks(self):
        body = []
        while True:
            size = int(self._take_until(b"\r\n").split(b";")[0], 16)
            if size == 0:
                while self._take_until(b"\r\n"):
                    pass
                return b"".join(body)
            body.append(self._take(size))
            self._take(2)

    def _to_end(self):
        try:
            while True:
                self._more()
        except Closed:
            taken, self.buffer = self.buffer, b""
            return taken

    def until_closed(self):
        """Everything up to the end of the connection, however it ends."""
        try:
            while True:
                self._more()
        except (Closed, ConnectionError):
            return self.buffer


def head_of(method, target, fields):
    """A request's head, each field exactly as it is given."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def ask(host, port, method, target, fields=(), body=None, within=30.0):
    """One request on a connection of its own; `body` gets a `Content-Length`."""
    fields = [("Host", f"{host}:{port}"), *fields]
    if body is not None:
        fields.append(("Content-Length", str(len(body))))
    with Wire(host, port, within) as wire:
        wire.send(head_of(method, target, fields) + (body or b""))
        return wire.answer(method)
