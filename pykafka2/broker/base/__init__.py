"""Low-level modules for all parts of a broker: timing wheel, metadata images, features, problems."""
