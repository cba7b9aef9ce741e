"""Two plots: recall against latency, and bytes against recall."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from colret_eval.bench.comparison import frontier


def draw(result: dict[str, Any], folder: Path) -> str:
    """Write what can be drawn of ``result`` as SVG and PNG; return why nothing was, if so."""
    try:
        import matplotlib
    except ImportError:
        return "matplotlib is not installed"
    matplotlib.use("Agg")
    if "engines" in result:
        _latency(result, folder)
    if "storage" in result:
        _bytes(result, folder)
    return ""


def _latency(result: dict[str, Any], folder: Path) -> None:
    """Draw, for each corpus, the frontier of each engine."""
    import matplotlib.pyplot as plt

    corpora = result["corpora"]
    figure, axes = plt.subplots(1, len(corpora), figsize=(max(4.2 * len(corpora), 7), 3.8), squeeze=False, sharey=True)
    colors = {name: f"C{i}" for i, name in enumerate(dict.fromkeys(row["rival"] for row in result["engines"]))}
    for axis, corpus in zip(axes[0], corpora, strict=True):
        for row in result["engines"]:
            if (row["kind"], row["n_pages"]) == (corpus["kind"], corpus["n_pages"]) and row["points"]:
                best = frontier(row["points"])
                times, shares = [p["p50_ms"] for p in best], [p["top10"] for p in best]
                axis.plot(times, shares, "o-", color=colors[row["rival"]], label=row["rival"], markersize=4)
        axis.set(xscale="log", xlabel="p50, ms", title=f"{corpus['kind']}, {corpus['n_pages']:,} pages")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("share of the exact top-10")
    handles = [plt.Line2D([], [], color=color, marker="o", label=name) for name, color in colors.items()]
    figure.legend(handles=handles, loc="outside lower center", ncol=len(colors), frameon=False)
    _save(figure, folder / "recall-latency")


def _bytes(result: dict[str, Any], folder: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4))
    for row in result["storage"]:
        axis.plot(row["bytes_a_page"] / 1000, row["top10"], "o", color="C0", markersize=4)
        label = f"{row['codec']}, pool {row['pool']}, D {row['dim']}"
        axis.annotate(
            label, (row["bytes_a_page"] / 1000, row["top10"]), (4, -8), textcoords="offset points", fontsize=7
        )
    axis.set(xscale="log", xlabel="kB a page, read from disk", ylabel="share of the float32 top-10")
    axis.grid(alpha=0.3)
    _save(figure, folder / "bytes-recall")


def _save(figure: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure.set_layout_engine("constrained")
    for suffix in (".svg", ".png"):
        figure.savefig(path.with_suffix(suffix), dpi=120)
    plt.close(figure)
