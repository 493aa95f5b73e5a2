"""Low-level modules for all parts of a broker: purgatory, timing wheel, metadata images, features."""
