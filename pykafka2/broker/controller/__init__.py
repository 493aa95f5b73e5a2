"""The controller of a cluster: topics, replica placement and leader election.

One broker hosts the active controller (elected by a lease in the process, without KRaft's quorum protocol).
It makes decisions, writes them as Kafka's records to the metadata log (metadata/records.py, metadata/log.py),
which replays them (metadata/image.py), and publishes the resulting image. A new controller continues with it.

To add an operation: a method of `Controller`, or a function over one in its own module, that reads
`controller.state`, raises a `BrokerError` if the request is invalid, and calls `controller.write(records)`
once. A handler declared with `at=CONTROLLER` runs as one event in the queue of the active controller,
whichever broker received the request: only there `services.controller` is the active controller and calls are
synchronous. All other handlers read `services.image`.
"""

from pykafka2.broker.controller.controller import Controller, IsrChange
from pykafka2.broker.controller.topics import NewTopic

__all__ = ["Controller", "IsrChange", "NewTopic"]
