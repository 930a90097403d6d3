"""A SPARK_HOME from which Spark's Python processes start quickly.

They import PySpark from a zip without compiled files where SPARK_HOME has one; a home of symbolic links that leaves the
zip out makes each of the five that a test starts four times quicker.
"""

from __future__ import annotations

from pathlib import Path


def thin_spark_home(folder: Path) -> Path:
    """A SPARK_HOME without pyspark.zip."""
    import pyspark

    real = Path(pyspark.__file__).parent
    for name in ("bin", "data", "jars", "sbin"):
        if (real / name).exists():
            (folder / name).symlink_to(real / name)
    library = folder / "python" / "lib"
    library.mkdir(parents=True)
    for zipped in (real / "python" / "lib").glob("py4j-*.zip"):
        (library / zipped.name).symlink_to(zipped)
    return folder
