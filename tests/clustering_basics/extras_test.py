from unittest import mock

from absl.testing import parameterized

from clustering_basics import extras


class ExtrasTest(parameterized.TestCase):

  @parameterized.parameters(
      ((3, 10, 1), r'^install the extra `federated`, .*: uv pip install "\.\[federated\]"$'),
      ((3, 12, 0), "^the extra `federated` needs Python 3.10 or 3.11, .* and this is Python 3.12$"),
  )
  def test_says_how_to_get_the_extra_or_why_not(self, version, text):
    with mock.patch.object(extras.sys, "version_info", version):
      self.assertRegex(extras.advice(), text)
