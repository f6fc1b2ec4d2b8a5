"""Query the database of a finished run from pandas."""

# %% Open the database; it is one file, read only here.
from pathlib import Path

import duckdb

connection = duckdb.connect(str(Path("results/fabricast.duckdb")), read_only=True)

# %% What was published, and what came out?
verdicts = connection.sql("SELECT * FROM claims_by_study").df()
print(verdicts.to_string(index=False))

# %% Which model errs least against the packet-level simulator? Kinds of reference are never mixed.
bands = connection.sql(
    """SELECT model, origin, round(100 * share_within, 1) AS percent_within, round(100 * mean_absolute, 2) AS mean_error
       FROM error_by_model WHERE study = 'pcie' AND kind = 'simulated' AND subset LIKE '%.validation'
       ORDER BY origin, percent_within DESC"""
).df()
print(bands.to_string(index=False))

# %% Which links are hot with default mapping, and what does random placement of nodes bring?
links = connection.sql(
    """SELECT mapping, routing, class, round(max_bytes / 1048576) AS max_mib, round(1000 * time_s, 2) AS ms
       FROM network_case JOIN network_link_class USING (case_id)
       WHERE workload = '4D-64' AND mapping IN ('DEF', 'RNM') AND gateway = 'mod' AND multiplicity = 1
         AND placement = 'whole' AND wrap AND coalesce(seed, 0) = 0 ORDER BY ALL"""
).df()
print(links.to_string(index=False))

# %% Every column has a comment.
comments = connection.sql("SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'comparison'").df()
print(comments.to_string(index=False))
connection.close()
