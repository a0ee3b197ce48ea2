import errno
import functools
import json
import os
import shutil
import subprocess
import sys
from unittest import mock

from clustering_basics import atomic_file
from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import site_folder
from fl_clustering.tables import read
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

  def _by_program(self, site_dir, data_dir):
    """Runs `experiments.site --new=east` in the folder of all; returns what it did."""
    # In a process of its own, as other programs of this one have flags of the same names.
    return subprocess.run(
        [sys.executable, "-m", "experiments.site", "--new=east", f"--site_dir={site_dir}",
         f"--data_dir={data_dir}", f"--schema={self.made.schema_path}"],
        cwd=self.sites.folder, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False, capture_output=True, text=True,
    )

  def test_a_key_that_can_not_be_handed_out_binds_no_rows(self):
    data_dir = self.create_tempdir("new_rows").full_path
    shutil.copy(os.path.join(self.made.data_dir, "north.csv"), data_dir)
    public = os.path.join(self.sites.folder, "east.pub")
    os.symlink("nowhere", public)
    self.assertEqual(self._by_program("refused", data_dir).returncode, 2)
    os.remove(public)
    self.assertEqual(self._by_program(self.made.path, data_dir).returncode, 2)
    self.assertFalse(os.path.exists(public))

    done = self._by_program("site_of_east", data_dir)
    self.assertEqual((done.returncode, done.stderr), (0, ""))
    with open(public, encoding="utf-8") as file:
      self.assertIn(file.read(), done.stdout)

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
    with mock.patch.object(read, "_opened", wraps=read._opened) as opened:
      self.made.open().close()
    self.assertEqual(opened.call_count, 3)
    reports = self.made.reports
    self.assertEqual(list(reports), ["bad.csv", "north.csv", "other.csv"])
    self.assertRegex(reports["bad.csv"], "column 'c'")
    self.assertRegex(reports["north.csv"], rf"^\D*{size}\D+0\D+0$")
    self.assertRegex(reports["other.csv"], r"^\D*3\D+1\D+2$")

  def _new(self, data_dir, **settings):
    """Makes a site of a folder of tables; returns its folder's path."""
    path = os.path.join(self.create_tempdir().full_path, "new")
    site_folder.SiteFolder.create(path, "up", data_dir, self.made.schema_path, **settings)
    return path

  def test_where_it_can_not_be_written_or_the_rows_not_be_marked_nothing_is_left(self):
    for place, name in ((site_folder, "_bind"), (site_folder.atomic_file, "write_text")):
      path = os.path.join(self.create_tempdir().full_path, "new")
      tables = self.create_tempdir().full_path
      with mock.patch.object(place, name, side_effect=ValueError("no space")):
        with self.assertRaisesRegex(ValueError, "no space"):
          site_folder.SiteFolder.create(path, "up", tables, self.made.schema_path)
      self.assertFalse(os.path.exists(path), name)
      self.assertEmpty(os.listdir(tables), name)

  def test_rows_that_a_ledger_counts_get_no_other_one_unasked(self):
    tables, parent = self.made.data_dir, self.sites.folder
    self.made.open().close()  # The file is no table.
    linked, copied, of_links = (os.path.join(parent, name) for name in ("link", "copy", "links"))
    os.symlink(tables, linked)
    shutil.copytree(tables, copied)
    os.mkdir(of_links)
    os.symlink(os.path.join(tables, "north.csv"), os.path.join(of_links, "other.csv"))
    views, client = os.path.join(parent, "views"), os.path.join(parent, "views", "client")
    os.mkdir(views)
    shutil.copytree(tables, client)
    below = os.path.join(client, "part")
    os.mkdir(below)
    views_of_links = os.path.join(parent, "views_of_links")
    os.makedirs(os.path.join(views_of_links, "client"))
    os.symlink(
        os.path.join(tables, "north.csv"), os.path.join(views_of_links, "client", "near.csv")
    )
    for data_dir in (
        tables, f"{tables}/", os.path.relpath(tables), f"{tables}/../{os.path.basename(tables)}",
        linked, f"{linked}/.", copied, of_links, views, below, views_of_links,
    ):
      with self.assertRaisesRegex(ValueError, "`data_dir` must .*north/ledger.json"):
        self._new(data_dir)
    # Nor does it help to delete the site, or that other tables have none.
    shutil.rmtree(self.made.path)
    with self.assertRaisesRegex(ValueError, "`data_dir` must"):
      self._new(tables)
    with self.assertRaisesRegex(ValueError, "`another_ledger` must be left out"):
      self._new(self.create_tempdir().full_path, another_ledger=True)

  def test_another_ledger_that_is_asked_for_is_one_more(self):
    other = self._new(self.made.data_dir, another_ledger=True)
    shutil.copy(os.path.join(self.made.path, "federation.json"), other)
    shutil.copy(os.path.join(self.made.path, "identity.json"), other)
    for path in (self.made.path, other):
      site_folder.SiteFolder(path).open().close()
    with self.assertRaisesRegex(ValueError, "`data_dir` must"):
      self._new(self.made.data_dir)

  def test_the_ledger_must_be_the_one_that_counts_the_rows(self):
    copied, moved = (os.path.join(self.sites.folder, name) for name in ("copied", "moved"))
    shutil.copytree(self.made.path, copied)
    refused = functools.partial(self.assertRaisesRegex, ValueError, "^`site_dir` must")
    with refused():
      site_folder.SiteFolder(copied).open()
    self.made.open().close()
    os.rename(self.made.path, moved)
    site_folder.SiteFolder(moved).open().close()
    # A new folder of tables is the ledger's from then on.
    marker = os.path.join(self.made.data_dir, site_folder.MARKER)
    os.remove(marker)
    site_folder.SiteFolder(moved).open().close()
    with open(marker, encoding="utf-8") as file:
      before = file.read()
    os.remove(marker)
    self._new(self.made.data_dir)
    with refused():
      site_folder.SiteFolder(moved).open()
    for damaged in ("", "[]", before.replace("1", "2", 1), "[" * 10**5, '{"format": 1}'):
      with open(marker, "w", encoding="utf-8") as file:
        file.write(damaged)
      with self.assertRaisesRegex(ValueError, "^`data_dir` "):
        site_folder.SiteFolder(moved).open()

  def test_a_folder_that_takes_no_file_makes_no_site(self):
    write, path = atomic_file.write_text, self.create_tempdir().full_path
    full = OSError(errno.EROFS, "Read-only file system")
    with mock.patch.object(atomic_file, "write_text", side_effect=lambda name, text: (
        write(name, text) if site_folder.MARKER not in name else self._raise(full)
    )), self.assertRaisesRegex(ValueError, "^`data_dir` must take a file .*Read-only"):
      self._new(path)
    self.assertEmpty(os.listdir(path))
    self._new(path)

  def _raise(self, error):
    raise error

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
