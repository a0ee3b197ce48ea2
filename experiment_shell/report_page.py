"""The page of a report: one file that needs no network, no script and no other file."""

from typing import Any

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5a6068; --paper: #fff; --line: #d5d9de;
  --warn: #fff4d6; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --soft: #a5acb5; --paper: #16181b; --line: #3a3f46; --warn: #332a12; }
  img { filter: brightness(.8); }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 4rem; max-width: 76rem; color: var(--ink);
  background: var(--paper); font: 1rem/1.5 system-ui, "Segoe UI", Roboto, Arial, sans-serif;
  overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .3rem; padding-top: .7rem;
  border-top: 1px solid var(--line); }
h3 { font-size: .95rem; margin: 1rem 0 .2rem; }
p { margin: .4rem 0; max-width: 58rem; }
.headline { font-size: 1.1rem; font-weight: 600; }
.caption, figcaption { color: var(--soft); font-size: .9rem; }
.warning h2 { font-size: .95rem; margin: 1rem 0 .2rem; border: 0; padding: 0; }
.warning { background: var(--warn); padding: .2rem .8rem .6rem; border-radius: .3rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .5rem; text-align: right; vertical-align: top; border: 0;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; vertical-align: bottom; }
th:first-child, td:first-child, .text td, .text th { text-align: left; }
:not(.text) > table td + td { white-space: nowrap; }
.text td:last-child { overflow-wrap: anywhere; }
.text th:only-child { display: none; }  /* It would repeat the title. */
.figures { display: grid; gap: 1rem 2rem; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
figure { margin: .5rem 0; max-width: 38rem; }
figcaption { margin-top: .4rem; }
img { display: block; width: 100%; height: auto; background: #fff; border-radius: .3rem; }
details { margin: .8rem 0; }
summary { cursor: pointer; font-weight: 600; }
@media (max-width: 42rem) {
  body { padding: .8rem .6rem 3rem; }
  table { font-size: .72rem; }
  th, td { padding: .2rem .22rem; }
}
@media print { details::details-content { content-visibility: visible; height: auto; } }
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>{{ style | safe }}</style>
</head>
<body>
{%- macro table(one) %}
{%- for heading, html in one.parts %}
{% if heading %}<h3>{{ heading }}</h3>{% endif %}
<div class="scroll{{ ' text' if one.is_text }}" tabindex="0" role="region"
 aria-label="{{ heading or one.title }}">{{ html | safe }}</div>
{%- endfor %}
{%- endmacro %}
<header>
<h1>{{ title }}</h1>
{% if headline %}<p class="headline">{{ headline }}</p>{% endif %}
{% for one in warnings %}
<div class="warning"><h2>{{ one.title }}</h2>{{ table(one) }}</div>
{% endfor %}
</header>
<main>
{% if figures %}
<section><h2>Figures</h2>
<div class="figures">
{% for figure in figures %}
<figure><img width="{{ figure.width }}" height="{{ figure.height }}" alt="{{ figure.title }}"
 src="data:image/png;base64,{{ figure.data }}">
<figcaption>{{ figure.caption }}</figcaption></figure>
{% endfor %}
</div></section>
{% endif %}
{% for one in tables %}
<section><h2>{{ one.title }}</h2>
<p class="caption">{{ one.caption }}</p>
{% if one.folded %}<details><summary>Show</summary>{{ table(one) }}</details>
{% else %}{{ table(one) }}{% endif %}
</section>
{% endfor %}
<section><h2>How to read this</h2>
{% for text in reading %}<p>{{ text }}</p>
{% endfor %}
</section>
<section><h2>Settings, versions and files</h2>
{% for one in run %}
<details><summary>{{ one.title }}</summary>{{ table(one) }}</details>
{% endfor %}
</section>
</main>
</body>
</html>
"""


def render(**parts: Any) -> str:
  """Returns the page; everything but the tables is text."""
  import jinja2  # It takes long to import.

  environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
  return environment.from_string(_PAGE).render(style=_STYLE, **parts)
