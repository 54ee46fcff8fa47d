"""Files of Word, Excel and PowerPoint, written by the libraries that read them, and folders of files of many kinds."""

from __future__ import annotations

import datetime
import io
import zipfile
from pathlib import Path

import pytest

from retinue import DataError, DocumentStore
from retinue.documents import index_folder
from retinue.documents.folder_index import read_folder
from retinue.documents.text_extraction import DOCX, PPTX, XLSX, extract_text


def word() -> bytes:
    import docx

    document, file = docx.Document(), io.BytesIO()
    document.core_properties.title = "Rules"
    document.add_heading("Leave")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Days", "27"
    document.add_paragraph("Ask Ada.")
    document.save(file)
    return file.getvalue()


def excel() -> bytes:
    import openpyxl

    book, file = openpyxl.Workbook(), io.BytesIO()
    sheet = book.worksheets[0]
    sheet.title = "Prices"
    sheet.append(["Item", "Price", "From"])
    sheet.append(["Desk", 120.5, datetime.date(2024, 2, 29)])
    sheet.append([])
    book.create_sheet("More").append(["Chair", None, 7])
    book.save(file)
    return file.getvalue()


def slides() -> bytes:
    import pptx

    deck, file = pptx.Presentation(), io.BytesIO()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Plans"
    table = slide.shapes.add_table(1, 2, 0, 0, 100, 100).table
    table.cell(0, 0).text, table.cell(0, 1).text = "Shop", "Lyon"
    slide.notes_slide.notes_text_frame.text = "In May."
    deck.save(file)
    return file.getvalue()


def test_paragraphs_tables_sheets_slides_and_notes_are_read() -> None:
    read = extract_text(word(), DOCX)
    assert (read.text, read.title) == ("Leave\n\nDays | 27\n\nAsk Ada.", "Rules")
    assert (
        extract_text(excel(), XLSX).text
        == "Prices\nItem | Price | From\nDesk | 120.5 | 2024-02-29\n\nMore\nChair |  | 7"
    )
    assert extract_text(slides(), PPTX).text == "Plans\nShop | Lyon\nIn May."


@pytest.mark.full
@pytest.mark.parametrize("kind", [DOCX, XLSX, PPTX])
def test_a_broken_file_and_one_that_unpacks_to_gigabytes_are_refused(kind: str) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.xml", b"\0" * 250_000_000)
    broken = "this file cannot be read"
    for data, said in ((b"PK\x03\x04 no", broken), (word()[:200], broken), (packed.getvalue(), "unpacks to 250 MB")):
        with pytest.raises(DataError, match=said):
            extract_text(data, kind)


def test_each_file_of_a_folder_is_read_or_named(tmp_path: Path) -> None:
    (tmp_path / "leave.docx").write_bytes(word())
    (tmp_path / "prices.xlsx").write_bytes(excel())
    (tmp_path / "plans.pptx").write_bytes(slides())
    (tmp_path / "people.csv").write_text("name,age\nAda,36\n")
    (tmp_path / "old.txt").write_bytes("Café in Orléans".encode("latin-1"))
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    problems: list[str] = []
    found = {one.meta["path"]: one.content for one in read_folder(tmp_path, problems)}
    assert (found["old.txt"], found["people.csv"], len(found)) == ("Café in Orléans", "name,age\nAda,36", 5)
    with DocumentStore() as store:
        done = index_folder(tmp_path, store)
        assert (done.new, done.problems) == (5, problems)
        assert [one.meta["path"] for one in store.keyword("leave days")] == ["leave.docx"]
    assert [one.partition(":")[0] for one in problems] == ["picture.png"]
