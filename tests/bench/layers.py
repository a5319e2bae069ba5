"""Where a collector's time goes: processor seconds of each layer, from the poll to what is sent."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from agent.collector.collector import Collector, Routes
from agent.collector.reading import SourceDecoders, SourceWindows
from processors.contracts.log import Log

LAYERS: Final = ("poll", "decode", "summarise", "encode", "send", "flush", "commit", "rest", "client")
"""In the order of the work; `rest` is what the collector's loop does itself, `client` what the client's own threads do."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Layers:
    """Processor seconds by layer; of calls within calls each counts its own time only.

    >>> layers = Layers()
    >>> layers.timed("decode", lambda: 3)()
    3
    >>> list(layers.seconds)
    ['decode']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner_s = [0.0]  # of each call under way, what the calls within it took
        self._began = time.process_time(), time.thread_time()
        self._ended: tuple[float, float] | None = None

    def timed(self, layer: str, call: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        """Return the call with its time counted."""

        def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            self._inner_s.append(0.0)
            began_s = time.thread_time()
            try:
                return call(*args, **kwargs)
            finally:
                took_s = time.thread_time() - began_s
                self.seconds[layer] = self.seconds.get(layer, 0.0) + took_s - self._inner_s.pop()
                self._inner_s[-1] += took_s

        return run

    def iterated(self, layer: str, parts: Iterable[Result]) -> Iterator[Result]:
        """Yield what an iterator does, with the time between counted."""
        step = self.timed(layer, iter(parts).__next__)
        try:
            while True:
                yield step()
        except StopIteration:
            return

    def clear(self) -> None:
        """Count from now on."""
        self.seconds.clear()
        self._inner_s = [0.0]
        self._began = time.process_time(), time.thread_time()

    def stop(self) -> None:
        """Count no more."""
        self._ended = time.process_time(), time.thread_time()

    def shares_us(self, count: int) -> dict[str, float]:
        """Return the microseconds of each of so many pieces of work by layer, and in `whole` those of the process."""
        ended = self._ended or (time.process_time(), time.thread_time())
        process_s, thread_s = ended[0] - self._began[0], ended[1] - self._began[1]
        found = {**self.seconds, "rest": thread_s - sum(self.seconds.values()), "client": process_s - thread_s}
        shown = {layer: found.get(layer, 0.0) / count * 1e6 for layer in LAYERS}
        return {**shown, "whole": process_s / count * 1e6}


def described(shares_us: Mapping[str, float]) -> str:
    """Return the layers of a figure for the line that says what it means.

    >>> described({"poll": 2.04, "decode": 1.5, "send": 0.0})
    'us: poll 2.04, decode 1.5'
    """
    return "us: " + ", ".join(f"{layer} {us:.3g}" for layer, us in shares_us.items() if us >= 0.005)


class Layered:
    """A log, routes and a collector whose layers are timed.

    `collector` is made of those that it is given, as the agent makes it.
    """

    def __init__(self, layers: Layers) -> None:
        self._layers = layers

    def log(self, log: Log) -> Any:
        """Return a log whose consumers and producers are timed."""
        return _Replaced(
            log,
            consumer=lambda *args, **kwargs: self._methods(
                log.consumer(*args, **kwargs), poll="poll", commit="commit", pause="poll", resume="poll"
            ),
            producer=lambda: self._methods(log.producer(), send="send", flush="flush"),
        )

    def routes(self, routes: Routes) -> Routes:
        """Return routes whose decoders and windows are timed."""
        return msgspec.structs.replace(
            routes,
            source=lambda topic: self._source(routes.source(topic)),
            windows=lambda name, metadata: self._windows(routes.windows(name, metadata)),
        )

    def collector(self, collector: Collector) -> Collector:
        """Time what a collector writes: privacy, encoding, and what is counted of it."""
        writing = collector._writing
        for name in ("message", "minute"):
            setattr(writing, name, self._layers.timed("encode", getattr(writing, name)))
        return collector

    def _methods(self, of: object, **layers: str) -> Any:
        return _Replaced(of, **{name: self._layers.timed(layer, getattr(of, name)) for name, layer in layers.items()})

    def _source(self, source: SourceDecoders) -> SourceDecoders:
        decode, telemetry = source.decode, source.telemetry
        return SourceDecoders(
            source.format,
            None if decode is None else self._layers.timed("decode", decode),
            None if telemetry is None else lambda: self._layers.timed("decode", telemetry()),
        )

    def _windows(self, windows: SourceWindows) -> Any:
        def summed(part: Callable[[], Iterable[object]]) -> Iterator[object]:
            return self._layers.iterated("summarise", part())

        def parts(found: Iterable[Callable[[], Iterable[object]]]) -> Iterator[Callable[[], Iterator[object]]]:
            for part in self._layers.iterated("summarise", found):
                yield partial(summed, part)

        return _Replaced(
            windows,
            fold=lambda *args: parts(windows.fold(*args)),
            end=lambda: parts(windows.end()),
            position=self._layers.timed("summarise", windows.position),
            forget=self._layers.timed("summarise", windows.forget),
        )


class _Replaced:
    """Something with a few of its methods replaced."""

    def __init__(self, of: object, **methods: object) -> None:
        self._of = of
        vars(self).update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)
