"""A model that answers from a file: what it says depends on the conversation, and on nothing else."""

from __future__ import annotations

import json
from pathlib import Path

from perdure import ModelError
from perdure.domain.messages import Reply, TextPart, ToolRequest, ToolResultsMessage, Usage, UserMessage


class ScriptedSupport:
    """Finds the request by what the customer wrote, and plays its script, step by step."""

    name = "scripted-support"

    def __init__(self, requests: Path) -> None:
        entries = [json.loads(path.read_text()) for path in sorted(requests.glob("*.json"))]
        self._scripts = {entry["message"]: entry["script"] for entry in entries}

    async def respond(self, request) -> Reply:
        """Answer with the step that is due; `{1.2}` stands for the result of call 2 of step 1."""
        asked = next(message.text for message in request.messages if isinstance(message, UserMessage))
        script = self._scripts[asked]
        if request.step > len(script):
            raise ModelError(f"the script ends after step {len(script)}", kind="permanent")
        step = script[request.step - 1]
        text = step.get("text", "")
        for place, content in results(request.messages).items():
            text = text.replace(f"{{{place}}}", content)
        calls = [
            ToolRequest(name=call["tool"], arguments=json.dumps(call["arguments"]), provider_call_id="call")
            for call in step.get("calls", [])
        ]
        said = [TextPart(text=text)] if text else []
        words = sum(len(str(message)) for message in request.messages) // 4
        return Reply(parts=(*said, *calls), usage=Usage(input_tokens=words, output_tokens=len(text) // 4 + 1))


def results(messages) -> dict[str, str]:
    """Tool results so far, by step and place."""
    rounds = [message for message in messages if isinstance(message, ToolResultsMessage)]
    return {
        f"{step}.{place}": result.content
        for step, message in enumerate(rounds, start=1)
        for place, result in enumerate(message.results, start=1)
    }
