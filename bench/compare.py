"""Two results side by side: `python bench/compare.py bench/results/A.json bench/results/B.json`.

What can be compared across runs is how far each came of its own ceiling. Rates are told for what they are, and are
worth comparing only when both runs were on the same, idle machine.
"""

import json
import sys
from pathlib import Path

FIGURES = ("ratio", "ratio_to_drain_1", "ratio_to_free", "flat", "per_s", "p50_ms", "p99_ms", "mb", "worker_cpu_us_per_job")
LESS_IS_BETTER = {"p50_ms", "p99_ms", "mb", "worker_cpu_us_per_job"}
NOTABLE = 0.1


def main(old_path: str, new_path: str) -> None:
    """Print a line for each figure that both have."""
    old, new = (json.loads(Path(path).read_text(encoding="utf-8")) for path in (old_path, new_path))
    print(f"{'':34}{old['version']:>24}{new['version']:>24}   new/old")
    for name, value in old["ceiling"].items():
        row("ceiling", name, value, new["ceiling"][name])
    news = {result["name"]: result for result in new["results"]}
    for result in old["results"]:
        other = news.get(result["name"], {})
        for figure in FIGURES:
            if result.get(figure) is not None and other.get(figure) is not None:
                row(result["name"], figure, result[figure], other[figure])
    if old["machine"] != new["machine"] or old["postgres"] != new["postgres"]:
        print("\nThe machines or the database's settings differ: compare ratios, not rates.")


def row(name: str, figure: str, old: float, new: float) -> None:
    """One figure, with a mark where it moved by more than the noise of a quiet machine."""
    change = new / old if old else float("nan")
    better = change < 1 if figure in LESS_IS_BETTER else change > 1
    mark = "" if abs(change - 1) < NOTABLE else " better" if better else " worse"
    print(f"{name:20} {figure:22}{old:>15,.4g}{new:>24,.4g}{change:>10.2f}{mark}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
