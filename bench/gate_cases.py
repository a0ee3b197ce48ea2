"""What the gate runs: a table of small seeded runs of every program, and their input files."""

import dataclasses
import gzip
import os
from typing import Any

import numpy as np
import pandas as pd

# The folder of the input files, in the folder of a case.
DATA = "data"
_SEED = 20
_CLIENTS = ("east", "north", "south", "west")
_ROWS = 40

_BENCHMARKS = (
    "dp_clustering_benchmark", "engine_benchmark", "federated_kmeans_benchmark",
    "multi_view_benchmark", "peers", "privacy_audit", "scaling_benchmark",
    "sums_kmeans_benchmark", "verdict_benchmark", "workers_benchmark",
)
# From a program's module in an earlier tree to its module in a later one.
MOVED = {f"experiments.benchmarks.{name}": f"bench.{name}" for name in _BENCHMARKS}


@dataclasses.dataclass(frozen=True)
class Case:
  """Some commands, and what is compared of all that they leave.

  Attributes:
    name: A unique name.
    commands: Run one after another in a folder of the case's own. A command is a program's module
      with its flags, or `cp` or `rm` with arguments.
    lenders: Programs that lend a worker while the commands run. `PORT0`, `PORT1`, ... in their
      flags and in those of the commands stand for free ports.
    compared: Globs of the records whose content is compared. The others, such as those with fresh
      noise, are compared by their names.
  """

  name: str
  commands: tuple[str, ...]
  lenders: tuple[str, ...] = ()
  compared: tuple[str, ...] = ("*",)


def _once(command: str) -> str:
  """Returns a command without the flags to which it gives another value later."""
  words = command.split(" ")
  last = {word.partition("=")[0]: place for place, word in enumerate(words)}
  return " ".join(
      word for place, word in enumerate(words)
      if not word.startswith("--") or last[word.partition("=")[0]] == place
  )


def _case(name: str, *commands: str, **options: Any) -> Case:
  return Case(name, tuple(map(_once, commands)), **options)


_THREE = "experiments.three_phase_emnist --pretrain_rounds=1 --cluster_rounds=1"
_DIGITS = (
    f"{_THREE} --dataset=digits --num_clients=8 --partition=dirichlet --model=logistic "
    "--control_repeats=2"
)
_GROUPED = f"{_DIGITS} --num_clusters=2 --output_dir=out"
_ALL_METHODS = (
    f"{_DIGITS} --methods=kmeans,dynamic_distance,hierarchical,ifca,cfl,cfl_as_copied,fesem,pacfl "
    "--num_clusters=2"
)
_FILES = f"{_THREE} --dataset=files --control_repeats=2 --num_clusters=2 --output_dir=out"
_LEVELS = "--categories=sex,stage --id_column=id"
_RISK = f"{_LEVELS} --exclude=name --label_column=risk"
_NO_CLASSES = f"{_LEVELS} --exclude=name,part,risk"
_KMEANS = "experiments.federated_kmeans --output_dir=out"
_TABLE = "--client_column=client --separator=; --decimal=, --header=yes"
_VIEWS = "experiments.multi_view --seeds=1 --n_init=2 --output_dir=out"
_PREDICT = "experiments.predict --run=out"
_STUDY = (
    "experiments.study --num_clients=6 --pretrain_rounds=1 --cluster_rounds=1 --model=logistic "
    "--methods=kmeans,ifca --num_clusters=2"
)
_PRIVATE = f"{_KMEANS} --num_clusters=2 --epsilon=4 --delta=1e-3 --radius=8"
_ADDRESSES = "--workers=127.0.0.1:PORT0,127.0.0.1:PORT1"
# `cp` keeps what the first run drew.
_DRAW_AGAIN = (
    "cp -r out drawn", "rm -r drawn/report.html drawn/figures", "experiments.report --run=drawn"
)
# A run with fresh noise: its settings, the names of its files, and how it ended.
_WITHOUT_NOISE = ("out/config.json", "*.code", "*.stderr")


def _sites(kind: str, flags: str = "") -> tuple[str, ...]:
  return tuple(
      f"tools.site --data_dir={DATA}/{kind}_{site} --port=PORT{i} --cache_dir=cache{i} "
      f"--num_cores=1 {flags}"
      for i, site in enumerate(("here", "there"))
  )


_HELP = (
    _case(
        "help",
        *(f"experiments.{name} --help" for name in (
            "dp_benchmark", "federated_kmeans", "get_clients", "multi_view", "predict", "report",
            "study", "three_phase_emnist",
        )),
        "dp_clustering.demo.clustering_demo --help", "tools.site --help", "tools.worker --help",
    ),
    _case("help_benchmarks", *(f"experiments.benchmarks.{name} --help" for name in _BENCHMARKS)),
)

_REFUSED = (
    _case(
        "refused_three_phase",
        f"{_THREE} --num_clusters=0", f"{_THREE} --methods=kmean", f"{_THREE} --no_such_flag=1",
        f"{_THREE} --aggregator=mean --clipping_norm=1", f"{_THREE} --model=cnn --hidden_units=3",
        f"{_THREE} --methods=cfl --num_clusters=3", f"{_THREE} --learning_rate=nan",
        f"{_THREE} --methods=ifca --ifca_restarts=2 --ifca_start=grouped",
        f"{_THREE} --num_clusters_criterion=silhouette", f"{_THREE} word", f"{_THREE} --resume",
        f"{_THREE} --partition=iid --num_groups=2", f"{_THREE} --dataset=files",
        f"{_THREE} --dataset=digits --label_column=risk", f"{_THREE} --reuse=nowhere",
        f"{_THREE} --dataset=idx --data_dir={DATA}/npy", f"{_THREE} --workers=here",
        f"{_FILES} --data_dir={DATA}/csv --label_column=risk",
        f"{_FILES} --data_dir={DATA}/csv --label_column=grade",
        f"{_FILES} --data_dir={DATA}/bad {_RISK}",
        f"{_FILES} --data_dir={DATA}/csv {_RISK} --split_column=part --test_share=0.5",
    ),
    _case(
        "refused_k_means",
        f"{_KMEANS} --data_dir={DATA}/csv", f"{_KMEANS} --data_dir={DATA}/bad --k_range=2:3",
        f"{_KMEANS} --data_dir={DATA}/none", f"{_KMEANS} --num_clusters=3",
        f"{_KMEANS} --figure=nothing", f"{_KMEANS} --figure=regular --dataset=emnist",
        f"{_KMEANS} --data_dir={DATA}/npy --k_range=3:2",
        f"{_KMEANS} --data_dir={DATA}/npy --k_range=3",
        f"{_KMEANS} --data_dir={DATA}/npy --epsilon=1 --k_range=2:3",
        f"{_KMEANS} --data_dir={DATA}/npy --epsilon=1 --num_clusters=2",
        f"{_KMEANS} --data_dir={DATA}/npy --n_init=3", f"{_PRIVATE} --data_dir={DATA}/csv",
        f"{_KMEANS} --data_dir={DATA}/npy --num_clusters=9999",
        f"{_KMEANS} --data_dir={DATA}/npy --figure=noise",
        f"{_KMEANS} --data_dir={DATA}/npy --algorithm=kfed --epsilon=1",
    ),
    _case(
        "refused_others",
        f"{_VIEWS} --datasets=none", f"{_VIEWS} --data_dir={DATA}/csv --num_clusters=2",
        f"{_VIEWS} --data_dir={DATA}/views --num_clients=3", f"{_VIEWS} --alpha=1",
        f"{_VIEWS} --categories=sex", f"{_VIEWS} --datasets=digits --features_dir={DATA}",
        "experiments.dp_benchmark --datasets=none", "experiments.dp_benchmark --k_to_try=two",
        "experiments.dp_benchmark --methods=lsh,lsh", "experiments.dp_benchmark --delta=2",
        "experiments.dp_benchmark --datasets=synthetic --data_dir=.",
        "experiments.study --settings=none", "experiments.study --num_folds=1",
        "experiments.study --reuse=.", "experiments.study --partition=iid",
        "experiments.study --jobs=0", "experiments.study --parts=none",
        "experiments.report", f"experiments.report --run={DATA}", "experiments.predict",
        f"{_PREDICT} --data_dir={DATA}/csv", "experiments.get_clients",
        "experiments.get_clients --dataset=nothing", "tools.worker", "tools.site --port=99",
        "dp_clustering.demo.clustering_demo --epsilon_to_try=-1",
        "dp_clustering.demo.clustering_demo --k_to_try=",
        f"tools.site --data_dir={DATA}/bad --port=1 --cache_dir={DATA}/bad/cache",
    ),
)

_THREE_PHASE = (
    _case(
        "three_phase_methods",
        f"{_ALL_METHODS} --output_dir=out", *_DRAW_AGAIN,
        f"{_ALL_METHODS} --output_dir=out", f"{_ALL_METHODS} --output_dir=out --resume",
        f"{_ALL_METHODS} --output_dir=out --resume --seed=1",
        # As if it had been interrupted.
        "cp -r out resumed", "rm resumed/report.html resumed/summary.json",
        "rm resumed/checkpoints/ifca.npz resumed/checkpoints/local.npz",
        f"{_ALL_METHODS} --output_dir=resumed --resume",
        f"{_DIGITS} --methods=fesem --num_clusters=3 --reuse=out --output_dir=reused",
    ),
    _case(
        "three_phase_method_options",
        f"{_GROUPED} --methods=ifca,cfl,pacfl,hierarchical,dynamic_distance --cluster_rounds=3 "
        "--ifca_restarts=2 --cfl_ratio=2 --cfl_gap=-2 "
        "--pacfl_angle=40 --pacfl_vectors=2 --pacfl_proximity=equal_labels --linkage=single "
        "--metric=l2 --overlap_training=separate --max_clusters=5 --distance_threshold=q0.6 "
        "--batch_size=50 --learning_rate=0.05 --client_epochs_per_round=2 --seed=3",
    ),
    _case(
        "three_phase_newer_methods",
        f"{_DIGITS} --model=mlp --methods=clove,flux,flexcfl --personal=ditto,fedrep,apfl,mr_mtl "
        "--num_clusters=2 --validation_share=0.2 --num_new_clients=2 "
        "--output_dir=out",
        *_DRAW_AGAIN,
    ),
    _case(
        "three_phase_distance_cut",
        f"{_DIGITS} --methods=hierarchical,ifca --num_clusters=2 --hierarchical_cut=distance "
        "--distance_threshold=q0.4 --linkage=complete --metric=l1 --ifca_start=perturbed "
        "--target_accuracy=0.5 --output_dir=out",
    ),
    _case(
        "three_phase_clipped",
        f"{_THREE} --dataset=digits --num_clients=8 --model=mlp --hidden_units=20,10 "
        "--aggregator=clipped --clipping_norm=0.5 --partition=iid --methods=kmeans "
        "--num_clusters=2 --control_repeats=0 --output_dir=out",
    ),
    _case(
        "three_phase_private",
        f"{_GROUPED} --aggregator=dp --noise_multiplier=2 --clipping_norm=0.5 --methods=kmeans "
        "--clients_per_round=4",
        compared=_WITHOUT_NOISE,
    ),
    _case(
        "three_phase_shards",
        f"{_THREE} --dataset=digits --num_clients=6 --model=cnn_small --partition=shards "
        "--clients_per_round=3 --methods=kmeans,fesem --representation=update --num_clusters=2 "
        "--control_repeats=2 --output_dir=out",
    ),
    _case(
        "three_phase_rotated",
        f"{_GROUPED} --partition=rotated --num_groups=2 --methods=kmeans,dynamic_distance "
        "--representation=normalized_update --grouping_epochs=1 --num_new_clients=2",
    ),
    *(
        _case(
            f"three_phase_{criterion}",
            f"{_DIGITS} --partition={partition} --methods=kmeans,hierarchical --num_clusters=auto "
            f"--num_clusters_criterion={criterion} --output_dir=out",
        )
        for criterion, partition in (
            ("eigengap", "permuted_labels --num_groups=2"),
            ("silhouette", "feature_shift --num_groups=3 --dirichlet_alpha=1"),
            ("stability", "dirichlet --dirichlet_alpha=0.3"),
        )
    ),
    _case(
        "three_phase_idx",
        f"{_THREE} --dataset=idx --data_dir={DATA}/idx --num_clients=4 --model=cnn "
        "--partition=quantity --dirichlet_alpha=0.5 --methods=kmeans --num_clusters=2 "
        "--control_repeats=0 --output_dir=out",
    ),
    _case(
        "three_phase_csv",
        f"{_FILES} --data_dir={DATA}/csv {_RISK} --split_column=part --missing=mean",
        f"{_PREDICT} --data_dir={DATA}/csv", f"{_PREDICT} --data_dir={DATA}/csv",
        f"{_PREDICT} --data_dir={DATA}/table --output=other.csv", *_DRAW_AGAIN,
    ),
    _case(
        "three_phase_gz",
        f"{_FILES} --data_dir={DATA}/gz {_NO_CLASSES} --label_column=score --label_above=0.2 "
        "--missing=indicator --test_share=0.4 --model=logistic --methods=kmeans",
        f"{_PREDICT} --data_dir={DATA}/gz --output=other.csv",
    ),
    _case(
        "three_phase_parquet",
        f"{_FILES} --data_dir={DATA}/parquet --columns=height,weight --label_column=stage "
        "--missing=mean --num_new_clients=1 --methods=ifca",
        f"{_PREDICT} --data_dir={DATA}/parquet",
    ),
    _case(
        "three_phase_regression",
        f"{_FILES} --data_dir={DATA}/csv {_NO_CLASSES} --task=regression "
        "--label_column=score --missing=mean --model=linear --methods=kmeans,ifca",
        f"{_PREDICT} --data_dir={DATA}/csv", *_DRAW_AGAIN,
    ),
    _case(
        "three_phase_weighted_classes",
        f"{_FILES} --data_dir={DATA}/csv {_RISK} --split_column=part --missing=mean "
        "--primary_metric=auroc --class_weights=balanced --model=logistic --methods=kmeans,flux "
        "--num_new_clients=1",
        f"{_PREDICT} --data_dir={DATA}/bad --unknown_levels=ignore --skip_bad_rows "
        "--output=other.csv",
        f"{_PREDICT} --data_dir={DATA}/bad --fallback=global --output=another.csv",
    ),
    _case("three_phase_npy", f"{_FILES} --data_dir={DATA}/npy --label_column=column_3 "
          "--methods=kmeans --model=logistic"),
    _case("three_phase_npz", f"{_FILES} --data_dir={DATA}/npz --label_column=kind "
          "--methods=pacfl --model=mlp"),
    _case(
        "three_phase_table",
        f"{_FILES} --data_dir={DATA}/table {_RISK} {_TABLE} --missing=mean --split_column=part "
        "--methods=kmeans",
        f"{_PREDICT} --data_dir={DATA}/table",
    ),
    _case(
        "three_phase_workers",
        f"{_GROUPED} --methods=kmeans {_ADDRESSES}",
        lenders=tuple(
            f"tools.worker --port=PORT{i} --cache_dir=cache{i} --num_cores=1" for i in range(2)
        ),
    ),
    _case(
        "three_phase_sites",
        f"{_FILES} --methods=kmeans,pacfl {_ADDRESSES}",
        lenders=_sites("table", "--client_column=client --exclude=name --columns=weight,sex "
                       "--categories=sex --label_column=risk --split_column=part"),
    ),
)

_K_MEANS = (
    _case(
        "k_means_csv",
        f"{_KMEANS} --data_dir={DATA}/csv {_NO_CLASSES} --missing=mean "
        "--standardize --k_range=2:4",
        f"{_PREDICT} --data_dir={DATA}/csv", *_DRAW_AGAIN,
        f"{_KMEANS} --data_dir={DATA}/csv {_NO_CLASSES} --missing=mean "
        "--standardize --k_range=2:4 --resume",
    ),
    *(
        _case(
            f"k_means_{algorithm}",
            f"{_KMEANS} --algorithm={algorithm} --data_dir={DATA}/{flags}",
            f"{_PREDICT} --data_dir={DATA}/{flags.split()[0]}",
        )
        for algorithm, flags in (
            ("fkm_lloyd", f"gz {_NO_CLASSES} --missing=indicator "
             "--num_clusters=3 --n_init=2"),
            ("lloyd", "parquet --columns=weight,score --k_range=2:3 --n_init=2"),
            ("fkm", "npy --num_clusters=3 --standardize --min_count=3"),
            ("kfed", "npz --num_clusters=2 --seed=4"),
            ("child_parent", f"table {_NO_CLASSES} {_TABLE} --missing=mean "
             "--num_clusters=2"),
            ("tff_minibatch", "npy --num_clusters=2 --columns=column_1,column_2"),
        )
    ),
    _case("k_means_private", f"{_PRIVATE} --data_dir={DATA}/npy", compared=_WITHOUT_NOISE),
    _case(
        "k_means_private_clients",
        f"{_PRIVATE} --data_dir={DATA}/npz --trust=none --min_clients=3 --max_points=20",
        compared=_WITHOUT_NOISE,
    ),
    _case(
        "k_means_papers",
        f"{_KMEANS} --figure=regular,rounds,extreme,sse --seeds=1", *_DRAW_AGAIN,
    ),
    _case(
        "k_means_papers_private", f"{_KMEANS} --figure=privacy --seeds=1", compared=_WITHOUT_NOISE,
    ),
    _case("k_means_sites", f"{_KMEANS} --k_range=2:3 --standardize {_ADDRESSES}",
          f"{_PREDICT} --data_dir={DATA}/array_here", *_DRAW_AGAIN, lenders=_sites("array")),
)

_OTHERS = (
    _case("multi_view_folder", f"{_VIEWS} --data_dir={DATA}/views --alpha=3 --num_rounds=9",
          f"{_PREDICT} --data_dir={DATA}/views", *_DRAW_AGAIN),
    _case("multi_view_built_in", f"{_VIEWS} --datasets=simulated_dha --n_init=1"),
    _case("multi_view_sites", f"{_VIEWS} --num_clusters=3 {_ADDRESSES}", lenders=_sites("view")),
    _case(
        "dp_benchmark",
        "experiments.dp_benchmark --datasets=sklearn_digits,synthetic --k_to_try=4,8 --runs=1 "
        "--methods=sklearn,lsh,refine --epsilon_to_try=1 --fixed_k=4 --output_dir=out",
        *_DRAW_AGAIN,
    ),
    _case(
        "dp_benchmark_federated",
        "experiments.dp_benchmark --datasets=sklearn_digits --methods=refine_server,refine_none "
        "--k_to_try=4 --epsilon_to_try= --runs=2 --seed=2 --output_dir=out",
    ),
    _case(
        "private_clusters",
        "experiments.private_clusters --dataset=digits --partition=rotated --num_groups=2 "
        "--num_clusters=2 --num_clients=20 --image_size=7 --examples_per_client=20 --rounds=2 "
        "--epsilon=8,2 --output_dir=out",
        "cp -r out drawn", "rm -r drawn/released/figures drawn/simulation/figures",
        "experiments.report --run=drawn",
    ),
    _case(
        "private_clusters_schema",
        f"experiments.draft_schema --data_dir={DATA}/csv {_RISK} --split_column=part "
        "--missing=mean --output=schema.json",
        f"experiments.private_clusters --dataset=files --data_dir={DATA}/gz --schema=schema.json "
        "--simulation --rounds=2 --num_clusters=1 --output_dir=out",
    ),
    _case("study", f"{_STUDY} --settings=rotated,shards --num_seeds=2 --jobs=2 --output_dir=out",
          *_DRAW_AGAIN),
    _case(
        "study_in_parts",
        f"{_STUDY} --settings=iid --num_seeds=1 --num_folds=2 --jobs=1 --output_dir=part",
        f"{_STUDY} --settings=iid,dirichlet --num_seeds=1 --num_folds=2 --jobs=1 --parts=part "
        "--output_dir=out",
    ),
    _case(
        "demo",
        *(
            "dp_clustering.demo.clustering_demo --num_points=2000 --dim=5 --num_clusters=4 "
            f"--k_to_try=2,4 --fixed_k=4 --epsilon_to_try=1,inf --seed=1 --method={method} "
            f"--output_dir={method}"
            for method in ("lsh", "refine")
        ),
    ),
)

CASES = (*_HELP, *_REFUSED, *_THREE_PHASE, *_K_MEANS, *_OTHERS)


def _frame(rng: np.random.Generator) -> pd.DataFrame:
  """Returns the rows of a client: numbers with gaps, levels, text, classes."""
  kinds = rng.integers(3, size=_ROWS)
  weight = (3 * kinds + rng.standard_normal(_ROWS)).round(3)
  height = (10 * (kinds == 1) + rng.standard_normal(_ROWS)).round(2)
  height[::9] = np.nan
  return pd.DataFrame({
      "id": [f"r{row}" for row in range(_ROWS)],
      "name": [f"name {number}" for number in rng.integers(10**6, size=_ROWS)],
      "height": height,
      "weight": weight,
      "sex": rng.choice(["f", "m"], size=_ROWS),
      "stage": kinds + 1,
      "score": rng.standard_normal(_ROWS).round(4),
      "part": np.where(np.arange(_ROWS) % 4, "train", "test"),
      "risk": np.where(kinds + rng.integers(2, size=_ROWS) > 1, "high", "low"),
  })


def _write_idx(folder: str, rng: np.random.Generator) -> None:
  """Writes images of 28 x 28 pixels with a bright row for each label."""
  for split, size in (("train", 200), ("t10k", 50)):
    labels = rng.integers(4, size=size, dtype=np.uint8)
    images = rng.integers(60, size=(size, 28, 28), dtype=np.uint8)
    images[np.arange(size), 5 * labels + 4] += 150
    for kind, array in (("images", images), ("labels", labels)):
      header = np.array([0x800 + array.ndim, *array.shape], ">u4").tobytes()
      with open(f"{folder}/{split}-{kind}-idx{array.ndim}-ubyte", "wb") as file:
        file.write(header + array.tobytes())


def _write_views(folder: str, kinds: np.ndarray, rng: np.random.Generator) -> None:
  os.makedirs(folder)
  for view, width in (("size", 3), ("shape", 5)):
    points = 4 * kinds[:, np.newaxis] + rng.standard_normal((_ROWS, width))
    np.savetxt(f"{folder}/{view}.csv", points, "%.4f", delimiter=",",
               header=",".join(f"{view}{i}" for i in range(width)), comments="")
  np.savetxt(f"{folder}/labels.csv", kinds, "%d", header="kind", comments="")


def write_inputs(folder: str) -> None:
  """Writes the input files of all cases, the same every time.

  Args:
    folder: A new folder, which is made.
  """
  rng = np.random.default_rng(_SEED)
  for name in ("csv", "gz", "parquet", "npy", "npz", "table", "idx", "bad", "table_here",
               "table_there", "array_here", "array_there"):
    os.makedirs(f"{folder}/{name}")
  frames = {client: _frame(rng) for client in _CLIENTS}
  for i, (client, frame) in enumerate(frames.items()):
    site = ("here", "there")[i // 2]
    text = frame.to_csv(index=False)
    with open(f"{folder}/csv/{client}.csv", "w", encoding="utf-8") as file:
      file.write(text)
    with open(f"{folder}/gz/{client}.csv.gz", "wb") as file:
      file.write(gzip.compress(text.encode(), mtime=0))
    frame.to_parquet(f"{folder}/parquet/{client}.parquet")
    points = frame[["weight", "score", "stage"]].to_numpy(float)
    np.save(f"{folder}/npy/{client}.npy", points)
    np.save(f"{folder}/array_{site}/{client}.npy", points)
    np.savez(f"{folder}/npz/{client}.npz", weight=points[:, 0], score=points[:, 1],
             kind=frame["stage"].to_numpy())
    frame["height"] = frame["height"].where(frame["height"] < 5, "tall")
    frame.head(7 - i).to_csv(f"{folder}/bad/{client}.csv", index=False)
    for views in ("views", f"view_{site}"):
      _write_views(f"{folder}/{views}/{client}", frame["stage"].to_numpy(), rng)
  joined = pd.concat(frame.assign(client=client) for client, frame in frames.items())
  joined["height"] = pd.to_numeric(joined["height"], "coerce")
  joined.to_csv(f"{folder}/table/all.csv", sep=";", decimal=",", index=False)
  for site, clients in (("here", _CLIENTS[:2]), ("there", _CLIENTS[2:])):
    rows = joined[joined["client"].isin(clients)]
    rows.to_csv(f"{folder}/table_{site}/all.csv", index=False)
  _write_idx(f"{folder}/idx", rng)
