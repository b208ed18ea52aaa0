"""The world around the agent, on loopback: a helpdesk, a mail server and a payment service.

Run as a program it prints one line of JSON with its ports, and works until its standard input ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from aiosmtpd.smtp import SMTP


class World:
    """What happened, in order."""

    def __init__(self) -> None:
        self._change = threading.Lock()
        self.tickets: list[dict] = []
        self.mails: list[dict] = []
        self.refunds: list[dict] = []

    def open_ticket(self, ticket: dict, key: str) -> dict:
        """One ticket a key, however often it is asked for."""
        with self._change:
            for known in self.tickets:
                if known["key"] == key:
                    return known
            ticket = {**ticket, "key": key, "id": f"T-{ticket['order']}"}
            self.tickets.append(ticket)
            return ticket

    def pay_back(self, refund: dict) -> dict:
        """Money for everybody who asks: nothing tells a repeat from a second wish."""
        with self._change:
            self.refunds.append({**refund, "receipt": f"RF-{refund['order']}"})
            return self.refunds[-1]

    def take_mail(self, mail: dict) -> None:
        """Deliver a mail."""
        with self._change:
            self.mails.append(mail)


class Web(BaseHTTPRequestHandler):
    """The services over HTTP."""

    world: World

    def do_POST(self) -> None:
        """Open a ticket, or refund."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tickets":
            self._answer(self.world.open_ticket(body, self.headers["Idempotency-Key"]))
        elif self.path == "/refunds":
            self._answer(self.world.pay_back(body))
        else:
            self.send_error(404)

    def do_GET(self) -> None:
        """List mails by id, or everything."""
        url = urlsplit(self.path)
        if url.path == "/mails":
            wanted = parse_qs(url.query)["id"][0]
            self._answer([mail for mail in self.world.mails if mail["id"] == wanted])
        elif url.path == "/effects":
            world = self.world
            self._answer({"tickets": world.tickets, "mails": world.mails, "refunds": world.refunds})
        else:
            self.send_error(404)

    def _answer(self, body) -> None:
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_args) -> None:
        """Say nothing: the terminal belongs to the demo."""


class Mailbox:
    """The mail server."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def handle_DATA(self, _server, _session, envelope) -> str:
        """Take a mail."""
        mail = message_from_bytes(envelope.content)
        entry = {"id": mail["Message-ID"], "run": mail["X-Run"], "to": mail["To"], "subject": mail["Subject"]}
        self._world.take_mail(entry)
        return "250 OK"


async def serve() -> None:
    """Serve until standard input ends: then nobody needs the services any more."""
    world = World()
    web = ThreadingHTTPServer(("127.0.0.1", 0), type("Web", (Web,), {"world": world}))
    web.daemon_threads = True
    threading.Thread(target=web.serve_forever, daemon=True).start()
    loop = asyncio.get_running_loop()
    smtp = await loop.create_server(lambda: SMTP(Mailbox(world)), "127.0.0.1", 0)
    smtp_port = smtp.sockets[0].getsockname()[1]
    print(json.dumps({"http": f"http://127.0.0.1:{web.server_port}", "smtp_port": smtp_port}), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())
