"""Every link of the README, of docs/ and of the packages' READMEs leads somewhere."""

import glob
import os
import re

from absl.testing import absltest

from tests.docs import pages


def _problem(path: str, target: str) -> str | None:
  """Returns what is wrong with a link on a page, or None."""
  name, _, anchor = target.partition("#")
  linked = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
  if not os.path.exists(linked):
    return f"{path}: {target}: no such file"
  if anchor and anchor not in pages.anchors(pages.read(linked)):
    return f"{path}: {target}: no such heading"
  return None


class LinksTest(absltest.TestCase):

  def test_links_lead_somewhere(self):
    found = [(path, target) for path in pages.paths() for target in pages.links(pages.read(path))]
    self.assertGreater(len(found), 100)
    self.assertEmpty([problem for link in found if (problem := _problem(*link))])

  def test_links_of_docs_stay_there(self):
    # The site has nothing else.
    for path in glob.glob("docs/**/*.md", recursive=True):
      for target in pages.links(pages.read(path)):
        linked = os.path.normpath(os.path.join(os.path.dirname(path), target))
        self.assertStartsWith(linked, "docs/", path)

  def test_navigation_has_every_page_once(self):
    listed = re.findall(r"^ +- (?:.*: )?(\S+\.(?:md|ipynb))$", pages.read("tools/mkdocs.yml"), re.M)
    there = glob.glob("docs/**/*.md", recursive=True) + glob.glob("docs/**/*.ipynb", recursive=True)
    self.assertCountEqual(listed, [os.path.relpath(path, "docs") for path in there])

  def test_the_site_loads_nothing_from_elsewhere(self):
    config = pages.read("tools/mkdocs.yml")
    loaded = re.findall(r"^ +- (\S+\.(?:css|js))$", config, re.M)
    # The plugin `offline` has every page load a script from a package server.
    self.assertNotRegex(config, r"(?m)^ +- \W?(material/)?offline\b")
    self.assertRegex(config, r"(?m)^  font: false$")
    self.assertEmpty([path for path in loaded if not os.path.exists(f"docs/{path}")])

  def test_front_page_links_every_page(self):
    linked = [one for one in pages.links(pages.read("docs/index.md")) if one.endswith(".md")]
    there = {os.path.relpath(path, "docs") for path in glob.glob("docs/*.md")} - {"index.md"}
    self.assertCountEqual(linked, there)

  def test_front_doors_are_short(self):
    for path, most in [("README.md", 120), *((p, 30) for p in pages.paths() if "/README" in p)]:
      self.assertLessEqual(len(pages.read(path).splitlines()), most, path)
