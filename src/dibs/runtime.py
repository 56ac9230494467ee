"""What the rooms of an app share: one store (or server) a process, one broker a loop, portal, keeper, maintenance."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import weakref
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from dibs.broker.connect import broker_over, is_server, open_server, open_store
from dibs.broker.rates import Meter
from dibs.domain.errors import NotSupported, StoreUnavailable
from dibs.keeper import Handle, Keeper
from dibs.portal import Call, Kind, Portal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from dibs.broker.http import Remote
    from dibs.broker.protocol import Broker
    from dibs.clock import Clock
    from dibs.domain.settings import Config
    from dibs.store import Store

logger = logging.getLogger("dibs")

P = ParamSpec("P")
T = TypeVar("T")


class _Opened:
    """All that was opened and must be closed, or left alone after a fork."""

    def __init__(self, keeper: Keeper, meter: Meter) -> None:
        self.store: Store | Remote | None = None  # a server stands in its place
        self.brokers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Broker] = weakref.WeakKeyDictionary()
        self.keeper = keeper
        self.meter = meter
        self.portal: Portal | None = None
        self.finaliser: weakref.finalize[Any, Any] | None = None
        self.maintenance: Handle | None = None
        self.tasks: set[asyncio.Task[Any]] = set()


class Runtime:
    """Opens things when they are first needed, from any thread or loop, and again after a fork or a close."""

    def __init__(self, url: str, clock: Clock, config: Config, api_key: str | None = None) -> None:
        self.url = url
        self._api_key = api_key
        self.clock = clock
        self.config = config
        self.open_store: Callable[[str, Clock], Store] = open_store  # a simulation puts a store of its own here
        self._lock = threading.RLock()
        self._opened = self._nothing()
        _runtimes.add(self)

    def _nothing(self) -> _Opened:
        # A keeper may still sleep when no claim is left; those that are held know their app.
        return _Opened(Keeper(self.clock, _weakly(self.broker), _weakly(self.background)), Meter(self.clock))

    def _take_along(self, opened: _Opened) -> None:
        """See that an app which is dropped without being closed takes its threads and connections with it."""
        if opened.finaliser is not None:
            opened.finaliser.detach()
        if self.clock.threads:
            opened.finaliser = weakref.finalize(self, _drop, self.clock, opened.store, opened.portal, os.getpid())
            opened.finaliser.atexit = False

    def broker(self) -> Broker:
        """Return the broker of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            opened = self._opened
            broker = opened.brokers.get(loop)
            if broker is None:
                # A broker may know its loop, which would keep both: those of closed loops are dropped by hand.
                for other in [other for other in opened.brokers if other.is_closed()]:
                    del opened.brokers[other]
                if opened.store is None:
                    opened.store = self._open()
                    self._take_along(opened)
                broker = broker_over(self.url, opened.store, self.clock, self.config, opened.meter)
                opened.brokers[loop] = broker
            return broker

    def _open(self) -> Store | Remote:
        if is_server(self.url):
            return open_server(self.url, self._api_key, self.clock)
        return self.open_store(self.url, self.clock)

    @property
    def keeper(self) -> Keeper:
        """The one that extends the claims of this app."""
        return self._opened.keeper

    def portal(self) -> Portal:
        """Return the portal, started if need be."""
        if not self.clock.threads:
            raise NotSupported("this clock allows no threads, so there are no sync calls")
        with self._lock:
            opened = self._opened
            if opened.portal is None or not opened.portal.alive:
                opened.portal = Portal(self.clock)
                self._take_along(opened)
            return opened.portal

    @contextmanager
    def replaced(self, url: str, clock: Clock) -> Iterator[None]:
        """Work on another store, by another clock, for as long as the block; what was open before stays open."""
        with self._lock:
            before = self.url, self.clock, self._opened
            self.url, self.clock = url, clock
            self._opened = self._nothing()
        try:
            yield
        finally:
            try:
                self.close_and_wait()
            finally:
                with self._lock:
                    self.url, self.clock, self._opened = before

    # Work that is not the caller's

    def background(self, coroutine: Coroutine[Any, Any, None]) -> Handle:
        """Run something until it ends or the app is closed: on the portal, or on the running loop without threads."""
        if self.clock.threads:
            return self.portal().submit(coroutine, Kind.BACKGROUND)
        return self._task(coroutine)

    def maintain(self) -> None:
        """See that this process helps to reap and prune, if it does not yet; a server does so by itself."""
        if is_server(self.url):
            return
        running = self._opened.maintenance
        if running is None or running.done():
            with self._lock:
                running = self._opened.maintenance
                if running is None or running.done():
                    self._opened.maintenance = self.background(_maintain(weakref.ref(self)))

    async def see_through(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run something to its end even if the caller is cancelled meanwhile, or its loop goes down."""
        await self.ended(self.hand_off(coroutine))

    def hand_off(self, coroutine: Coroutine[Any, Any, None]) -> Handle:
        """Run something without its caller: on the portal, if there may be one."""
        if self.clock.threads and not self.winding_up:
            return (Portal.here() or self.portal()).submit(coroutine)
        return self._task(coroutine)

    async def ended(self, handle: Handle) -> None:
        """Wait for what was handed off, from any loop; giving up does not end it."""
        if isinstance(handle, Call):
            with suppress(CancelledError):  # the app was closed, and it took too long
                await Portal.wait(handle)
        elif isinstance(handle, asyncio.Task):
            await asyncio.shield(handle)

    @property
    def winding_up(self) -> bool:
        """Whether this runs on a portal that stops: it waits for what was begun there, and takes nothing new."""
        here = Portal.here()
        return here is not None and not here.alive

    def _task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        tasks = self._opened.tasks
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    # Sync calls

    def run(self, coroutine: Coroutine[Any, Any, T], undo: Callable[[T], Awaitable[object]] | None = None) -> T:
        """Run a coroutine on the portal and wait for it."""
        try:
            portal = self.portal()
        except NotSupported:
            coroutine.close()
            raise
        return portal.run(coroutine, undo)

    # The end

    def _detach(self) -> _Opened:
        with self._lock:
            opened, self._opened = self._opened, self._nothing()
        if opened.finaliser is not None:
            opened.finaliser.detach()
        return opened

    async def close(self) -> None:
        """Let go of everything. The next use opens it again."""
        opened = self._detach()
        if opened.portal is not None:
            opened.portal.stop()
            await opened.portal.ended()
        loop = asyncio.get_running_loop()
        tasks = [task for task in opened.tasks if task.get_loop() is loop]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if opened.store is not None:
            await opened.store.close()

    def close_and_wait(self) -> None:
        """Do the same from a thread without an event loop."""
        opened = self._detach()
        if opened.portal is not None:
            opened.portal.stop()
            opened.portal.join()
        if opened.store is not None:
            portal = Portal(self.clock)
            try:
                portal.run(opened.store.close())
            finally:
                portal.stop()
                portal.join()

    def after_fork(self) -> None:
        """Forget, in a child process, what belongs to the parent: neither used nor closed here."""
        if self._opened.finaliser is not None:
            self._opened.finaliser.detach()
        _abandoned.append(self._opened)
        self._lock = threading.RLock()
        self._opened = self._nothing()


def _drop(clock: Clock, store: Store | Remote | None, portal: Portal | None, pid: int) -> None:
    """Close what a dropped app had opened. Called by a finaliser, in the middle of anything: nothing is waited for."""
    if pid != os.getpid() or sys.is_finalizing():
        return
    if portal is not None:
        portal.stop()
    if store is not None:
        with suppress(RuntimeError):  # the process is ending, and starts no threads any more
            clock.spawn("dibs-closing", partial(_close_dropped, store, portal))


def _close_dropped(store: Store | Remote, portal: Portal | None) -> None:
    if portal is not None:
        portal.join()
    try:
        asyncio.run(store.close())
    except Exception as error:  # noqa: BLE001 - the process may be ending, and no one waits for this
        logger.debug("the store of an app that was dropped could not be closed: %s", error)


def _weakly(method: Callable[P, T]) -> Callable[P, T]:
    """Make a method of an app that does not keep it alive; who calls it does."""
    reference = weakref.WeakMethod(method)

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        alive = reference()
        assert alive is not None  # noqa: S101  # for the type checker
        return alive(*args, **kwargs)

    return call


async def _maintain(runtime: weakref.ref[Runtime]) -> None:
    """Reap and prune for ever, without keeping an app alive that no one else holds."""
    app = runtime()
    if app is None:
        return
    broker = app.broker()
    clock = app.clock
    del app
    while True:
        try:
            await broker.maintain()
        except StoreUnavailable as error:
            logger.warning("maintenance will begin anew: %s", error)
            await clock.sleep(clock.random.uniform(1.0, 3.0))
        except Exception:
            logger.exception("maintenance failed and will begin anew")
            await clock.sleep(clock.random.uniform(1.0, 3.0))


_runtimes: weakref.WeakSet[Runtime] = weakref.WeakSet()
_abandoned: list[_Opened] = []
"""Race: in a forked child, finalising the parent's connections and loops would disturb the parent. So they stay."""


def _after_fork() -> None:
    for runtime in list(_runtimes):
        runtime.after_fork()


os.register_at_fork(after_in_child=_after_fork)
