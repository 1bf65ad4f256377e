"""Print the partitions of random programs: `python -m tests.properties.print_tags COUNT ORDER`.

ORDER 1 takes them in the opposite order, so that each has another history of the process behind it.
"""

from __future__ import annotations

import sys

from tests.properties.harness import outcome


def main(count: int, backwards: bool) -> None:
    for seed in sorted(range(count), reverse=backwards):
        result = outcome(seed, seed + 1).result
        print(seed, [(p.tag, [n.name for n in p.nodes], p.inputs, p.outputs, p.constants, p.spec, p.matches)
                     for p in result.partitions], [(r.node, r.message) for r in result.report.left], sep="\t")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] == "1")
