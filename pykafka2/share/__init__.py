"""Share groups (KIP-932): consumers that take records from a queue and acknowledge each one.

Entry point: `consumer.KafkaShareConsumer`; `core.ShareCore` has its parts. membership.py and sessions.py
belong to the driver's thread, locks.py to all threads, decoding.py to the thread that polls. Uses the
argument checks, bad-record policy, interceptors and poll metrics of pykafka2.consumer, and nothing else.
"""
