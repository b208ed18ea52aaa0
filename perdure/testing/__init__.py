"""What users import into their own tests."""

from perdure.testing.scripted_model import ScriptedModel, asks, fails, says, together

__all__ = ["ScriptedModel", "asks", "fails", "says", "together"]
