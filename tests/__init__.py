"""Tests of colret."""
