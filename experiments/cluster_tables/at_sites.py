"""Rows that stay at their sites, of which the operator sees sums alone."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, TYPE_CHECKING

from experiment_shell import launch
from experiment_shell import tidy_experiment
from experiments.cluster_tables import config as config_lib
from experiments.cluster_tables import summary
from fl_clustering import fits
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.sites import coordinator as coordinator_lib
from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import nvflare_kit
from fl_clustering.sites import rows
from fl_clustering.tables import saved

if TYPE_CHECKING:
  from fl_clustering.points import fitted

# In the operator's folder of keys: it has the sites' addresses, and the run's folder is for all.
_LOG = "nvflare.log"
# Of the federation file's epsilon, for one fit: what is left repeats one that has lost a site.
_DEFAULT_SHARE = 0.5


@dataclasses.dataclass(frozen=True, eq=False)
class AtSites:
  """Rows of sites, as a cell is measured with them; see `experiment`.

  Attributes:
    settings: Of the fit.
    epsilon: Its part of the federation file's; None with exact sums.
    kit: The operator's folder of keys.
    seconds: How long a site may take for an answer.
    seconds_to_join: How long sites may take to connect.
  """

  tables: saved.SavedTables
  settings: fits.Config
  epsilon: float | None
  federation: federation_lib.Federation
  kit: str
  seconds: float
  seconds_to_join: float
  fit_numbers: None = None
  folder: None = None
  log: list[dict[str, Any]] = dataclasses.field(default_factory=list)

  def fit(self, unused_num_clusters: int) -> fitted.Fit:
    """Returns the fit; `log` then has all exchanges with the sites."""
    # It takes NVFlare.
    from fl_clustering.sites import nvflare_operator  # pylint: disable=g-import-not-at-top

    operator = nvflare_operator.open_operator(
        self.kit, self.federation.sites, os.path.join(self.kit, _LOG), self.seconds,
        self.seconds_to_join,
    )
    try:
      with operator as exchange, launch.input_errors():  # Such as fewer rows than clusters.
        coordinator = coordinator_lib.Coordinator(self.federation, exchange)
        fit = coordinator_lib.fit_kmeans(self.settings, coordinator, self.epsilon)
    except coordinator_lib.SiteRefused as e:
      raise launch.InputError(f"{e}") from e
    except (coordinator_lib.SiteLost, coordinator_lib.CarrierFailed) as e:
      raise launch.RunFailed(f"{e}") from e
    self.log[:] = coordinator.log
    return fit


def load(
    config: config_lib.Config, *, federation: str, kit: str, seconds: float, seconds_to_join: float
) -> tidy_experiment.Inputs:
  """Reads what the sites have agreed on; nothing is asked of them yet.

  Args:
    federation: Path of the federation file.
    kit, seconds, seconds_to_join: As of `AtSites`.
  """
  agreed = federation_lib.Federation.load(federation)
  tables, (num_clusters,) = rows.tables(config.schemas, agreed), config.candidates
  settings, epsilon = config.settings(num_clusters, tables.is_private), config.epsilon
  if epsilon is None and agreed.privacy is not None:
    epsilon = _DEFAULT_SHARE * agreed.privacy.epsilon
  privacy = coordinator_lib.with_privacy(settings, agreed, epsilon).privacy
  nvflare_kit.check_operator(kit)
  needed = []
  if privacy is not None:
    needed = [privacy_lib.rows_needed(
        privacy, num_clusters, agreed.num_columns, len(agreed.sites)
    )]
  return tidy_experiment.Inputs(
      AtSites(tables, settings, epsilon, agreed, kit, seconds, seconds_to_join),
      {"federation": {"file": agreed.document, "fingerprint": agreed.fingerprint}},
      {summary.IS_PRIVATE: tables.is_private},
      lines=(
          f"sites: {', '.join(agreed.sites)}", *agreed.terms, *needed,
          f"what NVFlare says: {os.path.join(kit, _LOG)}",
      ),
  )
