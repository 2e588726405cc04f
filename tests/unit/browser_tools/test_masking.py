"""Masking of credentials in what pages wrote: in linear time, whatever they wrote."""

from __future__ import annotations

import time

import pytest

from bridge.browser_tools.page.credential_masking import masked_body, masked_url

SIZE = 100_000
LIMIT_S = 1.0
"""A linear search of SIZE characters takes 0.02 s; the quadratic one took 10 s and more."""


@pytest.mark.parametrize(
    "shape", ["eyJaaaaa-", "-eyJ", "eyJaaaaa.", "eyJaaaaa", 'a"', '"a":"', '"a":"\\"', "a="]
)
def test_masking_takes_linear_time(shape: str) -> None:
    text = (shape * SIZE)[:SIZE]
    began = time.process_time()
    masked_url(f"https://shop.example/{text}?{text}#{text}")
    masked_body("{" + text)
    masked_body(text)
    assert time.process_time() - began < LIMIT_S


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("x-eyJhbGciOi.eyJzdWIi.c2ln", "x-[masked]"),
        ("eyJa-eyJhbGciOi.eyJzdWIi.c2ln", "[masked]"),
        ("a.eyJhbGciOi.eyJzdWIi.c2ln b", "a.[masked] b"),
        ("xeyJhbGciOi.eyJzdWIi.c2ln", "xeyJhbGciOi.eyJzdWIi.c2ln"),
        ("eyJhbGciOi.eyJz.c2ln", "eyJhbGciOi.eyJz.c2ln"),
    ],
)
def test_a_json_web_token_is_masked_from_its_first_character(text: str, masked: str) -> None:
    assert masked_body(text) == masked


def test_a_secret_parameter_with_a_long_name_is_masked() -> None:
    assert masked_body("x" * 200 + "-token=hunter2&page=2") == "x" * 200 + "-token=[masked]&page=2"
