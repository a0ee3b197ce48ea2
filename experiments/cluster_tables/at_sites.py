"""Rows that stay at their sites, of which the operator sees sums alone."""

from __future__ import annotations

import contextlib
import os
from typing import Any, TYPE_CHECKING

from experiment_shell import launch
from experiment_shell import tidy_experiment
from experiments.cluster_tables import config as config_lib
from experiments.cluster_tables import here
from experiments.cluster_tables import summary
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.sites import coordinator as coordinator_lib
from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import nvflare_kit
from fl_clustering.sites import rows
from fl_clustering.sites import site_ledger

if TYPE_CHECKING:
  from fl_clustering.points import fitted

# In the operator's folder of keys: it has the sites' addresses, and the run's folder is for all.
_LOG, _LOCK = "nvflare.log", "lock"
# Of the federation file's epsilon, for one fit: what is left repeats one that has lost a site.
_DEFAULT_SHARE = 0.5


def load(
    config: config_lib.Config, stack: contextlib.ExitStack, *, federation: str, kit: str,
    seconds: float, seconds_to_join: float,
) -> tidy_experiment.Inputs:
  """Reads what the sites have agreed on; nothing is asked of them before the fit.

  Args:
    stack: Keeps the kit locked: two operators of one kit would wait for each other's sites.
    federation: Path of the federation file.
    kit: The operator's folder of keys.
    seconds: How long a site may take for an answer.
    seconds_to_join: How long sites may take to connect.
  """
  agreed = federation_lib.Federation.load(federation)
  tables, (num_clusters,) = rows.tables(config.schemas, agreed), config.candidates
  settings, epsilon = config.settings(num_clusters, tables.is_private), config.epsilon
  if epsilon is None and agreed.privacy is not None:
    epsilon = _DEFAULT_SHARE * agreed.privacy.epsilon
  privacy = coordinator_lib.with_privacy(settings, agreed, epsilon).privacy
  nvflare_kit.check_operator(kit)
  stack.callback(os.close, site_ledger.lock(os.path.join(kit, _LOCK), kit=kit))
  needed = []
  if privacy is not None:
    needed = [privacy_lib.rows_needed(
        privacy, num_clusters, agreed.num_columns, len(agreed.sites)
    )]
  log, path = list[dict[str, Any]](), os.path.join(kit, _LOG)

  def fit(unused_num_clusters: int) -> fitted.Fit:
    # It takes NVFlare.
    from fl_clustering.sites import nvflare_operator  # pylint: disable=g-import-not-at-top

    operator = nvflare_operator.open_operator(kit, agreed.sites, path, seconds, seconds_to_join)
    try:
      with operator as exchange, launch.input_errors():  # Such as fewer rows than clusters.
        coordinator = coordinator_lib.Coordinator(agreed, exchange)
        found = coordinator_lib.fit_kmeans(settings, coordinator, epsilon)
    except coordinator_lib.SiteRefused as e:
      raise launch.InputError(f"{e}") from e
    except (coordinator_lib.SiteLost, coordinator_lib.CarrierFailed) as e:
      raise launch.RunFailed(f"{e}") from e
    log[:] = coordinator.log
    return found

  return tidy_experiment.Inputs(
      here.Rows(tables, fit, log=log),
      {"federation": {"file": agreed.document, "fingerprint": agreed.fingerprint}},
      {summary.IS_PRIVATE: tables.is_private},
      lines=(
          f"sites: {', '.join(agreed.sites)}", *agreed.terms, *needed,
          f"what NVFlare says: {path}",
      ),
  )
