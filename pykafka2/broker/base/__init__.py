"""Leaves that every part of a broker may use: purgatory, timing wheel, images of the metadata, features."""
