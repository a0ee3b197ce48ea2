import dataclasses
import functools
from typing import Optional

from absl.testing import absltest

from clustering_basics import options
from clustering_basics import validate


@dataclasses.dataclass(frozen=True)
class _Round:
  radius: float = options.option(float, "How large it is.", default=1.0)
  color: str = options.option(str, "Its color.", default="red", values=("red", "blue"))
  num_tries: int = 3


@dataclasses.dataclass(frozen=True)
class _Square:
  side: int = options.option(int, "The side.", default_for=lambda n: min(n, 8))
  radius: float = options.option(float, "How round it is.", default=None)
  color: str = options.option(str, "Its color.", default="red", values=("red", "blue"))


@dataclasses.dataclass(frozen=True)
class _OtherColors:
  color: str = options.option(str, "Its color.", default="red", values=("red", "green"))


@dataclasses.dataclass(frozen=True)
class _Drawing:
  seed: int = options.option(int, "The seed.", 0, rule=functools.partial(validate.integer, 0))
  colors: tuple[str, ...] = options.option(
      str, "The colors.", ("red",), several=True, values=("red", "blue"), flag="color"
  )
  title: Optional[str] = None


class OptionsTest(absltest.TestCase):

  def test_options_are_the_fields_made_by_option(self):
    found = options.of(_Round)
    self.assertEqual(list(found), ["radius", "color"])
    self.assertEqual((found["radius"].kind, found["radius"].default), (float, 1.0))
    self.assertEqual(_Round(), _Round(radius=1.0, color="red", num_tries=3))

  def test_an_option_without_a_default_must_be_given(self):
    with self.assertRaisesRegex(TypeError, "side"):
      _Square()

  def test_defaults_may_depend_on_the_number_of_clients(self):
    side = options.of(_Square)["side"]
    self.assertEqual((side.value_for(5), side.value_for(100)), (5, 8))
    self.assertEqual(options.of(_Round)["radius"].value_for(5), 1.0)

  def test_by_name_keeps_the_order_of_every_choice(self):
    found = options.by_name({"round": _Round, "square": _Square})
    self.assertEqual(list(found), ["side", "radius", "color"])
    self.assertEqual(list(found["color"]), ["round", "square"])
    self.assertEqual(list(found["side"]), ["square"])

  def test_refuses_two_options_of_one_name(self):
    with self.assertRaisesRegex(TypeError, "`color` must be the same option in round, other"):
      options.by_name({"round": _Round, "other": _OtherColors})

  def test_refuses_two_defaults_where_there_must_be_one(self):
    choices = {"round": _Round, "square": _Square}
    with self.assertRaisesRegex(
        TypeError,
        "`radius` must have the same default in round, square, got 1.0 and none",
    ):
      options.by_name(choices, same_defaults=True)

  def test_values_that_an_option_can_not_have_are_refused_by_the_flags_name(self):
    options.check(_Drawing(colors=("blue", "red")))
    options.check(_Drawing(title=None))
    with self.assertRaisesRegex(ValueError, "`seed` must be an integer >= 0, got None"):
      options.check(_Drawing(seed=None))
    with self.assertRaisesRegex(ValueError, "`seed` must be an integer >= 0, got -1"):
      options.check(_Drawing(seed=-1))
    with self.assertRaisesRegex(ValueError, "`color` must be one of red, blue, got 'green'"):
      options.check(_Drawing(colors=("red", "green")))

  def test_to_json_has_all_fields(self):
    self.assertEqual(
        options.to_json(_Drawing()), {"seed": 0, "colors": ["red"], "title": None}
    )

  def test_describe(self):
    found = options.by_name({"round": _Round, "square": _Square})
    self.assertEqual(
        options.describe(found["color"]), "Its color. Used by round, square. Default: red."
    )
    self.assertEqual(
        options.describe(found["radius"]),
        "How large it is. How round it is. Default: 1.0 (round); none (square).",
    )


if __name__ == "__main__":
  absltest.main()
