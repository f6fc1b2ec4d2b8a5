"""Times of messages in files, for tests of readers and fits."""

import pandas as pd

from fabricast.api.messages import measurements_of_facts, message_times
from fabricast.core.facts import Content
from tests.machines import whole_facts


def read_output(path, **options):
    """Return the times that benchmarks printed into a file."""
    return message_times(whole_facts(path, Content.MESSAGES), **options)


def read_measurement_file(path, **options):
    """Return the cells of a table or of the output of benchmarks."""
    facts = whole_facts(path, Content.MESSAGES)
    return pd.concat([cells for _, cells in measurements_of_facts(facts, **options)])
