"""Straightforward peer: progressive filling over dictionaries in plain Python."""


def max_min_rates(routes):
    """Return the max-min rate of each flow; `routes` lists the links of each flow."""
    users = {}
    for flow, links in enumerate(routes):
        for link in links:
            users.setdefault(link, set()).add(flow)
    rate, room = {}, dict.fromkeys(users, 1.0)
    while len(rate) < len(routes):
        share = {link: room[link] / len(flows) for link, flows in users.items() if flows}
        lowest = min(share.values())
        for link in [link for link, value in share.items() if value <= lowest * (1 + 1e-12)]:
            for flow in list(users[link]):
                rate[flow] = lowest
                for other in routes[flow]:
                    users[other].discard(flow)
                    room[other] -= lowest
    return [rate[flow] for flow in range(len(routes))]


def end_times(route_of, pairs, duration):
    """Return the end time of each flow of a graph; an isolated flow needs `duration`."""
    left = dict.fromkeys(range(len(pairs)), duration)
    end, now = {}, 0.0
    while left:
        active = list(left)
        rates = max_min_rates([route_of[pairs[flow]] for flow in active])
        step = min(left[flow] / rate for flow, rate in zip(active, rates, strict=True))
        now += step
        for flow, rate in zip(active, rates, strict=True):
            left[flow] -= rate * step
            if left[flow] <= 1e-9 * duration:
                end[flow] = now
                del left[flow]
    return [end[flow] for flow in range(len(pairs))]
