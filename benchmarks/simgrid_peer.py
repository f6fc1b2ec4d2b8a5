"""SimGrid on the same graphs: per-flow max-min by its flow-level model.

Usage: python3 simgrid_peer.py GRAPHS.json RESULT.json, with a Python that has simgrid.
Eight hosts, one-way links with latency 0, one actor that starts all communications of
a graph and waits for all of them; all graphs in one simulation.
"""

import json
import sys
import time
from pathlib import Path

from simgrid import Actor, Comm, Engine, LinkInRoute, NetZone


def main(graphs_path, result_path):
    """Run all graphs and write CPU seconds and end times."""
    work = json.loads(Path(graphs_path).read_text())
    engine = Engine(
        ["peer", "--log=root.thres:critical", "--cfg=network/model:CM02", "--cfg=network/crosstraffic:0",
         "--cfg=network/TCP-gamma:0", "--cfg=network/optim:Full"]
    )  # fmt: skip
    # Names differ between SimGrid 3 (Debian) and 4.
    if hasattr(NetZone, "create_full_zone"):
        zone = NetZone.create_full_zone("zone")
    else:
        zone = engine.netzone_root.add_netzone_full("zone")
    create_host = getattr(zone, "create_host", None) or zone.add_host
    create_link = getattr(zone, "create_link", None) or zone.add_link
    hosts = [create_host(f"h{i}", 1e9) for i in range(work["endpoints"])]
    links = [create_link(f"l{i}", capacity) for i, capacity in enumerate(work["capacity"])]
    for link in links:
        link.set_latency(0).seal()
    for source, target, route in work["routes"]:
        path = [LinkInRoute(links[number]) for number in route]
        if hasattr(NetZone, "create_full_zone"):
            zone.add_route(hosts[source].netpoint, hosts[target].netpoint, None, None, path, False)
        else:
            zone.add_route(hosts[source], hosts[target], path, False)
    zone.seal()
    ends = []

    def run_all():
        for arcs in work["graphs"]:
            begin = Engine.clock
            comms = [Comm.sendto_async(hosts[s], hosts[t], int(work["size_bytes"])) for s, t in arcs]
            for comm in comms:
                comm.wait()
            ends.extend(comm.finish_time - begin for comm in comms)

    add_actor = getattr(hosts[0], "add_actor", None)
    if add_actor:
        add_actor("driver", run_all)
    else:
        Actor.create("driver", hosts[0], run_all)
    started = time.process_time()
    engine.run()
    Path(result_path).write_text(json.dumps({"cpu_s": time.process_time() - started, "end_s": ends}))


if __name__ == "__main__":
    main(*sys.argv[1:])
