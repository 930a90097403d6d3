"""One run of the bench: its options, the samples so far, the failures, and the servers that scenarios share."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench import machine
from bench.children import CaseFailed
from bench.loading import load
from bench.samples import Sample
from bench.servers import broker
from bench.topics import Topic
from tools.peers import kafka

__all__ = ["Session"]


@dataclass
class Session:
    """Options and results of a run. `close` ends the broker."""

    quick: bool = False
    runs: int = 5
    warm: int = 1
    variants: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    samples: list[Sample] = field(default_factory=list)
    broken: set[tuple[str, str, str]] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)
    _broker: kafka.Broker | None = None

    def chosen(self, default: tuple[str, ...]) -> tuple[str, ...]:
        """The variants to measure: those of the command line, or the scenario's default."""
        return self.variants or default

    def wants(self, part: str) -> bool:
        """Whether to measure that part of a scenario; all parts by default."""
        return not self.parts or part in self.parts

    def kafka(self, *topics: Topic) -> kafka.Broker:
        """The real broker, started on first use, with these topics loaded."""
        if self._broker is None:
            self.say("starting Kafka")
            self._broker = self._stack.enter_context(broker())
        for topic in topics:
            took = load(self._broker.bootstrap, topic, server=f"kafka-{kafka.NEWEST}")
            if took:
                self.say(f"loaded {topic.name} in {took:.1f} s")
        return self._broker

    def stop_kafka(self) -> None:
        """End the broker, for scenarios that need the whole machine."""
        self._stack.close()
        self._broker = None

    def add(
        self, scenario: str, variant: str, metric: str, case: str, number: int, value: float, **detail: object
    ) -> None:
        """Keep one figure; those of rounds below 0 are shown and thrown away."""
        mark = "warm-up" if number < 0 else f"round {number}"
        self.say(f"{scenario}, {variant}, {mark}: {case} {value:.3f} {metric}")
        if number >= 0:
            self.samples.append(
                Sample(scenario, variant, metric, case, number, round(value, 6), machine.load(), detail)
            )

    def failed(self, scenario: str, variant: str, case: str, error: CaseFailed) -> None:
        """Report and count a case without a figure; it is left out of further rounds, and the run continues."""
        self.broken.add((scenario, variant, case))
        text = f"{scenario}, {variant}: {case} FAILED: {error}"
        self.failures.append(text.splitlines()[0] + " … " + (text.splitlines() or [""])[-1])
        self.say(text)

    def say(self, text: str) -> None:
        """Print progress to standard error; results go to standard output."""
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the servers."""
        self._stack.close()
