"""The verb broker: a bundled cluster until Ctrl-C."""
