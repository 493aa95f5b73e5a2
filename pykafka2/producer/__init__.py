"""The producer: batches, partitioning, idempotence, transactions."""

TYPE_CHECKING = False

if not TYPE_CHECKING:  # or type checkers would accept every name

    def __getattr__(name: str) -> object:
        from pykafka2.other_clients import no_such_name

        raise no_such_name(__name__, name)
