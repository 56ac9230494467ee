"""Tasks: functions that can be enqueued, typed by their own signature."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, update_wrapper
from inspect import Parameter, Signature, iscoroutinefunction, signature
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

from dibs.domain.arguments import Arguments
from dibs.domain.checks import check_defaults, check_name, check_tags
from dibs.domain.errors import InvalidJob, InvalidRequest, Problem, WrongState
from dibs.domain.newjob import EnqueueOptions, NewJob
from dibs.domain.settings import DEFAULTS, Defaults
from dibs.domain.signature import schema_of
from dibs.telemetry import send

if TYPE_CHECKING:
    from dibs.app import App
    from dibs.domain.job import Job, Json
    from dibs.domain.retry import Duration
    from dibs.domain.schedule import Plan, Policy
    from dibs.schedules import Scheduler
    from dibs.sync import SyncTask

P = ParamSpec("P")
R = TypeVar("R")


class TaskOptions(Defaults, total=False):
    """What a task settles for all its jobs; a call's own options go before."""

    queue: str
    unique: bool
    tags: Sequence[str]
    process: bool  # not the jobs' business, but the worker's: whether the function is called in a process of its own


class ScheduleOptions(TypedDict, total=False):
    """How a schedule goes: its time zone, what becomes of missed ticks, its name, and the task's arguments."""

    tz: str
    catch_up: Policy
    name: str | None
    params: Mapping[str, Json] | None


class CallOptions(EnqueueOptions, total=False):
    """The options of one enqueue, and the caller's own connection to make it on."""

    connection: Any


class Task(Generic[P, R]):
    """A function whose calls can be enqueued. Called directly, it is the function itself."""

    keeps_time = False  # whether the function itself sees to it that it ends within the job's timeout

    def __init__(
        self,
        function: Callable[P, R],
        name: str,
        options: TaskOptions,
        registry: Tasks,
        call: CallOptions | None = None,
    ) -> None:
        self.name = name
        self.function = function
        self.process = options.get("process", False)
        kept = {field: value for field, value in options.items() if field != "process"}
        self.defaults = cast("TaskOptions", kept)  # those that jobs take on
        self._registry = registry
        self._call: CallOptions = call or {}
        self._signature = signature(function)
        self._names, self._required = _by_name(self._signature)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, here and now."""
        return self.function(*args, **kwargs)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Enqueue a call of the function with these arguments."""
        params, options = self._bind(args, kwargs), dict(self._call)
        connection = options.pop("connection", None)
        new = new_job(self.name, params, options, self.defaults)
        [job] = await send(self._app(), [new], connection)
        return job

    def job(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Make the job that ``enqueue`` would send, for ``app.enqueue_many``."""
        if "connection" in self._call:
            raise InvalidJob([Problem("connection", "is given to enqueue_many, not to a single job of it")])
        return new_job(self.name, self._bind(args, kwargs), self._call, self.defaults)

    def options(self, **options: Unpack[CallOptions]) -> Task[P, R]:
        """Return a copy whose enqueues have these options."""
        call = cast("CallOptions", _over(self._call, options))
        return Task(self.function, self.name, {**self.defaults, "process": self.process}, self._registry, call)

    @property
    def sync(self) -> SyncTask[P, R]:
        """The same task for code without an event loop."""
        from dibs.sync import SyncTask

        return SyncTask(self._app().runtime, self)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its params: an object that names the arguments. What cannot be described is anything."""
        return schema_of(self.function, self._signature)

    def arguments(self, params: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Turn a job's params back into the arguments that the function is called with."""
        if params is None:
            params = {}  # a job that was enqueued by name, without any
        if type(params) is dict and self._names is not None and self._required <= params.keys() <= self._names:
            return (), self._arguments.made_from(params)
        if not isinstance(params, Mapping):
            raise InvalidJob([Problem("params", f"must be an object that names the arguments of {self.name}")])
        self._named(*self._split(params))
        args, kwargs = self._split(self._arguments.made_from(params))
        return args, kwargs

    def _split(self, params: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Tell arguments that have to be given by their place from the others."""
        left = dict(params)
        args = [
            left.pop(parameter.name)
            for parameter in self._signature.parameters.values()
            if parameter.kind is Parameter.POSITIONAL_ONLY and parameter.name in left
        ]
        return tuple(args), left

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Name the arguments, and write them as they are sent; a worker could not take others."""
        return self._arguments.as_sent(self._named(args, kwargs))

    @cached_property
    def _arguments(self) -> Arguments:
        # When it is first needed: by then all that the annotations name is defined.
        return Arguments(self.function, self._signature)

    def _named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Name the arguments; what is left out stays out, so that a default may change while jobs wait."""
        try:
            bound = self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise InvalidJob([_problem(error, self.name)]) from None
        params: dict[str, Any] = {}
        for name, value in bound.items():
            if self._signature.parameters[name].kind is Parameter.VAR_KEYWORD:
                if taken := sorted(set(params) & set(value)):
                    raise InvalidJob([Problem(field, "is given twice") for field in taken])
                params.update(value)
            else:
                params[name] = value
        return params

    def _app(self) -> App:
        app = self._registry.app
        if app is None:
            raise WrongState(f"no app knows task {self.name!r} yet", hint="Call app.include(tasks) with its Tasks.")
        return app

    def __repr__(self) -> str:
        return f"<Task {self.name!r}>"


class Tasks:
    """Tasks that are defined away from their app: ``app.include(tasks)`` brings them together."""

    def __init__(self, app: App | None = None) -> None:
        self.app = app
        self.by_name: dict[str, Task[..., Any]] = {}
        self.plans: dict[str, Plan] = {}
        self._above: Tasks | None = None  # the app's own, once it has included these

    @overload
    def task(self, name: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self, name: str | None = None, **options: Unpack[TaskOptions]
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(self, name: Any = None, **options: Unpack[TaskOptions]) -> Any:
        """Make a function a task, named as it is unless a name is given: ``@tasks.task``, ``@tasks.task("name")``."""
        if callable(name):
            return self._add(name, None, options)
        return lambda function: self._add(function, name, options)

    def schedule(self, cron_or_interval: str | Duration, **options: Unpack[ScheduleOptions]) -> Scheduler:
        """Enqueue a task again and again: see ``App.schedule``."""
        from dibs.schedules import Scheduler

        return Scheduler(self, cron_or_interval, **options)

    def add_plan(self, plan: Plan) -> None:
        """Take in a schedule, here and in the app."""
        registries = [self] if self._above is None else [self, self._above]
        if any(plan.name in registry.plans for registry in registries):
            raise InvalidRequest([_taken("schedule", plan.name)])
        for registry in registries:
            registry.plans[plan.name] = plan

    def _add(self, function: Callable[P, R], name: str | None, options: TaskOptions) -> Task[P, R]:
        name = check_task(function, name, options)
        registries = [self] if self._above is None else [self, self._above]
        if any(name in registry.by_name for registry in registries):
            raise InvalidRequest([_taken("task", name)])
        task = Task(function, name, options, self)
        for registry in registries:
            registry.by_name[name] = task
        return task

    def defaults(self, name: Any) -> Mapping[str, Any]:
        """Return the options of the task of this name; none if it is not known here."""
        known = self.by_name.get(name) if isinstance(name, str) else None
        return {} if known is None else known.defaults

    def adopt(self, tasks: Tasks) -> None:
        """Take in others, all of them or none, and those that they get later."""
        if tasks.app is not None:
            raise InvalidRequest([Problem("tasks", "were included in an app already")])
        if twice := sorted(set(tasks.by_name) & set(self.by_name)):
            raise InvalidRequest([Problem("tasks", f"there are tasks of these names already: {', '.join(twice)}")])
        if twice := sorted(set(tasks.plans) & set(self.plans)):
            raise InvalidRequest([Problem("tasks", f"there are schedules of these names already: {', '.join(twice)}")])
        self.by_name.update(tasks.by_name)
        self.plans.update(tasks.plans)
        tasks.app, tasks._above = self.app, self


def _taken(what: str, name: str) -> Problem:
    return Problem("name", f"there is a {what} {name!r} already; give one of them another name")


def check_task(function: Callable[..., Any], name: str | None, options: Mapping[str, Any]) -> str:
    """Check a function that is to become a task, and its options, all at once; return its name."""
    if not callable(function):
        raise InvalidRequest([Problem("function", "must be a function; write @app.task or @app.task(...)")])
    name = getattr(function, "__name__", "") if name is None else name
    problems = check_name("name", name)
    unknown = sorted(set(options) - set(TaskOptions.__annotations__))
    problems += [Problem(field, "is not an option of a task") for field in unknown]
    problems += check_defaults({field: options[field] for field in DEFAULTS if field in options})
    if "queue" in options:
        problems += check_name("queue", options["queue"])
    problems += check_tags(options.get("tags", ()))
    problems += _check_process(function, options.get("process", False))
    problems += [
        Problem(parameter.name, "cannot be bound by name: take a list instead of *" + parameter.name)
        for parameter in _signature(function).parameters.values()
        if parameter.kind is Parameter.VAR_POSITIONAL
    ]
    if problems:
        raise InvalidRequest(problems)
    return name


def is_async(function: Callable[..., Any]) -> bool:
    """Say whether calling it gives a coroutine."""
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _check_process(function: Callable[..., Any], process: Any) -> list[Problem]:
    if not isinstance(process, bool):
        return [Problem("process", "must be true or false")]
    if process and is_async(function):
        return [Problem("process", "is for plain functions; write def instead of async def, or leave it out")]
    return []


def new_job(task: str, params: Any, options: Mapping[str, Any], defaults: Mapping[str, Any]) -> NewJob:
    """Make a job from a call's options over its task's."""
    unknown = sorted(set(options) - set(EnqueueOptions.__annotations__))
    if unknown:
        known = ", ".join(sorted(EnqueueOptions.__annotations__))
        raise InvalidJob([Problem(str(field), f"is not an option of enqueue; there are {known}") for field in unknown])
    return NewJob(task, params, **_over(defaults, options))


def check_new_jobs(jobs: Any) -> None:
    """Check that these are jobs at all; what they say is for the broker to check."""
    if isinstance(jobs, str | bytes) or not isinstance(jobs, Sequence):
        raise InvalidJob([Problem("jobs", "must be a list of dibs.NewJob")])
    places = [index for index, new in enumerate(jobs) if not isinstance(new, NewJob)]
    if places:
        raise InvalidJob([Problem(f"jobs[{index}]", "must be a dibs.NewJob") for index in places])


def with_defaults(new: NewJob, defaults: Mapping[str, Any]) -> NewJob:
    """Put a task's options beneath those of a job made by name."""
    if not defaults:
        return new
    given = {field: value for field in _FIELDS if (value := getattr(new, field)) != _FIELDS[field]}
    return NewJob(new.task, new.params, trace=new.trace, **_over(defaults, given))


_FIELDS: dict[str, Any] = {**dict.fromkeys(EnqueueOptions.__annotations__), "unique": False, "tags": ()}
_EITHER = {"unique": "unique_key", "unique_key": "unique", "delay": "scheduled_at", "scheduled_at": "delay"}


def _over(beneath: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge options; one that is none was left out, and one that excludes another replaces it."""
    above = {field: value for field, value in above.items() if value is not None}
    replaced = {_EITHER[field] for field in above if field in _EITHER}
    return {**{field: value for field, value in beneath.items() if field not in replaced}, **above}


def _signature(function: Callable[..., Any]) -> Signature:
    try:
        return signature(function)
    except (TypeError, ValueError):
        raise InvalidRequest([Problem("function", "has no signature that its arguments could be bound by")]) from None


def _by_name(signature: Signature) -> tuple[frozenset[str] | None, frozenset[str]]:
    """Say which arguments there are and which must be given, if all of them can be given by name."""
    parameters = signature.parameters.values()
    by_name = {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}
    required = frozenset(parameter.name for parameter in parameters if parameter.default is Parameter.empty)
    if any(parameter.kind not in by_name for parameter in parameters):
        return None, required
    return frozenset(signature.parameters), required


def _problem(error: TypeError, name: str) -> Problem:
    named = re.search("'(.+)'", str(error))
    return Problem(named[1] if named else "arguments", f"{error} of task {name!r}")
