"""The line that `bazelw test` ends with."""

import contextlib
import io
import json
from unittest import mock

from absl.testing import absltest

from tools import test_summary

_CASES = """<testsuites><testsuite>
  <testcase name="a"/> <testcase name="b" status="notrun"/> <testcase name="c"><skipped/></testcase>
  <testcase name="d"/>{more}
</testsuite></testsuites>"""


class TestSummaryTest(absltest.TestCase):

  def _summary(self, *results):
    """Returns the line; a result is a program's status, and what its report has more, if any."""
    lines = [json.dumps({"started": {}})]
    for status, more in results:
      output = []
      if more is not None:
        report = self.create_tempfile(content=_CASES.format(more=more)).full_path
        output = [{"name": "test.log"}, {"name": "test.xml", "uri": f"file://{report}"}]
      lines.append(json.dumps({"testResult": {"status": status, "testActionOutput": output}}))
    events = self.create_tempfile(content="\n".join(lines)).full_path
    with contextlib.redirect_stdout(io.StringIO()) as printed:
      test_summary.main(events)
    return printed.getvalue()

  def test_counts_the_cases_of_all_programs(self):
    failures = "<testcase name='e'><failure/></testcase><testcase name='f'><error/></testcase>"
    self.assertEqual(
        self._summary(("PASSED", ""), ("FLAKY", ""), ("FAILED", failures)),
        "tests: 6 passed, 2 failed, 6 skipped (3 programs)\n",
    )

  def test_a_program_that_ends_without_a_failed_case_has_failed(self):
    self.assertEqual(
        self._summary(("TIMEOUT", None), ("FAILED", "")),
        "tests: 2 passed, 2 failed, 2 skipped (2 programs)\n",
    )

  def test_a_program_that_crashes_leaves_an_empty_report(self):
    with mock.patch(f"{__name__}._CASES", ""):
      self.assertEqual(
          self._summary(("FAILED", "")), "tests: 0 passed, 1 failed, 0 skipped (1 programs)\n"
      )

  def test_none(self):
    self.assertEqual(self._summary(), "tests: none ran\n")
