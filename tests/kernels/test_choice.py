"""Which kernel runs is said by the environment, or by what is installed; a wrong wish is an error."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BATCHES = Path(__file__).resolve().parents[1] / "data" / "kafka" / "batches"

SAY = """
import json, sys
from penstock import kernels
from penstock.records.decoding import decode_v2
said = {"before": "numba" in sys.modules, "name": kernels.name()}
data = open(sys.argv[1], "rb").read()
said["rows"] = decode_v2(data).batch.num_rows
said["after"] = "numba" in sys.modules
said["kernel"] = kernels.kernel(1).__name__
said["pandas"] = "pandas" in sys.modules
print(json.dumps(said))
"""


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PENSTOCK_KERNEL"}
    clean["PYTHONPATH"] = str(Path(__file__).resolve().parents[2] / "src")
    arguments = [sys.executable, "-c", script, str(BATCHES / "segment-4.3-none.bin")]
    return subprocess.run(arguments, env={**clean, **environment}, capture_output=True, text=True, check=False)


def said(**environment: str) -> dict[str, object]:
    ended = run(SAY, **environment)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, object] = json.loads(ended.stdout)
    return found


def test_unset_chooses_numba_but_reads_a_few_records_without_loading_it() -> None:
    found = said()
    assert (found["name"], found["rows"], found["after"]) == ("numba", 54, False)


@pytest.mark.parametrize(("name", "loaded"), [("pure", False), ("numba", True)])
def test_a_forced_kernel_is_the_one_that_runs(name: str, loaded: bool) -> None:
    found = said(PENSTOCK_KERNEL=name)
    assert found["before"] is False
    assert (found["name"], found["kernel"]) == (name, f"penstock.kernels._{name}")
    assert (found["rows"], found["after"]) == (54, loaded)


def test_reading_does_not_import_pandas() -> None:
    assert said(PENSTOCK_KERNEL="pure")["pandas"] is False


def test_an_unknown_kernel_is_refused() -> None:
    ended = run(SAY, PENSTOCK_KERNEL="rust")
    assert ended.returncode != 0
    assert "PENSTOCK_KERNEL=rust names no kernel" in ended.stderr


def test_a_forced_kernel_that_is_not_installed_is_an_error_and_not_a_silent_fallback() -> None:
    hide = "import sys, importlib.machinery as m\n"
    hide += "class Hide(m.PathFinder):\n"
    hide += "    @classmethod\n"
    hide += "    def find_spec(cls, name, path=None, target=None):\n"
    hide += "        return None if name == 'numba' else super().find_spec(name, path, target)\n"
    hide += "sys.meta_path[:] = [Hide if f is m.PathFinder else f for f in sys.meta_path]\n"
    ended = run(hide + SAY, PENSTOCK_KERNEL="numba")
    assert "PENSTOCK_KERNEL=numba needs numba: pip install 'penstock[fast]'" in ended.stderr
    ended = run(hide + SAY)
    assert json.loads(ended.stdout)["name"] == "pure"


def test_a_stream_loads_numba_once_it_pays() -> None:
    script = "from penstock import kernels\n"
    script += "names = [kernels.kernel(1 << 20).__name__[-5:].strip('_') for _ in range(6)]\n"
    script += "print(*names)\n"
    ended = run(script)
    assert ended.stdout.split() == ["pure", "pure", "pure", "pure", "numba", "numba"]


CACHE = """
from penstock import kernels
kernel = kernels.load()
from penstock.kernels.cache import MAIN, folder
import numba
made = [getattr(kernel, name) for name in kernel.__all__]
stats = [each.stats for each in made if hasattr(each, "stats")]
print(folder(MAIN), sum(len(each.cache_hits) for each in stats), numba.config.CACHE_DIR or "untouched")
"""


def test_a_machine_without_any_folder_costs_the_cache_and_nothing_else() -> None:
    nowhere = "from penstock.kernels import cache\ncache.kept = lambda *_: None\n"
    ended = run(nowhere + CACHE, PENSTOCK_KERNEL="numba")
    assert ended.stdout.split() == ["None", "0", "untouched"], ended.stderr
    assert "compiled kernels can be kept nowhere" in ended.stderr


def test_compiled_code_is_kept_in_a_folder_of_its_own_and_found_again(tmp_path: Path) -> None:
    warm = "from penstock.kernels.cache import MAIN, is_warm; import sys; print(is_warm(MAIN), 'numba' in sys.modules)"
    assert run(warm, XDG_CACHE_HOME=str(tmp_path)).stdout.split() == ["False", "False"]
    written = run(CACHE, PENSTOCK_KERNEL="numba", XDG_CACHE_HOME=str(tmp_path)).stdout.split()
    assert Path(written[0]).is_relative_to(tmp_path)
    assert written[1:] == ["0", "untouched"]
    found = run(CACHE, PENSTOCK_KERNEL="numba", XDG_CACHE_HOME=str(tmp_path)).stdout.split()
    assert found == [written[0], "6", "untouched"]
    assert run(warm, XDG_CACHE_HOME=str(tmp_path)).stdout.split() == ["True", "False"]
