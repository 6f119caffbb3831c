"""Prints as JSON what openpyxl reads from the files that are named."""
import datetime
import json
import sys

import openpyxl


def shown(value):
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return None if value is None else str(value)


def rows(sheet):
    return [[shown(value) for value in row] for row in sheet.iter_rows(values_only=True)]


def read(path):
    book = openpyxl.load_workbook(path)
    stream = openpyxl.load_workbook(path, read_only=True)
    return {
        "creator": book.properties.creator,
        "title": book.properties.title,
        "sheets": [
            {
                "name": sheet.title,
                "freeze": sheet.freeze_panes,
                "filter": sheet.auto_filter.ref,
                "bold": all(cell.font.b for cell in sheet[1]),
                "rows": rows(sheet),
                "stream": rows(stream[sheet.title]),
                "formats": [cell.number_format for cell in sheet[sheet.max_row]],
                "formulas": sum(cell.data_type == "f" for row in sheet.iter_rows() for cell in row),
            }
            for sheet in book
        ],
    }


json.dump([read(path) for path in sys.argv[1:]], sys.stdout)
