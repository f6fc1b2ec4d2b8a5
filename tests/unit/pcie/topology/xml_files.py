"""Topology XML files shared by tests."""

from fabricast.pcie.topology.files import write_tree


def shape(tree, name=None):
    """Return the nested counts of endpoints below each vertex."""
    name = name or tree.root
    children = tree.children(name)
    if all(tree.is_endpoint(child) for child in children):
        return len(children)
    return [1 if tree.is_endpoint(child) else shape(tree, child) for child in children]


def hwloc_xml(body, version="2.0"):
    return (
        f'<?xml version="1.0"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="{version}">\n'
        f'<object type="Machine">\n{body}</object></topology>\n'
    )


def bridge(bus, children, speed="15.75", kind="1-1"):
    return f'<object type="Bridge" bridge_type="{kind}" pci_busid="{bus}" pci_type="0604 [8086:2030]" pci_link_speed="{speed}">\n{children}</object>\n'


def host(children):
    return f'<object type="Bridge" bridge_type="0-1" depth="0">\n{children}</object>\n'


def device(bus, pci_class="0302", vendor="10de", speed="15.75"):
    return (
        f'<object type="PCIDev" pci_busid="{bus}" pci_type="{pci_class} [{vendor}:1db8]" pci_link_speed="{speed}"/>\n'
    )


def package(*hosts):
    return '<object type="Package">\n' + "".join(hosts) + "</object>\n"


def written(tmp_path, tree):
    path = tmp_path / "written.yaml"
    write_tree(tree, path)
    return path


def write_xml(tmp_path, text):
    path = tmp_path / "machine.xml"
    path.write_text(text)
    return path
