"""Facts and machines of small files, for tests of readers and of the machine."""

from fabricast.core.facts import Content, Quantity
from fabricast.machine.build import MACHINE_CONTENTS, load_facts, machine_from, machine_of_tree
from fabricast.machine.options import MachineOptions
from fabricast.pcie.measurements.files import graphs_of_rows
from fabricast.sources.reading import facts_of_text


def whole_facts(path, *contents):
    """Return the facts of a file of which every part can be read; the first problem is raised."""
    facts = load_facts([path], *contents)
    for problem in facts.problems:
        raise problem
    return facts


def read_copies(path, *, program="independent", system=None):
    """Return the measured copies in a file, with the GPU numbers of the program."""
    facts = whole_facts(path, Content.COPIES)
    rows = [row for fact in facts.of(Quantity.COPY_ROWS) for row in fact.value]
    if rows:
        return graphs_of_rows(rows, path, program=program, system=system)
    return facts.values(Quantity.RATE)


def import_machine(paths, **options):
    """Return the topology that files describe."""
    return machine_from(load_facts(list(paths), *MACHINE_CONTENTS), MachineOptions(**options)).tree


def import_xml(path, **options):
    """Return the topology of an XML file."""
    return import_machine([path], **options)


def measured(tree, path, **options):
    """Return the measurements of a file between the endpoints of a topology."""
    facts = whole_facts(path, *MACHINE_CONTENTS)
    return machine_of_tree(tree, facts, MachineOptions(**options)).measured


def values_in(text, quantity, path="file.txt"):
    """Return the values of a quantity in a text of which every part can be read."""
    facts = facts_of_text(text, str(path))
    for problem in facts.problems:
        raise problem
    return facts.values(quantity)


def tables_in(text, path="file.log"):
    """Return the tables of nccl-tests in a text."""
    return values_in(text, Quantity.COLLECTIVE, path)
