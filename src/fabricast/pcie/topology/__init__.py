"""PCIe trees: vertices, links, routes, path classes, symmetries and file formats."""
