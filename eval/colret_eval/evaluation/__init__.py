"""``colret eval run`` and ``colret eval sweep``: what a search is worth on labelled pages, and how sure that is.

A set is ingested into an index as ``colret ingest`` does it. While its pages are encoded, their
float32 vectors are compared with every query (``recorder``), so that what the codec costs can be
told from what the model cannot do. Every system becomes a matrix of scores (``systems``), from
which all figures follow. ``run`` puts them into one dictionary, the report.
"""
