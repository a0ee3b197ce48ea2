"""Tests for fl_clustering.sites.site_folder."""

import json
import os

from absl.testing import absltest

from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import rows
from fl_clustering.sites import site_folder
from tests.sites import sample_sites


class SiteFolderTest(sample_sites.TestCase):

  def setUp(self):
    super().setUp()
    self.sites = self.make(privacy=sample_sites.PRIVATE)
    self.made = sample_sites.write_folder(self.sites, "north", self.sites.folder)

  def test_a_folder_is_its_owners_and_comes_back(self):
    found = site_folder.SiteFolder(self.made.path)
    self.assertEqual(os.stat(found.path).st_mode & 0o077, 0)
    self.assertEqual(found.identity.public, self.made.identity.public)
    self.assertTrue(os.path.isabs(found.data_dir) and os.path.isabs(found.schema_path))

  def test_one_program_at_a_time_has_it(self):
    self.made.lock()
    with self.assertRaisesRegex(ValueError, "`site_dir` must be used by one program"):
      site_folder.SiteFolder(self.made.path).lock()

  def test_it_opens_with_all_rows_until_it_is_closed(self):
    site = self.made.open()
    self.assertEqual(site.num_rows, len(self.sites.rows["north"]))
    self.assertEqual(site.budget[0], 0)
    with self.assertRaisesRegex(ValueError, "`ledger` must be used by one program"):
      self.made.open()
    site.close()
    self.made.open().close()

  def test_a_failed_opening_leaves_the_ledger_to_others(self):
    document = self.sites.federation.document
    others = {**document["sites"], "north": "00" * 32}
    self.made.agree(federation_lib.Federation({**document, "sites": others}))
    with self.assertRaisesRegex(ValueError, "`identity` must be that of a site"):
      self.made.open()
    self.made.agree(self.sites.federation)
    self.made.open().close()

  def test_its_owner_sees_how_its_tables_were_read(self):
    with open(os.path.join(self.made.data_dir, "other.csv"), "wb") as file:
      file.write(b'a,b,c,d,e\n1,2,3,4,5\n"6\n",,8,9,0\n1,2\n')
    with open(os.path.join(self.made.data_dir, "bad.csv"), "wb") as file:
      file.write(b"a,b\n")
    size = len(self.sites.rows["north"])
    bad, north, other = rows.about(
        self.made.data_dir, site_folder.read_schema(self.made.schema_path)
    )
    self.assertRegex(bad, r"^bad\.csv: .*column 'c'")
    self.assertRegex(north, rf"^north\.csv: \D*{size}\D+0\D+0$")
    self.assertRegex(other, r"^other\.csv: \D*3\D+1\D+2$")

  def test_what_is_wrong_is_one_line(self):
    folder = self.create_tempdir().full_path
    schema, new = os.path.join(folder, "s.json"), os.path.join(folder, "new")
    with open(schema, "w", encoding="utf-8") as file:
      json.dump({"fields": [{"name": "a", "type": "number"}]}, file)
    for argument, settings in (
        ("schema", (new, "up", folder, new)), ("name", (new, "Up", folder, schema)),
        ("data_dir", (new, "up", schema, schema)), ("site_dir", (folder, "up", folder, schema)),
    ):
      with self.assertRaisesRegex(ValueError, f"^`{argument}` must"):
        site_folder.SiteFolder.create(*settings)
    for path in (new, schema, folder):
      with self.assertRaisesRegex(ValueError, "^`(site_dir|identity)` must"):
        site_folder.SiteFolder(path)


if __name__ == "__main__":
  absltest.main()
