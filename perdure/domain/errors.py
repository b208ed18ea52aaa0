"""Every way in which perdure says no.

All of them are a `PerdureError`, so one `except` catches them; each message says what was wrong and what
to do about it.

```
PerdureError
├── ConfigurationError         something is set up wrongly; found before anything runs
│   ├── ToolDefinitionError    a tool cannot be registered as written
│   ├── MissingExtra           an optional dependency is not installed
│   └── DatabaseError          the database cannot be reached, started or used
├── InvalidInput               an argument was refused before anything was written
├── RunError
│   ├── RunNotFound
│   ├── RunAlreadyStarted      the run id is taken by a run with another input
│   ├── RunNotRunnable         the command does not fit the state of the run
│   │   └── RunFinished        the run has completed, failed or was cancelled
│   ├── CallNotFound
│   └── CallAlreadyResolved    somebody decided this call before
├── OwnershipError
│   ├── RunIsOwned             another worker holds the lease
│   └── OwnershipLost          this worker held the run and does not any more
├── LogError
│   ├── LogConflict            somebody else wrote at this version
│   ├── LogUnavailable         the event store cannot be reached
│   ├── LogRefused             the event store refused, and will refuse again
│   ├── NewerLog               written by a newer perdure than this one
│   └── UnreadableEvent        a stored event does not have the form its topic promises
├── ModelError                 a model call failed: transient, or for good
└── ToolError                  raised BY tools: "this did not happen, and here is why"
```
"""

from __future__ import annotations


class PerdureError(Exception):
    """Base of everything that perdure raises on purpose."""


class ConfigurationError(PerdureError):
    """Something is set up wrongly; nothing was run or written."""


class ToolDefinitionError(ConfigurationError):
    """A tool cannot be registered as it is written."""


class MissingExtra(ConfigurationError):
    """An optional dependency is not installed; the message names the extra to install."""


class DatabaseError(ConfigurationError):
    """The database cannot be found, started, reached or used."""


class InvalidInput(PerdureError):
    """An argument was refused; nothing was written."""


class RunError(PerdureError):
    """A command does not fit the run."""


class RunNotFound(RunError):
    """There is no run with this id, or it had not begun at the version asked for."""


class RunAlreadyStarted(RunError):
    """The run id is taken by a run that was started with something else."""


class RunNotRunnable(RunError):
    """The command does not fit the state that the run is in."""


class RunFinished(RunNotRunnable):
    """The run has completed, failed or was cancelled."""


class CallNotFound(RunError):
    """The run has no such tool call, or no decision about it is open."""


class CallAlreadyResolved(RunError):
    """The call has an outcome already; the message says what it was and who decided."""


class OwnershipError(PerdureError):
    """The run is not this worker's to drive."""


class RunIsOwned(OwnershipError):
    """Another worker holds the lease of the run."""


class OwnershipLost(OwnershipError):
    """This worker held the run and no longer does; it wrote nothing after that."""


class LogError(PerdureError):
    """The event log refused, or could not be read."""


class LogConflict(LogError):
    """Another writer's events stand at the version that was to be written."""


class LogUnavailable(LogError):
    """The event store cannot be reached; whether the last write arrived is not known."""


class LogRefused(LogError):
    """The event store refused for a cause that does not pass by itself: no such table, no right to it."""


class NewerLog(LogError):
    """The log holds events that this version of perdure does not know: upgrade this process."""


class UnreadableEvent(LogError):
    """A stored event does not have the form that its topic promises."""


class ModelError(PerdureError):
    """A model call failed.

    Args:
        message: What the provider, or the way to it, said.
        kind: `"transient"` when the same request may work later (overload, rate limit, lost connection),
            `"permanent"` when it cannot (bad key, bad request, script at its end).
        retry_after: Seconds the provider asked to wait, if it did.
    """

    def __init__(self, message: str, *, kind: str = "transient", retry_after: float | None = None) -> None:
        if kind not in ("transient", "permanent"):
            raise ValueError(f"kind is 'transient' or 'permanent', not {kind!r}")
        super().__init__(message)
        self.kind = kind
        self.retry_after = retry_after


class ToolError(PerdureError):
    """Raise it from a tool to say: this did not happen, and here is why.

    The text becomes a failed result that the model reads. Any other exception says only that the end was
    not seen, so the call is in doubt (unless the tool's policy is `RERUN`).
    """
