"""Runs the benchmarks: ``python -m benchmarks [names] [--quick] [--data DIR]``."""

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import (
    beam,
    bfloat16,
    big_map,
    building,
    candidates,
    composite,
    dimensions,
    embedding,
    encode_memory,
    encoding,
    errors,
    exactness,
    exhaustive,
    fast_scan,
    filters,
    folders,
    growth,
    held_out,
    hundred_million,
    lists,
    map_speed,
    memory,
    neighbors,
    pairs,
    photos,
    pipeline,
    report,
    rules,
    scale,
    seeds,
    serving,
    shallow,
    shard_names,
    startup,
    steps,
    streaming,
    study,
    tasks,
    ties,
    tuning,
)
from benchmarks.timing import use_one_thread
from benchmarks.vectors import Setting

BENCHMARKS: dict[str, Callable[[Setting], Iterator[report.Line]]] = {
    "candidates": candidates.run,
    "exactness": exactness.run,
    "steps": steps.run,
    "memory": memory.run,
    "errors": errors.run,
    "held_out": held_out.run,
    "composite": composite.run,
    "encoding": encoding.run,
    "beam": beam.run,
    "embedding": embedding.run,
    "photos": photos.run,
    "bfloat16": bfloat16.run,
    "pipeline": pipeline.run,
    "exhaustive": exhaustive.run,
    "fast_scan": fast_scan.run,
    "lists": lists.run,
    "filters": filters.run,
    "building": building.run,
    "folders": folders.run,
    "growth": growth.run,
    "hundred_million": hundred_million.run,
    "streaming": streaming.run,
    "startup": startup.run,
    "map_speed": map_speed.run,
    "ties": ties.run,
    "big_map": big_map.run,
    "shallow": shallow.run,
    "rules": rules.run,
    "scale": scale.run,
    "encode_memory": encode_memory.run,
    "shard_names": shard_names.run,
    "serving": serving.run,
    "neighbors": neighbors.run,
    "study": study.run,
    "seeds": seeds.run,
    "dimensions": dimensions.run,
    "pairs": pairs.run,
    "tuning": tuning.run,
    "mnist": tasks.mnist,
    "adapters": tasks.adapters,
    "triplets": tasks.triplets,
    "cifar10": tasks.cifar10,
}
"""Every benchmark by its name, in the order they run."""

ON_REQUEST = (
    "dimensions",
    "encode_memory",
    "held_out",
    "hundred_million",
    "neighbors",
    "rules",
    "scale",
    "seeds",
    "serving",
    "study",
    "pairs",
    "tuning",
    "mnist",
    "adapters",
    "triplets",
    "cifar10",
    "shard_names",
)
"""Not run unless named: most train many networks, for an hour or more."""


def main() -> int:
    """Runs what was asked for; 1 if one of them could not be run to its end."""
    args = _arguments()
    use_one_thread()
    setting = Setting(args.data, args.quick, args.full)
    entries, failed = {}, []
    for name in args.names or [n for n in BENCHMARKS if n not in ON_REQUEST]:
        report.say(f"--- {name}")
        try:
            entries[name] = _measured(name, setting)
        except Exception:
            traceback.print_exc()
            failed.append(name)
    if args.json is not None:
        report.write(entries, args.json)
    _conclude(entries, failed)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="name",
        help=f"of {', '.join(BENCHMARKS)}; if none, all but {', '.join(ON_REQUEST)}",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="tiny sizes: does it run? Writes no results",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="more rows where a fit takes minutes: more than an hour",
    )
    folder = os.environ.get("GRADSNAP_DATA")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(folder) if folder else None,
        help="folder of the data sets; GRADSNAP_DATA if not given",
    )
    parser.add_argument("--json", type=Path, help="write all tables to this file too")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    return args


def _measured(name: str, setting: Setting) -> report.Record:
    started = time.perf_counter()
    lines: list[report.Line] = []
    for line in BENCHMARKS[name](setting):
        shown = {k: v for k, v in line.cells().items() if v and k != "met"}
        report.say(" | ".join(shown.values()))
        lines.append(line)
    took = time.perf_counter() - started
    quick = " — QUICK, these figures mean nothing" if setting.quick else ""
    doc = sys.modules[BENCHMARKS[name].__module__].__doc__ or ""
    report.show(f"{name} ({took:.0f} s){quick}\n{doc.splitlines()[0]}", lines)
    content = report.entry(lines, took)
    if not setting.quick:
        report.write(content, report.RESULTS / f"{name}.json")
    return content


def _conclude(entries: dict[str, report.Record], failed: list[str]) -> None:
    rows = [row for entry in entries.values() for row in entry["rows"]]
    judged = [row for row in rows if row.get("met") is not None]
    print(f"{sum(row['met'] for row in judged)} of {len(judged)} bars met")
    for row in judged:
        if not row["met"]:
            print(f"  not met: {row['what']}")
    for name in failed:
        print(f"  could not be run: {name} (see above)")


if __name__ == "__main__":
    sys.exit(main())
