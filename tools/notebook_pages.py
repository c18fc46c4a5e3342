"""A notebook as a page of Markdown, for the site: the copy with outputs that tools/notebooks.py wrote, else the cells alone."""

import base64
import html
import json
import re

SVG = re.compile(r"<svg\b.*?</svg>", re.S)
TERMINAL_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def prose(notebook):
    """The text cells."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


class NotebookPage:
    """`text` is the Markdown; `pictures` has the bytes of each picture by the file name that the text gives it."""

    def __init__(self, notebook, copy):
        self.name, self.pictures = notebook.stem, {}
        has_outputs = copy.exists()
        cells = json.loads((copy if has_outputs else notebook).read_text(encoding="utf-8"))["cells"]
        parts = [part for cell in cells for part in self._cell(cell)]
        note = (
            ""
            if has_outputs
            else " This site was built where notebooks cannot run, so the page shows the cells without their outputs."
        )
        # Behind the title.
        head, _, rest = parts[0].partition("\n")
        download = (
            f'<p class="notebook">This page is a notebook: <a href="{notebook.name}" download>{notebook.name}</a>.{note}</p>'
        )
        self.text = "\n\n".join([head, download, rest.strip(), *parts[1:]]) + "\n"

    def _cell(self, cell):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield source
            return
        yield f"```python\n{source}\n```"
        for output in cell.get("outputs", []):
            yield self._output(output)

    def _output(self, output):
        if output["output_type"] == "stream":
            return self._text("".join(output["text"]))
        data = {kind: "".join(value) if isinstance(value, list) else value for kind, value in output["data"].items()}
        if "text/html" in data:
            # In one line, so that nothing in it can be taken for Markdown.
            page = SVG.sub(
                lambda drawing: f'<img class="drawn" alt="{self._title(drawing.group())}" src="{self._picture(drawing.group(), "svg")}">',
                data["text/html"],
            )
            return f'<div class="output">{page.strip()}</div>'.replace("\n", "&#10;")
        if "image/svg+xml" in data:
            return f"![{self._title(data['image/svg+xml'])}]({self._picture(data['image/svg+xml'], 'svg')}){{ .drawn }}"
        if "image/png" in data:
            return f"![the figure that the cell above draws]({self._picture(base64.b64decode(data['image/png']), 'png')})"
        return self._text(data.get("text/plain", ""))

    def _text(self, text):
        return f"```text\n{TERMINAL_COLOUR.sub('', text).rstrip()}\n```"

    def _title(self, drawing):
        found = re.search(r"<title>(.*?)</title>", drawing, re.S)
        return html.escape(html.unescape(found.group(1)), quote=True) if found else "drawing"

    def _picture(self, content, kind):
        name = f"{self.name}-{len(self.pictures) + 1}.{kind}"
        self.pictures[name] = content
        return name
