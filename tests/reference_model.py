"""Reference implementations of the PCIe models with exact fractions.

They follow the description of the algorithm without the optimisations of the kernels. Options are those of
`CongestionOptions`.
"""

from fractions import Fraction


def links_of(tree, pair):
    """Return a route as hashable links (up or down, lower vertex, port)."""
    source, target = (tree.endpoint_names[end] for end in pair)
    turn = tree.lowest_common_ancestor(source, target)

    def side(direction, endpoint):
        links = []
        for name in tree.ancestors(endpoint):
            if name == turn:
                return links
            groups = tree.vertex(name).uplink_groups
            port = next((i for i, group in enumerate(groups) if endpoint in group), 0)
            links.append((direction, name, port))
        raise AssertionError

    return side("up", source) + side("down", target)[::-1]


def max_min_shares(demand, capacity):
    """Return the max-min fair shares of a capacity."""
    share, left, room = {}, dict(demand), capacity
    while left:
        level = room / len(left)
        satisfied = {g: d for g, d in left.items() if d <= level}
        if not satisfied:
            share |= dict.fromkeys(left, level)
            break
        for g, d in satisfied.items():
            share[g] = d
            room -= d
            del left[g]
    return share


def raise_equally(share, demand, chosen, spare):
    """Raise the shares of the chosen groups equally; return the remaining spare capacity."""
    extra = max_min_shares({g: demand[g] - share[g] for g in chosen}, spare)
    for g, more in extra.items():
        share[g] += more
    return spare - sum(extra.values())


def arbitrate(demand, fixed, crossing, capacity, tau, options):
    """Return the shares of step C at a saturated downstream port."""
    n = len(demand)
    if not crossing or (len(crossing) == n and options.all_crossing == "equal"):
        if options.work_conserving:
            share = max_min_shares(demand, capacity)
        else:
            share = {g: min(d, capacity / n) for g, d in demand.items()}
    else:
        loss = min(tau * capacity, capacity / n)
        bonus = loss
        if options.crossing_bonus == "conserving" and len(crossing) < n:
            bonus = bonus * len(crossing) / (n - len(crossing))
        share = {g: min(capacity / n - loss if g in crossing else capacity / n + bonus, d) for g, d in demand.items()}
        spare = capacity - sum(share.values())
        if options.work_conserving and len(crossing) < n and spare > 0:
            spare = raise_equally(share, demand, set(demand) - crossing, spare)
            raise_equally(share, demand, crossing, spare)
    pinned = {g for g in demand if fixed[g] > share[g]}
    while pinned:
        rest = max(capacity - sum(fixed[g] for g in pinned), Fraction(0))
        share = {g: fixed[g] for g in pinned} | max_min_shares(
            {g: d for g, d in demand.items() if g not in pinned}, rest
        )
        late = {g for g in demand if fixed[g] > share[g]} - pinned
        if not late:
            break
        pinned |= late
    return share


def congestion_factors(tree, pairs, options, tau):
    """Return the congestion factors of communications that are all active."""
    tau = Fraction(tau)
    number = range(len(pairs))
    route = [links_of(tree, pair) for pair in pairs]
    crosses = [tree.is_crossing(*(tree.endpoint_names[end] for end in pair)) for pair in pairs]
    capacity = {link: Fraction(tree.vertex(link[1]).capacity) for links in route for link in links}
    users = {link: [c for c in number if link in route[c]] for link in capacity}
    up = sorted((k for k in capacity if k[0] == "up"), key=lambda k: (-tree.depth[k[1]], k))
    down = sorted((k for k in capacity if k[0] == "down"), key=lambda k: (tree.depth[k[1]], k))

    def groups(link):
        found = {}
        for c in users[link]:
            position = route[c].index(link)
            found.setdefault(route[c][position - 1] if position else ("copy", c), []).append(c)
        return found

    # The demand of a source is the capacity of its link.
    demand = [
        capacity[route[c][0]] * (1 - tau if options.solo_crossing_penalty and crosses[c] else Fraction(1))
        for c in number
    ]
    component = list(number)
    for link in up:
        total = sum(demand[c] for c in users[link])
        if total <= capacity[link]:
            continue
        if options.upstream_sharing == "proportional":
            for c in users[link]:
                demand[c] *= capacity[link] / total
        else:
            sets = groups(link)
            wanted = {g: sum(demand[c] for c in members) for g, members in sets.items()}
            share = max_min_shares(wanted, capacity[link])
            for g, members in sets.items():
                for c in members:
                    demand[c] *= share[g] / wanted[g]
        joined = {component[c] for c in users[link]}
        component = [min(joined) if k in joined else k for k in component]

    def sweep(frozen):
        rate = [frozen.get(c, demand[c]) for c in number]
        for link in down:
            if (
                options.root_complex_conflict == "ignored"
                and tree.vertex(tree.vertex(link[1]).parent).kind == "root_complex"
            ):
                continue
            if sum(rate[c] for c in users[link]) <= capacity[link]:
                continue
            sets = groups(link)
            combine = max if options.group_demand == "maximum" else sum
            wanted = {g: combine([rate[c] for c in members]) for g, members in sets.items()}
            if sum(wanted.values()) <= capacity[link]:
                continue
            fixed = {g: sum((frozen[c] for c in members if c in frozen), Fraction(0)) for g, members in sets.items()}
            crossing = {g for g, members in sets.items() if any(crosses[c] for c in members)}
            share = arbitrate(wanted, fixed, crossing, capacity[link], tau, options)
            for g, members in sets.items():
                if share[g] >= wanted[g]:
                    continue
                if options.group_split == "equal" and fixed[g] == 0:
                    part = max_min_shares({c: rate[c] for c in members}, share[g])
                    for c in members:
                        rate[c] = part[c]
                    continue
                scale = (share[g] - fixed[g]) / (wanted[g] - fixed[g]) if wanted[g] > fixed[g] else Fraction(1)
                for c in members:
                    if c not in frozen:
                        rate[c] *= min(Fraction(1), max(Fraction(0), scale))
        return rate

    if options.head_of_line == "off":
        return sweep({})
    if options.head_of_line == "two_rounds":
        for _ in range(2):
            rate = sweep({})
            for k in set(component):
                members = [c for c in number if component[c] == k]
                ratio = min(rate[c] / demand[c] for c in members if demand[c]) if any(demand[c] for c in members) else 1
                if len(members) > 1:
                    for c in members:
                        demand[c] *= ratio
                        rate[c] = demand[c]
        return rate
    frozen = {}
    while len(frozen) < len(pairs):
        rate = sweep(frozen)
        slowest = min(rate[c] for c in number if c not in frozen)
        for k in {component[c] for c in number if c not in frozen and rate[c] == slowest}:
            members = [c for c in number if component[c] == k]
            ratio = min(rate[c] / demand[c] if demand[c] else Fraction(0) for c in members)
            lowest = min(rate[c] for c in members)
            for c in members:
                frozen[c] = min(lowest, demand[c]) if options.coupling == "minimum" else demand[c] * ratio
    return [frozen[c] for c in number]


def max_min_rates(tree, pairs):
    """Return the max-min fair rates of all communications."""
    route = [links_of(tree, pair) for pair in pairs]
    capacity = {link: Fraction(tree.vertex(link[1]).capacity) for links in route for link in links}
    rate = {}
    while len(rate) < len(pairs):
        level = {}
        for link, room in capacity.items():
            users = [c for c in range(len(pairs)) if link in route[c]]
            waiting = [c for c in users if c not in rate]
            if waiting:
                level[link] = (room - sum(rate[c] for c in users if c in rate)) / len(waiting)
        lowest = min(level.values())
        tight = {link for link, value in level.items() if value == lowest}
        for c in range(len(pairs)):
            if c not in rate and tight & set(route[c]):
                rate[c] = lowest
    return [rate[c] for c in range(len(pairs))]


def end_times(tree, pairs, sizes, starts, bandwidth, rates_of):
    """Return completion times by the event loop of step 2.4 with exact fractions."""
    left = [Fraction(size) for size in sizes]
    starts = [Fraction(start) for start in starts]
    now, end = min(starts), {}
    while len(end) < len(pairs):
        active = [c for c in range(len(pairs)) if starts[c] <= now and c not in end]
        later = [start for start in starts if start > now]
        if not active:
            now = min(later)
            continue
        rates = rates_of(tree, [pairs[c] for c in active])
        steps = [left[c] / (bandwidth * rate) for c, rate in zip(active, rates, strict=True) if rate > 0]
        step = min([*steps, *(start - now for start in later)])
        for c, rate in zip(active, rates, strict=True):
            left[c] -= bandwidth * rate * step
            if left[c] == 0:
                end[c] = now + step
        now += step
    return [end[c] for c in range(len(pairs))]


def back_pressure_rates(tree, pairs, piece_payload, piece_cost, rounds=100, capacity=None):
    """Return the rates of the back-pressure model, with dictionaries and floats."""
    names = tree.endpoint_names
    routes = [tree.route(names[s], names[t]) for s, t in pairs]
    cut = [
        next((h for h, link in enumerate(r) if tree.vertex(tree.link_names[link][0]).kind == "root_complex"), 99)
        for r in routes
    ]
    capacity = tree.routes.capacity if capacity is None else capacity
    backlog = max(1.0, float(max(capacity)))
    links = sorted({link for route in routes for link in route})
    users = {link: [(c, r.index(link)) for c, r in enumerate(routes) if link in r] for link in links}
    limit = {link: float(capacity[link]) for link in links}

    def turns(groups, room, weight, greedy=None):
        """Return round-robin shares of groups (demand, payload, cost), limited by their demands."""
        share, open_groups, left = {}, set(groups), room
        while open_groups:
            level = max(left, 0.0) / sum(groups[g][weight] for g in open_groups)
            fed = [g for g in open_groups if g != greedy and groups[g][0] <= level * groups[g][1] * (1 + 1e-12)]
            if not fed:
                share |= {g: level * groups[g][1] for g in open_groups}
                break
            for g in fed:
                share[g] = groups[g][0]
                left -= groups[g][0] / groups[g][1] * groups[g][weight]
                open_groups.remove(g)
        return share

    def shared(link, groups, greedy=None):
        share = turns(groups, float(capacity[link]), 2, greedy)
        return share if sum(share.values()) <= limit[link] else turns(groups, limit[link], 1, greedy)

    for number in range(rounds):
        rate, groups_of = {}, {}
        for link in links:
            arriving = {}
            for c, h in users[link]:
                key = ("source", c) if h == 0 else routes[c][h - 1]
                arriving.setdefault(key, []).append((c, h, backlog if h == 0 else rate[c, h - 1]))
            groups = {}
            for key, flows in arriving.items():
                total = sum(x for _, _, x in flows)
                packets = sum(x / (piece_payload if h >= cut[c] else 1) for c, h, x in flows)
                cost = sum(x * (piece_cost if h >= cut[c] else 1) for c, h, x in flows)
                groups[key] = (total, total / packets, cost / packets)
            groups_of[link] = groups
            share = shared(link, groups)
            for key, flows in arriving.items():
                for c, h, x in flows:
                    rate[c, h] = x * share[key] / groups[key][0]
        change = 0.0
        for link in reversed(links):
            total = sum(rate[c, h] for c, h in users[link])
            allowed = float(capacity[link])
            for after in {routes[c][h + 1] for c, h in users[link] if h + 1 < len(routes[c])}:
                part = sum(rate[c, h] for c, h in users[link] if routes[c][h + 1 :][:1] == [after])
                allowed = min(allowed, shared(after, groups_of[after], greedy=link)[link] * total / part)
            step = (allowed - limit[link]) * (1.0 if number < 10 else 0.5)
            limit[link] += step
            change = max(change, abs(step))
        if change <= 1e-10:
            break
    return [rate[c, len(r) - 1] for c, r in enumerate(routes)]
