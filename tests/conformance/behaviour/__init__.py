"""Responses of brokers, request by request: the same scenarios on the bundled broker and on Apache Kafka.

A scenario (on_*.py) sends raw requests to a cluster over a plain socket; the responses, with ids and times
replaced (plain.py), are its transcript. Transcripts of Apache Kafka 4.4.0 are in golden/, and the bundled
broker is compared with them. Where Java is installed, Apache Kafka runs again and must still give the same
responses.

    python -m tests.conformance.behaviour [NAME]     the bundled broker against golden/: the diverging fields
    python -m tests.conformance.behaviour --real     both clusters, live
    python -m tests.conformance.behaviour --record [NAME]            record golden/ again from Apache Kafka
    python -m tests.conformance.behaviour --show "Fetch v12" [NAME]  print recorded exchanges, indented
"""
