"""Addresses of objects: read as they are written, and written as they are read."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colret.addresses import Address, parse_address
from colret.documents import display_path
from colret.errors import DocumentError
from colret.places import absolute_place, given_place, place_of

PARTS = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1).filter(
    lambda part: part not in (".", "..") and "/" not in part
)


@pytest.mark.parametrize(
    ("text", "root", "key"),
    [
        ("s3://bucket", "s3://bucket", ""),
        ("S3://bucket/", "s3://bucket", ""),
        ("s3://bucket/a b/ü.pdf", "s3://bucket", "a b/ü.pdf"),
        ("gs://bucket/docs//", "gs://bucket", "docs"),
        ("az://container/a%2Fb.pdf", "az://container", "a%2Fb.pdf"),
        ("abfss://container@account.dfs.core.windows.net/x", "abfss://container@account.dfs.core.windows.net", "x"),
        ("s3://bucket/what?#12.pdf", "s3://bucket", "what?#12.pdf"),
    ],
)
def test_what_an_address_names(text: str, root: str, key: str) -> None:
    assert parse_address(text) == Address(root, key)


@pytest.mark.parametrize(
    "text",
    ["s3://", "s3:///a.pdf", "s3://b/../a.pdf", "s3://b/./a", "s3://b/a//b.pdf", "s3://b//a.pdf", "s3://b/a\nb.pdf"],
)
def test_what_clients_refuse_is_refused_with_the_address(text: str) -> None:
    with pytest.raises(DocumentError) as caught:
        absolute_place(text)
    assert "s3://" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    with pytest.raises(DocumentError, match="--storage-option") as caught:
        absolute_place("s3://key:hush@bucket/a.pdf")
    assert "hush" not in str(caught.value)


def test_other_schemes_are_no_paths() -> None:
    with pytest.raises(DocumentError, match="s3://"):
        absolute_place("https://example.org/a.pdf")
    assert given_place("s3:/bucket/a.pdf") == Path("s3:/bucket/a.pdf")
    assert absolute_place("a.pdf") == Path.cwd() / "a.pdf"


def test_an_address_has_the_words_that_a_path_has() -> None:
    address = parse_address("s3://bucket/reports/2023/q3.final.PDF")
    assert (address.name, address.stem, address.suffix) == ("q3.final.PDF", "q3.final", ".PDF")
    assert [str(each) for each in address.parents] == [
        "s3://bucket/reports/2023",
        "s3://bucket/reports",
        "s3://bucket",
    ]
    assert parse_address("s3://bucket").parents == ()


def test_options_are_not_shown_and_make_no_difference() -> None:
    address = parse_address("s3://bucket/a.pdf", {"aws_secret_access_key": "hush"})
    assert "hush" not in f"{address} {address!r}"
    assert address == parse_address("s3://bucket/a.pdf")
    assert hash(address) == hash(parse_address("s3://bucket/a.pdf"))
    assert address.parent.at("b.pdf").options == address.options == pickle.loads(pickle.dumps(address)).options


@given(st.lists(PARTS, min_size=1, max_size=4).map("/".join))
def test_an_address_comes_back_from_its_text(key: str) -> None:
    address = Address("s3://bucket", key)
    assert place_of(display_path(address)) == address
