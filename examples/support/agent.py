"""A support agent with one tool for each policy."""

from __future__ import annotations

import hashlib
import json
import smtplib
import urllib.parse
import urllib.request
from dataclasses import dataclass
from datetime import timedelta
from email.message import EmailMessage

import psycopg

from perdure import Agent, Budget, Limits, Policy, ToolContext, ToolError, ToolRegistry, Verdict

PROMPT = "You are the support desk of a small shop. Look things up before you act. Act once."


@dataclass(frozen=True)
class Shop:
    """Where the agent's services are.

    Attributes:
        database: Connection string of the database with the table `orders`.
        schema: The schema of that table.
        http: Address of helpdesk, mailbox and payments, such as `http://127.0.0.1:8080`.
        smtp_port: Port of the mail server on 127.0.0.1.
    """

    database: str
    schema: str
    http: str
    smtp_port: int


def support_agent(shop: Shop, model) -> Agent:
    """Put the agent together."""
    tools = ToolRegistry()

    # It only reads, so running it again does no harm.
    @tools.tool(policy=Policy.RERUN, timeout=10)
    def look_up_order(order_id: str) -> dict:
        """Find an order: item, price in cents, status."""
        with psycopg.connect(shop.database) as connection:
            query = psycopg.sql.SQL("SELECT item, cents, status FROM {} WHERE order_id = %s")
            table = psycopg.sql.Identifier(shop.schema, "orders")
            row = connection.execute(query.format(table), (order_id,)).fetchone()
        if row is None:
            raise ToolError(f"there is no order {order_id}")
        return dict(zip(("item", "cents", "status"), row, strict=True))

    # The helpdesk drops a repeat that has the same key, so running it again opens no second ticket.
    @tools.tool(policy=Policy.RERUN_WITH_IDEMPOTENCY_KEY, key_ttl=timedelta(hours=24), timeout=10)
    def open_ticket(order_id: str, title: str, ctx: ToolContext) -> str:
        """Open a ticket for the warehouse; returns its number."""
        ticket = {"order": order_id, "title": title}
        return post(f"{shop.http}/tickets", ticket, ctx, {"Idempotency-Key": ctx.idempotency_key})["id"]

    # A mail server sends a mail twice if it is told twice; but it can be asked whether it has it.
    def mail_landed(to: str, subject: str, body: str, ctx: ToolContext) -> Verdict:  # noqa: ARG001
        query = urllib.parse.quote(message_id(ctx))
        with urllib.request.urlopen(f"{shop.http}/mails?id={query}", timeout=2) as answer:
            found = json.load(answer)
        return Verdict.landed(f"sent to {to}") if found else Verdict.not_landed()

    # After 2 seconds an attempt is given up. What it sent may still arrive: for half a second, between
    # two processes of one machine. "Not landed" is not believed before.
    @tools.tool(policy=Policy.VERIFY_THEN_DECIDE, verify=mail_landed, timeout=2, settle=0.5)
    def send_mail(to: str, subject: str, body: str, ctx: ToolContext) -> str:
        """Send a mail to a customer."""
        mail = EmailMessage()
        mail["To"], mail["From"], mail["Subject"] = to, "support@shop.example", subject
        mail["Message-ID"] = message_id(ctx)
        mail["X-Run"], mail["X-Call"], mail["X-Attempt"] = ctx.run_id, ctx.call_id, str(ctx.attempt)
        mail.set_content(body)
        ctx.ensure_owned()
        with smtplib.SMTP("127.0.0.1", shop.smtp_port, timeout=2) as server:
            server.send_message(mail)
        return f"sent to {to}"

    # The payment service pays whenever it is asked, and nothing can be asked whether it has: a person
    # decides. That is the default, so no policy is named.
    @tools.tool(timeout=10)
    def refund(order_id: str, cents: int, ctx: ToolContext) -> str:
        """Pay money back for an order; returns the receipt."""
        ctx.ensure_owned()
        return post(f"{shop.http}/refunds", {"order": order_id, "cents": cents}, ctx, {})["receipt"]

    return Agent(
        "support",
        model=model,
        prompt_version="v14",
        prompt=PROMPT,
        tools=tools,
        budget=Budget(steps=10, tokens=20_000, wall_clock=timedelta(hours=1)),
        # One tool at a time: a customer's order of things is kept.
        limits=Limits(parallel_calls=1, first_delay=0.2),
    )


def message_id(ctx: ToolContext) -> str:
    """The same for every attempt of a call, so that a mail can be found again.

    It is short: a long header is folded on its way, and then does not come back as it was sent.
    """
    return f"<{hashlib.sha256(ctx.idempotency_key.encode()).hexdigest()[:32]}@shop.example>"


def post(url: str, body: dict, ctx: ToolContext, headers: dict[str, str]) -> dict:
    """Send JSON, with who is asking, and return JSON."""
    who = {"run": ctx.run_id, "call": ctx.call_id, "attempt": ctx.attempt}
    request = urllib.request.Request(
        url,
        data=json.dumps({**body, **who}).encode(),
        headers={"Content-Type": "application/json", **headers},
    )
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.load(answer)
