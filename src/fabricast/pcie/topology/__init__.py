"""PCIe trees: vertices, links, routes, path classes, symmetries and the files that describe them."""
