"""perdure: event-sourced LLM agent runs that survive restarts without repeating side effects."""

from perdure.application.agent import Agent
from perdure.application.tool_context import ToolContext
from perdure.application.tool_registry import ToolRegistry
from perdure.application.worker import Worker
from perdure.domain.budget import Budget
from perdure.domain.errors import (
    CallAlreadyResolved,
    CallNotFound,
    ConfigurationError,
    DatabaseError,
    InvalidInput,
    LogConflict,
    LogError,
    LogRefused,
    LogUnavailable,
    MissingExtra,
    ModelError,
    NewerLog,
    OwnershipError,
    OwnershipLost,
    PerdureError,
    RunAlreadyStarted,
    RunError,
    RunFinished,
    RunIsOwned,
    RunNotFound,
    RunNotRunnable,
    ToolDefinitionError,
    ToolError,
    UnreadableEvent,
)
from perdure.domain.messages import AssistantMessage, UserMessage
from perdure.domain.moves import Limits
from perdure.domain.run import AgentRun
from perdure.domain.state import RunState, RunStatus
from perdure.domain.tools import Policy, Resolution, Verdict
from perdure.infrastructure.composition import AgentRuns

__all__ = [
    "Agent",
    "AgentRun",
    "AgentRuns",
    "AssistantMessage",
    "Budget",
    "CallAlreadyResolved",
    "CallNotFound",
    "ConfigurationError",
    "DatabaseError",
    "InvalidInput",
    "Limits",
    "LogConflict",
    "LogError",
    "LogRefused",
    "LogUnavailable",
    "MissingExtra",
    "ModelError",
    "NewerLog",
    "OwnershipError",
    "OwnershipLost",
    "PerdureError",
    "Policy",
    "Resolution",
    "RunAlreadyStarted",
    "RunError",
    "RunFinished",
    "RunIsOwned",
    "RunNotFound",
    "RunNotRunnable",
    "RunState",
    "RunStatus",
    "ToolContext",
    "ToolDefinitionError",
    "ToolError",
    "ToolRegistry",
    "UnreadableEvent",
    "UserMessage",
    "Verdict",
    "Worker",
]
