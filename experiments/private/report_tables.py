"""The benchmark's tables, as text for the terminal and as blocks of the report."""

import math

from experiment_shell import html_page
from experiment_shell import text_table
from experiments.private import clusterers
from experiments.private import peer_losses

_LINE_BREAK = html_page.Html("<br>")
_KEY = "mean loss and, below it, 25th–75th percentile; least private loss in bold"


def _loss(value):
  return f"{value:#.3g}"


def _number(value):
  return "∞" if value == math.inf else f"{value:g}"


def _title(finished, dataset):
  description = finished.datasets[dataset]
  return f"{dataset} ({description['num_points']:,} x {description['dim']})"


def _over_k(finished, dataset, method):
  epsilon = finished.settings["fixed_epsilon"]
  return [finished.band(dataset, method, k, epsilon) for k in finished.settings["k_to_try"]]


def _peer_row(finished, dataset):
  """Returns the peer's losses for each k, None where there is none."""
  by_k = {loss.k: loss.loss for loss in finished.peer_losses(dataset)}
  return [by_k.get(k) for k in finished.settings["k_to_try"]]


def text_tables(finished):
  """Returns the mean losses over k of every data set, as text for a terminal."""
  settings = finished.settings
  tables = [
      f"mean squared distance to the nearest center, epsilon {settings['fixed_epsilon']:g}, "
      f"delta {settings['delta']:g}; runs: {settings['runs']}"
  ]
  for dataset in finished.datasets:
    rows = [
        [clusterers.METHODS[method], *(_loss(b.mean) for b in _over_k(finished, dataset, method))]
        for method in finished.methods
    ]
    if finished.peer_losses(dataset):
      peer = _peer_row(finished, dataset)
      rows.append([peer_losses.PEER, *("-" if loss is None else _loss(loss) for loss in peer)])
    header = [_title(finished, dataset), *(f"k={k}" for k in settings["k_to_try"])]
    tables.append(text_table.text_table(header, rows))
  return "\n\n".join(tables)


def _cell(band, best):
  shown = _loss(band.mean)
  value = html_page.strong(shown) if shown == best else shown
  return html_page.joined(value, _LINE_BREAK, f"{_loss(band.low)}–{_loss(band.high)}")


def _loss_table(finished, bands_of, header, caption):
  """Returns a table with a row per method; `bands_of` gives a method's bands."""
  nothing = [None] * (len(header) - 1)
  columns = zip(*(bands_of(method) for method in finished.private_methods))
  best = [_loss(min(band.mean for band in bands)) for bands in columns] or nothing
  rows = []
  for method in finished.methods:
    marked = best if method in finished.private_methods else nothing
    rows.append([clusterers.METHODS[method], *map(_cell, bands_of(method), marked)])
  return html_page.table(header, rows, caption)


def loss_over_k_tables(finished):
  """Returns a table of losses over k for each data set."""
  blocks = []
  for dataset in finished.datasets:
    blocks.append(_loss_table(
        finished, lambda method, dataset=dataset: _over_k(finished, dataset, method),
        ["method", *(f"k = {k}" for k in finished.settings["k_to_try"])],
        f"{_title(finished, dataset)} at epsilon {finished.settings['fixed_epsilon']:g}: {_KEY}",
    ))
  return blocks


def loss_over_epsilon_tables(finished):
  """Returns a table of losses over epsilon for each data set; none without epsilons."""
  epsilons = finished.settings["epsilon_to_try"]
  k = finished.settings["fixed_k"]
  if not epsilons:
    return []
  return [
      _loss_table(
          finished,
          lambda method, dataset=dataset: [
              finished.band(dataset, method, k, epsilon) for epsilon in epsilons
          ],
          ["method", *(f"epsilon = {epsilon:g}" for epsilon in epsilons)],
          f"{_title(finished, dataset)} with {k} clusters: {_KEY}",
      )
      for dataset in finished.datasets
  ]


def peer_tables(finished):
  """Returns the table of ratios to the peer's losses; none if none applies."""
  rows = [
      [
          comparison.peer.dataset, comparison.peer.k,
          _loss(comparison.peer.loss), _loss(comparison.band.mean),
          html_page.strong(f"{comparison.ratio:.3f}"),
          f"{comparison.peer.target_ratio:.2f}",
          "yes" if comparison.is_reached else "no",
      ]
      for comparison in finished.peer_comparisons()
  ]
  if not rows:
    return []
  label = clusterers.METHODS["refine"]
  return [
      html_page.table(
          ["data set", "k", peer_losses.PEER, label, "ratio", "target", "reached"], rows,
          f"Mean loss of {label}, and its ratio to that of {peer_losses.PEER}",
      ),
      html_page.paragraph(
          f"{peer_losses.SOURCE}, was not run here: its losses were measured once, on data sets "
          "prepared in the same way, as means over at least five runs. The synthetic points "
          "are another draw of the same mixture. Target: the largest ratio that is good enough.",
          quiet=True,
      ),
  ]


def ledger_tables(finished):
  """Returns what one run of each of our methods released, as folded tables."""
  blocks = []
  for method, ledger in finished.ledgers.items():
    rows = [
        [release["name"], _number(release["sensitivity"]), f"{release['std']:.5g}",
         f"{release['mu']:.5g}"]
        for release in ledger["releases"]
    ]
    rows.append(["all together", "", "", f"{ledger['mu_spent']:.5g}"])
    blocks.append(html_page.details(
        f"{clusterers.METHODS[method]}: {len(ledger['releases'])} releases, epsilon "
        f"{ledger['epsilon_spent']:.6g} of {ledger['epsilon']:g} at delta {ledger['delta']:g}",
        html_page.table(
            ["release", "sensitivity", "standard deviation", "mu"], rows,
            f"{ledger['dataset']}, {ledger['k']} clusters; noise: {ledger['noise_source']}",
        ),
    ))
  return blocks


def dataset_table(finished):
  """Returns the table of the data sets."""
  rows = [
      [name, f"{description['num_points']:,}", description["dim"], description["source"]]
      for name, description in finished.datasets.items()
  ]
  return html_page.table(
      ["data set", "points", "coordinates", "what"], rows, "Data sets", text_columns=(3,)
  )
