"""A feeder of another host, for test_cut_network.py: PLAN ROWS.

It feeds so many rows, and says `result` with each of their results.
"""

import json
import sys

from tfos import _native


def main(plan, rows):
    writer = _native.FeedWriter(plan=plan, executor_id="", partition=0, attempt=0, mode="inference")
    writer.write_rows(list(range(rows)))
    writer.end()
    while writer.results(block=True) is not None:
        print(json.dumps({"event": "result"}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
