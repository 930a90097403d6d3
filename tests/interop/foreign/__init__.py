"""Other people's Kafka clients behind one small face, so that every test runs with each of them."""

from tests.interop.foreign.aio import AIOKAFKA
from tests.interop.foreign.confluent import CONFLUENT
from tests.interop.foreign.face import Foreign, Sample, samples
from tests.interop.foreign.kafka_python import KAFKA_PYTHON

CLIENTS = (CONFLUENT, AIOKAFKA, KAFKA_PYTHON)

__all__ = ["CLIENTS", "Foreign", "Sample", "samples"]
