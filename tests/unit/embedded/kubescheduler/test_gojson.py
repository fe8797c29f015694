"""Texts of syntax errors: each was got from Go's encoding/json."""

from __future__ import annotations

import pytest

from extender.embedded.kubescheduler.gojson import GoJsonError, first_value


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("nonsense", "invalid character 'o' in literal null (expecting 'u')"),
        ("tru1", "invalid character '1' in literal true (expecting 'e')"),
        ("nul", "unexpected EOF"),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("[,", "invalid character ',' looking for beginning of value"),
        ('{"a":}', "invalid character '}' looking for beginning of value"),
        ("{a", "invalid character 'a' looking for beginning of object key string"),
        ('{"a" 1', "invalid character '1' after object key"),
        ('{"a":1 2', "invalid character '2' after object key:value pair"),
        ("[1 2", "invalid character '2' after array element"),
        ('[{"[":[1]} 2', "invalid character '2' after array element"),
        ('{"a":"\\"[", "b" 2', "invalid character '2' after object key"),
    ],
)
def test_go_says_what_is_wrong(body: str, text: str):
    with pytest.raises(GoJsonError) as found:
        first_value(body.encode())
    assert str(found.value) == text
