"""The controller of a cluster: which topics there are, where their replicas live, who leads them.

One broker hosts the active controller (election by lease in the process, no KRaft quorum protocol).  It
decides, writes what it decided as records to the metadata log (records.py, metadata_log.py), replays them
into its state (state.py), and publishes the image that results.  Whoever follows replays the same log.

To add an operation: a method of `Controller`, or a function over one in a module of its own, that reads
`controller.state`, raises a `BrokerError` for what cannot be, and calls `controller.write(records)` once.
A handler registered with `by_controller=True` runs on the broker that hosts the active controller, whichever
broker was asked, as one event of the controller's queue: there, and only there, `services.controller` is the
active controller and calls are synchronous.  All other handlers read `services.image`.
"""

from pykafka2.broker.controller.controller import Controller, IsrChange
from pykafka2.broker.controller.new_topic import NewTopic

__all__ = ["Controller", "IsrChange", "NewTopic"]
