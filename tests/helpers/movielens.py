"""MovieLens 100K in GroupLens's own layout, written from the atomic files."""

from __future__ import annotations

from pathlib import Path

from workloads.data.movielens_files import GENRES, embedded_folder


def write_grouplens(folder: Path) -> None:
    """Writes u.data, u.user, u.item and u.genre as GroupLens's archive has them."""
    source = embedded_folder()
    ratings = (source / "ml-100k.inter").read_text().split("\n", 1)[1]
    users = (source / "ml-100k.user").read_text().split("\n", 1)[1]
    items = (source / "ml-100k.item").read_text(encoding="utf-8").split("\n")[1:]
    (folder / "u.data").write_text(ratings)
    (folder / "u.user").write_text(users.replace("\t", "|"))
    (folder / "u.genre").write_text("".join(f"{g}|{i}\n" for i, g in enumerate(GENRES)) + "\n")
    lines = [_item_line(*item.split("\t")) for item in items if item]
    (folder / "u.item").write_text("".join(lines), encoding="latin-1")


def _item_line(number: str, title: str, year: str, genres: str) -> str:
    if year == "unkonwn":  # as the atomic file spells it, for the one film without a date
        title, date = "unknown", ""
    else:
        # "V" stands where GroupLens has the year and "(V)", for video. Release dates are often a year later.
        title, date = f"{title} ({year})", "01-Jan-1998"
    flags = "|".join("1" if genre in genres.split(" ") else "0" for genre in GENRES)
    return f"{number}|{title}|{date}||http://example.org/{number}|{flags}\n"
