"""Tests for fl_clustering.sites.site_folder."""

import json
import os

from absl.testing import absltest

from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import site_folder
from tests.sites import sample_sites


class SiteFolderTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.sites = sample_sites.make(self.folder, privacy=sample_sites.PRIVATE)

  def test_a_folder_is_its_owners_and_comes_back(self):
    made = sample_sites.write_folder(self.sites, "north", self.folder)
    found = site_folder.SiteFolder(made.path)

    self.assertEqual(os.stat(made.path).st_mode & 0o077, 0)
    self.assertEqual(found.identity.public, made.identity.public)
    self.assertTrue(os.path.isabs(found.data_dir) and os.path.isabs(found.schema_path))
    self.assertStartsWith(found.workspace, found.path)

  def test_one_program_at_a_time_has_it(self):
    path = sample_sites.write_folder(self.sites, "north", self.folder).path
    site_folder.SiteFolder(path).lock()
    with self.assertRaisesRegex(ValueError, "`site_dir` must be used by one program"):
      site_folder.SiteFolder(path).lock()

  def test_it_opens_with_all_rows_until_it_is_closed(self):
    folder = sample_sites.write_folder(self.sites, "north", self.folder)
    site = folder.open()
    with self.assertRaisesRegex(ValueError, "`ledger` must be used by one program"):
      folder.open()
    site.close()
    again = folder.open()
    self.addCleanup(again.close)

    self.assertEqual(again.num_rows, len(self.sites.rows["north"]))
    spent, budget = again.budget
    self.assertEqual(spent, 0)
    self.assertGreater(budget, 0)

  def test_a_failed_opening_leaves_the_ledger_to_others(self):
    folder = sample_sites.write_folder(self.sites, "north", self.folder)
    federation = federation_lib.Federation.load(os.path.join(folder.path, "federation.json"))
    others = {**federation.document["sites"], "north": "00" * 32}
    folder.agree(federation_lib.Federation({**federation.document, "sites": others}))
    with self.assertRaisesRegex(ValueError, "`identity` must be that of a site"):
      folder.open()
    folder.agree(federation)
    folder.open().close()

  def test_what_is_wrong_is_one_line(self):
    schema, data_dir = os.path.join(self.folder, "s.json"), self.create_tempdir().full_path
    with self.assertRaisesRegex(ValueError, "^`schema` must be a file that can be read"):
      self._create("up", data_dir, schema)
    with open(schema, "w", encoding="utf-8") as file:
      json.dump({"fields": [{"name": "a", "type": "number"}]}, file)
    for name, rows, message in (
        ("Up", data_dir, "`name` must"), ("up", os.path.join(data_dir, "none"), "`data_dir` must"),
        ("up", schema, "`data_dir` must"),
    ):
      with self.assertRaisesRegex(ValueError, f"^{message}"):
        self._create(name, rows, schema)
    self._create("up", data_dir, schema)
    with self.assertRaisesRegex(ValueError, "^`site_dir` must be a new folder"):
      self._create("up", data_dir, schema)
    for path in (os.path.join(self.folder, "none"), schema, data_dir):
      with self.assertRaisesRegex(ValueError, "^`(site_dir|identity)` must"):
        site_folder.SiteFolder(path)

  def _create(self, name, data_dir, schema):
    return site_folder.SiteFolder.create(os.path.join(self.folder, "new"), name, data_dir, schema)


if __name__ == "__main__":
  absltest.main()
