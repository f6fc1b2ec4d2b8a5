"""Models and PCIe links of the GPUs of a machine: stated by its files, by an option, or as the model has them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fabricast.core.errors import InputError
from fabricast.core.facts import Block, Content, Fact, Facts, Kind, Quantity
from fabricast.core.units import PCIE_WIDTHS, pcie_link_bytes_per_s
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.inputs.gpus import GpuModel, gpu_model, is_gpu_in_short, is_known_gpu
from fabricast.machine.addresses import endpoints_of_block, same_address
from fabricast.machine.descriptions import Described
from fabricast.machine.direct_links import links_without_switch
from fabricast.machine.options import MachineOptions
from fabricast.nccl.records import NcclTestsTable
from fabricast.pcie.topology.builtin import are_dies, links_of_dies
from fabricast.pcie.topology.parts import PeerLink, Vertex, pci_address
from fabricast.pcie.topology.tree import PcieTree

_LINK = re.compile(r"(?:gen|pcie)?\s*([1-6])(?:\.0)?\s*x\s*(\d{1,2})", re.IGNORECASE)


@dataclass(frozen=True)
class _Link:
    """PCIe link of a GPU with its origin."""

    generation: int | None
    width: int | None
    kind: Kind
    origin: str
    #: Rate of a link that is not PCIe (NVLink-C2C).
    other_bytes_per_s: float | None = None

    @property
    def bytes_per_s(self) -> float:
        """Raw rate in bytes/s."""
        if self.generation is None or self.width is None:
            return float(self.other_bytes_per_s or 0.0)
        return pcie_link_bytes_per_s(self.generation, self.width)


def link_of_text(link: str, gpu: str | None) -> tuple[int, int]:
    """Return generation and width of text such as gen4x16, which the GPU model must permit.

    >>> link_of_text("gen4x16", None), link_of_text("PCIe 5.0 x8", "RTX 5090")
    ((4, 16), (5, 8))
    """
    match = _LINK.fullmatch(link.strip())
    if match is None or int(match[2]) not in PCIE_WIDTHS:
        raise InputError(f"is '{link}', expected a generation and a width such as gen4x16", argument="link")
    model = None if gpu is None else gpu_model(gpu)
    if model is not None and (int(match[1]) > model.generation or int(match[2]) > model.width):
        raise InputError(f"is '{link}', but {gpu} has at most gen{model.generation}x{model.width}", argument="link")
    return int(match[1]), int(match[2])


def with_gpus(
    tree: PcieTree, described: Sequence[Described], facts: Facts, options: MachineOptions
) -> tuple[PcieTree, dict[str, str]]:
    """Return a tree with the PCI addresses, links and direct links of its GPUs, and the product name of each GPU."""
    if options.gpu is not None:
        gpu_model(options.gpu)
    if options.link is not None:
        link_of_text(options.link, options.gpu)
    reports = facts.blocks_of(Content.GPUS)
    warnings: list[CodedWarning] = []
    of_reports: list[tuple[Block, dict[str, str]]] = []
    for block in reports:
        names = _names_of_part(tree, block, facts)
        names = names or _names_in_report(tree, block, described[0].origin, warnings)
        if names:
            tree = _with_addresses(tree, block, names)
            of_reports.append((block, names))
    models = _gpu_models(tree, facts, options, warnings)
    tree = _with_links(tree, described, of_reports, models, options, warnings)
    tree = replace(tree, peer_links=_with_rates(tree.peer_links, models))
    return replace(tree, warnings=tuple(dict.fromkeys([*tree.warnings, *warnings]))), models


def _numbers(block: Block) -> list[str]:
    """Return the numbers of the GPUs in a block, in their order."""
    return list(dict.fromkeys(fact.subject[0] for fact in block.facts if len(fact.subject) == 1))


def _names_of_part(tree: PcieTree, block: Block, facts: Facts) -> dict[str, str]:
    """Return the endpoint of each GPU of a report of some GPUs, by the addresses of the topology or of the copies.

    Empty if the report has all GPUs, or one whose address is not known.
    """
    names = tree.accelerator_names
    if not 0 < len(block.addresses) == len(_numbers(block)) < len(names):
        return {}
    known = {name: tree.vertex(name).label for name in names if pci_address(tree.vertex(name).label)}
    known = known or _addresses_of_copies(names, facts)
    found = {
        number: next((name for name, one in known.items() if same_address(one, address)), "")
        for number, address in block.addresses.items()
    }
    return found if all(found.values()) else {}


def _addresses_of_copies(names: Sequence[str], facts: Facts) -> dict[str, str]:
    """Return the address of each GPU by the first measured copies that list all GPUs; empty if none does."""
    for copies in facts.blocks_of(Content.COPIES):
        if len(copies.addresses) == len(names):
            return {names[int(number)]: one for number, one in copies.addresses.items() if int(number) < len(names)}
    return {}


def _names_in_report(tree: PcieTree, block: Block, origin: str, warnings: list[CodedWarning]) -> dict[str, str]:
    """Return the endpoint of each GPU of a report: by address, then by order; none if the number of GPUs differs."""
    numbers, names = _numbers(block), tree.accelerator_names
    if len(numbers) != len(names):
        text = f"{block.place.path} has {len(numbers)} GPUs, expected {len(names)} as in {origin}"
        warnings.append(CodedWarning(WarningCode.FILES_CONTRADICT, f"{text}: the forecast does not use it"))
        # Its GPUs have these links whichever they are.
        warnings.extend(downgraded_links(block))
        return {}
    foreign = _foreign_address(tree, block)
    if foreign is not None:
        text = f"{block.place.path} has a GPU at {foreign}, where {origin} has none: it is not used"
        warnings.append(CodedWarning(WarningCode.FILES_CONTRADICT, text))
        return {}
    of_address = {
        number: next((name for name in names if same_address(tree.vertex(name).label, address)), None)
        for number, address in block.addresses.items()
    }
    return {number: of_address.get(number) or name for number, name in zip(numbers, names, strict=True)}


def _foreign_address(tree: PcieTree, block: Block) -> str | None:
    """Return the first address of a report that no GPU of a topology with addresses has."""
    labels = [tree.vertex(name).label for name in tree.accelerator_names]
    if not all(map(pci_address, labels)):
        return None
    return next(
        (one for one in block.addresses.values() if not any(same_address(label, one) for label in labels)), None
    )


def _with_addresses(tree: PcieTree, block: Block, names: Mapping[str, str]) -> PcieTree:
    """Return a tree whose GPUs have the addresses of a report where the topology has none."""
    addresses = {
        names[number]: address
        for number, address in block.addresses.items()
        if not pci_address(tree.vertex(names[number]).label)
    }
    vertices = tuple(
        replace(vertex, label=addresses[vertex.name]) if vertex.name in addresses else vertex
        for vertex in tree.vertices
    )
    return replace(tree, vertices=vertices) if addresses else tree


def _gpu_models(tree: PcieTree, facts: Facts, options: MachineOptions, warnings: list[CodedWarning]) -> dict[str, str]:
    """Return the product name of each GPU: of the option, or else the first one that a file states."""
    stated: dict[str, Fact] = {}
    differing: list[tuple[Fact, Fact]] = []
    for name, fact in _stated_models(tree, facts):
        before = stated.setdefault(name, fact)
        if is_known_gpu(before.value) and is_known_gpu(fact.value) and gpu_model(before.value) != gpu_model(fact.value):
            differing.append((before, fact))
    if differing:
        first, other = differing[0]
        text = f"{first.place.path} is of {first.value}, but {other.place.path} is of {other.value}"
        warnings.append(CodedWarning(WarningCode.GPU_MODELS_DIFFER, f"{text}: use files of one machine"))
    if options.gpu is None:
        return {name: stated[name].value for name in tree.accelerator_names if name in stated}
    others = [one for one in stated.values() if is_known_gpu(one.value)]
    against = [one for one in others if not is_gpu_in_short(options.gpu, one.value)]
    if against:
        stated_model = f"{against[0].place} states {against[0].value}"
        text = f"the GPU is '{options.gpu}' by option, but {stated_model}: the option is used"
        warnings.append(CodedWarning(WarningCode.GPU_MODELS_DIFFER, text))
    # The name of a file often has more words than the option: "H100 80GB HBM3" is an H100 with NVLink.
    names = [options.gpu] if against else [options.gpu, *(one.value for one in others)]
    exact = max(names, key=lambda name: len(gpu_model(name).words.split()))
    return dict.fromkeys(tree.accelerator_names, exact)


def _stated_models(tree: PcieTree, facts: Facts) -> Iterator[tuple[str, Fact]]:
    """Yield endpoint and model of each statement about a GPU."""
    names = tree.accelerator_names
    for block in facts.blocks:
        models = block.of(Quantity.GPU_MODEL)
        places = {number: place for place, number in enumerate(_numbers(block))}
        by_address = endpoints_of_block(tree, block) if models else {}
        for fact in models:
            number = fact.subject[0]
            name = by_address.get(number) or (names[places[number]] if places[number] < len(names) else None)
            if name is not None:
                yield name, fact
        for fact in block.of(Quantity.COLLECTIVE):
            yield from _models_of_table(tree, fact)


def _models_of_table(tree: PcieTree, fact: Fact) -> Iterator[tuple[str, Fact]]:
    """Yield endpoint and model of the ranks of a table of nccl-tests on one host."""
    table: NcclTestsTable = fact.value
    names = tree.accelerator_names
    if table.hosts > 1 or len(table.gpus) > len(names):
        return
    for rank, (gpu, bus_id) in enumerate(zip(table.gpus, table.bus_ids, strict=True)):
        found = [name for name in names if same_address(tree.vertex(name).label, bus_id)]
        yield found[0] if len(found) == 1 else names[rank], replace(fact, value=gpu)


def _with_links(
    tree: PcieTree,
    described: Sequence[Described],
    reports: Sequence[tuple[Block, dict[str, str]]],
    models: Mapping[str, str],
    options: MachineOptions,
    warnings: list[CodedWarning],
) -> PcieTree:
    """Return a tree with the link of each GPU: of the option, stated by a file, or as its model has it."""
    stated: dict[str, _Link] = {}
    for block, names in reports:
        for name, link in _links_of_report(block, names):
            before = stated.setdefault(name, link)
            known = tree.vertex(name).width
            expected = (before.width, before.origin) if known is None else (known, described[0].origin)
            if expected[0] is not None and link.width != expected[0]:
                warnings.append(_other_width(name, link, expected[0], expected[1]))
        warnings += downgraded_links(block)
    for other in described[1:]:
        for name, same in zip(tree.accelerator_names, other.tree.accelerator_names, strict=True):
            vertex = other.tree.vertex(same)
            if vertex.generation is not None and vertex.width is not None:
                stated.setdefault(name, _Link(vertex.generation, vertex.width, Kind.STATED, other.origin))
    if options.link is not None:
        option = _Link(*link_of_text(options.link, options.gpu), Kind.OPTION, "option link")
        warnings += _against_option(tree, option, stated, described[0].origin)
        return _with_vertex_links(tree, dict.fromkeys(tree.accelerator_names, option))
    superchips = {
        name: _Link(None, None, Kind.DATA_SHEET, "", model.host_bytes_per_s)
        for name, model in _known_models(models).items()
        if model.host_bytes_per_s is not None
    }
    if superchips:
        text = (
            f"the GPUs of {models[next(iter(superchips))]} are connected to the host with NVLink-C2C of "
            f"{next(iter(superchips.values())).bytes_per_s / 1e9:g} GB/s, not PCIe"
        )
        warnings.append(CodedWarning(WarningCode.TOPOLOGY_NOTE, text))
        return _with_vertex_links(tree, superchips)
    if tree.link_bytes_per_s is not None:
        return tree
    rate = next((one.tree.link_bytes_per_s for one in described[1:] if one.tree.link_bytes_per_s is not None), None)
    if rate is not None and not stated:
        # Programs that print rates without generation and width.
        return _without_missing(replace(tree, link_bytes_per_s=rate))
    links = dict(stated)
    for name, model in _known_models(models).items():
        links.setdefault(name, _Link(model.generation, model.width, Kind.DATA_SHEET, ""))
    if not links:
        return tree
    warnings += _assumed_links(tree, links, models)
    return _with_vertex_links(tree, links)


def _known_models(models: Mapping[str, str]) -> dict[str, GpuModel]:
    return {name: gpu_model(text) for name, text in models.items() if is_known_gpu(text)}


def _links_of_report(block: Block, names: Mapping[str, str]) -> Iterator[tuple[str, _Link]]:
    """Yield the link of each GPU at its highest generation and the width now, if both were printed."""
    values = _values(block)
    for number, name in names.items():
        of_gpu = values.get(number, {})
        width = of_gpu.get(Quantity.CURRENT_WIDTH) or of_gpu.get(Quantity.LINK_WIDTH)
        generation = of_gpu.get(Quantity.LINK_GENERATION)
        if generation is not None and width is not None:
            yield name, _Link(generation, width, Kind.STATED, str(block.place.path))


def _values(block: Block) -> dict[str, dict[Quantity, int]]:
    """Return the values of each GPU of a report; the first statement counts."""
    values: dict[str, dict[Quantity, int]] = {}
    for fact in block.facts:
        if len(fact.subject) == 1:
            values.setdefault(fact.subject[0], {}).setdefault(fact.quantity, fact.value)
    return values


def _other_width(name: str, link: _Link, width: int, origin: str) -> CodedWarning:
    text = (
        f"{link.origin}: GPU {name} has a link of x{link.width}, expected x{width} as in {origin}: the files "
        "contradict each other"
    )
    return CodedWarning(WarningCode.FILES_CONTRADICT, text)


def downgraded_links(block: Block) -> Iterator[CodedWarning]:
    """Yield a warning for each GPU of a report whose link is narrower or older than its card."""
    addresses = block.addresses
    for number, of_gpu in _values(block).items():
        link = f"the link of {addresses.get(number) or f'GPU {number}'}"
        width, current = of_gpu.get(Quantity.LINK_WIDTH), of_gpu.get(Quantity.CURRENT_WIDTH)
        if width is not None and current is not None and current < width:
            text = (
                f"{link} uses x{current} of x{width}: the slot or a riser limits it; the forecast uses the smaller "
                "width"
            )
            yield CodedWarning(WarningCode.DOWNGRADED_LINK, text)
        generation, possible = of_gpu.get(Quantity.LINK_GENERATION), of_gpu.get(Quantity.GPU_GENERATION)
        if generation is not None and possible is not None and generation != possible:
            text = f"{link} reaches Gen{generation} of Gen{possible}: slot or BIOS limits it"
            yield CodedWarning(WarningCode.DOWNGRADED_LINK, text)


def _against_option(tree: PcieTree, option: _Link, stated: Mapping[str, _Link], origin: str) -> Iterator[CodedWarning]:
    """Yield a warning if a file states another link than the option."""
    for name in tree.accelerator_names:
        vertex, link = tree.vertex(name), stated.get(name)
        width = vertex.width if link is None else link.width
        generation = vertex.generation if link is None else link.generation
        if width is not None and (generation, width) != (option.generation, option.width):
            where = origin if link is None else link.origin
            text = (
                f"the link is gen{option.generation}x{option.width} by option, but {where} states "
                f"gen{generation}x{width} of GPU {name}: the option is used"
            )
            yield CodedWarning(WarningCode.FILES_CONTRADICT, text)
            return


def _assumed_links(tree: PcieTree, links: Mapping[str, _Link], models: Mapping[str, str]) -> Iterator[CodedWarning]:
    """Yield the assumptions about GPUs without a stated link."""
    assumed = [name for name in tree.accelerator_names if name in links and links[name].kind is Kind.DATA_SHEET]
    texts = dict.fromkeys((models[name], links[name].generation, links[name].width) for name in assumed)
    for model, generation, width in texts:
        text = (
            f"the link of each GPU is assumed to be gen{generation}x{width}, as its model {model} has; "
            "'nvidia-smi -q' prints it"
        )
        yield CodedWarning(WarningCode.TOPOLOGY_NOTE, text)
    missing = [name for name in tree.accelerator_names if name not in links]
    if missing:
        text = f"the links of GPUs {', '.join(missing[:8])} are unknown: the fastest link of the others is assumed"
        yield CodedWarning(WarningCode.LINK_SPEED_MISSING, text)


def _with_vertex_links(tree: PcieTree, links: Mapping[str, _Link]) -> PcieTree:
    """Return a tree whose GPUs have some links; other vertices keep their rates."""
    before = tree.link_bytes_per_s
    highest = max([link.bytes_per_s for link in links.values()] + ([] if before is None else [before]))
    scale = 1.0 if before is None else before / highest

    def changed(vertex: Vertex) -> Vertex:
        link = links.get(vertex.name)
        if link is not None:
            return replace(vertex, capacity=link.bytes_per_s / highest, generation=link.generation, width=link.width)
        return vertex if scale == 1.0 else replace(vertex, capacity=vertex.capacity * scale)

    # The stated rate of a copy is that over a link of capacity 1, which is another link now.
    bandwidth = None if tree.bandwidth_bytes_per_s is None else tree.bandwidth_bytes_per_s / scale
    vertices = tuple(map(changed, tree.vertices))
    return _without_missing(replace(tree, link_bytes_per_s=highest, bandwidth_bytes_per_s=bandwidth, vertices=vertices))


def _without_missing(tree: PcieTree) -> PcieTree:
    kept = tuple(warning for warning in tree.warnings if warning.code is not WarningCode.LINK_SPEED_MISSING)
    return replace(tree, warnings=kept)


def _with_rates(links: Sequence[PeerLink], models: Mapping[str, str]) -> tuple[PeerLink, ...]:
    """Return direct links without a rate with that of the GPU model."""
    known = _known_models(models)

    def rated(link: PeerLink) -> PeerLink:
        rates = {known[end].nvlink_bytes_per_s for end in link.endpoints if end in known}
        rate = next(iter(rates), None)
        if link.bytes_per_s is not None or link.links is None or rate is None or len(rates) > 1:
            return link
        return replace(link, bytes_per_s=rate * link.links)

    names = set(models.values())
    are_equal = all(link.kind == "xGMI" and link.bytes_per_s is None and link.links in (None, 1) for link in links)
    if are_equal and are_dies(list(models), names) and len(links) == math.comb(len(models), 2):
        # The program shows that all pairs are connected, and not by how many links.
        return links_of_dies(list(models), known[next(iter(models))].nvlink_bytes_per_s or 0.0)
    of_pairs = [pair for link in links for pair in (links_without_switch(link, *names) if len(names) < 2 else (link,))]
    return tuple(map(rated, of_pairs))
