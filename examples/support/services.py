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
    """What happened, in order: each effect with its kind, and with the run, call and attempt behind it."""

    def __init__(self) -> None:
        self._change = threading.Lock()
        self.effects: list[dict] = []

    def open_ticket(self, ticket: dict, key: str) -> dict:
        """One ticket a key, however often it is asked for."""
        with self._change:
            for known in self.effects:
                if known["kind"] == "ticket" and known["key"] == key:
                    return known
            return self._happened("ticket", {**ticket, "key": key, "id": f"T-{ticket['order']}"})

    def pay_back(self, refund: dict) -> dict:
        """Money for everybody who asks: nothing tells a repeat from a second wish."""
        with self._change:
            return self._happened("refund", {**refund, "receipt": f"RF-{refund['order']}"})

    def take_mail(self, mail: dict) -> None:
        """Deliver a mail, as often as it comes."""
        with self._change:
            self._happened("mail", mail)

    def _happened(self, kind: str, facts: dict) -> dict:
        self.effects.append({"kind": kind, **facts})
        return self.effects[-1]


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
            mails = [effect for effect in self.world.effects if effect["kind"] == "mail"]
            self._answer([mail for mail in mails if mail["id"] == wanted])
        elif url.path == "/effects":
            self._answer(self.world.effects)
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
        sender = {name: mail[f"X-{name}"] for name in ("run", "call")}
        content = {"id": mail["Message-ID"], "to": mail["To"], "subject": mail["Subject"]}
        self._world.take_mail({**sender, "attempt": int(mail["X-Attempt"]), **content})
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
