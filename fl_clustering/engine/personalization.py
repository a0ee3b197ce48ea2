"""How a client's own model depends on one that all clients have in common.

One step covers several methods of personalization.  With a client's own parameters v, the common
ones w, a batch's loss f and the rate r:

    x = s v + (1 - s) w             what is used: a mixture, or v alone with s = 1
    v <- v - r m (s df(x)/dx + p (v - w))

p pulls the own model to the common one, and m leaves out some layers in some passes.  In a
mixture, the common model trains beside, w <- w - r df(w)/dw, and the share s can be learned:
s <- s - r (v - w) df(x)/dx, within [0, 1].
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Personalization:
  """How a client's own model depends on the common one; without any of it, not at all.

  Attributes:
    pull: How strongly every step pulls the own model to the common one: the factor of half the
      squared distance, which is added to the loss.
    head_epochs: So many passes train the model's last layer alone, and come before those of the
      round, which then train all other layers; None if all passes train all layers.
    is_mixture: Whether a client uses the mixture of both models.
    learns_share: Whether it learns its own model's share in the mixture.
  """

  pull: float = 0.0
  head_epochs: int | None = None
  is_mixture: bool = False
  learns_share: bool = False
