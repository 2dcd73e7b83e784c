"""Markup stays whole, whatever text is put into it."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from asyncsearch.sequences.svg import escape


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 漢 😀\t\n", "plain ü 漢 😀\t\n"),
        ("<b>&\"'", "<b>&\"'"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\0\x08\x0b\x7f\x85\x9b", r"\x00\x08\x0b\x7f\x85\x9b"),
        ("\ud800 \ufffe \uffff", r"\ud800 \ufffe \uffff"),
    ],
)
def test_escaped_text_is_shown_and_can_be_parsed_and_written(text: str, shown: str) -> None:
    for element in (f"<text>{escape(text)}</text>", f"<text title='{escape(text)}'/>"):
        element.encode()
        assert (
            shown.split()
            == ("".join(ET.fromstring(element).itertext()) or ET.fromstring(element).get("title", "")).split()
        )


def test_every_character_can_be_in_a_picture() -> None:
    for first in range(0, 0x110000, 0x1000):
        ET.fromstring(f"<text>{escape(''.join(map(chr, range(first, first + 0x1000))))}</text>")
