"""Looking for a secret in every form in which it could have got out."""

import base64
import json
import urllib.parse
from pathlib import Path

# Shorter pieces than this occur by chance.
PIECE_MIN = 12


def forms(secret):
    """The secret in raw, hexadecimal, base64 at each alignment, percent-encoded and escaped form."""
    raw = secret.encode()
    found = {
        "raw": raw,
        "reversed": raw[::-1],
        "hex": raw.hex().encode(),
        "HEX": raw.hex().upper().encode(),
        "spaced hex": raw.hex(" ").encode(),
        "percent": urllib.parse.quote(secret, safe="").encode(),
        "percent, all": "".join(f"%{b:02X}" for b in raw).encode(),
        "json": json.dumps(secret)[1:-1].encode(),
        "decimal": str(list(raw)).strip("[]").encode(),
        "utf-16": secret.encode("utf-16-le"),
    }
    for shift in range(3):
        # Without the characters that depend on what stands beside it.
        for name, encode in (("base64", base64.b64encode), ("base64url", base64.urlsafe_b64encode)):
            coded = encode(b"\0" * shift + raw)
            first = -(-8 * shift // 6)
            last = (8 * (shift + len(raw))) // 6
            found[f"{name}+{shift}"] = coded[first:last]
    return {name: form for name, form in found.items() if PIECE_MIN <= len(form)}


def search(secret, places):
    """Where the secret is: `place: form` for each find. `places` maps names to bytes."""
    wanted = forms(secret)
    return [
        f"{place}: {name}"
        for place, data in places.items()
        for name, form in wanted.items()
        if form in data
    ]


def files(folder):
    """Every file below a folder, by its path."""
    folder = Path(folder)
    return {
        str(file.relative_to(folder.parent)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
