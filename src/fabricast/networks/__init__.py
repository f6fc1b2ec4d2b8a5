"""Networks of switches: topologies, routes, link loads and mappings of ranks to hosts."""
