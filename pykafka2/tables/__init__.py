"""Topics as tables: `pykafka2.scan` reads a part of topics, `pykafka2.write` writes a table to a topic.

Above the clients, whose public calls it uses: bounds.py resolves where a scan starts and ends, reader.py
reads the partitions, arrow.py makes record batches, scan.py has the public object. Only polars_source.py has
a thread, which reads for a lazy query; no module has a socket.
"""
