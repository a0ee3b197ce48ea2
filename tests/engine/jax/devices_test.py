import os
import sys
from unittest import mock

from absl.testing import parameterized
import jax

from fl_clustering.engine.jax import devices


class DevicesTest(parameterized.TestCase):

  def test_those_of_jax(self):
    self.assertEqual(devices.local(), tuple(jax.local_devices()))

  # JAX asks for devices once in a process.
  @parameterized.parameters(RuntimeError("no\nGPU"), AssertionError())
  def test_of_devices_that_are_not_there_the_setting_is_named(self, error):
    self.addCleanup(jax.config.update, "jax_platforms", jax.config.jax_platforms)
    with mock.patch.object(jax, "local_devices", side_effect=error):
      for name in ("JAX_PLATFORMS", "JAX_PLATFORM_NAME"):
        jax.config.update("jax_platforms", "cuda,cpu" if name == "JAX_PLATFORMS" else None)
        with (
            mock.patch.dict(os.environ, {"JAX_PLATFORM_NAME": "cuda,cpu"}),
            self.assertRaisesRegex(ValueError, f"^`{name}` .*'cuda,cpu'"),
        ):
          devices.local()
      with (
          mock.patch.dict(os.environ), self.assertRaisesRegex(ValueError, "^`engine` [^\n]*$")
      ):
        os.environ.pop("JAX_PLATFORMS", None)
        devices.local()

  def test_a_broken_installation_is_told(self):
    with (
        mock.patch.dict(sys.modules, {"jax": None}),
        mock.patch.dict(os.environ, {"JAX_PLATFORMS": "cpu"}),
        self.assertRaisesRegex(ValueError, "^`engine` jax"),
    ):
      devices.local()
