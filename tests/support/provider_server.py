"""A local server that speaks as OpenAI and Anthropic do, and is as strict about conversations as they are."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, Self

from tests.support.provider_answers import Answer, Drops, Fails, Hangs, Says, render, trace_faults
from tests.support.provider_rules import Body, anthropic_faults, openai_faults, responses_faults
from tests.support.provider_stream import stream

KEY = "sk-test-0123456789abcdef"
RULES: Mapping[str, Callable[[Body], list[str]]] = {
    "/v1/chat/completions": openai_faults,
    "/v1/responses": responses_faults,
    "/v1/messages": anthropic_faults,
}


@dataclass(frozen=True)
class Received:
    """A request as it came in; `text` is the decoded body."""

    path: str
    headers: Mapping[str, str]
    text: str
    body: Body
    faults: Sequence[str]


@dataclass
class ProviderServer:
    """Answers from a script, and gives every conversation that breaks a rule a 400 in the provider's words.

    Attributes:
        script: An answer for each request that is acceptable, in order; or a function from request to answer.
        strict: Whether faults are answered with an error; they are recorded all the same.
    """

    script: Sequence[Answer] | Callable[[Received], Answer] = ()
    strict: bool = True
    key: str = KEY
    requests: list[Received] = field(default_factory=list)
    _issued: list[Says] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._lock = Lock()
        self._closing = Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def bodies(self) -> list[Body]:
        """The bodies of all requests so far."""
        return [received.body for received in self.requests]

    def wait_for_closing(self) -> None:
        """Hold a request until the server is closed."""
        self._closing.wait()

    def answer(self, path: str, headers: Mapping[str, str], raw: bytes) -> Answer:
        """Take a request in, and say how it is answered."""
        with self._lock:
            refusal = self._refused(path, headers)
            try:
                text = raw.decode("utf-8")
                body = json.loads(text)
            except ValueError as error:
                return Fails(400, f"the body is no valid JSON: {error}")
            faults = [*RULES[path](body), *trace_faults(path, body, self._issued)] if path in RULES else []
            received = Received(path, headers, text, body, faults)
            self.requests.append(received)
            if refusal is not None:
                return refusal
            if faults and self.strict:
                return Fails(400, "; ".join(faults))
            answer = self._next(received)
            if isinstance(answer, Says):
                self._issued.append(answer)
            return answer

    def _refused(self, path: str, headers: Mapping[str, str]) -> Fails | None:
        if path not in RULES:
            return Fails(404, f"no such path: {path}")
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if path == "/v1/messages":
            given = headers.get("x-api-key") or given  # SDKs of different ages send the one or the other
            if not headers.get("anthropic-version"):
                return Fails(400, "anthropic-version: header is required")
        return None if given == self.key else Fails(401, f"Incorrect API key provided: {given}")

    def _next(self, received: Received) -> Answer:
        if callable(self.script):
            return self.script(received)
        position = sum(not each.faults for each in self.requests) - 1
        if position >= len(self.script):
            return Fails(400, f"the script has {len(self.script)} answers, and this is one more request")
        return self.script[position]


def _handler_for(server: ProviderServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            path = self.path.partition("?")[0]
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = server.answer(path, headers, raw)
            match answer:
                case Hangs():
                    server.wait_for_closing()
                    self.close_connection = True
                case Drops():
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                case Fails():
                    self._send(answer.status, answer.body(path), answer.headers)
                case Says():
                    body = render(path, answer, number=len(server.requests))
                    if path == "/v1/messages" and json.loads(raw).get("stream"):
                        self._send_raw(200, stream(body), {"content-type": "text/event-stream"})
                    else:
                        self._send(200, body, {})

        def _send(self, status: int, body: Any, headers: Mapping[str, str]) -> None:
            self._send_raw(status, json.dumps(body).encode(), {"content-type": "application/json", **headers})

        def _send_raw(self, status: int, raw: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def handle(self) -> None:
            with suppress(ConnectionError):  # a client may leave at any time
                super().handle()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            pass

    return Handler
