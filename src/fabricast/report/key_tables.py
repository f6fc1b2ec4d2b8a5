"""Queries behind the tables of the page: title and SELECT; a table without rows is not shown."""

from __future__ import annotations

#: A parameter's value and unit as people write them.
_VALUE = """CASE WHEN unit = 'bytes/s' THEN value / 1e9 WHEN unit = 's' AND abs(value) < 1e-6 THEN value * 1e9
      WHEN unit = 's' AND abs(value) < 1e-3 THEN value * 1e6 WHEN unit = 's/byte' THEN value * 1e9
      WHEN unit = '1' AND abs(value) < 1e-5 THEN 0
      ELSE value END AS value,
    CASE WHEN unit = 'bytes/s' THEN 'GB/s' WHEN unit = 's' AND abs(value) < 1e-6 THEN 'ns'
      WHEN unit = 's' AND abs(value) < 1e-3 THEN 'µs' WHEN unit = 's/byte' THEN 'ns/byte' WHEN unit = '1' THEN NULL
      ELSE unit END AS unit"""

#: A parameter's name without the unit, which has a column.
_NAME = "replace(regexp_replace(replace(name, '_bytes_per_s', '_rate'), '_(ns|s|bytes)$', ''), '_', ' ')"

#: Name of a machine with measured collective operations, with the transport where it was measured with both.
_MACHINE = "regexp_replace(regexp_replace(system, '_p2p$', ', direct'), '_shm$', ', host memory')"

#: Name of a graph in its file, without the graph set.
_GRAPH = "regexp_replace(substr(graph, length(graph_set) + 2), '^user[.]', '')"
#: Family of a generated graph in words; the user's graphs have names.
_FAMILY = "CASE WHEN family <> 'user' THEN replace(family::VARCHAR, '_', ' ') END"

#: Tables of each study.
KEY_TABLES = {
    "pcie": {
        "Copies measured together, by machine and class of graphs": """
            SELECT CASE WHEN user_supplied THEN machine || ' (yours)' ELSE machine END AS machine, graph_class AS class,
            count(*) FILTER (judged) AS compared,
            printf('%.1f %%', 100 * median(abs(relative_error)) FILTER (judged)) AS median_error,
            printf('%.0f %%', 100 * avg(CAST(abs(relative_error) <= 0.15 AS INTEGER)) FILTER (judged)) AS "within 15 %",
            printf('%.1f %%', 100 * max(abs(relative_error)) FILTER (judged)) AS worst,
            printf('%.1f %%', 100 * median(abs(left_out_bytes_per_s / measured_bytes_per_s - 1)) FILTER (judged))
              AS "median, pause fitted on others",
            printf('%.1f %%', 100 * median(abs(packets_bytes_per_s / measured_bytes_per_s - 1)) FILTER (judged))
              AS median_packet_simulator,
            printf('%.1f %%', 100 * median(abs(sharing_bytes_per_s / measured_bytes_per_s - 1)) FILTER (judged))
              AS median_fair_sharing,
            count(*) FILTER (NOT judged AND reason_code <> 'calibration') AS excluded,
            string_agg(DISTINCT reason, '; ' ORDER BY reason)
              FILTER (NOT judged AND reason_code <> 'calibration') AS reasons
            FROM measured_copy GROUP BY user_supplied, measured_copy.machine, graph_class
            ORDER BY user_supplied DESC, 1, 2""",
        "Machines whose copies were measured": """
            SELECT machine, copies.topology AS tree, nullif(count(*) FILTER (kind = 'endpoint'), 0) AS endpoints,
            nullif(count(*) FILTER (kind = 'switch'), 0) AS switches,
            nullif(count(*) FILTER (kind = 'root_complex'), 0) AS root_complexes, graphs, calibration_graphs, compared
            FROM (SELECT machine, any_value(topology) AS topology, bool_or(user_supplied) AS user_supplied,
              count(*) AS graphs,
              count(*) FILTER (reason_code = 'calibration') AS calibration_graphs,
              count(*) FILTER (judged) AS compared FROM measured_copy GROUP BY machine) AS copies
            LEFT JOIN vertex USING (topology) GROUP BY ALL ORDER BY any_value(user_supplied) DESC, machine""",
    },
    "breakdown": {
        "Times of the components, and where they come from": """
            SELECT system, component, time_ns, round(spread_ns, 2) AS spread_ns, tag::VARCHAR AS tag, source,
              tag::VARCHAR AS row_class
            FROM breakdown_component ORDER BY ALL""",
        "Totals": """SELECT system, metric, round(model_ns, 2) AS model_ns, observed_ns,
                     printf('%+.2f %%', 100 * relative_error) AS error FROM breakdown_total ORDER BY ALL""",
    },
    "maxrate": {
        "The model that predicts unseen numbers of processes best, by data set": """
            SELECT dataset, model, cells, printf('%.1f %%', 100 * median_error) AS median_error,
            printf('%.1f %%', 100 * p90_error) AS p90_error,
            printf('%.1f %%', 100 * unseen_median_error) AS unseen_median_error, breakpoints AS breakpoints_bytes
            FROM maxrate_fit WHERE chosen ORDER BY dataset""",
        "Rates of the refined model, messages of at least 8 KiB (bytes in one direction per measured time)": """
            SELECT dataset, c.convention AS measured_times,
            CASE WHEN list_contains(identifiable, 'r_n') THEN printf('%.3g', r_n / 1e9) ELSE 'not determined' END
              AS node_gb_per_s,
            CASE WHEN list_contains(identifiable, 'r_b') THEN printf('%.3g', r_b / 1e9) ELSE 'not determined' END
              AS first_process_gb_per_s,
            CASE WHEN list_contains(identifiable, 'r_i') THEN printf('%.3g', r_i / 1e9) ELSE 'not determined' END
              AS next_process_gb_per_s
            FROM maxrate_fit JOIN (SELECT dataset, any_value(convention) AS convention
              FROM maxrate_measurement GROUP BY dataset) AS c USING (dataset)
            WHERE model = 'refined' AND protocol = 'large' ORDER BY dataset""",
    },
    "gpucentric": {
        "Statements, with the share of draws in which they hold": """
            SELECT statement, text, slides, decided_by, passed AS with_default_parameters,
            printf('%.0f %%', 100 * share_of_draws) AS share_of_draws FROM gpucentric_statement ORDER BY statement""",
        "Observations on the slides, and what can be checked (of charts without readable bars, only the axes)": """
            SELECT observation, slide, text,
            CASE WHEN passed THEN coalesce((SELECT printf('holds in %.0f %% of draws', 100 * min(share_of_draws))
                   FROM gpucentric_statement AS s WHERE list_contains(string_split(o.statement, ' '), s.statement)),
                   'holds by default')
                 WHEN NOT passed THEN 'does not hold'
                 WHEN confidence = 'low'
                   THEN 'workloads too uncertain to test' || coalesce(', see ' || nullif(statement, ''), '')
                 WHEN slide IN ('24', '25') THEN 'bars are lost; the end of the axis is a claim'
                 ELSE 'not testable' END AS verdict FROM gpucentric_observation AS o ORDER BY observation""",
        "Sizes at which the fastest method of a single message changes: modelled, or between measured sizes": """
            SELECT system, round(size_bytes, 1 - floor(log10(size_bytes))::INTEGER)::BIGINT AS about_bytes,
            fastest_below, fastest_above FROM gpucentric_crossover
            ORDER BY system, size_bytes""",
        "Choices of the selector on measured paths": """
            SELECT system, model, count(*) FILTER (correct) AS correct, count(*) FILTER (direct_s <= staged_s)
            AS direct_faster, count(*) AS sizes, printf('%.1f %%', 100 * max(regret)) AS largest_regret
            FROM gpucentric_path GROUP BY ALL ORDER BY ALL""",
    },
    "collectives": {
        "Machines of the measured collective operations": f"""
            SELECT {_MACHINE} || CASE WHEN user_supplied THEN ' (yours)' ELSE '' END AS machine, topology AS tree,
            ranks AS "GPUs",
            replace(cpu, '_', ' ') AS cpu, nccl_version AS "NCCL", channels, ring_gb_per_s AS "NCCL's ring rate, GB/s",
            printf('%.1f', pair_bytes_per_s / 1e9) AS "rate of a pair, GB/s", knows_host_memory AS host_memory_measured
            FROM collective_machine ORDER BY user_supplied DESC, system""",
        "Largest measured size of each operation": f"""
            SELECT {_MACHINE} || CASE WHEN user_supplied THEN ' (yours)' ELSE '' END AS machine, operation,
            (size_bytes / 1048576)::DECIMAL(10, 2) AS "MiB", transport, algorithm || ' ' || protocol AS choice,
            limited_by,
            printf('%.1f', 1e6 * measured_s) AS measured_us, printf('%.1f', 1e6 * forecast_s) AS forecast_us,
            printf('%+.1f %%', 100 * (forecast_s / measured_s - 1)) AS error
            FROM collective_time
            QUALIFY row_number() OVER (PARTITION BY system, operation ORDER BY size_bytes DESC) = 1
            ORDER BY user_supplied DESC, system, operation""",
        "Errors over NVLink and between nodes, each computer left out of the fit": """
            SELECT machine_class AS "machines of", operations, size_class AS sizes, machines, rows AS times,
            printf('%.1f %%', 100 * median) AS "median error", printf('%.0f %%', 100 * within_band) AS "within 15 %",
            coalesce(printf('%.1f %%', 100 * with_two_rows), '') AS "with two rows",
            coalesce(printf('%.1f %%', 100 * nccl), '') AS "NCCL's estimate",
            coalesce(printf('%.1f %%', 100 * alpha_beta), '') AS "alpha-beta"
            FROM cluster_error ORDER BY machine_class, operations, size_class""",
    },
    "clusters": {
        "Layers: what the time of all copies would be without each limit": """
            SELECT pattern, cluster || CASE WHEN user_supplied THEN ' (yours)' ELSE '' END AS network, layer,
            printf('%s%.3g', CASE WHEN is_lower_bound THEN 'at least ' ELSE '' END, 1e3 * time_s) AS time_ms,
            coalesce(printf('%.0f %%', 100 * share_of_copies), '') AS copies_that_it_limits,
            printf('%.3g', 1e3 * time_without_s) AS ms_without_it, printf('%.2f', gain) AS gain
            FROM cluster_layer ORDER BY user_supplied DESC, pattern, cluster, gain DESC""",
        "Other choices": """
            SELECT pattern, cluster || CASE WHEN user_supplied THEN ' (yours)' ELSE '' END AS network, choice,
            printf('%s%.3g', CASE WHEN is_lower_bound THEN 'at least ' ELSE '' END, 1e3 * time_s) AS time_ms,
            printf('%.2f', gain) AS gain FROM cluster_choice
            JOIN (SELECT DISTINCT cluster, pattern, is_lower_bound FROM cluster_layer) USING (cluster, pattern)
            ORDER BY user_supplied DESC, pattern, cluster, time_s""",
        "Errors of copies between nodes": """
            SELECT pattern, count(DISTINCT system) AS machines, count(*) AS times,
            printf('%.1f %%', 100 * median(abs(forecast_s / measured_s - 1))) AS median_error,
            printf('%.0f %%', 100 * max(abs(forecast_s / measured_s - 1))) AS largest
            FROM cluster_copy GROUP BY pattern ORDER BY pattern""",
    },
    "percs": {
        "Time of the busiest link in ms, mean over seeds": """
            PIVOT (SELECT workload, routing, mapping, printf('%.3g', 1000 * avg(bottleneck_s)) AS t FROM network_case
                   WHERE gateway = 'mod' AND multiplicity = 1 AND placement = 'whole' AND wrap AND NOT turned
                   GROUP BY ALL)
            ON mapping IN ('DEF', 'BNM', 'BDM', 'BSM', 'RNM', 'RDM', 'RNMu', 'RDMu') USING first(t)
            GROUP BY workload, routing ORDER BY workload, routing""",
        "Mappings of a search": """
            SELECT workload, routing, start AS starts_from, printf('%.3g', 1e3 * start_s) AS start_of_this_draw_ms,
            printf('%.3g', 1e3 * bottleneck_s) AS found_ms, bottleneck_class AS class,
            printf('%.3g', 1e3 * packets_s) AS packet_level_ms, printf('%.3g', 1e3 * floor_s) AS even_loads_ms,
            proposals FROM network_search ORDER BY workload, routing""",
    },
}

#: Tables about the graphs and measurements of the user.
YOURS = {
    "Statements of the papers, tested on this machine": """
        WITH here AS (
          SELECT 'breakdown_latency_within_five_percent' AS claim, system, 'the sum of the measured parts' AS what,
            abs(relative_error) AS error FROM breakdown_total
          WHERE system LIKE 'this_machine%' AND observed_ns IS NOT NULL
          UNION ALL SELECT 'pcie_precise_for_large_messages', origin, case_id, abs(relative_error) FROM comparison
          WHERE study = 'pcie' AND kind = 'measured' AND quantity = 'rate' AND model = 'congestion_factor'
            AND origin LIKE 'this_machine%' AND case_id LIKE '%both_directions%')
        SELECT statement, here.system AS machine, what AS compared, printf('at most %g %%', high) AS published,
        printf('%.1f %%', 100 * error) AS error_here,
        CASE WHEN 100 * error <= high THEN 'holds here' ELSE 'does not hold here' END AS verdict_here,
        replace(verdict::VARCHAR, '_', ' ') AS verdict_in_the_study
        FROM here JOIN claim USING (claim) ORDER BY ALL""",
    "Warnings about your machine": """
        SELECT machine, code, text AS warning FROM machine_warning WHERE user_supplied ORDER BY machine, number""",
    "Your functions and the other models of your configuration, against the packet simulator": """
        SELECT split_part(subset, '.', 1) AS graph_set, replace(origin, 'packets.', '') AS hardware, model, n,
        printf('%.1f %%', 100 * share_within) AS within_the_tolerance,
        printf('%.1f %%', 100 * mean_absolute) AS mean_absolute_error
        FROM error_by_model WHERE study = 'pcie' AND kind = 'simulated' AND subset LIKE '%.validation'
        AND subset IN (SELECT subset FROM error_by_model WHERE model LIKE '%:%')
        ORDER BY graph_set, hardware, share_within DESC, model""",
    "Parameters calibrated on your machine, and their measurements": f"""
        SELECT substr(system, 9) AS machine, {_NAME} AS name, {_VALUE}, source
        FROM parameter WHERE study = 'pcie'
        AND system IN (SELECT DISTINCT 'machine.' || machine FROM measured_copy WHERE user_supplied) ORDER BY ALL""",
    "Measured copies by class": """
        SELECT machine, graph_class AS class, count(*) AS graphs, count(*) FILTER (judged) AS compared,
        printf('%.1f %%', 100 * median(abs(relative_error)) FILTER (judged)) AS median_error,
        printf('%.0f %%', 100 * avg(CAST(abs(relative_error) <= 0.15 AS INTEGER)) FILTER (judged)) AS "within 15 %",
        printf('%.1f %%', 100 * max(abs(relative_error)) FILTER (judged)) AS worst,
        printf('%.1f %%', 100 * median(abs(sharing_bytes_per_s / measured_bytes_per_s - 1)) FILTER (judged))
          AS median_fair_sharing
        FROM measured_copy WHERE user_supplied GROUP BY ALL ORDER BY ALL""",
    "Measured copies by graph": """
            SELECT machine, graph, communications, program,
            measured_bytes_per_s / 1e9 AS measured_gb_per_s,
            forecast_bytes_per_s / 1e9 AS forecast_gb_per_s,
            printf('%+.1f %%', 100 * relative_error) AS error, reason FROM measured_copy WHERE user_supplied
            ORDER BY judged DESC, abs(relative_error) DESC, machine, graph LIMIT 50""",
    "Features that explain the errors on your machine (share of the variance, cross-validated)": """
        SELECT origin AS machine, model, printf('%.0f %%', 100 * greatest(max(r2), 0)) AS explained,
        CASE WHEN max(r2) > 0.1 THEN string_agg(feature, ', ' ORDER BY importance DESC, feature)
          FILTER (place <= 3) ELSE 'no feature tells much' END AS features
        FROM (SELECT *, row_number() OVER (PARTITION BY origin, model ORDER BY importance DESC, feature) AS place
              FROM error_feature WHERE study = 'pcie' AND kind = 'measured'
              AND origin IN (SELECT machine FROM measured_copy WHERE user_supplied))
        GROUP BY ALL ORDER BY ALL""",
    "Forecast of each graph, and of its last copy": f"""
        WITH ends AS (SELECT f.*, c.start_s + f.elapsed_s AS end_s,
            row_number() OVER (PARTITION BY f.graph ORDER BY round(c.start_s + f.elapsed_s, 12) DESC, f.communication)
              AS place,
            count(*) OVER (PARTITION BY f.graph) AS copies
          FROM forecast AS f JOIN communication AS c USING (graph, communication))
        SELECT graph_set, {_GRAPH} AS graph, {_FAMILY} AS family, copies, printf('%.3g', 1e3 * end_s) AS ms,
        source || '>' || target AS last_copy, printf('%.3g', slowdown) AS slowdown, bottleneck, caused_by, limited_by,
        printf('%.3g', 1e3 * elapsed_without_s) AS ms_without_the_first
        FROM ends JOIN (SELECT graph, family FROM graph) USING (graph)
        WHERE place = 1 ORDER BY graph_set, end_s DESC, graph LIMIT 200""",
    "Copies that wait longest": f"""
        SELECT graph_set, {_GRAPH} AS graph, source || '>' || target AS copy,
        printf('%.3g', 1e3 * elapsed_s) AS ms,
        CASE WHEN latest_s > 1.01 * earliest_s THEN printf('%.3g to %.3g', 1e3 * earliest_s, 1e3 * latest_s) END
          AS range_ms,
        nullif(transport, 'p2p') AS transport,
        printf('%.3g', slowdown) AS slowdown, bottleneck, caused_by, limited_by,
        printf('%.3g', 1e3 * elapsed_without_s) AS ms_without_the_first
        FROM forecast ORDER BY forecast.slowdown DESC, graph, communication LIMIT 50""",
    "Inputs, assumptions and expected errors of these forecasts": """
        SELECT graph_set, code, text AS warning FROM forecast_warning ORDER BY graph_set, number""",
}

#: A rate in GB/s over the machines of a GPU model: the median, and the range of several.
_RATE = """CASE count(DISTINCT machine) FILTER ({where}) WHEN 0 THEN '' WHEN 1
      THEN printf('%.3g', median(rate_bytes_per_s) FILTER ({where}) / 1e9)
      ELSE printf('%.3g (%.3g to %.3g)', median(rate_bytes_per_s) FILTER ({where}) / 1e9,
        min(rate_bytes_per_s) FILTER ({where}) / 1e9, max(rate_bytes_per_s) FILTER ({where}) / 1e9) END"""
_OVER_NVLINK = "(regexp_matches(path_class, '^(NV|xGMI)'))"

#: Tables by model of the GPU.
BY_GPU = {
    "Copies in one direction, in GB/s": f"""
        SELECT gpu AS "GPU", count(DISTINCT machine) AS machines,
        string_agg(DISTINCT coalesce(nullif(pcie, ''), 'not stated'), ', ' ORDER BY coalesce(nullif(pcie, ''),
          'not stated')) AS "PCIe",
        {_RATE.format(where=f"kind = 'one_way_p2p' AND NOT {_OVER_NVLINK}")} AS "direct, over PCIe",
        {_RATE.format(where=f"kind = 'one_way_p2p' AND {_OVER_NVLINK}")} AS "direct, over NVLink or xGMI",
        {_RATE.format(where="kind = 'one_way_staged'")} AS "through host memory",
        {_RATE.format(where="kind = 'host_to_device'")} AS "from host memory",
        {_RATE.format(where="kind = 'device_to_host'")} AS "to host memory"
        FROM pair_rate WHERE gpu <> 'not said' GROUP BY gpu
        HAVING bool_or(kind NOT LIKE 'both%' AND kind <> 'host_both') ORDER BY gpu""",
    "all_reduce: the largest measured size of each machine": f"""
        WITH times AS (
          SELECT gpu, system, ranks, 1 AS nodes, transport, size_bytes, measured_s, forecast_s
          FROM collective_time JOIN collective_machine USING (system)
          WHERE operation = 'all_reduce' AND NOT collective_machine.user_supplied
          UNION ALL SELECT gpu, system, ranks, nodes, CASE nodes WHEN 1 THEN 'NVLink' ELSE 'network' END,
            size_bytes, measured_s, forecast_s FROM cluster_time WHERE operation = 'all_reduce')
        SELECT gpu AS "GPU", ranks AS "GPUs", nodes, replace(replace(transport, 'SHM', 'host memory'), 'P2P', 'direct')
          AS path, (size_bytes / 1048576)::BIGINT AS "MiB",
        printf('%.3g', 2 * (ranks - 1) / ranks * size_bytes / measured_s / 1e9) AS bus_gb_per_s,
        printf('%+.1f %%', 100 * (forecast_s / measured_s - 1)) AS error_of_the_forecast, {_MACHINE} AS machine
        FROM times
        QUALIFY row_number() OVER (PARTITION BY system, nodes, ranks ORDER BY size_bytes DESC, measured_s) = 1
        ORDER BY gpu, nodes, ranks, system""",
}

ERRORS = {
    "Error bands": """
        SELECT study, model, kind, origin, n, printf('%.1f %%', 100 * share_within) AS within_the_tolerance,
        CASE WHEN share_within_low < share_within_high
          THEN printf('%.1f to %.1f %%', 100 * share_within_low, 100 * share_within_high) END AS interval,
        printf('%+.2f %%', 100 * "median") AS median_signed_error,
        printf('%.2f %%', 100 * mean_absolute) AS mean_absolute_error,
        format('{:,.2f} %', 100 * max_absolute) AS largest_error
        FROM error_by_model WHERE subset = 'all' AND kind <> 'simulated'
        ORDER BY study, kind, origin, share_within DESC, model""",
    "Largest errors of the congestion-factor model, relative to measured and published references": """
        SELECT case_id AS case, kind, origin,
        CASE quantity WHEN 'rate' THEN predicted / 1e9 ELSE 1e3 * predicted END AS predicted,
        CASE quantity WHEN 'rate' THEN reference / 1e9 ELSE 1e3 * reference END AS reference,
        CASE quantity WHEN 'rate' THEN 'GB/s' ELSE 'ms' END AS unit,
        printf('%+.1f %%', 100 * relative_error) AS error, coalesce(graph_text, '') AS copies
        FROM comparison LEFT JOIN (SELECT graph, string_agg(source || '>' || target, ' ' ORDER BY communication)
          AS graph_text FROM communication GROUP BY graph) AS texts ON texts.graph = case_id
        WHERE NOT within AND model = 'congestion_factor' AND kind <> 'simulated'
        ORDER BY abs(relative_error) DESC, case_id, item LIMIT 20""",
    "Graphs of this run": """
        SELECT topology, subset AS set, family::VARCHAR AS family, count(*) AS graphs,
        sum(communications)::BIGINT AS number_of_copies FROM graph GROUP BY ALL ORDER BY ALL""",
}

SIMULATED = {
    "Errors against the simulator": """
        SELECT subset AS graphs, replace(origin, 'packets.', '') AS hardware, model, n,
        printf('%.2f %%', 100 * share_within) AS within_the_tolerance,
        CASE WHEN share_within_low < share_within_high
          THEN printf('%.2f to %.2f %%', 100 * share_within_low, 100 * share_within_high) END AS interval,
        printf('%.2f %%', 100 * mean_absolute) AS mean_absolute_error
        FROM error_by_model WHERE study = 'pcie' AND kind = 'simulated'
        AND (subset LIKE '%.validation' OR subset LIKE '%.held_out')
        ORDER BY subset, origin, share_within DESC, model""",
    "Features that explain the errors (share of the variance, cross-validated)": """
        SELECT model, subset AS graphs, replace(origin, 'packets.', '') AS hardware,
        printf('%.0f %%', 100 * greatest(max(r2), 0)) AS explained,
        CASE WHEN max(r2) > 0.1 THEN string_agg(replace(feature, '_', ' '), ', ' ORDER BY importance DESC, feature)
          FILTER (place <= 3) ELSE 'no feature tells much' END AS features
        FROM (SELECT *, row_number() OVER (PARTITION BY study, model, subset, origin
              ORDER BY importance DESC, feature) AS place FROM error_feature WHERE study = 'pcie'
              AND kind = 'simulated')
        GROUP BY ALL ORDER BY ALL""",
    "Candidate definitions of the accuracy of “over 97 %”": """
        SELECT definition, subset AS graphs, replace(origin, 'packets.', '') AS hardware,
        max(shown) FILTER (model = 'congestion_factor') AS "congestion factors (slides)",
        max(shown) FILTER (model = 'round_robin_upstream') AS "round-robin upstream",
        max(shown) FILTER (model = 'back_pressure') AS "back-pressure"
        FROM (SELECT *, CASE WHEN definition LIKE 'coefficient%' THEN printf('%.3f', value)
              ELSE printf('%.1f %%', 100 * value) END AS shown FROM accuracy)
        WHERE study = 'pcie' AND subset LIKE '%.validation'
        GROUP BY ALL ORDER BY ALL""",
    "Copies with the largest errors": """
        SELECT case_id AS graph, coalesce(copy, worst_cases.item) AS copy, model,
        replace(origin, 'packets.', '') AS hardware,
        1e3 * predicted AS predicted_ms,
        1e3 * reference AS simulated_ms, printf('%+.1f %%', 100 * relative_error) AS error, graph_text AS all_copies
        FROM worst_cases LEFT JOIN (SELECT graph, communication::VARCHAR AS item, source || '>' || target AS copy
          FROM communication) AS ends ON ends.graph = case_id AND ends.item = worst_cases.item
        WHERE kind = 'simulated' ORDER BY abs(relative_error) DESC, case_id, worst_cases.item, model""",
}

PARAMETERS = {
    "Values with their sources": f"""
        SELECT study, system, {_NAME} AS name, {_VALUE}, tag::VARCHAR AS tag, source,
        tag::VARCHAR AS row_class FROM parameter ORDER BY study, system, name""",
    "Topologies": """
        SELECT topology, endpoints, leaf_symmetries, tag::VARCHAR AS tag, source, tag::VARCHAR AS row_class
        FROM topology ORDER BY topology""",
}

#: Assumed and quoted numbers of a study.
ASSUMED = f"""
    SELECT system, {_NAME} AS name, {_VALUE}, tag::VARCHAR AS tag, source, 'assumed' AS row_class
    FROM parameter
    WHERE study = '{{study}}' AND tag::VARCHAR IN ('assumed', 'quoted', 'recalled') ORDER BY tag, system, name"""

DIGESTS = {
    "Content of the tables": """
        SELECT table_name AS table, rows, digest FROM table_digest WHERE rows > 0 ORDER BY table_name"""
}
