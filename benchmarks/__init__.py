"""Measurements against named alternatives and limits; never part of the tests."""
