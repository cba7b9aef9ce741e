"""The benchmark: colret beside its rivals on one machine in one run.

    python -m colret_eval.bench --data LABELLED_FOLDER... --sizes 1000,10000 --out FOLDER

Figures of retrieval quality and bytes come from real vectors: the embedded encoder's, on the
labelled sets. Figures of speed at size come from synthetic pages cut from those vectors (see
``corpora``), as no labelled set is that large. Each rival runs in a process of its own, with a
time limit; one that is not installed, or does not finish, is reported as such.
"""
