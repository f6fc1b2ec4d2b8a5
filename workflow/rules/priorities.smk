"""What runs first where several jobs could.

REQUIRED INPUTS: none.
OUTPUTS: priorities of rules; those that take longest have theirs already.
"""

# Claims, database and report wait for all tables: pictures are drawn on the cores that these leave.
for _rule in workflow.rules:
    if not _rule.name.startswith("plot_"):
        _rule.priority = max(_rule.priority, 1)
