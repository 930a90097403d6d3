"""The verbs of ./dev. Each updates the environment first, and passes further arguments to the tool it runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tools import java, ranges, second_chance, side_by_side
from tools.console import Stop, say, seconds
from tools.environment import EVERYTHING, FOR_INTEROP, PYTHON, ROOT, TO_RUN, VENV, prepare

KERNEL_TESTS = ("tests/kernels", "tests/vectors", "tests/property/records")
LOOP_TESTS = ("tests/unit/testing",)  # run once without uvloop, which is installed and used in all other tests

Arguments = Sequence[str]


@dataclass(frozen=True, slots=True)
class Verb:
    """``groups`` of pins it needs; ``jvm`` if it may start Spark."""

    run: Callable[[Arguments], int]
    about: str
    groups: Sequence[str] = EVERYTHING
    jvm: bool = False


def python(*arguments: str, **extra: str) -> int:
    """Run the environment's Python in the project's folder; returns its exit code."""
    return subprocess.run([PYTHON, *arguments], cwd=ROOT, env={**os.environ, **extra}, check=False).returncode


def demo(arguments: Arguments) -> int:
    return python("-m", "penstock.cli", "demo", *arguments)


def test(arguments: Arguments) -> int:
    if ends := [word for word in arguments if word in ranges.ENDS]:
        rest = [word for word in arguments if word not in ranges.ENDS]
        return max([ranges.run(end, rest) for end in ends])
    _compile_kernels()
    code = second_chance.run(_pytest, arguments, _side_by_side(arguments), only=second_chance.SPARK)
    if code or _names_a_path(arguments):
        return code
    # By default small data goes to the pure kernel and large data to numba, so each kernel is also forced once.
    folders = [folder for folder in KERNEL_TESTS if (ROOT / folder).exists()]
    for kernel in ("numba", "pure") if folders else ():
        say(f"{', '.join(folders)} with the {kernel} kernel")
        again = python("-m", "pytest", "-q", *_side_by_side(arguments), *folders, *arguments, PENSTOCK_KERNEL=kernel)
        code = code or (0 if again == second_chance.NOTHING_COLLECTED else again)
    say(f"{', '.join(LOOP_TESTS)} with asyncio's own event loop")
    apart = _side_by_side(arguments)
    return python("-m", "pytest", "-q", *apart, *LOOP_TESTS, *arguments, PENSTOCK_EVENT_LOOP="asyncio") or code


def _pytest(*words: str) -> int:
    return python("-m", "pytest", *words)


def check(arguments: Arguments) -> int:
    fix = "--fix" in arguments
    names = [word for word in arguments if word != "--fix"]
    steps: dict[str, list[str]] = {
        "format": ["ruff", "format", *([] if fix else ["--check"])],
        "lint": ["ruff", "check", *(["--fix"] if fix else [])],
        "types": ["mypy"],
        "imports": ["tools.imports"],
        "facades": ["tools.facades", *([] if fix else ["--check"])],
        "pages": ["tools.marked", *([] if fix else ["--check"])],
        "tidy": ["pytest", "-q", "tests/tidy"],
    }
    if unknown := set(names) - set(steps):
        raise Stop(f"check knows {', '.join(steps)} and --fix, not {', '.join(sorted(unknown))}")
    code = _all_of({name: ["-m", *command] for name, command in steps.items() if name in names or not names})
    if not names:
        from tools.weigh import notes

        for note in notes():
            say(f"note: {note}")
    return code


def _all_of(steps: dict[str, list[str]]) -> int:
    """Run every step even after a failure, so that one run shows all errors. Steps without errors print nothing."""
    failed = []
    for name, command in steps.items():
        began = time.monotonic()
        run = subprocess.run(
            [PYTHON, *command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if run.returncode:
            print(run.stdout, flush=True)
            failed.append(name)
        say(f"{name}: {'FAILED' if run.returncode else 'ok'}, {seconds(time.monotonic() - began)}")
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def _compile_kernels() -> None:
    """Compile the kernels if they are not compiled yet: it takes half a minute, longer than the timeouts of tests."""
    python("-c", "from penstock.kernels.warm import main; main([])", PENSTOCK_KERNEL="numba")


def interop(arguments: Arguments) -> int:
    _compile_kernels()
    # All of tests, because the conformance suite and the store's tests use real servers and tools, too.
    which = "interop or long" if "--long" in arguments else "interop and not long"
    chosen = [word for word in arguments if word != "--long"]

    def pytest(*words: str) -> int:
        return _pytest("-m", which, *words)

    return second_chance.run(pytest, chosen, _side_by_side(chosen))


def _side_by_side(arguments: Arguments) -> Arguments:
    """The options that split a whole run over several processes; with any argument there is only one."""
    return () if arguments else side_by_side.options()


def _names_a_path(arguments: Arguments) -> bool:
    """Whether the arguments for pytest contain a path."""
    return any((ROOT / word.partition("::")[0]).exists() for word in arguments)


def bench(arguments: Arguments) -> int:
    return python("bench/run.py", *arguments)


def docs(arguments: Arguments) -> int:
    """Build the docs. Warnings are errors: a broken link, a page without a link to it, an unreadable docstring."""
    code = python("-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", *arguments, "docs", "build/docs")
    if not code:
        say(f"the pages: {ROOT / 'build' / 'docs' / 'index.html'}")
    return code


def fuzz(arguments: Arguments) -> int:
    return python("-m", "tests.fuzz.run", *arguments)


def sim(arguments: Arguments) -> int:
    # Without a fixed hash seed, each process iterates over sets in another order, and a seed would not be repeatable.
    return python("-m", "tests.sim.run", *arguments, PYTHONHASHSEED="0")


def power(arguments: Arguments) -> int:
    return python("-m", "tests.power.run", *arguments)


def shell(arguments: Arguments) -> int:
    command = list(arguments) or [os.environ.get("SHELL", "sh")]
    try:
        return subprocess.run(command, cwd=ROOT, check=False).returncode
    except FileNotFoundError:
        raise Stop(f"no command {command[0]!r} in the environment") from None


VERBS = {
    "demo": Verb(demo, "336,776 flights through a snode and Spark, to a table and a picture", TO_RUN, jvm=True),
    "test": Verb(
        test,
        "all tests that need no other server (--newest, --oldest: some, with those versions); arguments go to pytest",
        jvm=True,
    ),
    "check": Verb(check, "format, lint, types, imports, facades, pages, tidy (or the named ones; --fix mends)"),
    "interop": Verb(
        interop,
        "real servers and clients of others; says what was skipped and why; --long: also what takes minutes",
        FOR_INTEROP,
        jvm=True,
    ),
    "bench": Verb(bench, "speed as ratios to rivals measured in the same run", jvm=True),
    "docs": Verb(docs, "the pages as HTML in build/docs; every link checked"),
    "fuzz": Verb(fuzz, "any bytes decode or raise our error; --seconds N"),
    "sim": Verb(sim, "groups under faults, in simulated time, by seeds; --seconds N --seed S --protocol NAME"),
    "power": Verb(power, "the store on a disk that loses power, by seeds; --seeds N --seed S"),
    "shell": Verb(shell, "a shell (or the command given) inside the environment", jvm=True),
}


def usage() -> str:
    lines = [f"  {name:8} {verb.about}" for name, verb in VERBS.items()]
    return "usage: ./dev VERB [arguments]\n\n" + "\n".join(lines)


def main(words: Arguments) -> int:
    if not words or words[0] in {"-h", "--help", "help"}:
        print(usage())
        return 0 if words else 2
    verb = VERBS.get(words[0])
    if verb is None:
        print(f"dev: no verb {words[0]!r}\n\n{usage()}", file=sys.stderr)
        return 2
    prepare(verb.groups)
    os.environ["PATH"] = f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    # Spark starts its workers by name; they must run in this environment.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = str(PYTHON)
    if verb.jvm:
        java.provide(os.environ)
    return verb.run(words[1:])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Stop as stop:
        say(str(stop))
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
