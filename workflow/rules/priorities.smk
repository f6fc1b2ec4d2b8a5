"""What runs first where several jobs could.

REQUIRED INPUTS: none.
OUTPUTS: priorities of rules; those that take longest have theirs already.
"""

# From the shortest to the longest, which come first: the last one to end would else be drawn alone.
_PICTURES = [
    "plot_claims",
    "plot_breakdown",
    "plot_gpucentric",
    "plot_maxrate",
    "plot_pcie_validation",
    "plot_percs",
    "plot_pcie",
]

# Claims, database and report wait for all tables: pictures are drawn on the cores that these leave.
for _rule in workflow.rules:
    if _rule.name in _PICTURES:
        # All together less than one other job: Snakemake adds up what it could start.
        _rule.priority = _PICTURES.index(_rule.name) / len(_PICTURES) ** 2
    else:
        _rule.priority = max(_rule.priority, 1)
