"""The settings of the Spark that a planner works for: out of its command line, files, and what a driver told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark._launch import TOLD, ancestors, of_command_line, of_properties, settings

# As seen of PySpark 4.3.0: a script that spark-submit runs, and a session that a Python program makes.
JAVA = ["/usr/bin/java", "-cp", "/spark/conf:/spark/jars/*", "-Xmx1g", "-XX:+IgnoreUnrecognizedVMOptions"]
SUBMIT = "org.apache.spark.deploy.SparkSubmit"


def told(*words: str, **environment: str) -> dict[str, str] | None:
    return of_command_line([*JAVA, SUBMIT, *words, ""], environment)


def test_options_up_to_the_program() -> None:
    assert told("--master", "spark://a:7077", "app.py", "--master", "other") == {"spark.master": "spark://a:7077"}
    given = ("--verbose", "--conf", "spark.app.name=a=b", "--num-executors=7", "--executor-cores", "3", "pyspark-shell")
    assert told(*given) == {
        "spark.app.name": "a=b",
        "spark.executor.instances": "7",
        "spark.executor.cores": "3",
    }


def test_system_properties_count_less() -> None:
    line = [*JAVA, "-Dspark.master=yarn", "-Dspark.x=1", "-Dy=2", SUBMIT, "--conf", "spark.x=3"]
    assert of_command_line(line, {}) == {"spark.master": "yarn", "spark.x": "3"}


def test_files_count_less_than_words_and_defaults_least(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.master yarn\nspark.a = 1\n")
    mine = tmp_path / "mine.properties"
    mine.write_text("spark.a=2\nspark.b=2\n")
    home, conf = str(tmp_path), str(tmp_path / "conf")
    assert told("--conf", "spark.b=3", SPARK_HOME=home) == {"spark.master": "yarn", "spark.a": "1", "spark.b": "3"}
    assert told("--properties-file", str(mine), SPARK_CONF_DIR=conf) == {"spark.a": "2", "spark.b": "2"}
    both = told("--properties-file", str(mine), "--load-spark-defaults", SPARK_CONF_DIR=conf)
    assert both == {"spark.master": "yarn", "spark.a": "2", "spark.b": "2"}
    assert told("--properties-file", str(tmp_path / "none"), SPARK_HOME=str(tmp_path / "nowhere")) == {}


def test_a_program_s_master_on_yarn_and_kubernetes_stands_in_a_file(tmp_path: Path) -> None:
    at = tmp_path / "spark.properties"
    at.write_text("#Java properties\nspark.master=k8s\\://https\\://10.0.0.1\nspark.executor.instances=5\n")
    main = "org.apache.spark.deploy.yarn.ApplicationMaster"
    for line in ([*JAVA, SUBMIT, "--deploy-mode", "client"], [*JAVA, main, "--class", "org.apache.spark.deploy.X"]):
        found = of_command_line([*line, "--properties-file", str(at), "local:///app.py"], {})
        assert found == {"spark.master": "k8s://https://10.0.0.1", "spark.executor.instances": "5"}


@pytest.mark.parametrize(
    "line", [[], ["bash"], ["python", "org.apache.spark.X"], ["java", "-cp", "x", "com.databricks.Y"]]
)
def test_other_programs_are_not_spark(line: list[str]) -> None:
    assert of_command_line(line, {}) is None


def test_properties() -> None:
    text = "# c\n! d\n\n  spark.a   x y \nspark.b=\nspark.c = z\nspark.d:e\nonly\nspark.e a\\=b\\\\c\n"
    assert of_properties(text) == {
        "spark.a": "x y",
        "spark.b": "",
        "spark.c": "z",
        "spark.d": "e",
        "spark.e": "a=b\\c",
    }


def test_a_driver_s_word_counts_most() -> None:
    assert settings({TOLD: json.dumps({"spark.master": "yarn"})}) == {"spark.master": "yarn"}


def test_this_process_was_started_by_no_spark() -> None:
    assert settings({}) is None


def test_ancestors_are_seen_with_their_words() -> None:
    program = "from penstock.spark._launch import ancestors; print(next(ancestors())[-3:])"
    parent = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {program!r}]).returncode)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    line = [sys.executable, "-c", parent, "a b", ""]
    printed = subprocess.run(line, capture_output=True, text=True, check=True, env=environment).stdout
    assert "'a b', ''" in printed or "'a', 'b'" in printed  # by /proc, or by ps
    assert any(ancestors())
