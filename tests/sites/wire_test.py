"""Tests for fl_clustering.sites.wire, and of sites with messages of any bytes."""

import json
import pickle
import struct

from absl.testing import parameterized
import numpy as np

from fl_clustering.sites import wire
from tests import nightly
from tests.sites import sample_sites


def _message(document, rest=b"", length=None):
  text = document if isinstance(document, bytes) else json.dumps(document).encode()
  return struct.pack("<I", len(text) if length is None else length) + text + rest


class WireTest(parameterized.TestCase):

  def test_what_is_packed_comes_back_and_is_the_same_bytes(self):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([2**64 - 1], np.uint64),
              "c": np.zeros((0, 4)), "d": np.float64(2.5).reshape(())}
    message = wire.pack({"y": 1, "x": [1.5, "ü"]}, arrays)
    header, found = wire.unpack(message, 10**6)
    self.assertEqual(header, {"y": 1, "x": [1.5, "ü"]})
    self.assertEqual(list(found), list(arrays))
    for name, array in arrays.items():
      np.testing.assert_array_equal(found[name], array)
      self.assertEqual(found[name].dtype, array.dtype)
      self.assertFalse(found[name].flags.writeable)
    self.assertEqual(wire.pack({"x": [1.5, "ü"], "y": 1}, arrays), message)

  @parameterized.parameters(
      (b"",), (b"123",), (None,), ("text",), (b"\xff" * 100,), (pickle.dumps({"do": "hello"}),),
      (_message({"header": {}, "arrays": []}, b"1"),),
      (_message({"header": {}, "arrays": []}, length=2**32 - 1),),
      (_message({"header": {}, "arrays": []}, length=0),),
      (_message({"header": []}),), (_message([]),), (_message(b"[" * 10**5),),
      (_message({"header": [], "arrays": []}),), (_message({"header": {}, "arrays": 5}),),
      (_message({"header": {"x": "y" * 2**20}, "arrays": []}),),
      (_message(b'{"header": {"x": NaN}, "arrays": []}'),),
      *(
          (_message({"header": {}, "arrays": arrays}, bytes(8 * len(arrays))),)
          for arrays in (
              [["a", "<f8", [2**40, 2**40]]], [["a", "<f8", [10**10**3]]],
              [["a", "<f8", [0, 10**30]]], [["a", "<f8", [-1]]], [["a", "<f8", [True]]],
              [["a", "<f8", [1, 1, 1]]], [["a", "|O", [1]]], [["a", "<i8", [1]]],
              [["a", ["<f8"], [1]]], [["a", "<f8", [1]], ["a", "<f8", [1]]],
              [[["a"], "<f8", [1]]],
          )
      ),
  )
  def test_what_is_no_message_is_refused(self, message):
    with self.assertRaisesRegex(wire.Refused, "a message must"):
      wire.unpack(message, 10**7)

  def test_what_is_too_long_is_refused(self):
    message = wire.pack({}, {"a": np.zeros(1000)})
    wire.unpack(message, len(message))
    with self.assertRaisesRegex(wire.Refused, "bytes"):
      wire.unpack(message, len(message) - 1)


class AnyBytesTest(sample_sites.TestCase):

  @parameterized.parameters((None,), (sample_sites.PRIVATE,), (sample_sites.VIEWS,))
  def test_no_bytes_make_a_site_fail(self, privacy):
    widths = (2, 3) if privacy == sample_sites.VIEWS else (5,)
    sites = self.make(widths=widths, privacy=privacy, limits={"sessions": 10**6})
    sites.fit()
    seeds = [message for name, message, _ in sites.sent if name == "east"]
    site, rng = sites.by_name["east"], np.random.default_rng(0)
    session, keys = site._session, site._session.keys
    site._budget = np.inf
    found, num_answered = set(), 0
    for _ in range(nightly.either(2500, 20000)):
      # As after the handshake.
      site._session, session.keys, session.num_rounds = session, keys, 0
      answer = site.handle(_mutated(rng, seeds[rng.integers(len(seeds))]))
      header, arrays = wire.unpack(answer, 2**30)
      found.add(header.get("refused"))
      num_answered += "masked" in arrays
    self.assertFalse([text for text in found if text and "failed" in text])
    self.assertGreater(len(found), 12)
    self.assertGreater(num_answered, 100)


def _mutated(rng, message):
  """Returns a message in which bytes, numbers or keys are others."""
  choice = rng.integers(4)
  if choice == 0:
    array = bytearray(message)
    for _ in range(rng.integers(1, 4)):
      array[rng.integers(len(array))] = rng.integers(256)
    return bytes(array)
  header, arrays = wire.unpack(message, 2**30)
  if choice == 1 and arrays:
    name = list(arrays)[rng.integers(len(arrays))]
    changed = np.array(arrays[name])
    changed.flat[rng.integers(changed.size)] = rng.choice([np.nan, np.inf, -1, 0, 1e-300, 1e300])
    arrays[name] = changed[: rng.integers(1, len(changed) + 1)] if rng.random() < 0.2 else changed
  else:
    paths = [header]
    inner = [value for value in header.values() if isinstance(value, dict)]
    target = (paths + inner)[rng.integers(1 + len(inner))]
    key = list(target)[rng.integers(len(target))] if target else "x"
    values = [None, -1, 0, 1, 2**70, 1.5, 1e308, "", "ü", [], {}, [[]], True, "Scores", "00" * 16]
    target[key] = values[rng.integers(len(values))]
  if header.get("do") == "ask" and rng.random() < 0.8:
    header["round"] = int(rng.integers(1, 3))
  return wire.pack(header, arrays)
