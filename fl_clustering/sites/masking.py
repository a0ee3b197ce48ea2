"""Masks between every two sites: an answer is uniformly random to whoever lacks a pair's key.

For every session a site draws an X25519 key and signs it with its long-term key, which the
federation file names; who carries the signed keys can't replace them.  Every two sites derive a key
from their secret and from all keys of the session, and from that key a mask per round, which one
adds and the other subtracts, modulo 2^64.  The sum over all sites has no masks.

A round's mask depends on the hash of the request, so whoever asks two sites different things gets
noise.  No mask is used twice: a site answers one request per round.

It is the protocol of Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine
Learning", CCS 2017, without the second mask and the shares of keys: a round that lacks a site has
no result.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Any, Mapping

import numpy as np

from fl_clustering.sites import identity as identity_lib
from fl_clustering.sites import wire

_DOMAIN = b"federated-clustering sites 1 "
_WORD = np.dtype("<u8")
# The parts of a site's first answer, in bytes.
_HELLO = {"public": identity_lib.KEY_BYTES, "signature": 2 * identity_lib.KEY_BYTES}


def digest(*parts: bytes) -> bytes:
  """Returns the SHA-256 of parts, each after its length, so that no two lists look alike."""
  sha = hashlib.sha256(_DOMAIN)
  for part in parts:
    sha.update(len(part).to_bytes(8, "little") + part)
  return sha.digest()


def derived(secret: bytes, salt: bytes, info: bytes) -> bytes:
  """Returns a key by HKDF-SHA256 (RFC 5869)."""
  hashes, hkdf = identity_lib.primitives("hashes"), identity_lib.primitives("kdf.hkdf")
  return hkdf.HKDF(hashes.SHA256(), identity_lib.KEY_BYTES, salt, info).derive(secret)


def keystream(key: bytes, num_bytes: int) -> bytes:
  """Returns that of ChaCha20 (RFC 8439) with a nonce of zeros, so a key must be used once."""
  ciphers = identity_lib.primitives("ciphers")
  encryptor = ciphers.Cipher(ciphers.algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
  return encryptor.update(bytes(num_bytes))


def mask(key: bytes, round_num: int, request_hash: bytes, size: int) -> np.ndarray:
  """Returns a pair's mask for its answers to one request, uint64 of shape (size,)."""
  what = _DOMAIN + b"mask" + round_num.to_bytes(8, "little") + request_hash
  once = hmac.digest(key, what, "sha256")
  return np.frombuffer(keystream(once, _WORD.itemsize * size), _WORD)


def read_hello(hello: Any) -> tuple[bytes, bytes]:
  """Returns the session's key of a site, and its signature, which nobody has checked yet.

  Raises:
    Refused: If it is none.
  """
  try:
    found = {part: bytes.fromhex(hello[part]) for part in _HELLO}
  except (KeyError, TypeError, ValueError):
    found = {}
  # One spelling is allowed: others may be long.
  if {part: len(value) for part, value in found.items()} != _HELLO or hello != {
      part: value.hex() for part, value in found.items()
  }:
    raise wire.Refused("a hello must have a key and a signature, and no more")
  return found["public"], found["signature"]


class PairKeys:
  """A site's keys of a session, one with every other site."""

  def __init__(self, name: str, by_peer: Mapping[str, bytes]) -> None:
    self._name, self._by_peer = name, dict(by_peer)

  def masked(self, values: np.ndarray, round_num: int, request_hash: bytes) -> np.ndarray:
    """Returns int64 values with the masks of all pairs, as uint64, modulo 2^64."""
    total = values.astype(np.int64).view(np.uint64)
    for peer, key in self._by_peer.items():
      own = mask(key, round_num, request_hash, total.size).reshape(total.shape)
      total = total + own if self._name < peer else total - own  # Wraps around.
    return total


class Handshake:
  """A site's part of the exchange of keys of one session."""

  def __init__(
      self, identity: identity_lib.Identity, roster: Mapping[str, bytes], federation: bytes,
      session: bytes,
  ) -> None:
    """Draws a key.

    Args:
      roster: The public keys of all sites by name.
      federation: The hash of the federation file.
      session: Which session it is; anything.
    """
    self._identity, self._roster = identity, dict(roster)
    self._federation, self._session = federation, session
    self._key = identity_lib.primitives("asymmetric.x25519").X25519PrivateKey.from_private_bytes(
        os.urandom(identity_lib.KEY_BYTES)
    )
    self._public: bytes = self._key.public_key().public_bytes_raw()

  def _signed(self, name: str, public: bytes) -> bytes:
    """Returns what a site signs."""
    # The federation's hash is of the roster, too.
    return digest(b"hello", self._session, self._federation, name.encode(), public)

  def hello(self) -> dict[str, str]:
    """Returns what the other sites must get."""
    signature = self._identity.sign(self._signed(self._identity.name, self._public))
    return {"public": self._public.hex(), "signature": signature.hex()}

  def finish(self, hellos: Any) -> PairKeys:
    """Returns the keys if every site of the roster has signed its own.

    Raises:
      Refused: If not.
    """
    name = self._identity.name
    if not isinstance(hellos, dict) or set(hellos) != set(self._roster):
      raise wire.Refused(f"a session must have the sites {', '.join(sorted(self._roster))}")
    publics = {peer: self._checked(peer, hellos[peer]) for peer in sorted(hellos)}
    if publics[name] != self._public:
      raise wire.Refused("this site's own key was replaced")
    transcript = digest(b"keys", self._session, self._federation, *publics.values())
    return PairKeys(name, {
        peer: self._pair_key(peer, public, transcript)
        for peer, public in publics.items() if peer != name
    })

  def _checked(self, peer: str, hello: Any) -> bytes:
    """Returns the session's key of a site, which it has signed."""
    try:
      public, signature = read_hello(hello)
    except wire.Refused:
      raise wire.Refused(f"the key of {peer} is none") from None
    if not identity_lib.is_signed(self._roster[peer], signature, self._signed(peer, public)):
      raise wire.Refused(
          f"{peer} has not signed its key for this session and this federation file"
      )
    return public

  def _pair_key(self, peer: str, public: bytes, transcript: bytes) -> bytes:
    x25519 = identity_lib.primitives("asymmetric.x25519")
    try:
      secret = self._key.exchange(x25519.X25519PublicKey.from_public_bytes(public))
    except ValueError:  # A point of small order, or of another length.
      raise wire.Refused(f"the key of {peer} is none") from None
    names = sorted((self._identity.name, peer))
    return derived(secret, transcript, _DOMAIN + "pair {} {}".format(*names).encode())
