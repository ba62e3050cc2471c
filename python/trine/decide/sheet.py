"""An .xlsx of plain cells and live formulas: zipped XML, no more than spreadsheets need to open and compute it."""

import zipfile
from xml.sax.saxutils import escape

TYPES = """<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/styles.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.styles+xml"/>{sheets}</Types>"""
STYLES = """<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><fonts count="2"><font/><font><b/></font></fonts><fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills><borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs><cellXfs count="3"><xf/><xf fontId="1" applyFont="1"/><xf numFmtId="4" applyNumberFormat="1"/></cellXfs></styleSheet>"""
MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'


class Formula(str):
    """A cell's formula, without its equals sign."""


class Bold(str):
    """A heading."""


def column(number):
    """1 is A, 27 is AA."""
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def cell(value, where):
    match value:
        case None | "":
            return ""
        case Formula():
            return f'<c r="{where}" s="2"><f>{escape(value)}</f></c>'
        case str():
            bold = ' s="1"' if isinstance(value, Bold) else ""
            return f'<c r="{where}" t="inlineStr"{bold}><is><t xml:space="preserve">{escape(value)}</t></is></c>'
    return f'<c r="{where}"><v>{float(value)!r}</v></c>'


def sheet_xml(rows, widths):
    columns = "".join(f'<col min="{i}" max="{i}" width="{w}" customWidth="1"/>' for i, w in enumerate(widths, 1))
    body = "".join(f'<row r="{r}">' + "".join(cell(v, f"{column(c)}{r}") for c, v in enumerate(row, 1)) + "</row>" for r, row in enumerate(rows, 1))
    return f"{HEAD}<worksheet {MAIN}><cols>{columns}</cols><sheetData>{body}</sheetData></worksheet>"


def write(path, sheets):
    """sheets: [(name, rows of cells, widths of columns)]."""
    count = range(1, len(sheets) + 1)
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"
    types = TYPES.format(sheets="".join(f'<Override PartName="/xl/worksheets/sheet{i}.xml" ContentType="{kind}"/>' for i in count))
    links = "".join(f'<Relationship Id="rId{i}" Type="{RELATED}/worksheet" Target="worksheets/sheet{i}.xml"/>' for i in count)
    links += f'<Relationship Id="rId0" Type="{RELATED}/styles" Target="styles.xml"/>'
    listed = "".join(f'<sheet name="{escape(name)}" sheetId="{i}" r:id="rId{i}"/>' for i, (name, _, _) in enumerate(sheets, 1))
    relations = "http://schemas.openxmlformats.org/package/2006/relationships"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("[Content_Types].xml", types)
        root = f'<Relationship Id="rId1" Type="{RELATED}/officeDocument" Target="xl/workbook.xml"/>'
        out.writestr("_rels/.rels", f'{HEAD}<Relationships xmlns="{relations}">{root}</Relationships>')
        book = f'<workbook {MAIN} xmlns:r="{RELATED}"><sheets>{listed}</sheets><calcPr fullCalcOnLoad="1"/></workbook>'
        out.writestr("xl/workbook.xml", HEAD + book)
        out.writestr("xl/_rels/workbook.xml.rels", f'{HEAD}<Relationships xmlns="{relations}">{links}</Relationships>')
        out.writestr("xl/styles.xml", STYLES)
        for i, (_, rows, widths) in enumerate(sheets, 1):
            out.writestr(f"xl/worksheets/sheet{i}.xml", sheet_xml(rows, widths))
