-- Tables of results/fabricast.duckdb. Comments after columns and above tables become COMMENTs
-- in the database. Column names contain the units (SI).

CREATE TYPE study_name AS ENUM ('pcie', 'breakdown', 'maxrate', 'gpucentric', 'percs', 'collectives', 'clusters');
CREATE TYPE reference_kind AS ENUM ('measured', 'simulated', 'published');
CREATE TYPE provenance_tag AS ENUM ('published', 'quoted', 'recalled', 'derived', 'assumed', 'measured');
CREATE TYPE claim_verdict AS ENUM ('reproduced', 'decided_by_tolerance', 'source_contradicted', 'model_differs', 'depends_on_reading', 'follows_from_inputs', 'does_not_discriminate', 'not_testable');
CREATE TYPE reading_verdict AS ENUM ('reproduced', 'decided_by_tolerance', 'deviates', 'not_testable');
CREATE TYPE claim_relation AS ENUM ('equals', 'at_least', 'at_most', 'between', 'first');
CREATE TYPE claim_evidence AS ENUM ('independent_measurement', 'independent_fit', 'own_simulator', 'in_sample', 'published_inputs', 'recalled_inputs', 'assumed_inputs', 'definition');
CREATE TYPE tolerance_reason AS ENUM ('authors', 'ours');
CREATE TYPE topology_kind AS ENUM ('pcie_tree', 'two_level_direct', 'node', 'path');
CREATE TYPE graph_family AS ENUM ('scatter', 'gather', 'all_to_all', 'exhaustive', 'random', 'halo_2d', 'halo_3d', 'probe', 'example', 'user');
CREATE TYPE breakdown_layer AS ENUM ('CPU', 'I/O', 'Network');

-- The five published studies, and that of this project on collective operations.
CREATE TABLE study (
  study study_name NOT NULL, -- short name
  title VARCHAR NOT NULL, -- title of the publication
  authors VARCHAR NOT NULL, -- authors of the publication
  year INTEGER NOT NULL, -- year of publication
  venue VARCHAR NOT NULL, -- venue of the publication
  tolerance DOUBLE CHECK (tolerance > 0), -- maximum relative error that counts as a hit
  PRIMARY KEY (study)
);
-- Topologies: vertices and directed links.
CREATE TABLE topology (
  topology VARCHAR NOT NULL, -- name
  study study_name NOT NULL, -- study that uses it
  kind topology_kind NOT NULL, -- kind of network
  source VARCHAR NOT NULL, -- origin of the topology
  tag provenance_tag NOT NULL, -- provenance of the shape
  endpoints BIGINT NOT NULL CHECK (endpoints > 0), -- number of endpoints
  vertices BIGINT NOT NULL CHECK (vertices > 0), -- number of vertices
  links BIGINT NOT NULL CHECK (links >= 0), -- number of directed links
  leaf_symmetries BIGINT, -- leaf permutations that preserve the tree; NULL beyond 2^63
  PRIMARY KEY (topology)
);
-- Vertices of topologies.
CREATE TABLE vertex (
  topology VARCHAR NOT NULL, -- topology
  vertex VARCHAR NOT NULL, -- name within the topology
  kind VARCHAR NOT NULL, -- root_complex, switch, endpoint, host_bridge, ...
  label VARCHAR NOT NULL, -- original name in the source, such as a bus id
  parent VARCHAR, -- parent vertex, NULL for the root
  PRIMARY KEY (topology, vertex)
);
-- Directed links of topologies.
CREATE TABLE link (
  topology VARCHAR NOT NULL, -- topology
  link VARCHAR NOT NULL, -- name within the topology
  source VARCHAR NOT NULL, -- vertex where the link starts
  target VARCHAR NOT NULL, -- vertex where the link ends
  class VARCHAR NOT NULL, -- pcie_up, pcie_down, LL, LR, D, ...
  capacity_bytes_per_s DOUBLE NOT NULL CHECK (capacity_bytes_per_s > 0), -- capacity of this direction
  latency_s DOUBLE CHECK (latency_s >= 0), -- latency, NULL if the study has none
  PRIMARY KEY (topology, link)
);
-- Congestion graphs: sets of communications on one topology.
CREATE TABLE graph (
  graph VARCHAR NOT NULL, -- name
  topology VARCHAR NOT NULL, -- topology
  family graph_family NOT NULL, -- generator of the graph
  seed BIGINT, -- seed of random graphs
  communications BIGINT NOT NULL CHECK (communications > 0), -- number of communications
  subset VARCHAR NOT NULL, -- set of the graph: validation, stress, probe, example, user
  PRIMARY KEY (graph)
);
-- Communications of congestion graphs.
CREATE TABLE communication (
  graph VARCHAR NOT NULL, -- graph
  communication BIGINT NOT NULL CHECK (communication >= 0), -- index within the graph, from 0
  source VARCHAR NOT NULL, -- sending endpoint
  target VARCHAR NOT NULL, -- receiving endpoint
  size_bytes DOUBLE NOT NULL CHECK (size_bytes > 0), -- message size
  start_s DOUBLE NOT NULL CHECK (start_s >= 0), -- start time
  path_class VARCHAR, -- PIX, PXB, PHB or SYS
  PRIMARY KEY (graph, communication)
);
-- Phases of worked examples and worst cases.
CREATE TABLE phase (
  graph VARCHAR NOT NULL, -- graph
  model VARCHAR NOT NULL, -- model
  phase BIGINT NOT NULL, -- index of the phase, from 0
  communication BIGINT NOT NULL, -- communication that is active in the phase
  start_s DOUBLE NOT NULL, -- start time of the phase
  duration_s DOUBLE NOT NULL CHECK (duration_s > 0), -- duration of the phase
  rho DOUBLE NOT NULL CHECK (rho BETWEEN 0 AND 1.0000001), -- congestion factor
  transferred_bytes DOUBLE NOT NULL, -- bytes transferred in the phase
  PRIMARY KEY (graph, model, phase, communication)
);
-- Model parameters with provenance.
CREATE TABLE parameter (
  study study_name NOT NULL, -- study
  system VARCHAR NOT NULL, -- system of the parameter
  name VARCHAR NOT NULL, -- name of the parameter
  value DOUBLE NOT NULL, -- value
  unit VARCHAR NOT NULL, -- unit, 1 if dimensionless
  tag provenance_tag NOT NULL, -- provenance
  source VARCHAR NOT NULL, -- source of the value
  ci_low DOUBLE, -- lower end of the 95 % interval
  ci_high DOUBLE, -- upper end of the 95 % interval
  PRIMARY KEY (study, system, name)
);
-- Model predictions.
CREATE TABLE prediction (
  study study_name NOT NULL, -- study
  case_id VARCHAR NOT NULL, -- graph, system or case
  item VARCHAR NOT NULL, -- communication, component or link class; empty if the case has one value
  quantity VARCHAR NOT NULL, -- elapsed, rate, latency, ...
  model VARCHAR NOT NULL, -- model
  value DOUBLE NOT NULL, -- predicted value
  unit VARCHAR NOT NULL, -- unit of the value
  PRIMARY KEY (study, case_id, item, quantity, model)
);
-- Reference values for the validation of predictions.
CREATE TABLE reference (
  study study_name NOT NULL, -- study
  case_id VARCHAR NOT NULL, -- graph, system or case
  item VARCHAR NOT NULL, -- communication, component or link class; empty if the case has one value
  quantity VARCHAR NOT NULL, -- elapsed, rate, latency, ...
  kind reference_kind NOT NULL, -- measured, simulated or published
  origin VARCHAR NOT NULL, -- source of the measurement, simulation or publication
  value DOUBLE NOT NULL, -- reference value
  unit VARCHAR NOT NULL, -- unit of the value
  spread DOUBLE, -- simulated: half of the range from low to high; otherwise standard deviation if known
  low DOUBLE, -- simulated: minimum over the phases of the arbiters
  high DOUBLE, -- simulated: maximum over the phases of the arbiters
  tag provenance_tag NOT NULL, -- provenance
  PRIMARY KEY (study, case_id, item, quantity, kind, origin)
);
-- Comparisons of one prediction with one reference.
CREATE TABLE comparison (
  study study_name NOT NULL, -- study
  case_id VARCHAR NOT NULL, -- graph, system or case
  item VARCHAR NOT NULL, -- communication, component or link class
  quantity VARCHAR NOT NULL, -- elapsed, rate, latency, ...
  model VARCHAR NOT NULL, -- model
  kind reference_kind NOT NULL, -- kind of reference
  origin VARCHAR NOT NULL, -- origin of the reference
  predicted DOUBLE NOT NULL, -- predicted value; for simulated references with the parameters calibrated for the simulated hardware (table parameter)
  reference DOUBLE NOT NULL, -- reference value; for simulated references the median over the phases of the arbiters
  reference_low DOUBLE, -- simulated: minimum over the phases of the arbiters
  reference_high DOUBLE, -- simulated: maximum over the phases of the arbiters
  relative_error DOUBLE NOT NULL, -- (predicted - reference) / reference
  tolerance DOUBLE NOT NULL CHECK (tolerance > 0), -- tolerance of the study
  within BOOLEAN NOT NULL, -- whether the error is within the tolerance
  PRIMARY KEY (study, case_id, item, quantity, model, kind, origin)
);
-- Error statistics of models, separate for each kind of reference.
CREATE TABLE error_band (
  study study_name NOT NULL, -- study
  model VARCHAR NOT NULL, -- model
  kind reference_kind NOT NULL, -- kind of reference
  origin VARCHAR NOT NULL, -- origin of the references
  tolerance DOUBLE NOT NULL CHECK (tolerance > 0), -- half-width of the band
  subset VARCHAR NOT NULL, -- subset of the comparisons
  n BIGINT NOT NULL CHECK (n > 0), -- number of comparisons
  share_within DOUBLE NOT NULL CHECK (share_within BETWEEN 0 AND 1), -- share within the band
  share_within_low DOUBLE NOT NULL, -- lower end of the 95 % interval of the share, resampled by case
  share_within_high DOUBLE NOT NULL, -- upper end of the 95 % interval of the share, resampled by case
  share_within_least DOUBLE, -- simulated: share within the band in every phase of the arbiters
  share_within_most DOUBLE, -- simulated: share within the band in any phase of the arbiters
  median DOUBLE NOT NULL, -- median relative error
  p05 DOUBLE NOT NULL, -- 5th percentile of the relative error
  p95 DOUBLE NOT NULL, -- 95th percentile of the relative error
  mean_absolute DOUBLE NOT NULL, -- mean absolute relative error
  max_absolute DOUBLE NOT NULL, -- maximum absolute relative error
  PRIMARY KEY (study, model, kind, origin, tolerance, subset)
);
-- Candidate definitions of an accuracy that a paper states without a definition.
CREATE TABLE accuracy (
  study study_name NOT NULL, -- study
  model VARCHAR NOT NULL, -- model
  kind reference_kind NOT NULL, -- kind of reference
  origin VARCHAR NOT NULL, -- origin of the references
  subset VARCHAR NOT NULL, -- subset of the comparisons
  definition VARCHAR NOT NULL, -- definition in words
  value DOUBLE NOT NULL, -- accuracy by this definition, 1 is perfect
  PRIMARY KEY (study, model, kind, origin, subset, definition)
);
-- Histograms of relative errors; the first and last bins are open.
CREATE TABLE error_histogram (
  study study_name NOT NULL, -- study
  model VARCHAR NOT NULL, -- model
  kind reference_kind NOT NULL, -- kind of reference
  origin VARCHAR NOT NULL, -- origin of the references
  subset VARCHAR NOT NULL, -- subset of the comparisons
  bin BIGINT NOT NULL, -- index of the bin
  lower DOUBLE NOT NULL, -- lower edge of the relative error
  upper DOUBLE NOT NULL, -- upper edge of the relative error
  communications BIGINT NOT NULL CHECK (communications >= 0), -- number of comparisons in the bin
  PRIMARY KEY (study, model, kind, origin, subset, bin)
);
-- Permutation importance of features for the absolute error of a model (scikit-learn).
CREATE TABLE error_feature (
  study study_name NOT NULL, -- study
  model VARCHAR NOT NULL, -- model
  kind reference_kind NOT NULL, -- kind of reference
  origin VARCHAR NOT NULL, -- origin of the references
  subset VARCHAR NOT NULL, -- subset of the comparisons
  feature VARCHAR NOT NULL, -- feature of a communication or its graph
  importance DOUBLE NOT NULL, -- loss of R2 on held-out groups when the feature is permuted, mean over folds
  spread DOUBLE NOT NULL, -- standard deviation of the importance over folds
  r2 DOUBLE NOT NULL, -- R2 of all features on held-out groups, mean over folds (pcie: isomorphism classes, percs: workload and mapping)
  PRIMARY KEY (study, model, kind, origin, subset, feature)
);
-- Measured concurrent copies; the model parameters of each machine are from its isolated copies.
CREATE TABLE measured_copy (
  machine VARCHAR NOT NULL, -- machine
  graph VARCHAR NOT NULL, -- copies that ran at the same time
  topology VARCHAR NOT NULL, -- topology of the machine
  user_supplied BOOLEAN NOT NULL, -- whether the machine is the user's
  communications VARCHAR NOT NULL, -- source>target of each copy, H is host memory
  flows BIGINT NOT NULL CHECK (flows > 0), -- number of copies
  program VARCHAR NOT NULL, -- copy method of the benchmark
  statistic VARCHAR NOT NULL, -- rate that the benchmark prints: total (all bytes until the last copy ends), sum_of_copies, sum_of_targets, sum_of_sources or last_listed
  graph_class VARCHAR NOT NULL, -- few copies, many copies of a GPU, between root complexes, direct links (NVLink, NVSwitch, xGMI), or host copies
  judged BOOLEAN NOT NULL, -- whether the measurement is used for validation
  measured_bytes_per_s DOUBLE NOT NULL CHECK (measured_bytes_per_s > 0), -- total rate of all copies
  spread_bytes_per_s DOUBLE, -- half of the range over repetitions, NULL for a single repetition
  forecast_bytes_per_s DOUBLE, -- prediction with ports, engines and barriers (ports_and_engines): median over random samples; NULL if a probe is missing
  low_bytes_per_s DOUBLE, -- minimum over the samples and over the unknown bandwidth of links between root complexes
  high_bytes_per_s DOUBLE, -- maximum over the samples and over this unknown bandwidth
  packets_bytes_per_s DOUBLE, -- packet simulation with the same parameters and engines: median over samples; NULL for host memory and if not validated
  packets_low_bytes_per_s DOUBLE, -- minimum over these samples
  packets_high_bytes_per_s DOUBLE, -- maximum over these samples
  left_out_bytes_per_s DOUBLE, -- many copies of a GPU: prediction with the program's pause fitted to the public measurements of other machines; otherwise NULL
  engines_bytes_per_s DOUBLE, -- prediction with engines, barriers and max-min sharing of links (endpoint_engines); NULL if a probe is missing
  sharing_bytes_per_s DOUBLE NOT NULL, -- prediction with link sharing only
  no_contention_bytes_per_s DOUBLE NOT NULL, -- prediction without contention
  relative_error DOUBLE, -- (forecast - measured) / measured; NULL without a prediction
  reason_code VARCHAR NOT NULL, -- stable code of the reason for exclusion from validation; empty if the graph validates the forecast
  reason VARCHAR NOT NULL, -- reason for exclusion in words; empty if the graph validates the forecast
  PRIMARY KEY (machine, graph)
);
-- Warnings about each machine: contradictions between measured copies and its tree, and missing measurements.
CREATE TABLE machine_warning (
  machine VARCHAR NOT NULL, -- machine
  number BIGINT NOT NULL, -- number of the warning
  user_supplied BOOLEAN NOT NULL, -- whether it is a user's machine
  code VARCHAR NOT NULL, -- stable code of the kind of warning
  text VARCHAR NOT NULL, -- assumption or contradiction in words
  PRIMARY KEY (machine, number)
);
-- Forecasts of the user's graphs by the recommended model, as `fabricast predict` prints them.
CREATE TABLE forecast (
  graph_set VARCHAR NOT NULL, -- graph set of the configuration
  graph VARCHAR NOT NULL, -- graph
  communication BIGINT NOT NULL CHECK (communication >= 0), -- index within the graph, from 0
  source VARCHAR NOT NULL, -- sending endpoint
  target VARCHAR NOT NULL, -- receiving endpoint
  transport VARCHAR NOT NULL, -- p2p for direct copies, staged for copies through host memory
  elapsed_s DOUBLE NOT NULL, -- completion time minus start time
  earliest_s DOUBLE, -- minimum over random orders and unknown capacities
  latest_s DOUBLE, -- maximum over random orders and unknown capacities
  slowdown DOUBLE NOT NULL, -- elapsed time relative to that of the isolated copy
  bottleneck VARCHAR NOT NULL, -- directed link of its route at which the copy waits longest
  caused_by VARCHAR NOT NULL, -- saturated link further on, or shared resource, that causes the wait; empty otherwise
  limited_by VARCHAR, -- copies whose removal shortens this copy, largest effect first; NULL if not computed
  elapsed_without_s DOUBLE, -- elapsed time without the first of limited_by
  PRIMARY KEY (graph, communication)
);
-- Inputs, assumptions and expected errors of the forecasts of each graph set.
CREATE TABLE forecast_warning (
  graph_set VARCHAR NOT NULL, -- graph set of the configuration
  number BIGINT NOT NULL, -- number of the warning
  code VARCHAR NOT NULL, -- stable code of the kind of warning
  text VARCHAR NOT NULL, -- the warning in words
  PRIMARY KEY (graph_set, number)
);
-- Published statements with verdicts, which are those of the primary reading: the one that the words of the source select.
CREATE TABLE claim (
  claim VARCHAR NOT NULL, -- identifier
  study study_name NOT NULL, -- study
  statement VARCHAR NOT NULL, -- wording of the statement
  source VARCHAR NOT NULL, -- source of the statement
  relation claim_relation NOT NULL, -- required relation of the observed value to the bounds; first: rank 1
  low DOUBLE, -- lower bound, or value, of the statement as printed; NULL if unbounded
  high DOUBLE, -- upper bound, or value, of the statement as printed; NULL if unbounded
  unit VARCHAR NOT NULL, -- unit of bounds, tolerance and observed value
  rounding DOUBLE NOT NULL CHECK (rounding >= 0), -- half a unit of the last printed digit
  tolerance DOUBLE CHECK (tolerance > 0), -- accepted deviation beyond the bounds, NULL for rounding only
  tolerance_reason tolerance_reason, -- origin of the tolerance: the authors or this project
  tolerance_because VARCHAR, -- justification of the tolerance
  tolerance_version INTEGER, -- version of the tolerance, from 1; CHANGELOG.md lists the changes
  primary_reading VARCHAR NOT NULL, -- reading that the observed value belongs to; empty if the source leaves nothing open
  source_words VARCHAR NOT NULL, -- words of the source that select the primary reading; empty if none do
  observed DOUBLE, -- value computed in this run, in the primary reading
  observed_low DOUBLE, -- lower end of the range over all readings, and over the phases of a simulated reference; NULL for one value
  observed_high DOUBLE, -- upper end of this range
  verdict claim_verdict NOT NULL, -- source_contradicted: wrong in all readings by its numbers or measurements; model_differs: our model or simulator misses it; depends_on_reading: words select no reading and readings disagree, or 5 to 95 % of draws
  evidence claim_evidence NOT NULL, -- kind of evidence for the verdict
  readings INTEGER NOT NULL, -- number of interpretations of the source that this run tests
  holds_in DOUBLE CHECK (holds_in BETWEEN 0 AND 1), -- share of these interpretations for which the claim holds
  share_of_draws DOUBLE CHECK (share_of_draws BETWEEN 0 AND 1), -- share of samples of assumed values for which the claim holds
  shown_to_fail BOOLEAN NOT NULL, -- whether the claim deviates in this run, for a baseline, or with mutated data
  note VARCHAR NOT NULL, -- reason or context
  figure VARCHAR, -- figure that shows the claim: study.name
  query VARCHAR, -- query that returns the observed value
  PRIMARY KEY (claim)
);
-- Goals of this project for its forecasts; never counted with published statements.
CREATE TABLE target (
  target VARCHAR NOT NULL, -- identifier
  study study_name NOT NULL, -- study
  statement VARCHAR NOT NULL, -- wording of the goal
  source VARCHAR NOT NULL, -- origin of the goal, and of the data that test it
  relation claim_relation NOT NULL, -- required relation of the observed value to the bounds
  low DOUBLE, -- lower bound; NULL if unbounded
  high DOUBLE, -- upper bound; NULL if unbounded
  unit VARCHAR NOT NULL, -- unit of bounds and observed value
  observed DOUBLE, -- value computed in this run
  observed_low DOUBLE, -- lower end of the range over all readings; NULL for one value
  observed_high DOUBLE, -- upper end of this range
  met BOOLEAN, -- whether the goal is met; NULL if this run has no value
  discriminates BOOLEAN NOT NULL, -- false if trivial baselines meet the goal as well
  evidence claim_evidence NOT NULL, -- kind of evidence
  readings INTEGER NOT NULL, -- number of readings that this run tests
  holds_in DOUBLE CHECK (holds_in BETWEEN 0 AND 1), -- share of these readings for which the goal is met
  shown_to_fail BOOLEAN NOT NULL, -- whether the goal is missed in this run, for a baseline, or with mutated data
  note VARCHAR NOT NULL, -- reason or context
  figure VARCHAR, -- figure that shows the goal: study.name
  query VARCHAR, -- query that returns the observed value
  PRIMARY KEY (target)
);
-- Each claim and target for each interpretation of what its source leaves open.
CREATE TABLE claim_reading (
  claim VARCHAR NOT NULL, -- claim or target
  reading VARCHAR NOT NULL, -- chosen members of the axes; empty if the source leaves nothing open
  observed DOUBLE, -- observed value for this interpretation, NULL if not in this run
  verdict reading_verdict NOT NULL, -- verdict for this value
  is_default BOOLEAN NOT NULL, -- whether the words of the source allow this interpretation; the verdict is based on these
  query VARCHAR NOT NULL, -- query that returns the observed value
  PRIMARY KEY (claim, reading)
);
-- Each claim for trivial baselines instead of the model; claims that all baselines pass do not discriminate.
CREATE TABLE claim_baseline (
  claim VARCHAR NOT NULL, -- claim
  baseline VARCHAR NOT NULL, -- name of the baseline
  observed DOUBLE, -- observed value for the baseline
  verdict reading_verdict NOT NULL, -- verdict for this value
  PRIMARY KEY (claim, baseline)
);
-- Each claim with a wrong model or wrong data: claims that hold, except by construction, must deviate.
CREATE TABLE claim_mutation (
  claim VARCHAR NOT NULL, -- claim
  mutation VARCHAR NOT NULL, -- table.column = expression
  observed DOUBLE, -- observed value with the mutation
  verdict reading_verdict NOT NULL, -- verdict for this value
  PRIMARY KEY (claim, mutation)
);
-- Schedules: the best, the worst and all published schedules.
CREATE TABLE schedule (
  study study_name NOT NULL, -- study
  decomposition VARCHAR NOT NULL, -- topology, grid and mode
  rank BIGINT NOT NULL, -- rank by elapsed time, from 1; ties have consecutive ranks
  schedule VARCHAR NOT NULL, -- sends of each step as text
  elapsed_s DOUBLE NOT NULL, -- elapsed time
  steps_s DOUBLE[] NOT NULL, -- time of each step; if asynchronous, completion time of the last k-th send
  published BOOLEAN NOT NULL, -- whether the talk shows the schedule
  PRIMARY KEY (study, decomposition, rank)
);
-- Summary of all schedules of a pattern.
CREATE TABLE schedule_summary (
  study study_name NOT NULL, -- study
  decomposition VARCHAR NOT NULL, -- topology, pattern, mode and model
  topology VARCHAR NOT NULL, -- topology
  pattern VARCHAR NOT NULL, -- communications whose order can be chosen
  mode VARCHAR NOT NULL, -- synchronised or asynchronous
  model VARCHAR NOT NULL, -- model
  schedules DOUBLE NOT NULL, -- number of schedules
  evaluated BIGINT NOT NULL, -- number of evaluated schedules
  bound_s DOUBLE NOT NULL, -- lower bound of the time of any schedule
  best_s DOUBLE NOT NULL, -- time of the fastest schedule
  ties BIGINT, -- number of equally fast schedules; NULL if not all were evaluated
  median_s DOUBLE, -- median time; NULL if not all were evaluated
  worst_s DOUBLE, -- time of the slowest schedule; NULL if not all were evaluated
  naive_s DOUBLE NOT NULL, -- time of the schedule in the order in which the pattern lists its communications
  published_s DOUBLE, -- time of the schedule that the talk presents as the fastest
  published_rank BIGINT, -- rank of that schedule: number of faster schedules plus 1
  gap DOUBLE NOT NULL, -- relative distance of the fastest evaluated schedule from the proved optimum or bound
  PRIMARY KEY (study, decomposition)
);
-- Histograms of the times of all schedules.
CREATE TABLE schedule_histogram (
  study study_name NOT NULL, -- study
  decomposition VARCHAR NOT NULL, -- topology, pattern, mode and model
  bin BIGINT NOT NULL, -- index of the bin
  lower_s DOUBLE NOT NULL, -- lower edge
  upper_s DOUBLE NOT NULL, -- upper edge
  schedules BIGINT NOT NULL CHECK (schedules >= 0), -- number of schedules in the bin
  PRIMARY KEY (study, decomposition, bin)
);
-- Components of a small message.
CREATE TABLE breakdown_component (
  system VARCHAR NOT NULL, -- system
  component VARCHAR NOT NULL, -- component
  parent VARCHAR, -- component that contains this component
  layer breakdown_layer NOT NULL, -- CPU, I/O or Network
  side VARCHAR NOT NULL, -- initiator, target or both
  time_ns DOUBLE NOT NULL, -- time
  tag provenance_tag NOT NULL, -- provenance
  source VARCHAR NOT NULL, -- source of the time
  spread_ns DOUBLE NOT NULL, -- standard deviation for Monte Carlo sampling
  PRIMARY KEY (system, component)
);
-- Shares of components in published figures.
CREATE TABLE breakdown_share (
  system VARCHAR NOT NULL, -- system
  figure VARCHAR NOT NULL, -- figure of the talk
  component VARCHAR NOT NULL, -- component
  share DOUBLE NOT NULL, -- computed share
  published_share DOUBLE, -- share printed in the talk
  difference DOUBLE, -- share - published_share
  agreement VARCHAR, -- relation of the printed percentage to the share: rounded, truncated, or differs
  PRIMARY KEY (system, figure, component)
);
-- Totals of the breakdown with uncertainty.
CREATE TABLE breakdown_total (
  system VARCHAR NOT NULL, -- system
  metric VARCHAR NOT NULL, -- injection, injection_llp, latency or latency_llp
  model_ns DOUBLE NOT NULL, -- total of the model
  model_low_ns DOUBLE NOT NULL, -- lower end of the 95 % interval of the model (Monte Carlo sampling of the components)
  model_high_ns DOUBLE NOT NULL, -- upper end of the 95 % interval of the model
  observed_ns DOUBLE, -- observed total
  relative_error DOUBLE, -- (model - observed) / observed
  share_within_tolerance DOUBLE, -- share of the samples within the tolerance of the observed total
  PRIMARY KEY (system, metric)
);
-- Effect of reducing components.
CREATE TABLE what_if (
  system VARCHAR NOT NULL, -- system
  metric VARCHAR NOT NULL, -- injection or latency
  component VARCHAR NOT NULL, -- component or group
  reduction DOUBLE NOT NULL, -- share of the component that is removed
  share_removed DOUBLE NOT NULL, -- share of the total that is removed
  speedup_ratio DOUBLE NOT NULL, -- old total / new total
  PRIMARY KEY (system, metric, component, reduction)
);
-- Machines of the study of collective operations, with the rings of NCCL.
CREATE TABLE collective_machine (
  system VARCHAR NOT NULL, -- machine and settings
  topology VARCHAR NOT NULL, -- PCIe tree
  ranks BIGINT NOT NULL, -- number of GPUs
  gpu VARCHAR NOT NULL, -- model of the GPUs
  cpu VARCHAR NOT NULL, -- processor family, as NCCL distinguishes
  capability DOUBLE NOT NULL, -- CUDA compute capability
  nccl_version VARCHAR NOT NULL, -- version of NCCL
  channels BIGINT NOT NULL, -- channels in use
  ring_gb_per_s DOUBLE NOT NULL, -- speed of all rings as NCCL counts
  is_fallback BOOLEAN NOT NULL, -- whether NCCL's search fails, so that one slow channel is used
  pair_bytes_per_s DOUBLE NOT NULL, -- rate of an isolated copy
  knows_host_memory BOOLEAN NOT NULL, -- whether rates of host memory were measured
  user_supplied BOOLEAN NOT NULL, -- whether the machine is that of the user
  PRIMARY KEY (system)
);
-- Measured and forecast times of collective operations.
CREATE TABLE collective_time (
  system VARCHAR NOT NULL, -- machine and settings
  operation VARCHAR NOT NULL, -- operation of nccl-tests
  size_bytes DOUBLE NOT NULL, -- size as nccl-tests counts
  measured_s DOUBLE NOT NULL, -- measured time
  forecast_s DOUBLE NOT NULL, -- forecast time
  nccl_s DOUBLE, -- NCCL's estimate, which ranks its choices
  alpha_beta_s DOUBLE, -- latency and rate of an isolated pair
  transport VARCHAR NOT NULL, -- P2P, or SHM if a hop passes through host memory
  size_class VARCHAR NOT NULL, -- class of sizes
  algorithm VARCHAR NOT NULL, -- NCCL's choice
  protocol VARCHAR NOT NULL, -- NCCL's choice
  limited_by VARCHAR NOT NULL, -- largest part of the forecast time
  user_supplied BOOLEAN NOT NULL, -- whether the machine is that of the user
  source VARCHAR NOT NULL, -- origin of the measured time
  PRIMARY KEY (system, operation, size_bytes)
);
-- Errors of forecasts of all_reduce on machines that others measured.
CREATE TABLE collective_error (
  transport VARCHAR NOT NULL, -- P2P or SHM
  size_class VARCHAR NOT NULL, -- class of sizes
  forecast VARCHAR NOT NULL, -- fabricast, fabricast_left_out (constants fitted without the machine), nccl_estimate or alpha_beta
  rows BIGINT NOT NULL, -- number of measured times
  machines BIGINT NOT NULL, -- number of machines
  median DOUBLE NOT NULL, -- median of |forecast / measured - 1|
  within_band DOUBLE NOT NULL, -- share within 15 %
  worst DOUBLE NOT NULL, -- largest error
  PRIMARY KEY (transport, size_class, forecast)
);
-- Measured and forecast times of collective operations on public NVLink nodes and clusters.
CREATE TABLE cluster_time (
  system VARCHAR NOT NULL, -- machine
  machine_class VARCHAR NOT NULL, -- one node, or the kind of network between nodes
  operation VARCHAR NOT NULL, -- operation of nccl-tests
  gpu VARCHAR NOT NULL, -- GPU model
  nodes BIGINT NOT NULL, -- number of nodes
  ranks BIGINT NOT NULL, -- number of GPUs
  algorithms VARCHAR NOT NULL, -- algorithms that a setting permits; empty for all
  size_bytes DOUBLE NOT NULL, -- size as nccl-tests counts
  measured_s DOUBLE NOT NULL, -- measured time, median of runs
  forecast_s DOUBLE NOT NULL, -- forecast time, with constants of all machines
  nccl_s DOUBLE, -- NCCL's estimate
  algorithm VARCHAR NOT NULL, -- NCCL's choice
  protocol VARCHAR NOT NULL, -- NCCL's choice
  is_virtual BOOLEAN NOT NULL, -- whether the nodes are virtual machines
  PRIMARY KEY (system, operation, nodes, ranks, algorithms, size_bytes)
);
-- Errors of forecasts on NVLink nodes and clusters, each machine left out of the fit of the constants.
CREATE TABLE cluster_error (
  machine_class VARCHAR NOT NULL, -- one node, or the kind of network between nodes
  operations VARCHAR NOT NULL, -- collectives, alltoall or sendrecv
  size_class VARCHAR NOT NULL, -- class of sizes
  machines BIGINT NOT NULL, -- number of machines
  rows BIGINT NOT NULL, -- number of measured times
  median DOUBLE NOT NULL, -- median of |forecast / measured - 1|
  within_band DOUBLE NOT NULL, -- share within 15 %
  within_thirty DOUBLE NOT NULL, -- share within 30 %
  worst DOUBLE NOT NULL, -- largest error
  shortest DOUBLE NOT NULL, -- least ratio of measured to forecast times; of ten machines or more, the 10th percentile
  longest DOUBLE NOT NULL, -- largest ratio; of ten machines or more, the 90th percentile
  coverage DOUBLE, -- share of the times of each machine within the range of the others
  with_two_rows DOUBLE, -- median error if two rows of the machine calibrate the forecast
  nccl DOUBLE, -- median error of NCCL's estimate
  nccl_with_two_rows DOUBLE, -- median error of NCCL's estimate with two rows
  alpha_beta DOUBLE, -- median error of an alpha-beta model of the other machines
  PRIMARY KEY (machine_class, operations, size_class)
);
-- Public measurements of copies between pairs of GPUs, and between host memory and GPUs.
CREATE TABLE pair_rate (
  machine VARCHAR NOT NULL, -- machine and configuration
  gpu VARCHAR NOT NULL, -- model of the GPUs
  gpus BIGINT, -- number of GPUs; NULL if the source does not state it
  pcie VARCHAR NOT NULL, -- generation and lanes of the PCIe link, such as 4 x16; empty if the source does not state them
  path_class VARCHAR NOT NULL, -- path of the pairs, as the source states it
  kind VARCHAR NOT NULL, -- direction, and p2p or staged (through host memory)
  rate_bytes_per_s DOUBLE NOT NULL, -- median over the pairs; both ways: the total
  lowest_bytes_per_s DOUBLE NOT NULL, -- slowest pair
  highest_bytes_per_s DOUBLE NOT NULL, -- fastest pair
  source VARCHAR NOT NULL, -- where the numbers are
  PRIMARY KEY (machine, path_class, kind)
);
-- Patterns of applications on clusters: what each layer costs.
CREATE TABLE cluster_layer (
  cluster VARCHAR NOT NULL, -- cluster: a network of the study, or a cluster of the user
  pattern VARCHAR NOT NULL, -- pattern of copies
  layer VARCHAR NOT NULL, -- node, card, network, process or latency
  share_of_copies DOUBLE, -- share of the copies that the layer limits for the longest time; NULL without a simulation
  time_without_s DOUBLE NOT NULL, -- time of all copies if the layer limited nothing
  gain DOUBLE NOT NULL, -- ratio of both times
  copies BIGINT NOT NULL, -- number of copies
  time_s DOUBLE NOT NULL, -- time of all copies
  is_lower_bound BOOLEAN NOT NULL, -- whether the time is that of the busiest link, not simulated
  limits_last BOOLEAN NOT NULL, -- whether the layer limits the last copy or is that of the busiest link
  user_supplied BOOLEAN NOT NULL, -- whether the cluster is that of the user
  PRIMARY KEY (cluster, pattern, layer)
);
-- Patterns of applications on clusters: times with other choices.
CREATE TABLE cluster_choice (
  cluster VARCHAR NOT NULL, -- cluster
  pattern VARCHAR NOT NULL, -- pattern of copies
  choice VARCHAR NOT NULL, -- unchanged, or another mapping, order, card or routing
  time_s DOUBLE NOT NULL, -- time of all copies
  gain DOUBLE NOT NULL, -- ratio of the unchanged time to it
  user_supplied BOOLEAN NOT NULL, -- whether the cluster is that of the user
  PRIMARY KEY (cluster, pattern, choice)
);
-- Public measurements of copies between nodes with their forecasts.
CREATE TABLE cluster_copy (
  pattern VARCHAR NOT NULL, -- all-to-all or sendrecv of NCCL, or messages of MPI
  system VARCHAR NOT NULL, -- machine
  row BIGINT NOT NULL, -- number of the row of the pattern
  size_bytes DOUBLE NOT NULL, -- size of a buffer of a rank, or of a message
  measured_s DOUBLE NOT NULL, -- measured time
  forecast_s DOUBLE NOT NULL, -- forecast time
  PRIMARY KEY (pattern, system, row)
);
-- Measurements with several processes per node.
CREATE TABLE maxrate_measurement (
  dataset VARCHAR NOT NULL, -- data set
  system VARCHAR NOT NULL, -- system
  path VARCHAR NOT NULL, -- on-node or off-node path
  processes BIGINT NOT NULL, -- communicating processes per node
  size_bytes DOUBLE NOT NULL, -- message size
  time_s DOUBLE NOT NULL, -- time in the convention of the source
  convention VARCHAR NOT NULL, -- definition of the time in the source
  estimator VARCHAR NOT NULL, -- median, minimum, ...
  spread DOUBLE, -- relative spread
  PRIMARY KEY (dataset, system, path, processes, size_bytes)
);
-- Fits of the max-rate model.
CREATE TABLE maxrate_fit (
  dataset VARCHAR NOT NULL, -- data set
  model VARCHAR NOT NULL, -- model
  protocol VARCHAR NOT NULL, -- protocol
  median_error DOUBLE NOT NULL, -- median absolute relative error
  p90_error DOUBLE NOT NULL, -- 90th percentile of the absolute relative error
  max_error DOUBLE NOT NULL, -- maximum absolute relative error
  share_within_10 DOUBLE NOT NULL, -- share of errors within 10 %
  identifiable VARCHAR[] NOT NULL, -- identifiable parameters by profile likelihood, if intervals were computed; values of other parameters are meaningless
  cells BIGINT NOT NULL, -- number of fitted measurements
  starts_reached BIGINT, -- number of starts that converged to the lowest cost
  breakpoints DOUBLE[], -- sizes at which the protocol changes, in bytes
  s DOUBLE, -- start-up time in s
  s0 DOUBLE, -- start-up time independent of the number of processes, in s
  s1 DOUBLE, -- start-up time of the latency term, in s
  s2 DOUBLE, -- start-up time per process, in s
  k0 DOUBLE, -- number of processes beyond which each further process delays all
  r_c DOUBLE, -- rate of one process in bytes/s
  r_n DOUBLE, -- rate of the node in bytes/s
  r_b DOUBLE, -- rate of the first process in bytes/s
  r_i DOUBLE, -- rate that each further process adds in bytes/s
  r_x DOUBLE, -- rate of the delay beyond k0 processes in bytes/s
  unseen_median_error DOUBLE, -- median absolute relative error for process counts left out of the fit
  unseen_p90_error DOUBLE, -- 90th percentile of the absolute relative error for process counts left out of the fit
  chosen BOOLEAN NOT NULL, -- whether the model has the lowest median error for process counts left out of the fit
  s_low DOUBLE, -- lower end of the 95 % interval (profile likelihood and bootstrap by process count); NULL if not identifiable
  s_high DOUBLE, -- upper end of the 95 % interval
  r_n_low DOUBLE, -- lower end of the 95 % interval
  r_n_high DOUBLE, -- upper end of the 95 % interval
  r_b_low DOUBLE, -- lower end of the 95 % interval
  r_b_high DOUBLE, -- upper end of the 95 % interval
  r_i_low DOUBLE, -- lower end of the 95 % interval
  r_i_high DOUBLE, -- upper end of the 95 % interval
  PRIMARY KEY (dataset, model, protocol)
);
-- Predictions of GPU-centric communication methods.
CREATE TABLE gpucentric_prediction (
  system VARCHAR NOT NULL, -- system
  method VARCHAR NOT NULL, -- method
  size_bytes DOUBLE NOT NULL, -- message size
  nodes BIGINT NOT NULL, -- number of nodes
  overlap DOUBLE NOT NULL, -- share of the communication time that can be overlapped
  time_s DOUBLE NOT NULL, -- time of a step
  energy_j DOUBLE NOT NULL, -- energy of a node for a step
  power_w DOUBLE NOT NULL, -- mean power of a node
  PRIMARY KEY (system, method, size_bytes, nodes, overlap)
);
-- Best method and path by system, message size, nodes, overlap and objective.
CREATE TABLE gpucentric_choice (
  system VARCHAR NOT NULL, -- system
  size_bytes DOUBLE NOT NULL, -- message size
  nodes BIGINT NOT NULL, -- number of nodes
  overlap DOUBLE NOT NULL, -- share of the communication time that can be overlapped
  objective VARCHAR NOT NULL, -- time, energy or edp
  method VARCHAR NOT NULL, -- best method
  path VARCHAR NOT NULL, -- best path
  margin DOUBLE NOT NULL, -- relative margin over the second-best method
  tie BOOLEAN NOT NULL, -- whether the margin is smaller than the error of the models
  PRIMARY KEY (system, size_bytes, nodes, overlap, objective)
);
-- Statements of the talk and their robustness against variation of assumed parameters.
CREATE TABLE gpucentric_statement (
  statement VARCHAR NOT NULL, -- identifier
  text VARCHAR NOT NULL, -- wording of the statement
  slides VARCHAR NOT NULL, -- slide numbers
  decided_by VARCHAR NOT NULL, -- basis of the verdict: structure, published numbers or assumed values
  passed BOOLEAN NOT NULL, -- whether the statement is true with the default parameters
  observed DOUBLE NOT NULL, -- number in the statement as modelled; otherwise 1 if true, 0 if false
  share_of_draws DOUBLE NOT NULL, -- share of samples for which the statement is true; assumed parameters vary from half to double
  draws BIGINT NOT NULL, -- number of samples
  PRIMARY KEY (statement)
);
-- Observations on the slides, and whether the model agrees.
CREATE TABLE gpucentric_observation (
  observation VARCHAR NOT NULL, -- identifier
  slide VARCHAR NOT NULL, -- slide
  text VARCHAR NOT NULL, -- paraphrase of the slide
  tag provenance_tag NOT NULL, -- provenance
  marks VARCHAR NOT NULL, -- marks of the row on slide 26
  workloads VARCHAR NOT NULL, -- reconstructed workloads of the marks
  confidence VARCHAR NOT NULL, -- confidence of the reconstruction; low: only the number of marks is known
  statement VARCHAR NOT NULL, -- statements that check the observation
  passed BOOLEAN, -- whether these statements are true; NULL if the observation cannot be checked
  PRIMARY KEY (observation)
);
-- Sizes at which the fastest method changes.
CREATE TABLE gpucentric_crossover (
  system VARCHAR NOT NULL, -- system, and the pair of methods if only two are compared
  size_bytes DOUBLE NOT NULL, -- message size
  fastest_below VARCHAR NOT NULL, -- fastest method for smaller messages
  fastest_above VARCHAR NOT NULL, -- fastest method for larger messages
  PRIMARY KEY (system, size_bytes)
);
-- Unpublished rates, and whether the statements about small and large payloads are true for them.
CREATE TABLE gpucentric_feasible (
  store_rate DOUBLE NOT NULL, -- rate of remote stores in bytes/s
  peer_rate_large DOUBLE NOT NULL, -- rate of peer-to-peer reads of large payloads in bytes/s
  small_holds BOOLEAN NOT NULL, -- whether GGAS is fastest up to 4 KiB
  large_holds BOOLEAN NOT NULL, -- whether MPI beats RMA and GGAS from 4 MiB on
  PRIMARY KEY (store_rate, peer_rate_large)
);
-- Control methods of a stencil, relative to control by the CPU.
CREATE TABLE gpucentric_control (
  control VARCHAR NOT NULL, -- cpu, stream, device or in_kernel
  grid VARCHAR NOT NULL, -- grid of slides 9 and 10, points in each direction
  points BIGINT NOT NULL, -- number of grid points
  performance DOUBLE NOT NULL, -- performance relative to control by the CPU
  performance_low DOUBLE NOT NULL, -- 5th percentile over samples of the assumed parameters
  performance_high DOUBLE NOT NULL, -- 95th percentile over samples of the assumed parameters
  energy DOUBLE NOT NULL, -- energy relative to control by the CPU
  energy_low DOUBLE NOT NULL, -- 5th percentile over samples of the assumed parameters
  energy_high DOUBLE NOT NULL, -- 95th percentile over samples of the assumed parameters
  PRIMARY KEY (control, grid)
);
-- Workloads by method and number of nodes; all profiles are assumed.
CREATE TABLE gpucentric_workload (
  workload VARCHAR NOT NULL, -- workload
  nodes BIGINT NOT NULL, -- number of nodes
  method VARCHAR NOT NULL, -- method
  time_s DOUBLE NOT NULL, -- time of a step
  energy_j DOUBLE NOT NULL, -- energy of a node for a step
  performance_ratio DOUBLE NOT NULL, -- performance relative to MPI
  energy_ratio DOUBLE NOT NULL, -- energy relative to MPI
  PRIMARY KEY (workload, nodes, method)
);
-- Measured and modelled paths of a message between GPUs, and the choices of the models.
CREATE TABLE gpucentric_path (
  system VARCHAR NOT NULL, -- system
  model VARCHAR NOT NULL, -- two_parameters, piecewise, or piecewise_unseen (without the size itself)
  size_bytes DOUBLE NOT NULL, -- message size
  staged_s DOUBLE NOT NULL, -- measured time through host memory
  direct_s DOUBLE NOT NULL, -- measured time of CUDA-aware MPI
  modelled_staged_s DOUBLE NOT NULL, -- modelled time through host memory
  modelled_direct_s DOUBLE NOT NULL, -- modelled time of CUDA-aware MPI
  chosen VARCHAR NOT NULL, -- path with the lower modelled time
  correct BOOLEAN NOT NULL, -- whether the chosen path has the lower measured time
  regret DOUBLE NOT NULL, -- relative increase of the measured time due to the choice
  PRIMARY KEY (system, model, size_bytes)
);
-- Measurements on a GPU of the user, one row per cell.
CREATE TABLE gpucentric_measurement (
  system VARCHAR NOT NULL, -- this_gpu
  gpu VARCHAR NOT NULL, -- name of the GPU
  quantity VARCHAR NOT NULL, -- time, rate or power
  item VARCHAR NOT NULL, -- measured operation
  memory VARCHAR NOT NULL, -- pinned or pageable host memory; gpu or processors for powers
  clock VARCHAR NOT NULL, -- host clock, device clock, or energy counter
  size_bytes DOUBLE NOT NULL, -- bytes of a copy, 0 without a copy
  copies BIGINT NOT NULL, -- number of concurrent copies
  value DOUBLE NOT NULL, -- lowest median time or highest median rate over bursts
  spread DOUBLE NOT NULL, -- highest median divided by lowest median over bursts, minus 1
  bursts BIGINT NOT NULL, -- number of bursts
  unit VARCHAR NOT NULL, -- unit of value
  PRIMARY KEY (system, quantity, item, memory, clock, size_bytes, copies)
);
-- Cases on two-level direct networks.
CREATE TABLE network_case (
  case_id VARCHAR NOT NULL, -- case
  workload VARCHAR NOT NULL, -- workload
  supernodes BIGINT NOT NULL, -- number of supernodes
  mapping VARCHAR NOT NULL, -- mapping
  routing VARCHAR NOT NULL, -- routing
  placement VARCHAR NOT NULL, -- placement
  gateway VARCHAR NOT NULL, -- gateway rule
  multiplicity BIGINT NOT NULL, -- number of links between two supernodes
  seed BIGINT, -- seed of random mappings
  tasks BIGINT NOT NULL, -- number of tasks
  communications BIGINT NOT NULL, -- number of communications
  bottleneck_s DOUBLE NOT NULL, -- time of the busiest link: a lower bound for direct routing, of expected loads for indirect routing
  bottleneck_class VARCHAR NOT NULL, -- class of the busiest link
  turned BOOLEAN NOT NULL, -- whether the sides of node blocks are reversed
  wrap BOOLEAN NOT NULL, -- whether the grid is a torus
  floor_s DOUBLE NOT NULL, -- time if the load were balanced over all links of each class
  PRIMARY KEY (case_id)
);
-- Loads by link class.
CREATE TABLE network_link_class (
  case_id VARCHAR NOT NULL, -- case
  class VARCHAR NOT NULL, -- link class
  links BIGINT NOT NULL, -- number of links
  used BIGINT NOT NULL, -- number of links with load
  min_bytes DOUBLE NOT NULL, -- minimum load
  mean_bytes DOUBLE NOT NULL, -- mean load
  max_bytes DOUBLE NOT NULL, -- maximum load
  p50_bytes DOUBLE NOT NULL, -- median load
  p90_bytes DOUBLE NOT NULL, -- 90th percentile of the load
  p99_bytes DOUBLE NOT NULL, -- 99th percentile of the load
  time_s DOUBLE NOT NULL, -- time of the busiest link of the class
  PRIMARY KEY (case_id, class)
);
-- Histograms of link loads.
CREATE TABLE network_link_histogram (
  case_id VARCHAR NOT NULL, -- case
  class VARCHAR NOT NULL, -- link class
  bin BIGINT NOT NULL, -- index of the bin
  lower_bytes DOUBLE NOT NULL, -- lower edge
  upper_bytes DOUBLE NOT NULL, -- upper edge
  links BIGINT NOT NULL, -- number of links in the bin
  PRIMARY KEY (case_id, class, bin)
);
-- Number of directed links of PERCS by number of supernodes.
CREATE TABLE network_count (
  supernodes BIGINT NOT NULL, -- number of supernodes
  class VARCHAR NOT NULL, -- link class
  links BIGINT NOT NULL, -- number of directed links
  PRIMARY KEY (supernodes, class)
);
-- Example of the talk: a stencil of 16 x 4 nodes in rank order on two supernodes.
CREATE TABLE network_example (
  wrap BOOLEAN NOT NULL, -- whether the grid is a torus
  fastest BIGINT NOT NULL, -- length of the grid side along which ranks are consecutive
  class VARCHAR NOT NULL, -- link class: LL, LR or D
  links BIGINT NOT NULL, -- number of directed links of the class
  used BIGINT NOT NULL, -- number of links with messages
  max_messages BIGINT NOT NULL, -- maximum number of messages on a link
  messages BIGINT NOT NULL, -- total number of messages of the example
  PRIMARY KEY (wrap, fastest, class)
);
-- Results of the search for better mappings.
CREATE TABLE network_search (
  workload VARCHAR NOT NULL, -- workload
  routing VARCHAR NOT NULL, -- direct, or indirect by expected loads
  start VARCHAR NOT NULL, -- initial mapping of the search: random nodes, or the best regular mapping
  start_s DOUBLE NOT NULL, -- time of the busiest link with the initial mapping
  bottleneck_s DOUBLE NOT NULL, -- time of the busiest link with the final mapping
  bottleneck_class VARCHAR NOT NULL, -- class of the busiest link with the final mapping
  floor_s DOUBLE NOT NULL, -- time if the load were balanced over all links of each class
  packets_s DOUBLE NOT NULL, -- packet-level time with the final mapping
  packet_bytes DOUBLE NOT NULL, -- maximum packet size of that simulation
  proposals BIGINT NOT NULL, -- number of proposed swaps
  kept BIGINT NOT NULL, -- number of accepted swaps
  PRIMARY KEY (workload, routing)
);
-- Metadata of this run.
CREATE TABLE run (
  run VARCHAR NOT NULL, -- identifier: digest of commit, configuration and lock
  git_commit VARCHAR, -- commit, NULL outside a checkout
  config JSON NOT NULL, -- merged configuration
  config_files VARCHAR NOT NULL, -- names of the configuration files; those of the command line are first and override the others
  seed BIGINT NOT NULL, -- root seed
  started TIMESTAMP, -- time at which the run was first recorded
  finished TIMESTAMP, -- time at which the database was built
  host VARCHAR NOT NULL, -- host name
  cpu VARCHAR NOT NULL, -- processor
  cores BIGINT NOT NULL, -- cores that the process may use
  package_versions JSON NOT NULL, -- versions of Python and of the numerical packages
  lock_digest VARCHAR, -- digest of uv.lock, NULL if the file is missing
  schema_digest VARCHAR NOT NULL, -- digest of the table definitions; equal for compatible databases
  PRIMARY KEY (run)
);
-- Content digests: equal for equal tables, independent of row order and file layout.
CREATE TABLE table_digest (
  table_name VARCHAR NOT NULL, -- table
  rows BIGINT NOT NULL, -- number of rows
  digest VARCHAR NOT NULL, -- DuckDB version, and md5 of the number of rows and the sum of the row hashes
  PRIMARY KEY (table_name)
);

-- Error statistics for the tolerance of each study.
CREATE VIEW error_by_model AS
  SELECT band.study, model, kind, origin, subset, n, share_within, share_within_low, share_within_high,
         median, mean_absolute, max_absolute
  FROM error_band AS band JOIN study ON study.study = band.study AND study.tolerance = band.tolerance
  ORDER BY ALL;
-- The 50 largest errors of each study for each kind of reference, with the graph as text. Trivial baselines, which leave
-- out contention, ports or the protocol, are omitted: their errors would fill the list.
CREATE VIEW worst_cases AS
  WITH judged AS (
    SELECT * FROM comparison
    WHERE model NOT IN (
      'no_contention', 'sharing_on_the_tree', 'max_min', 'busiest_link', 'postal', 'alpha_beta', 'nccl_estimate')
  ), bound AS (
    SELECT study, kind, list_min(max(abs(relative_error), 50)) AS least FROM judged GROUP BY study, kind
  ), worst AS (
    SELECT judged.* FROM judged JOIN bound ON bound.study = judged.study AND bound.kind = judged.kind
    WHERE abs(relative_error) >= least
    QUALIFY row_number() OVER (
      PARTITION BY judged.study, judged.kind ORDER BY abs(relative_error) DESC, case_id, item, quantity, model, origin
    ) <= 50
  )
  SELECT worst.*, graph_text.graph_text
  FROM worst LEFT JOIN (
    SELECT graph, string_agg(source || '>' || target, ' ' ORDER BY communication) AS graph_text
    FROM communication WHERE graph IN (SELECT case_id FROM worst) GROUP BY graph
  ) AS graph_text ON graph_text.graph = worst.case_id
  ORDER BY study, abs(relative_error) DESC, case_id, item, model;
-- Number of claims with each verdict by study.
CREATE VIEW claims_by_study AS
  SELECT study, count(*) FILTER (verdict = 'reproduced') AS reproduced,
         count(*) FILTER (verdict = 'decided_by_tolerance') AS decided_by_tolerance,
         count(*) FILTER (verdict = 'source_contradicted') AS source_contradicted,
         count(*) FILTER (verdict = 'model_differs') AS model_differs,
         count(*) FILTER (verdict = 'depends_on_reading') AS depends_on_reading,
         count(*) FILTER (verdict = 'follows_from_inputs') AS follows_from_inputs,
         count(*) FILTER (verdict = 'does_not_discriminate') AS does_not_discriminate,
         count(*) FILTER (verdict = 'not_testable') AS not_testable,
         count(*) FILTER (verdict = 'reproduced' AND evidence::VARCHAR LIKE 'independent%') AS reproduced_by_independent_data
  FROM claim GROUP BY study ORDER BY study;
-- Number of claims by evidence and verdict.
CREATE VIEW claims_by_evidence AS
  SELECT evidence, verdict, count(*) AS claims FROM claim GROUP BY evidence, verdict ORDER BY evidence, verdict;
-- The ten fastest schedules of each decomposition.
CREATE VIEW best_schedules AS
  SELECT * FROM schedule WHERE rank <= 10 ORDER BY study, decomposition, rank;
-- The busiest link class of each network case.
CREATE VIEW hot_links AS
  SELECT case_id, class, max_bytes, time_s FROM network_link_class
  QUALIFY row_number() OVER (PARTITION BY case_id ORDER BY time_s DESC, class) = 1 ORDER BY case_id;
