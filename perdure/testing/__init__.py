"""What users import into their own tests."""

from perdure.testing.logs import RunLog, a_run
from perdure.testing.scripted_model import ScriptedModel, asks, fails, says, together
from perdure.testing.specification import Given, Outcome, StubToolbox, event, given, toolbox

__all__ = [
    "Given",
    "Outcome",
    "RunLog",
    "ScriptedModel",
    "StubToolbox",
    "a_run",
    "asks",
    "event",
    "fails",
    "given",
    "says",
    "together",
    "toolbox",
]
