"""Run a page's code in a Python of its own, with a Spark session started for it: ``in_spark.py PAGE SERVER FOLDER``.

A JVM keeps the settings of the first session of its process, so what interop tests run beside Spark starts a process.
What must not live here: assertions; whoever started it looks at what was written.
"""

from __future__ import annotations

import sys

from tests.spark.pages import Page
from tests.spark.sessions import CONF


def main(page: str, server: str, folder: str) -> int:
    import penstock.spark

    spark = penstock.spark.session("recipes", "local[2]", **CONF, **{"spark.sql.warehouse.dir": f"{folder}/warehouse"})
    spark.sparkContext.setLogLevel("OFF")
    try:
        Page(page).run(server, folder, spark=spark)
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
