"""A worker of another host, for test_cut_network.py: SERVER KEY ELEMENTS.

It pushes once, and then takes the server's values again and again; it says `pulled` each time.
"""

import json
import sys

import numpy as np

from tfos import parameter_server
from tfos.parameter_server.connection import Server, Worker


def main(server, key, elements):
    values = np.zeros(elements, np.float32)
    worker = Worker(1, "worker:1 on host there", False, 2)
    with parameter_server.ParameterServer(
        [values], [Server(**json.loads(server))], worker, key, staleness=1
    ) as client:
        client.step()
        client.push()
        while True:
            client.pull()
            print(json.dumps({"event": "pulled"}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
