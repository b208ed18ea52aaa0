"""What makes a function a tool: a name, a schema from its signature, and a contract."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast, get_type_hints

from pydantic import JsonValue, TypeAdapter, ValidationError

from perdure.application.invocation import invoke
from perdure.application.tool_context import ToolContext
from perdure.domain.errors import ToolDefinitionError
from perdure.domain.pins import ToolPin
from perdure.domain.tools import Policy, ToolContract, Verdict

VerifyFunction = Callable[..., Verdict | Awaitable[Verdict]]


class Tool(Protocol):
    """A tool that a run can use, wherever it lives."""

    @property
    def contract(self) -> ToolContract:
        """How it is to be run."""
        ...

    def bind(self, arguments: str) -> dict[str, object]:
        """Check arguments (JSON text; empty means none) and return them.

        Raises:
            ValueError: When they do not fit; the text is written for the model to read.
        """
        ...

    async def run(self, arguments: str, context: ToolContext) -> object:
        """Run it once."""
        ...

    async def ask(self, arguments: str, context: ToolContext) -> object:
        """Ask its `verify` about a call in doubt."""
        ...


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A registered function.

    Attributes:
        parameters: JSON Schema of the arguments.
        verify: Asked about calls in doubt; takes the tool's own arguments.
        context_names: Parameters of the function that take the context; likewise for `verify`.
    """

    name: str
    description: str
    parameters: dict[str, JsonValue]
    contract: ToolContract
    function: Callable[..., object]
    verify: VerifyFunction | None
    arguments: TypeAdapter[Any]
    context_names: tuple[str, ...] = ()
    verify_context_names: tuple[str, ...] = ()

    def pin(self) -> ToolPin:
        """Return what a run keeps of this tool."""
        return ToolPin(
            name=self.name,
            description=self.description,
            parameters=self.parameters,
            policy=self.contract.policy,
        )

    def bind(self, arguments: str) -> dict[str, object]:
        """Check arguments (JSON text; empty means none) against the signature and return them.

        Raises:
            ValueError: When they do not fit; the text is written for the model to read.
        """
        try:
            _, bound = self.arguments.validate_json(arguments.strip() or "{}")
        except ValidationError as error:
            raise ValueError(readable(error)) from error
        return cast("dict[str, object]", bound)

    async def run(self, arguments: str, context: ToolContext) -> object:
        """Call the function."""
        bound = {**self.bind(arguments), **dict.fromkeys(self.context_names, context)}
        return await invoke(self.function, bound, f"{context.run_id} {context.call_id}")

    async def ask(self, arguments: str, context: ToolContext) -> object:
        """Call `verify`."""
        if self.verify is None:
            return Verdict.unknown(evidence="the tool has no verify")
        bound = {**self.bind(arguments), **dict.fromkeys(self.verify_context_names, context)}
        return await invoke(self.verify, bound, f"verify {context.run_id} {context.call_id}")


def define(
    function: Callable[..., object],
    contract: ToolContract,
    *,
    verify: VerifyFunction | None = None,
    name: str | None = None,
    description: str | None = None,
) -> FunctionTool:
    """Make a tool of a function.

    Raises:
        ToolDefinitionError: When it cannot be one.
    """
    name = name or str(getattr(function, "__name__", ""))
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise ToolDefinitionError(
            f"{name!r} is no name for a tool: providers take letters, digits, _ and -, 64 at most; "
            "give it one with @tools.tool(name=...)"
        )
    parameters = _parameters(function, f"tool {name!r}")
    adapter, schema = _adapter(parameters, name)
    _check_verify(name, contract, verify, parameters)
    return FunctionTool(
        name=name,
        description=description if description is not None else inspect.getdoc(function) or "",
        parameters=schema,
        contract=contract,
        function=function,
        verify=verify,
        arguments=adapter,
        context_names=_context_names(function),
        verify_context_names=_context_names(verify) if verify is not None else (),
    )


def _hints(function: Callable[..., object], what: str) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return get_type_hints(target, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise ToolDefinitionError(
            f"{what}: its annotations cannot be read ({error}); the types must be importable where it is "
            "defined, not only for type checkers"
        ) from error


def _context_names(function: Callable[..., object]) -> tuple[str, ...]:
    hints = _hints(function, "it")
    return tuple(name for name in hints if name != "return" and hints[name] is ToolContext)


def _parameters(function: Callable[..., object], what: str) -> list[inspect.Parameter]:
    hints = _hints(function, what)
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        annotation = hints.get(parameter.name, inspect.Parameter.empty)
        if annotation is ToolContext:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ToolDefinitionError(
                f"{what}: parameter {str(parameter)!r} cannot be given by name; "
                "a tool's arguments all have names"
            )
        if annotation is inspect.Parameter.empty:
            raise ToolDefinitionError(f"{what}: parameter {parameter.name!r} has no type")
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(parameter.replace(annotation=annotation, kind=kind))
    return parameters


def _adapter(parameters: list[inspect.Parameter], name: str) -> tuple[TypeAdapter[Any], dict[str, JsonValue]]:
    def capture(*args: object, **kwargs: object) -> tuple[tuple[object, ...], dict[str, object]]:
        return args, kwargs

    # pydantic validates a call by the signature of what is called: this one only hands the arguments on.
    capture.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    capture.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    try:
        adapter = TypeAdapter[Any](cast("Any", capture))
        schema = cast("dict[str, JsonValue]", adapter.json_schema())
    except Exception as error:
        raise ToolDefinitionError(
            f"tool {name!r}: its parameters have no JSON Schema: {str(error).splitlines()[0]}"
        ) from error
    return adapter, {"type": "object", "properties": {}, **schema}


def _check_verify(
    name: str,
    contract: ToolContract,
    verify: VerifyFunction | None,
    parameters: list[inspect.Parameter],
) -> None:
    if verify is None:
        if contract.policy is Policy.VERIFY_THEN_DECIDE:
            raise ToolDefinitionError(
                f"tool {name!r}: the policy is VERIFY_THEN_DECIDE, and there is no verify to ask: "
                "give one, or another policy"
            )
        return
    if contract.policy is not Policy.VERIFY_THEN_DECIDE:
        raise ToolDefinitionError(
            f"tool {name!r}: verify is asked only under VERIFY_THEN_DECIDE, and the policy is "
            f"{contract.policy.name}"
        )
    asked = _parameters(verify, f"verify of tool {name!r}")
    if _shape(asked) != _shape(parameters):
        raise ToolDefinitionError(
            f"tool {name!r}: verify takes ({_listed(asked)}), the tool takes ({_listed(parameters)}); "
            "they must be the same, context aside"
        )


def _shape(parameters: list[inspect.Parameter]) -> dict[str, object]:
    return {parameter.name: parameter.annotation for parameter in parameters}


def _listed(parameters: list[inspect.Parameter]) -> str:
    return ", ".join(str(parameter) for parameter in parameters)


def readable(error: ValidationError) -> str:
    """Say in one line what does not fit, without the values: they may be secret."""
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_context=False, include_input=False)
    )
