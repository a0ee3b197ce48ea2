import dataclasses

from absl.testing import parameterized
import numpy as np

from bench import rows_from_sums
from dp_clustering import point_grid
from dp_clustering import private_sums
from dp_clustering import sum_query
from fl_clustering.kmeans import split_and_swap
from fl_clustering.kmeans import sum_kinds
from fl_clustering.points import secure_sums
from tests import nightly

# To the grid of tables with two decimals.
_NUM_COLUMNS = 10
_SCALING = secure_sums.Scaling(np.full(_NUM_COLUMNS, 0.123456), np.full(_NUM_COLUMNS, 81921.37))


def _rows(num_rows=80, num_columns=4):
  """Returns rows on the grid."""
  points = np.random.default_rng(0).standard_normal((num_rows, num_columns))
  return point_grid.on_point_grid(points, 2 * np.linalg.norm(points, axis=1).max())


def _asked(rows, *queries):
  pooled = private_sums.PooledPoints(rows, float(point_grid.POINT_STEPS))
  return [rows_from_sums.Question(query, pooled.totals(query)) for query in queries]


def _questions_of_fit(rows, k=3):
  """Returns all that k-means from sums asks about the rows."""
  questions = []

  def totals(query):
    questions.extend(_asked(rows, query))
    return questions[-1].totals

  total_square = int((rows.astype(np.int64) ** 2).sum())
  rng = np.random.default_rng(1)
  split_and_swap.sums_kmeans(totals, rows.shape[1], total_square, k, rng)
  return questions


def _between(*borders):
  """Returns a question about the rows between borders on the first of two axes."""
  centers = [borders[0] - 3.0]
  for border in borders:
    centers.append(2 * border - centers[-1])
  arrays = {"centers": np.column_stack([centers, np.zeros(len(centers))])}
  return sum_query.SumQuery(sum_kinds.Scores(), arrays)


def _named(questions):
  """Returns the rows that are named where nothing is known of decimals."""
  dim = next(iter(questions[0].query.arrays.values())).shape[1]
  return rows_from_sums.named_rows(questions, secure_sums.identity(dim))


def _table(*memberships, decimals=2):
  """Returns rows on the grid, and a question for each of the memberships.

  Args:
    memberships: Texts with the rows' cells: `aab` for three rows, two of them in one cell.  All
      other numbers are random.
    decimals: Of the table.
  """
  table = np.random.default_rng(0).uniform(-4, 4, (len(memberships[0]), _NUM_COLUMNS))
  queries = []
  for column, cells in enumerate(memberships):
    # The cells are intervals of one column, ten wide.
    names = sorted(set(cells))
    table[:, column] += [10 * names.index(cell) for cell in cells]
    centers = np.zeros((len(names), _NUM_COLUMNS))
    centers[:, column] = 10 * np.arange(len(names))
    arrays = {"centers": np.rint(_SCALING.apply(centers))}
    queries.append(sum_query.SumQuery(sum_kinds.Scores(), arrays))
  rows = np.rint(_SCALING.apply(np.round(table, decimals)))
  return rows, _asked(rows, *queries)


def _as_set(rows):
  return set(map(tuple, rows.astype(int).tolist()))


class RowsFromSumsTest(parameterized.TestCase):

  def test_names_rows_of_a_fit(self):
    rows = _rows()
    named = _named(_questions_of_fit(rows))
    self.assertGreater(len(named), 60)
    self.assertLen(_as_set(named), len(named))
    self.assertLessEqual(_as_set(named), _as_set(rows))

  def test_names_the_only_row_of_a_cell_and_what_it_leaves(self):
    rows = np.array([[-30, 1], [-20, 2], [-12, 3], [20, 4], [30, 5]], float)
    # The row -30 is alone at first.  Without it, -20 is.
    named = _named(_asked(rows, _between(-25.0, 0.0), _between(-15.0, 0.0)))
    self.assertEqual(named.tolist(), [[-30, 1], [-12, 3], [-20, 2]])

  def test_names_the_row_between_two_borders(self):
    rows = np.array([[-30, 1], [-20, 2], [-10, 3], [10, 4], [20, 5], [30, 6]], float)
    named = _named(_asked(rows, _between(0.0), _between(15.0)))
    self.assertEqual(named.tolist(), [[10, 4]])

  def test_no_wrong_claims_from_cells_of_which_none_holds_the_other(self):
    # Two rows are between the borders on the left, and one on the right.
    rows = np.array([[-30, 1], [-20, 2], [-10, 3], [10, 4], [20, 5], [30, 6], [40, 7]], float)
    queries = _between(-25.0, 5.0), _between(-5.0, 15.0)
    named = _named(_asked(rows, *queries))
    self.assertLessEqual(_as_set(named), _as_set(rows))

  def test_no_claims_from_totals_with_noise(self):
    rows, rng = _rows(), np.random.default_rng(2)
    for std in (1.0, 1000.0):
      questions = [
          dataclasses.replace(question, totals=question.totals + np.rint(
              std * rng.standard_normal(question.totals.shape)).astype(np.int64))
          for question in _questions_of_fit(rows)
      ]
      self.assertEmpty(_named(questions))

  def test_no_wrong_claims_where_some_totals_are_false(self):
    # In turn, no cell has its own totals; every sum is wrong by a step.
    falsifications = lambda totals: np.roll(totals, 1, axis=0), lambda totals: totals + (totals > 9)
    # By day, the first of them.
    rows = _rows()
    for falsified in nightly.either(falsifications[:1], falsifications):
      questions = _questions_of_fit(rows)
      for index in range(2, len(questions), 3):
        totals = falsified(questions[index].totals)
        questions[index] = dataclasses.replace(questions[index], totals=totals)
      named = _named(questions)
      self.assertGreater(len(named), 15)
      self.assertLessEqual(_as_set(named), _as_set(rows))

  def test_questions_for_counts_exclude_claims(self):
    rows = np.array([[-30, 1], [-20, 2], [-10, 3], [10, 4], [20, 5], [30, 6]], float)

    @dataclasses.dataclass(frozen=True)
    class Counts:

      def widths(self, dim):
        del dim
        return {"counts": 1}

      def contributions(self, xp, points, arrays):
        groups, values = sum_kinds.Scores().contributions(xp, points, arrays)
        return groups, values[:, :1]

    questions = _asked(rows, _between(0.0), _between(15.0))
    counts = sum_query.SumQuery(Counts(), _between(5.0, 12.0).arrays)
    for count, expected in ((1, [[10, 4]]), (0, [])):
      totals = np.array([[3], [count], [3 - count]])
      more = [*questions, rows_from_sums.Question(counts, totals)]
      self.assertEqual(_named(more).tolist(), expected)

  # The rows are a, b, c and so on.  The first two are alone in a cell of the first question.  They
  # show that there are few decimals.
  @parameterized.named_parameters(
      # cdefg - cd - fg = e.
      ("a_cell_less_two", ("abxxxxxyyyy", "zzuuzzzzzzz", "zzzzzuuzzzz"), [4]),
      # cde + efg - cdefg = e.  No difference of two cells is one row, nor a cell less two.
      ("two_cells_less_one", ("abxxxxxyyyy", "zzuuuvvvvzz", "zzuuvvvwwuu"), [4]),
  )
  def test_names_what_three_cells_leave_in_a_table_of_few_decimals(self, memberships, expected):
    for decimals, others in ((2, expected), (17, [])):
      rows, questions = _table(*memberships, decimals=decimals)
      named = rows_from_sums.named_rows(questions, _SCALING)
      self.assertEqual(named.tolist(), rows[[0, 1, *others]].tolist())

  def test_certified_rows_of_a_fit_are_right_and_more(self):
    table = np.random.default_rng(0).standard_normal((120, _NUM_COLUMNS))
    rows = np.rint(_SCALING.apply(np.round(table, 2)))
    questions = _questions_of_fit(rows, k=2)
    named = rows_from_sums.named_rows(questions, _SCALING)
    self.assertLen(_as_set(named), len(named))
    self.assertLessEqual(_as_set(named), _as_set(rows))
    self.assertGreater(len(named), len(_as_set(_named(questions)) & _as_set(rows)))
    determined = rows_from_sums.are_determined(questions, rows)
    self.assertLessEqual(_as_set(named), _as_set(rows[determined]))

  @parameterized.named_parameters(
      ("only_row_of_a_cell", ("abb", "aaa"), [True, False, False]),
      # Of rows a, b, c and so on, abc + cde - abcde = c.  No cell parts a from b, or d from e.
      ("three_cells", ("xxxxxyyyy", "uuuvvvvzz", "uuvvvwwuu"), [False] * 2 + [True] + [False] * 6),
      # a is half of ab + ac - bc, and so are b and c.  No cell parts d from e.
      ("half_a_sum", ("xxyyy", "yxxyy", "xyxyy"), [True, True, True, False, False]),
      # One more of a and c, and one less of b and d, leave every sum as it is.
      ("square", ("xxyy", "xyyx"), [False] * 4),
  )
  def test_ceiling(self, memberships, expected):
    rows, questions = _table(*memberships)
    self.assertEqual(rows_from_sums.are_determined(questions, rows).tolist(), expected)
    named = rows_from_sums.named_rows(questions, _SCALING)
    self.assertLessEqual(_as_set(named), _as_set(rows[np.array(expected)]))
