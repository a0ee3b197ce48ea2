import dataclasses
import functools
import types
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
class _Drawing(options.Settings):
  seed: int = options.option(int, "The seed.", 0, rule=functools.partial(validate.integer, 0))
  colors: tuple[str, ...] = options.option(
      str, "The colors.", ("red",), several=True, values=("red", "blue")
  )
  title: Optional[str] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Picture(options.WithChoices):
  title: str
  shape: str = options.option(
      str, "The shape.", "round", choices={"round": _Round, "square": _Square}
  )
  size: int = 3


class OptionsTest(absltest.TestCase):

  def test_options_are_the_fields_made_by_option(self):
    found = options.of(_Round)
    self.assertEqual(list(found), ["radius", "color"])
    self.assertEqual((found["radius"].kind, found["radius"].default), (float, 1.0))
    self.assertEqual(_Round(), _Round(radius=1.0, color="red", num_tries=3))

  def test_defaults_may_depend_on_the_number_of_clients(self):
    side = options.of(_Square)["side"]
    self.assertEqual((side.value_for(5), side.value_for(100)), (5, 8))
    self.assertEqual(options.of(_Round)["radius"].value_for(5), 1.0)

  def test_by_name_has_who_has_each_option_and_refuses_two_of_one_name(self):
    found = options.by_name({"round": _Round, "square": _Square})
    self.assertEqual(list(found), ["radius", "color", "side"])
    self.assertEqual(list(found["color"]), ["round", "square"])
    self.assertEqual(list(found["side"]), ["square"])
    row = types.SimpleNamespace(settings=_Round)  # As those of a registry.
    self.assertEqual(options.by_name({"round": row}), options.by_name({"round": _Round}))
    for choices, name, same_defaults in (
        ({"round": _Round, "other": _OtherColors}, "`color`", False),
        ({"round": _Round, "square": _Square}, "`radius`", True),
    ):
      with self.assertRaisesRegex(TypeError, name):
        options.by_name(choices, same_defaults=same_defaults)

  def test_values_that_an_option_can_not_have_are_refused(self):
    _Drawing(colors=("blue", "red"), title=None)
    for wrong, name in (({"seed": None}, "`seed`"), ({"seed": -1}, "`seed`"),
                        ({"colors": ("red", "green")}, "`colors`"), ({"colors": ()}, "`colors`"),
                        ({"colors": ("red", "red")}, "`colors`")):
      with self.assertRaisesRegex(ValueError, name):
        _Drawing(**wrong)
    options.Option("sizes", int, "Sizes.", several=True, may_be_empty=True).check(())
    rule = functools.partial(validate.integer, 1)
    with self.assertRaisesRegex(ValueError, "`side`"):
      options.Option("side", int, "The side.", required=True, rule=rule).check(None)

  def test_to_json_has_all_fields(self):
    self.assertEqual(_Drawing().to_json(), {"seed": 0, "colors": ["red"], "title": None})

  def test_described(self):
    found = options.of(_Drawing)
    self.assertEqual(found["seed"].described(), "The seed. Default: 0.")
    self.assertEqual(found["colors"].described(), "The colors. Default: red.")


class WithChoicesTest(absltest.TestCase):

  def test_the_options_of_choices_are_settings_that_follow_theirs(self):
    names = [field.name for field in dataclasses.fields(_Picture)]
    self.assertEqual(names, ["title", "shape", "radius", "color", "side", "size"])
    picture = _Picture(title="A", color="blue")
    self.assertEqual((picture.shape, picture.color, picture.side), ("round", "blue", None))
    self.assertEqual(
        picture.options_for("shape"), {"radius": None, "color": "blue", "side": None}
    )
    self.assertEqual(_Picture(**picture.to_json()), picture)

  def test_they_say_who_has_them_and_what_their_defaults_are(self):
    found = options.of(_Picture)
    self.assertEqual(found["color"].described(), "Its color. Used by round, square. Default: red.")
    self.assertEqual(
        found["radius"].described(),
        "How large it is. How round it is. Default: 1.0 (round); none (square).",
    )
    self.assertEqual(found["color"].values, ("red", "blue"))

  def test_a_subclass_has_the_choices_and_may_change_an_option(self):

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class _Framed(_Picture):
      shape: str = options.changed(_Picture, "shape", default="square")
      frame: str = options.option(str, "The frame.", "wood")

    names = [field.name for field in dataclasses.fields(_Framed)]
    self.assertEqual(names, ["title", "shape", "radius", "color", "side", "size", "frame"])
    self.assertEqual(_Framed(title="A").shape, "square")
    self.assertEqual(_Framed.of_choices, _Picture.of_choices)
    with self.assertRaisesRegex(TypeError, "`side`"):

      class _Sided(_Picture):  # pylint: disable=unused-variable
        kind: str = options.option(str, "Its kind.", "square", choices={"square": _Square})

  def test_refuses_a_name_that_is_taken(self):
    with self.assertRaisesRegex(TypeError, "`color`"):

      class _Colored(options.WithChoices):  # pylint: disable=unused-variable
        shape: str = options.option(str, "The shape.", "round", choices={"round": _Round})
        color: str = "red"
