"""How many tasks run at once, by Spark's settings."""

from __future__ import annotations

import pytest

from penstock.spark._settings import Slots, slots

YARN = {"spark.master": "yarn"}
STANDALONE = {"spark.master": "spark://10.0.0.1:7077,10.0.0.2:7077"}
KUBERNETES = {"spark.master": "k8s://https://10.0.0.1:6443"}
DYNAMIC = {"spark.dynamicAllocation.enabled": "true"}


def executors(count: int, cores: int | None = None) -> dict[str, str]:
    given = {"spark.executor.instances": str(count)}
    return given if cores is None else {**given, "spark.executor.cores": str(cores)}


@pytest.mark.parametrize(
    ("master", "at_once"), [("local", 1), ("local[3]", 3), ("local[3,4]", 3), ("local[*]", 8), ("local[ *, 2 ]", 8)]
)
def test_one_machine(master: str, at_once: int) -> None:
    given = {"spark.master": master, "spark.default.parallelism": "64", "spark.executor.cores": "9"}
    assert slots(given, cores=8) == Slots(at_once, apart=False)
    assert slots({}, cores=8) == Slots(8, apart=False)


@pytest.mark.parametrize(
    ("settings", "at_once"),
    [
        (STANDALONE, None),
        ({**STANDALONE, "spark.executor.cores": "4"}, None),
        ({**STANDALONE, "spark.cores.max": "12"}, 12),
        ({**STANDALONE, **executors(10, 4), "spark.cores.max": "12"}, 12),
        ({**STANDALONE, **executors(10, 4)}, 40),
        ({**STANDALONE, **executors(10, 4), "spark.task.cpus": "2"}, 20),
        ({**STANDALONE, "spark.default.parallelism": "200"}, 200),
        ({"spark.master": "local-cluster[3,2,1024]"}, 6),
        (YARN, 2),
        ({**YARN, **executors(10)}, 10),
        ({**KUBERNETES, **executors(10, 4)}, 40),
        ({**KUBERNETES, **executors(10, 4), "spark.cores.max": "1"}, 40),
        ({**YARN, **DYNAMIC}, None),
        ({**YARN, **DYNAMIC, **executors(3, 4)}, None),
        ({**YARN, **DYNAMIC, "spark.dynamicAllocation.maxExecutors": "30", "spark.executor.cores": "5"}, 150),
        ({**YARN, "spark.executor.instances": "many"}, 2),
        ({"spark.master": "spark://host", "spark.default.parallelism": "0"}, None),
    ],
)
def test_a_cluster(settings: dict[str, str], at_once: int | None) -> None:
    assert slots(settings, cores=2) == Slots(at_once, apart=True)


def test_what_cannot_be_seen_is_taken_for_a_cluster() -> None:
    assert slots(None, cores=8) == Slots(None, apart=True)
