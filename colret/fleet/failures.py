"""What goes wrong on a cluster: what a worker raised, and workers and nodes that are gone."""

from __future__ import annotations

from colret.errors import ColretError


def lost(error: Exception) -> bool:
    """Return whether a worker, a node or what it held is gone, so that its work is to be done again."""
    from ray.exceptions import RayError

    if not isinstance(error, RayError) or getattr(error, "actor_init_failed", False):
        return False
    return input_lost(error) or not _raised_by_worker(error)


def input_lost(error: Exception) -> bool:
    """Return whether a worker could not do its work because what it was to work on is gone."""
    from ray.exceptions import RayError

    return _raised_by_worker(error) and isinstance(getattr(error, "cause", None), RayError)


def _raised_by_worker(error: Exception) -> bool:
    from ray.exceptions import RayTaskError

    return isinstance(error, RayTaskError)


def explained(error: Exception) -> ColretError:
    """Return what a worker raised as one line: colret's own as it was."""
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, ColretError):
        return cause
    lines = [line for line in str(cause).splitlines() if line.strip()] or [type(cause).__name__]
    remedy = "install the same colret, Python and libraries on every node, and ingest again"
    return ColretError("the Ray cluster", f"a worker failed: {lines[-1]}", remedy)
