"""One Spark session that measures all readers of a topic in turn: ``python -m bench.spark_case JOB`` tells figures.

Run by `bench.scenarios.spark`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bench.rounds import rounds
from bench.spark_actions import action
from bench.spark_frames import Source
from bench.spark_jvm import Stopwatch, say, session

__all__ = ["main"]


def main(job: Mapping[str, Any]) -> None:
    """Checksums of every case first, then the timed rounds. A case that fails is left out of what follows."""
    spark = session()
    watch = Stopwatch()
    source = Source(spark, job["bootstrap"], job["topic"], job["count"])
    sound = [case for case in job["cases"] if _checked(source, case)]
    for number, case in rounds(tuple(sound), warm=job["warm"], runs=job["runs"]):
        if case in sound and not _timed(source, case, number, watch):
            sound.remove(case)
    say({"rss_mb": watch.rss_mb})
    spark.stop()


def _checked(source: Source, case: str) -> bool:
    try:
        doing = action(case)
        say({"case": case, "evidence": doing.evidence, "sums": doing.sums(source, case)})
    except Exception as error:  # whatever it is, the other cases can still be measured
        say({"case": case, "error": f"{type(error).__name__}: {error}"[:3000]})
        return False
    return True


def _timed(source: Source, case: str, number: int, watch: Stopwatch) -> bool:
    try:
        spent = action(case).run(source, case, watch)
    except Exception as error:
        say({"case": case, "error": f"{type(error).__name__}: {error}"[:3000]})
        return False
    say({"case": case, "round": number, **asdict(spent), "load": os.getloadavg()[0]})
    return True


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
