"""Evaluation of page retrieval: datasets, measures, statistics, reports."""
