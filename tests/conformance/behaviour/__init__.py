"""Responses of brokers, request by request: the same scenarios on the bundled broker and on Apache Kafka.

A scenario (on_*.py) asks a cluster raw questions over a plain socket; what came back, with ids and times
replaced (plain.py), is its transcript.  Transcripts of Apache Kafka 4.3.1 lie in golden/, and the bundled
broker is held against them; where there is Java, Apache Kafka is asked again and must still say the same.

    python -m tests.conformance.behaviour [NAME]     the bundled broker against golden/: the diverging fields
    python -m tests.conformance.behaviour --real     both clusters, live
    python -m tests.conformance.behaviour --record [NAME]            write golden/ anew from Apache Kafka
    python -m tests.conformance.behaviour --show "Fetch v12" [NAME]  print recorded exchanges, indented
"""
