"""Tests for fl_clustering.sites.masking, with known answers."""

import os
from unittest import mock

from absl.testing import parameterized
import numpy as np
from scipy import stats

from fl_clustering.sites import identity as identity_lib
from fl_clustering.sites import masking
from fl_clustering.sites import wire

_NAMES = ("east", "north", "south")
_ALL = ", ".join(_NAMES)
_FEDERATION, _SESSION = bytes(range(32)), bytes(16)
_KNOWN_MASK = ["87140f891368273e", "a2fb74de8b58a3f6", "4e77557ec9528ad5"]
_KNOWN_MASKED = ["eab3654e57c871dc", "3b5f129a2d8c553c"]


def _handshakes(names=_NAMES, session=_SESSION, federation=_FEDERATION, first_key=101):
  """Returns those of sites with known keys, by name."""
  identities = {
      name: identity_lib.Identity(name, bytes([place + 1] * 32)) for place, name in enumerate(names)
  }
  roster = {name: one.public for name, one in identities.items()}
  keys = (bytes([place + first_key] * 32) for place in range(len(names)))
  with mock.patch.object(os, "urandom", lambda num_bytes: next(keys)):
    return {
        name: masking.Handshake(one, roster, federation, session)
        for name, one in identities.items()
    }


def _hellos(**kwargs):
  return {name: one.hello() for name, one in _handshakes(**kwargs).items()}


def _keys(**kwargs):
  hellos = _hellos(**kwargs)
  return {name: one.finish(hellos) for name, one in _handshakes(**kwargs).items()}


def _of_small_order():
  """Returns a key that its site has signed, with which all secrets of its pairs would be zero."""
  south = _handshakes()["south"]
  signature = south._identity.sign(south._signed("south", bytes(32)))
  return {"public": "00" * 32, "signature": signature.hex()}


class MaskingTest(parameterized.TestCase):

  def test_hkdf_is_that_of_rfc_5869(self):
    # Test case 1 there, of which the first 32 bytes are taken.
    found = masking.derived(b"\x0b" * 22, bytes(range(13)), bytes(range(0xF0, 0xFA)))
    self.assertEqual(
        found.hex(), "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
    )

  def test_keystream_is_that_of_rfc_8439(self):
    # Appendix A.1, test vector 1.
    self.assertEqual(
        masking.keystream(bytes(32), 64).hex(),
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    )

  def test_masks_and_keys_have_known_values(self):
    # So that a change of the protocol is noticed.  HMAC and ChaCha20 in plain Python gave the same.
    found = masking.mask(bytes(range(32)), 7, bytes(32), 3)
    self.assertEqual([f"{word:016x}" for word in found], _KNOWN_MASK)
    masked = _keys()["east"].masked(np.zeros(2, np.int64), 1, bytes(32))
    self.assertEqual([f"{word:016x}" for word in masked], _KNOWN_MASKED)

  @parameterized.parameters(3, 5, 10)
  def test_masks_cancel_over_all_sites(self, num_sites):
    names = tuple(f"site{place}" for place in range(num_sites))
    values = np.random.default_rng(0).integers(-(2**61), 2**61, (num_sites, 3, 4)) // num_sites
    masked = [
        keys.masked(own, 5, bytes(32)) for keys, own in zip(_keys(names=names).values(), values)
    ]
    np.testing.assert_array_equal(
        sum(masked[1:], masked[0]).view(np.int64), values.sum(axis=0)
    )
    self.assertGreater(np.abs(sum(masked[1:]).view(np.int64).astype(float)).min(), 2.0**30)

  def test_a_mask_is_of_its_session_federation_pair_round_and_request(self):
    zeros = np.zeros(4, np.int64)
    masks = [
        keys.masked(zeros, round_num, request)
        for session in (bytes(16), bytes([1] * 16)) for federation in (bytes(32), bytes([1] * 32))
        for keys in _keys(session=session, federation=federation).values()
        for round_num in (1, 2) for request in (bytes(32), bytes([1] * 32))
    ]
    self.assertLen(np.unique(np.concatenate(masks)), 4 * len(masks))

  def test_masked_zeros_are_uniform(self):
    keys = _keys()["north"]
    words = np.concatenate([
        keys.masked(np.zeros(500, np.int64), round_num, bytes(32)) for round_num in range(40)
    ])
    uniform = words / 2.0**64
    self.assertGreater(stats.kstest(uniform, "uniform").pvalue, 1e-3)
    octets = np.bincount(words.view(np.uint8), minlength=256)
    self.assertGreater(stats.chisquare(octets).pvalue, 1e-3)
    self.assertLess(abs(np.corrcoef(uniform[:-1], uniform[1:])[0, 1]), 0.03)

  @parameterized.named_parameters(
      ("a_site_less", _ALL, lambda hellos: hellos.pop("south")),
      ("a_site_more", _ALL, lambda hellos: hellos.update(west=hellos["south"])),
      ("no_site", _ALL, dict.clear),
      ("of_another_session", "south",
       lambda hellos: hellos.update(south=_hellos(session=bytes([1] * 16))["south"])),
      ("of_another_federation", "south",
       lambda hellos: hellos.update(south=_hellos(federation=bytes(32))["south"])),
      # In the middle: signed by another site, or by nobody.
      ("of_another_site", "south", lambda hellos: hellos.update(south=hellos["north"])),
      ("replaced", "south",
       lambda hellos: hellos["south"].update(public=hellos["north"]["public"])),
      # East has signed both, in one session's name.
      ("of_its_own_before", "own",
       lambda hellos: hellos.update(east=_hellos(first_key=7)["east"])),
      ("of_small_order", "south", lambda hellos: hellos.update(south=_of_small_order())),
      *(
          (f"none_{place}", "south", lambda hellos, none=none: hellos.update(south=none))
          for place, none in enumerate((
              None, {}, "", {"public": 1, "signature": "00"}, {"public": "zz"},
              {"public": "", "signature": ""},
          ))
      ),
  )
  def test_keys_are_refused(self, named, change):
    hellos = _hellos()
    change(hellos)
    for wrong, what in ((hellos, named), (None, _ALL), ([*_NAMES], _ALL)):
      with self.assertRaisesRegex(wire.Refused, what):
        _handshakes()["east"].finish(wrong)

  def test_a_session_has_keys_of_its_own(self):
    identity = identity_lib.Identity.create("east")
    publics = {
        masking.Handshake(identity, {}, bytes(32), bytes(16)).hello()["public"] for _ in range(2)
    }
    self.assertLen(publics, 2)
