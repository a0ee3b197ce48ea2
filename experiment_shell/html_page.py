"""One self-contained HTML page: sections of text, notices, tables and figures.

Blocks are functions that take text and return markup.  A plain string is always text and
is escaped.  Only the `Html` that these functions return is inserted unchanged, so a client
id with an angle bracket can't break a page:

  page(
      "Title", "What it is about",
      section("Results", paragraph("All is well."), table(["a"], [["<b>"]], "A table")))

The page needs no network, no script and no other file.  Its Content-Security-Policy
tells the browser so.  A `link` may lead to another page.
"""

import base64
import html
import string
import struct
from typing import Any, Iterable, Sequence

from clustering_basics import atomic_file

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5a6068; --paper: #ffffff;
  --line: #d5d9de; --warn: #fff4d6; --warn-edge: #c98a00;
  --note: #e9f2fb; --note-edge: #2f6fab; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --soft: #a5acb5; --paper: #16181b; --line: #3a3f46;
    --warn: #332a12; --warn-edge: #e0a93a; --note: #16283a;
    --note-edge: #6aa9e0; }
  figure img { filter: brightness(.9); }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 72rem; color: var(--ink);
  background: var(--paper); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto,
  "Helvetica Neue", Arial, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.6rem 0 .6rem; padding-top: .8rem;
  border-top: 1px solid var(--line); }
p { margin: .5rem 0; max-width: 58rem; }
.subtitle, figcaption, .caption, .quiet { color: var(--soft); }
.notice { margin: 1rem 0; padding: .5rem 1rem; max-width: 60rem; border-left: .3rem solid;
  border-radius: .3rem; }
.notice > strong { display: block; margin-top: .2rem; }
.warning { background: var(--warn); border-color: var(--warn-edge); }
.note { background: var(--note); border-color: var(--note-edge); }
.scroll { overflow-x: auto; margin: .4rem 0 .8rem; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
.caption, .quiet { font-size: .88rem; }
.caption { margin: 1.2rem 0 0; }
th, td { padding: .3rem .45rem; text-align: right; vertical-align: top;
  border-bottom: 1px solid var(--line); }
td { white-space: nowrap; }
td.text { white-space: normal; min-width: 12rem; overflow-wrap: anywhere; }
thead th { vertical-align: bottom; line-height: 1.25; font-weight: 600; }
thead th[colspan] { text-align: center; border-left: 1px solid var(--line); }
tbody th { font-weight: 400; }
th:first-child, th.text, td.text { text-align: left; }
tbody th:first-child, thead tr:last-child th:first-child { position: sticky; left: 0;
  background: var(--paper); }
tbody th:first-child { white-space: nowrap; }
td strong { font-weight: 700; }
figure { margin: 1rem 0 2rem; display: grid; gap: .5rem 1.5rem; align-items: start;
  grid-template-columns: minmax(0, 46rem); }
@media (min-width: 64rem) {
  figure { grid-template-columns: minmax(0, 46rem) minmax(12rem, 1fr); }
}
figure img { display: block; width: 100%; height: auto; background: #ffffff;
  border-radius: .3rem; }
figcaption { font-size: .92rem; }
@media screen and (max-width: 42rem) {
  figure { overflow-x: auto; }
  figure img { width: 40rem; max-width: none; }
  figcaption { position: sticky; left: 0; }
}
details { margin: .8rem 0; padding: .4rem .8rem; border: 1px solid var(--line);
  border-radius: .3rem; }
summary { cursor: pointer; font-weight: 600; }
a { color: var(--note-edge); }
code { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: .9em; }
@media print {
  :root { color-scheme: light; --ink: #000000; --soft: #444444; --paper: #ffffff;
    --line: #bbbbbb; --warn: #ffffff; --note: #ffffff; }
  @page { margin: 1.5cm; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  h2, .caption, summary { break-after: avoid; }
  figure, tr, .notice { break-inside: avoid; }
  figure { display: block; }
  figure img { filter: none; max-height: 21cm; width: auto; max-width: 100%; }
  td.text { min-width: 0; }
  .scroll { overflow: visible; }
  table { font-size: 7pt; }
  th, td { padding: .12rem .25rem; }
  tbody th:first-child { position: static; }
  details { border: 0; padding: 0; }
  details::details-content { content-visibility: visible; height: auto; opacity: 1; }
}
"""

_PAGE = string.Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>$style</style>
</head>
<body>
<header>
<h1>$title</h1>
<p class="subtitle">$subtitle</p>
</header>
<main>
$body
</main>
</body>
</html>
""")


class Html(str):
  """Markup that is inserted unchanged; every other string is text."""


def escaped(value: Any) -> Html:
  """Returns text as markup; markup stays unchanged."""
  if isinstance(value, Html):
    return value
  return Html(html.escape(str(value)))


def _attribute(text: Any) -> str:
  return html.escape(str(text))


def joined(*values: Any) -> Html:
  """Returns texts and markup joined by spaces, as one piece of markup."""
  return Html(" ".join(map(escaped, values)))


def strong(value: Any) -> Html:
  """Returns a text or inline markup in bold."""
  return Html(f"<strong>{escaped(value)}</strong>")


def code(value: Any) -> Html:
  """Returns a text or inline markup in the font for code."""
  return Html(f"<code>{escaped(value)}</code>")


def link(path: str, text: Any) -> Html:
  """Returns a text that leads to another page, by its path from this one."""
  return Html(f'<a href="{_attribute(path)}">{escaped(text)}</a>')


def paragraph(*parts: Any, quiet: bool = False) -> Html:
  """Returns a paragraph of texts and inline markup, joined by spaces; if quiet, small and grey."""
  style = ' class="quiet"' if quiet else ""
  return Html(f"<p{style}>{joined(*parts)}</p>")


def _notice(kind: str, title: str, paragraphs: Iterable[str]) -> Html:
  body = "".join(f"<p>{escaped(text)}</p>" for text in paragraphs)
  return Html(f'<div class="notice {kind}">{strong(title)}{body}</div>')


def warning(title: str, *paragraphs: str) -> Html:
  """Returns a box for what the reader must not overlook, of texts or inline markup."""
  return _notice("warning", title, paragraphs)


def note(title: str, *paragraphs: str) -> Html:
  """Returns a box for what the reader should know, of texts or inline markup."""
  return _notice("note", title, paragraphs)


def table(
    header: Sequence[Any],
    rows: Iterable[Sequence[Any]],
    caption: str,
    header_groups: Sequence[tuple[str, int]] = (),
    text_columns: Sequence[int] = (),
) -> Html:
  """Returns a table; it scrolls on its own if the page is too narrow.

  Args:
    rows: Each as long as `header`; the first cell names the row.
    header_groups: Pairs (heading, number of columns) for a line above the header.
      Together they span all columns.
    text_columns: Positions of columns that hold text and not numbers, besides the
      first.
  """
  def cell(tag: str, column: int, value: Any, scope: str = "") -> str:
    mark = ' class="text"' if column in text_columns else ""
    return f"<{tag}{scope}{mark}>{escaped(value)}</{tag}>"

  head = ""
  if header_groups:
    head += "<tr>" + "".join(
        f'<th colspan="{span}" scope="colgroup">{escaped(heading)}</th>' if heading
        else f'<td colspan="{span}"></td>'
        for heading, span in header_groups
    ) + "</tr>"
  head += "<tr>" + "".join(
      cell("th", column, heading, ' scope="col"') for column, heading in enumerate(header)
  ) + "</tr>"
  body = []
  for row in rows:
    if len(row) != len(header):
      raise ValueError(f"`rows` must have {len(header)} cells each, got {row!r}.")
    numbers = "".join(cell("td", column, row[column]) for column in range(1, len(row)))
    body.append("<tr>" + cell("th", 0, row[0], ' scope="row"') + numbers + "</tr>")
  # The focus lets a keyboard scroll the table; the caption does not scroll.
  return Html(
      f'<p class="caption">{escaped(caption)}</p>\n'
      f'<div class="scroll" tabindex="0" role="region" aria-label="{_attribute(caption)}">'
      f"<table>\n<thead>{head}</thead>\n<tbody>" + "\n".join(body)
      + "</tbody></table></div>"
  )


def figure(png_path: str, alt: str, caption: str) -> Html:
  """Returns a picture that is embedded in the page.

  Args:
    alt: Text for readers who can't see the picture.
    caption: Text or inline markup below the picture.
  """
  with open(png_path, "rb") as file:
    data = file.read()
  # A PNG file begins with its signature and the header chunk, which holds its size.
  width, height = struct.unpack(">II", data[16:24])
  source = base64.b64encode(data).decode("ascii")
  return Html(
      f'<figure><img width="{width}" height="{height}" alt="{_attribute(alt)}" '
      f'src="data:image/png;base64,{source}">'
      f"<figcaption>{escaped(caption)}</figcaption></figure>"
  )


def details(summary: str, *blocks: str) -> Html:
  """Returns blocks that stay folded below a line until the reader opens them."""
  return Html(f"<details><summary>{escaped(summary)}</summary>\n{joined(*blocks)}</details>")


def section(title: str, *blocks: str) -> Html:
  """Returns a section of the page: a heading and its blocks."""
  return Html(f"<section><h2>{escaped(title)}</h2>\n{joined(*blocks)}</section>")


def page(title: str, subtitle: str, *sections: str) -> str:
  """Returns the whole page as text: sections or other blocks below a title and a line."""
  return _PAGE.substitute(
      title=escaped(title), subtitle=escaped(subtitle), style=_STYLE, body=joined(*sections)
  )


def write_page(path: str, title: str, subtitle: str, *sections: str) -> None:
  """Writes the `page` to `path`, whose folder must exist, wholly or not at all."""
  atomic_file.write_text(path, page(title, subtitle, *sections))
