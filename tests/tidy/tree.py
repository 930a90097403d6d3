"""What tidy tests look at: the project's files, each read and parsed once."""

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"


@cache
def tracked() -> tuple[Path, ...]:
    """Every file that belongs to the project: what git tracks or would, or in an unpacked archive everything."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        ).stdout.decode()
        files = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        folders = ("src", "tests", "tools", "bench", "requirements", ".ci")
        files = [file for folder in folders for file in (ROOT / folder).rglob("*")] + list(ROOT.glob("*"))
    return tuple(sorted(file for file in files if file.is_file()))


@cache
def python_files() -> tuple[Path, ...]:
    return tuple(file for file in tracked() if file.suffix == ".py" and "data" not in file.relative_to(ROOT).parts)


@cache
def text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(text(file), filename=str(file))


def name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()
