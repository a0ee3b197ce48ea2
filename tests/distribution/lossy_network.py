"""A network on which packets get lost, for tests.

The process must be in a network namespace of its own, and have no use for 10.0.0.0/24.
"""

import fcntl
import os
import random
import socket
import struct
import threading

# The other machine.  It runs what this one runs, since it is this one.
ADDRESS = "10.0.0.2"

_OUR_ADDRESS = "10.0.0.1"
_NAME = b"lossy"
# See tun(4) and netdevice(7) of the Linux manual.
_TUNSETIFF = 0x400454CA
_SIOCSIFADDR = 0x8916
_SIOCSIFNETMASK = 0x891C
_SIOCSIFFLAGS = 0x8914
_IFF_TUN_NO_PACKET_INFORMATION = 0x1001
_IFF_UP = 1
_MOST_BYTES = 65_535
_IP_SOURCE, _IP_DESTINATION = slice(12, 16), slice(16, 20)


def _set_address(sock, request, address):
  where = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
  fcntl.ioctl(sock, request, struct.pack("16s16s", _NAME, where))


class LossyNetwork:
  """The network; packets come back from `ADDRESS` as if that were another machine.

  A packet with its two addresses exchanged has the same checksums.

  Attributes:
    num_packets: How many packets were sent, the lost ones included.
    num_lost: How many packets were lost.
  """

  def __init__(self, share_lost, seed):
    """Sets the network up.

    Args:
      share_lost: The probability that a packet gets lost.
      seed: The seed of what gets lost, packet by packet as they come.

    Raises:
      OSError: If this machine does not allow it.
    """
    self.num_packets = self.num_lost = 0
    self._share_lost = share_lost
    self._rng = random.Random(seed)
    self._device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(
        self._device, _TUNSETIFF, struct.pack("16sH22x", _NAME, _IFF_TUN_NO_PACKET_INFORMATION)
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
      _set_address(sock, _SIOCSIFADDR, _OUR_ADDRESS)
      _set_address(sock, _SIOCSIFNETMASK, "255.255.255.0")
      fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sH22x", _NAME, _IFF_UP))
    threading.Thread(target=self._carry, daemon=True).start()

  def _carry(self):
    while True:
      packet = bytearray(os.read(self._device, _MOST_BYTES))
      if packet[0] >> 4 != 4:
        continue  # The kernel looks for routers by IPv6.
      self.num_packets += 1
      if self._rng.random() < self._share_lost:
        self.num_lost += 1
        continue
      packet[_IP_SOURCE], packet[_IP_DESTINATION] = packet[_IP_DESTINATION], packet[_IP_SOURCE]
      os.write(self._device, packet)
