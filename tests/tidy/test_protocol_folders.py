"""One folder per protocol, the same inside each; and no way around the registry by spelling a module's name."""

import ast

import pytest

from penstock import protocols
from tests.tidy.tree import SOURCE, name, parsed, python_files

PROTOCOLS = SOURCE / "penstock" / "protocols"
INSIDE = ("client", "config", "front", "messages", "records")
OF_KAFKA = ("backend", "client", "config", "errors", "groups", "server", "wire")


def folders() -> list[str]:
    return sorted(file.parent.name for file in PROTOCOLS.glob("*/__init__.py"))


@pytest.mark.parametrize("protocol", folders())
def test_a_protocol_folder_has_what_the_others_have(protocol: str) -> None:
    here = {entry.stem if entry.suffix == ".py" else entry.name for entry in (PROTOCOLS / protocol).iterdir()}
    if protocol == "tubemq":
        assert {"backend", "client", "config", "errors", "server", "wire", "README.md"} - here == set()
        return
    if protocol == "kafka":
        assert {*OF_KAFKA, "README.md"} <= here
        return
    front, inside = ("server", ("client", "config", "server", "wire")) if "wire" in here else ("front", INSIDE)
    lacking = set() if protocols.protocol(protocol).front is not None else {front}
    assert {*inside, "README.md"} - here == lacking


def test_no_string_names_a_protocols_module_outside_the_registry() -> None:
    spelled = {
        f"{name(file)}:{node.lineno}"
        for file in python_files()
        if file.is_relative_to(SOURCE) and not file.is_relative_to(PROTOCOLS)
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("penstock.protocols.")
    }
    assert spelled == set()
