"""Single-vector vision models, with tiny random checkpoints of the real classes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from colret.encoders.torchvision_guard import import_torchvision
from colret.encoders.weights import quiet_transformers
from colret.errors import ModelError
from colret_eval.bi_encoder import BiEncoder
from colret_eval.evaluation.one_set import Options
from colret_eval.evaluation.run import evaluate_sets, load_checked
from colret_eval.evaluation.systems import BI, BM25, CHUNK, MEAN, REFERENCE, TWO_STAGE
from tests.checkpoints import noisy_page, tiny_checkpoint, tiny_encoder

KINDS = {"colidefics3": "BiIdefics3", "colqwen2": "BiQwen2", "colmodernvbert": "BiModernVBert"}


def bi_checkpoint(folder: Path, family: str) -> Path:
    """Write a single-vector checkpoint with the configuration and processor of a tiny late-interaction one."""
    import_torchvision()
    import torch
    from colpali_engine import models

    shutil.copytree(tiny_checkpoint(family), folder)
    for weights in folder.glob("*.safetensors*"):
        weights.unlink()
    model_class = getattr(models, KINDS[family])
    torch.manual_seed(0)
    with quiet_transformers():
        model = model_class(model_class.config_class.from_pretrained(str(folder)))
        model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("family", list(KINDS))
def test_a_page_and_a_query_are_one_direction_each(family: str, tmp_path: Path) -> None:
    encoder = BiEncoder(str(bi_checkpoint(tmp_path / "bi", family)), device="cpu")
    page, other = (noisy_page(number, 64, 80).image for number in (1, 2))
    assert page is not None
    assert other is not None
    first, again, second = (encoder.encode_image(image) for image in (page, page, other))
    queries = encoder.encode_queries(["net revenue", "the grey heron"])
    assert first.shape == (queries.shape[1],)
    np.testing.assert_allclose(np.linalg.norm([first, *queries], axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, second)
    assert not np.allclose(queries[0], queries[1])
    [alone] = encoder.encode_queries(["the grey heron"])
    np.testing.assert_array_equal(alone, queries[1])


def test_page_images_out_of_a_table_are_evaluated_by_vision_models(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    folder.mkdir()
    images = []
    for number in range(4):
        image = noisy_page(number, 64, 80).image
        assert image is not None
        image.save(tmp_path / "page.png")
        images.append({"bytes": (tmp_path / "page.png").read_bytes(), "path": None})
    questions = ["net revenue", "the grey heron", "old violins", None]
    names = [f"page-{number}.png" for number in range(4)]
    pq.write_table(pa.table({"image": images, "query": questions, "image_filename": names}), folder / "test.parquet")
    (tmp_path / "vectors").mkdir()
    options = Options(
        (REFERENCE, TWO_STAGE, MEAN, BM25, CHUNK, BI),
        bi_model=str(bi_checkpoint(tmp_path / "bi", "colidefics3")),
        device="cpu",
    )
    encoder = tiny_encoder("colidefics3")
    report = evaluate_sets([load_checked(folder)], encoder, tmp_path / "indexes", tmp_path / "vectors", options)
    [found] = report["sets"]
    assert (found["n_pages"], found["n_queries"], report["index"]["codec"]) == (4, 3, "int8")
    systems = {system["id"]: system for system in found["systems"]}
    assert systems[BI]["available"]
    assert systems[BI]["bytes_per_page"] > 0
    assert systems[BM25]["reason"] == systems[CHUNK]["reason"] == "the pages have no words"
    pages = [page["key"] for query in found["queries"] for page in query["top"]]
    assert set(pages) & set(found["thumbnails"])


def test_weights_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"linear|custom_text_proj"):
        BiEncoder(str(tiny_checkpoint("colidefics3")), device="cpu")
    with pytest.raises(ModelError, match="not a hub name"):
        BiEncoder(str(tmp_path / "nowhere" / "at all"))
