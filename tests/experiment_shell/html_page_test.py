from html import parser
import os

from absl.testing import absltest
from absl.testing import parameterized

from experiment_shell import figure_style
from experiment_shell import html_page

_VOID = {"meta", "img", "br"}


class _WellFormed(parser.HTMLParser):
  """Collects the tags, and raises where they are not properly nested."""

  def __init__(self):
    super().__init__()
    self.open = []
    self.tags = []

  def handle_starttag(self, tag, attrs):
    self.tags.append((tag, dict(attrs)))
    if tag not in _VOID:
      self.open.append(tag)

  def handle_endtag(self, tag):
    if self.open.pop() != tag:
      raise AssertionError(f"</{tag}> closes another tag")


def _parsed(text):
  well_formed = _WellFormed()
  well_formed.feed(text)
  well_formed.close()
  return well_formed


class HtmlPageTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("paragraph", html_page.paragraph),
      ("strong", html_page.strong),
      ("code", html_page.code),
      ("link", lambda text: html_page.link(text, text)),
      ("warning", lambda text: html_page.warning(text, text)),
      ("note", lambda text: html_page.note(text, text)),
      ("details", lambda text: html_page.details(text, text)),
      ("section", lambda text: html_page.section(text, text)),
      ("table", lambda text: html_page.table([text], [[text]], text, [(text, 1)])),
      ("page", lambda text: html_page.page(text, text, text)),
  )
  def test_text_is_escaped(self, block):
    text = str(block("<script>alert(1)</script> & \"quoted\" $title"))

    self.assertNotIn("<script>", text)
    self.assertIn("&lt;script&gt;alert(1)&lt;/script&gt; &amp; ", text)
    self.assertIn("$title", text)

  def test_markup_is_kept(self):
    self.assertEqual(
        html_page.paragraph("a < b:", html_page.strong("x > y")),
        "<p>a &lt; b: <strong>x &gt; y</strong></p>",
    )

  def test_table_has_a_heading_per_row_and_column(self):
    parsed = _parsed(html_page.table(
        ["name", "n", "what"], [["a", 1, "x"], ["b", 2, "y"]], "numbers",
        header_groups=[("", 1), ("both", 2)], text_columns=(2,),
    ))

    scopes = [attrs.get("scope") for tag, attrs in parsed.tags if tag == "th"]
    self.assertEqual(scopes, ["colgroup", "col", "col", "col", "row", "row"])
    classes = [attrs.get("class") for tag, attrs in parsed.tags if tag == "td"]
    self.assertEqual(classes, [None, None, "text", None, "text"])
    self.assertEmpty(parsed.open)

  def test_table_refuses_a_row_of_another_length(self):
    with self.assertRaisesRegex(ValueError, "`rows` must have 2 cells"):
      html_page.table(["a", "b"], [["only one"]], "numbers")

  def test_page_is_well_formed_and_needs_nothing_else(self):
    figure = figure_style.new_figure(1)
    png_path = os.path.join(self.create_tempdir().full_path, "figure.png")
    figure_style.save(figure, png_path)

    parsed = _parsed(html_page.page(
        "Title", "subtitle",
        html_page.section(
            "One", html_page.figure(png_path, "what it shows", "how to read it"),
            html_page.note("Note", "first", "second"),
        ),
    ))

    self.assertEmpty(parsed.open)
    (image,) = (attrs for tag, attrs in parsed.tags if tag == "img")
    self.assertStartsWith(image["src"], "data:image/png;base64,iVBOR")
    self.assertEqual((image["width"], image["height"]), ("1024", "160"))
    self.assertNoCommonElements({tag for tag, _ in parsed.tags}, {"script", "link", "iframe"})
    policy = [attrs for _, attrs in parsed.tags if "http-equiv" in attrs]
    self.assertStartsWith(policy[0]["content"], "default-src 'none'")

  def test_writes_the_page(self):
    path = os.path.join(self.create_tempdir().full_path, "page.html")

    html_page.write_page(path, "Title", "subtitle", html_page.section("One"))

    with open(path, encoding="utf-8") as file:
      self.assertEqual(file.read(), html_page.page("Title", "subtitle", html_page.section("One")))


if __name__ == "__main__":
  absltest.main()
