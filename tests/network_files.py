"""Output of ibnetdiscover for a tree of switches."""

import itertools


def discovery(leaves=4, spines=2, hosts=4, rails=1, speed="HDR", report=False):
    """Return the output of ibnetdiscover, or of ibnetdiscover -p."""
    lines, cables = ["# Topology file: generated on Sat Nov 28 12:00:00 2026"], []
    ports = {}
    for leaf, host, rail in itertools.product(range(leaves), range(hosts), range(rails)):
        card = 0x1000 + (leaf * hosts + host) * rails + rail
        cables.append(
            (1 + leaf, len(ports.setdefault(1 + leaf, [])) + 1, card, 1, f"node{leaf * hosts + host:02d} mlx5_{rail}")
        )
        ports[1 + leaf].append((card, 1, f"node{leaf * hosts + host:02d} mlx5_{rail}"))
    for leaf, spine in itertools.product(range(leaves), range(spines)):
        cables.append((1 + leaf, len(ports[1 + leaf]) + 1, 0x100 + spine, leaf + 1, f"spine{spine}"))
        ports[1 + leaf].append((0x100 + spine, leaf + 1, f"spine{spine}"))
    if report:
        for switch, port, other, other_port, name in cables:
            kind = "SW" if other < 0x1000 else "CA"
            lines.append(
                f"SW {switch:5} {port:3} 0x{switch:016x} 4x {speed} - {kind} {other:5} {other_port:3} 0x{other:016x} "
                f"( 'leaf{switch - 1}' - '{name}' )"
            )
        return "\n".join(lines) + "\n"
    for switch, ends in ports.items():
        lines += ["", f"switchguid=0x{switch:x}({switch:x})"]
        lines.append(f'Switch\t40 "S-{switch:016x}"\t\t# "leaf{switch - 1}" enhanced port 0 lid {switch} lmc 0')
        for port, (other, other_port, name) in enumerate(ends, start=1):
            kind = "S" if other < 0x1000 else "H"
            extra = "" if kind == "S" else f"({other:x})"
            lines.append(f'[{port}]\t"{kind}-{other:016x}"[{other_port}]{extra}\t\t# "{name}" lid {other} 4x{speed}')
    for spine in range(spines):
        lines.append(
            f'\nSwitch\t40 "S-{0x100 + spine:016x}"\t\t# "spine{spine}" enhanced port 0 lid {0x100 + spine} lmc 0'
        )
        for leaf in range(leaves):
            port = 1 + [other for other, _, _ in ports[1 + leaf]].index(0x100 + spine)
            lines.append(f'[{leaf + 1}]\t"S-{1 + leaf:016x}"[{port}]\t\t# "leaf{leaf}" lid {1 + leaf} 4x{speed}')
    lines.append(
        '\nCa\t1 "H-0000000000001000"\t\t# "node00 mlx5_0"\n[1](1000) \t"S-0000000000000001"[1]\t\t# lid 4096 lmc 0 "leaf0" lid 1 4xHDR'
    )
    return "\n".join(lines) + "\n"
