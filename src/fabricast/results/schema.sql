-- Tables of results/fabricast.duckdb. The comment behind a column is its COMMENT in the
-- database, the one above a table is the table's. Units stand in the column names (SI).

CREATE TYPE study_name AS ENUM ('pcie', 'breakdown', 'maxrate', 'gpucentric', 'percs');
CREATE TYPE reference_kind AS ENUM ('measured', 'simulated', 'published');
CREATE TYPE provenance_tag AS ENUM ('published', 'quoted', 'recalled', 'derived', 'assumed', 'measured');
CREATE TYPE claim_verdict AS ENUM ('reproduced', 'deviates', 'follows_from_inputs', 'does_not_discriminate', 'decided_by_tolerance', 'not_testable');
CREATE TYPE claim_relation AS ENUM ('equals', 'at_least', 'at_most', 'between', 'first');
CREATE TYPE claim_evidence AS ENUM ('independent_measurement', 'independent_fit', 'own_simulator', 'in_sample', 'published_inputs', 'recalled_inputs', 'assumed_inputs', 'definition');
CREATE TYPE tolerance_reason AS ENUM ('authors', 'ours');
CREATE TYPE topology_kind AS ENUM ('pcie_tree', 'two_level_direct', 'node', 'path');
CREATE TYPE graph_family AS ENUM ('scatter', 'gather', 'all_to_all', 'exhaustive', 'random', 'halo_2d', 'halo_3d', 'probe', 'example', 'user');
CREATE TYPE breakdown_layer AS ENUM ('CPU', 'I/O', 'Network');

-- The five published studies.
CREATE TABLE study (
  study study_name NOT NULL, -- short name
  title VARCHAR NOT NULL, -- title of the publication
  authors VARCHAR NOT NULL, -- its authors
  year INTEGER NOT NULL, -- year of publication
  venue VARCHAR NOT NULL, -- where it was published
  tolerance DOUBLE CHECK (tolerance > 0), -- largest relative error that counts as a hit
  PRIMARY KEY (study)
);
-- Topologies: vertices and directed links.
CREATE TABLE topology (
  topology VARCHAR NOT NULL, -- name
  study study_name NOT NULL, -- study that uses it
  kind topology_kind NOT NULL, -- kind of network
  source VARCHAR NOT NULL, -- where it comes from
  tag provenance_tag NOT NULL, -- provenance of its shape
  endpoints BIGINT NOT NULL CHECK (endpoints > 0), -- number of endpoints
  vertices BIGINT NOT NULL CHECK (vertices > 0), -- number of vertices
  links BIGINT NOT NULL CHECK (links >= 0), -- number of directed links
  leaf_symmetries BIGINT, -- leaf permutations that keep the tree; NULL beyond 2^63
  PRIMARY KEY (topology)
);
-- Vertices of topologies.
CREATE TABLE vertex (
  topology VARCHAR NOT NULL, -- topology
  vertex VARCHAR NOT NULL, -- name within the topology
  kind VARCHAR NOT NULL, -- root_complex, switch, endpoint, host_bridge, ...
  label VARCHAR NOT NULL, -- where it was read, such as a bus id
  parent VARCHAR, -- vertex above, NULL for the root
  PRIMARY KEY (topology, vertex)
);
-- Directed links of topologies.
CREATE TABLE link (
  topology VARCHAR NOT NULL, -- topology
  link VARCHAR NOT NULL, -- name within the topology
  source VARCHAR NOT NULL, -- vertex it leaves
  target VARCHAR NOT NULL, -- vertex it enters
  class VARCHAR NOT NULL, -- pcie_up, pcie_down, LL, LR, D, ...
  capacity_bytes_per_s DOUBLE NOT NULL CHECK (capacity_bytes_per_s > 0), -- capacity of this direction
  latency_s DOUBLE CHECK (latency_s >= 0), -- latency, NULL where the study has none
  PRIMARY KEY (topology, link)
);
-- Congestion graphs: sets of communications on one topology.
CREATE TABLE graph (
  graph VARCHAR NOT NULL, -- name
  topology VARCHAR NOT NULL, -- topology
  family graph_family NOT NULL, -- how it was made
  seed BIGINT, -- seed of random graphs
  communications BIGINT NOT NULL CHECK (communications > 0), -- number of communications
  subset VARCHAR NOT NULL, -- set it belongs to: validation, stress, probe, example, user
  PRIMARY KEY (graph)
);
-- Communications of congestion graphs.
CREATE TABLE communication (
  graph VARCHAR NOT NULL, -- graph
  communication BIGINT NOT NULL CHECK (communication >= 0), -- number within the graph, from 0
  source VARCHAR NOT NULL, -- sending endpoint
  target VARCHAR NOT NULL, -- receiving endpoint
  size_bytes DOUBLE NOT NULL CHECK (size_bytes > 0), -- size
  start_s DOUBLE NOT NULL CHECK (start_s >= 0), -- start
  path_class VARCHAR, -- PIX, PXB, PHB or SYS
  PRIMARY KEY (graph, communication)
);
-- Phases of worked examples and worst cases.
CREATE TABLE phase (
  graph VARCHAR NOT NULL, -- graph
  model VARCHAR NOT NULL, -- model
  phase BIGINT NOT NULL, -- number of the phase, from 0
  communication BIGINT NOT NULL, -- communication that is active in it
  start_s DOUBLE NOT NULL, -- start of the phase
  duration_s DOUBLE NOT NULL CHECK (duration_s > 0), -- duration of the phase
  rho DOUBLE NOT NULL CHECK (rho BETWEEN 0 AND 1.0000001), -- congestion factor
  transferred_bytes DOUBLE NOT NULL, -- bytes moved in the phase
  PRIMARY KEY (graph, model, phase, communication)
);
-- Parameters of models, with provenance.
CREATE TABLE parameter (
  study study_name NOT NULL, -- study
  system VARCHAR NOT NULL, -- system it belongs to
  name VARCHAR NOT NULL, -- name
  value DOUBLE NOT NULL, -- value
  unit VARCHAR NOT NULL, -- unit, 1 for a pure number
  tag provenance_tag NOT NULL, -- provenance
  source VARCHAR NOT NULL, -- where the value was read
  ci_low DOUBLE, -- lower end of the 95 % interval
  ci_high DOUBLE, -- upper end of the 95 % interval
  PRIMARY KEY (study, system, name)
);
-- Predictions of models.
CREATE TABLE prediction (
  study study_name NOT NULL, -- study
  case_id VARCHAR NOT NULL, -- graph, system or case
  item VARCHAR NOT NULL, -- communication, component or link class; empty where the case has one value
  quantity VARCHAR NOT NULL, -- elapsed, rate, latency, ...
  model VARCHAR NOT NULL, -- model
  value DOUBLE NOT NULL, -- predicted value
  unit VARCHAR NOT NULL, -- unit of the value
  PRIMARY KEY (study, case_id, item, quantity, model)
);
-- References that predictions are held against.
CREATE TABLE reference (
  study study_name NOT NULL, -- study
  case_id VARCHAR NOT NULL, -- graph, system or case
  item VARCHAR NOT NULL, -- communication, component or link class; empty where the case has one value
  quantity VARCHAR NOT NULL, -- elapsed, rate, latency, ...
  kind reference_kind NOT NULL, -- measured, simulated or published
  origin VARCHAR NOT NULL, -- who measured, simulated or published it
  value DOUBLE NOT NULL, -- reference value
  unit VARCHAR NOT NULL, -- unit of the value
  spread DOUBLE, -- simulated: half of the range below; else standard deviation where known
  low DOUBLE, -- simulated: smallest value over the phases of the arbiters
  high DOUBLE, -- simulated: largest value over the phases of the arbiters
  tag provenance_tag NOT NULL, -- provenance
  PRIMARY KEY (study, case_id, item, quantity, kind, origin)
);
-- One prediction beside one reference.
CREATE TABLE comparison (
  study study_name NOT NULL, -- study
  case_id VARCHAR NOT NULL, -- graph, system or case
  item VARCHAR NOT NULL, -- communication, component or link class
  quantity VARCHAR NOT NULL, -- elapsed, rate, latency, ...
  model VARCHAR NOT NULL, -- model
  kind reference_kind NOT NULL, -- kind of reference
  origin VARCHAR NOT NULL, -- origin of the reference
  predicted DOUBLE NOT NULL, -- predicted value; beside simulated references with the parameters calibrated for that hardware (table parameter)
  reference DOUBLE NOT NULL, -- reference value; of simulated ones the median over the phases of the arbiters
  reference_low DOUBLE, -- simulated: its smallest value over the phases
  reference_high DOUBLE, -- simulated: its largest value over the phases
  relative_error DOUBLE NOT NULL, -- (predicted - reference) / reference
  tolerance DOUBLE NOT NULL CHECK (tolerance > 0), -- the study's tolerance
  within BOOLEAN NOT NULL, -- whether the error is within the tolerance
  PRIMARY KEY (study, case_id, item, quantity, model, kind, origin)
);
-- Error statistics of models, never over several kinds of reference.
CREATE TABLE error_band (
  study study_name NOT NULL, -- study
  model VARCHAR NOT NULL, -- model
  kind reference_kind NOT NULL, -- kind of reference
  origin VARCHAR NOT NULL, -- origin of the references
  tolerance DOUBLE NOT NULL CHECK (tolerance > 0), -- half width of the band
  subset VARCHAR NOT NULL, -- which comparisons
  n BIGINT NOT NULL CHECK (n > 0), -- number of comparisons
  share_within DOUBLE NOT NULL CHECK (share_within BETWEEN 0 AND 1), -- share within the band
  share_within_low DOUBLE NOT NULL, -- lower end of its 95 % interval, resampled by case
  share_within_high DOUBLE NOT NULL, -- upper end of its 95 % interval, resampled by case
  share_within_least DOUBLE, -- simulated: share within the band in every phase of the arbiters
  share_within_most DOUBLE, -- simulated: share within the band in any phase of the arbiters
  median DOUBLE NOT NULL, -- median relative error
  p05 DOUBLE NOT NULL, -- 5th percentile of the relative error
  p95 DOUBLE NOT NULL, -- 95th percentile of the relative error
  mean_absolute DOUBLE NOT NULL, -- mean absolute relative error
  max_absolute DOUBLE NOT NULL, -- largest absolute relative error
  PRIMARY KEY (study, model, kind, origin, tolerance, subset)
);
-- Candidate definitions of an accuracy that a paper states without one.
CREATE TABLE accuracy (
  study study_name NOT NULL, -- study
  model VARCHAR NOT NULL, -- model
  kind reference_kind NOT NULL, -- kind of reference
  origin VARCHAR NOT NULL, -- origin of the references
  subset VARCHAR NOT NULL, -- which comparisons
  definition VARCHAR NOT NULL, -- the definition in words
  value DOUBLE NOT NULL, -- its value, 1 is perfect
  PRIMARY KEY (study, model, kind, origin, subset, definition)
);
-- Histograms of relative errors; the first and last bins are open.
CREATE TABLE error_histogram (
  study study_name NOT NULL, -- study
  model VARCHAR NOT NULL, -- model
  kind reference_kind NOT NULL, -- kind of reference
  origin VARCHAR NOT NULL, -- origin of the references
  subset VARCHAR NOT NULL, -- which comparisons
  bin BIGINT NOT NULL, -- number of the bin
  lower DOUBLE NOT NULL, -- lower edge of the relative error
  upper DOUBLE NOT NULL, -- upper edge of the relative error
  communications BIGINT NOT NULL CHECK (communications >= 0), -- comparisons in the bin
  PRIMARY KEY (study, model, kind, origin, subset, bin)
);
-- Features that explain the absolute error of a model, learnt with scikit-learn.
CREATE TABLE error_feature (
  study study_name NOT NULL, -- study
  model VARCHAR NOT NULL, -- model
  kind reference_kind NOT NULL, -- kind of reference
  origin VARCHAR NOT NULL, -- origin of the references
  subset VARCHAR NOT NULL, -- which comparisons
  feature VARCHAR NOT NULL, -- feature of a communication or its graph
  importance DOUBLE NOT NULL, -- loss of R2 on unseen groups when the feature is shuffled, mean over folds
  spread DOUBLE NOT NULL, -- its standard deviation over folds
  r2 DOUBLE NOT NULL, -- R2 of all features on unseen groups, mean over folds (pcie: isomorphism classes, percs: workload and mapping)
  PRIMARY KEY (study, model, kind, origin, subset, feature)
);
-- Concurrent copies that were measured, each machine with parameters from its copies alone.
CREATE TABLE measured_copy (
  machine VARCHAR NOT NULL, -- machine
  graph VARCHAR NOT NULL, -- copies that ran together
  topology VARCHAR NOT NULL, -- its topology
  own BOOLEAN NOT NULL, -- whether it is the user's machine
  communications VARCHAR NOT NULL, -- source>target of each flow, H is host memory
  flows BIGINT NOT NULL CHECK (flows > 0), -- number of flows
  program VARCHAR NOT NULL, -- how the measuring program copied
  graph_class VARCHAR NOT NULL, -- few copies, many copies of a GPU, between root complexes, direct links (NVLink, NVSwitch, xGMI), or host copies
  judged BOOLEAN NOT NULL, -- whether its error counts
  measured_bytes_per_s DOUBLE NOT NULL CHECK (measured_bytes_per_s > 0), -- rate of all flows together
  spread_bytes_per_s DOUBLE, -- half the range over repetitions, NULL for one
  forecast_bytes_per_s DOUBLE, -- engines, barriers and links: median over draws of what is random; NULL where a probe is missing
  low_bytes_per_s DOUBLE, -- least over these draws, and over what nothing tells of links between root complexes
  high_bytes_per_s DOUBLE, -- largest over these
  packets_bytes_per_s DOUBLE, -- packet by packet, same parameters and engines: median over draws; NULL for host memory and what is not judged
  packets_low_bytes_per_s DOUBLE, -- least over these draws
  packets_high_bytes_per_s DOUBLE, -- largest over these draws
  left_out_bytes_per_s DOUBLE, -- many copies of a GPU with the pause of the program fitted to the public rows of other machines; else NULL
  sharing_bytes_per_s DOUBLE NOT NULL, -- sharing on the tree alone
  no_contention_bytes_per_s DOUBLE NOT NULL, -- each flow as if alone
  relative_error DOUBLE, -- (forecast - measured) / measured; NULL without a forecast
  remark VARCHAR NOT NULL, -- why it is not judged; empty if it is
  PRIMARY KEY (machine, graph)
);
-- What measured copies say against a machine's tree, and what is known of such copies elsewhere.
CREATE TABLE machine_remark (
  machine VARCHAR NOT NULL, -- machine
  number BIGINT NOT NULL, -- place among the remarks on it
  own BOOLEAN NOT NULL, -- whether it is the user's machine
  remark VARCHAR NOT NULL, -- what disagrees
  PRIMARY KEY (machine, number)
);
-- Published statements as checkable rows: the verdict of the default reading, or the worst of equally good ones.
CREATE TABLE claim (
  claim VARCHAR NOT NULL, -- identifier
  study study_name NOT NULL, -- study
  statement VARCHAR NOT NULL, -- what was published
  source VARCHAR NOT NULL, -- where
  of_ours BOOLEAN NOT NULL, -- whether the statement is this project's own, beyond its sources
  relation claim_relation NOT NULL, -- how the observed value has to lie to the bounds; first: a rank of 1
  low DOUBLE, -- the statement's lower bound, or its value, as printed; NULL where it has none
  high DOUBLE, -- the statement's upper bound, or its value, as printed; NULL where it has none
  unit VARCHAR NOT NULL, -- unit of bounds, tolerance and observed value
  rounding DOUBLE NOT NULL CHECK (rounding >= 0), -- half a unit of the last printed digit
  tolerance DOUBLE CHECK (tolerance > 0), -- how far beyond the bounds the observed value may lie, NULL for rounding alone
  tolerance_reason tolerance_reason, -- whose tolerance it is
  tolerance_because VARCHAR, -- why it is as large
  tolerance_version INTEGER, -- 1, and one more with every change; changes stand in CHANGELOG.md
  observed DOUBLE, -- value computed in this run
  observed_low DOUBLE, -- lower end of its range over the phases of a simulated reference
  observed_high DOUBLE, -- upper end of its range over the phases of a simulated reference
  verdict claim_verdict NOT NULL, -- follows_from_inputs: cannot fail; does_not_discriminate: every baseline holds too, or one is as good
  evidence claim_evidence NOT NULL, -- what the verdict rests on
  readings INTEGER NOT NULL, -- readings of the source that this run tests
  holds_in DOUBLE CHECK (holds_in BETWEEN 0 AND 1), -- share of these readings under which it holds
  share_of_draws DOUBLE CHECK (share_of_draws BETWEEN 0 AND 1), -- share of draws of assumed values with which it holds
  shown_to_fail BOOLEAN NOT NULL, -- whether it deviates here, under a baseline, or with a wrong model or wrong data
  note VARCHAR NOT NULL, -- reason or context
  figure VARCHAR, -- figure that shows it: study.name
  query VARCHAR, -- query that observes it
  PRIMARY KEY (claim)
);
-- Each claim under every reading of what its source leaves open.
CREATE TABLE claim_reading (
  claim VARCHAR NOT NULL, -- claim
  reading VARCHAR NOT NULL, -- members of its axes; empty where nothing is open
  observed DOUBLE, -- value under this reading, NULL where this run does not hold it
  verdict claim_verdict NOT NULL, -- what the value says of the statement
  is_default BOOLEAN NOT NULL, -- whether the verdict of the claim rests on it
  query VARCHAR NOT NULL, -- query that observes it
  PRIMARY KEY (claim, reading)
);
-- Each claim under trivial alternatives to the model; what all of them pass does not discriminate.
CREATE TABLE claim_baseline (
  claim VARCHAR NOT NULL, -- claim
  baseline VARCHAR NOT NULL, -- alternative
  observed DOUBLE, -- value under it
  verdict claim_verdict NOT NULL, -- what the value says of the statement
  PRIMARY KEY (claim, baseline)
);
-- Each claim with a wrong model or wrong data: one that holds and is not by construction has to deviate.
CREATE TABLE claim_mutation (
  claim VARCHAR NOT NULL, -- claim
  mutation VARCHAR NOT NULL, -- table.column = expression
  observed DOUBLE, -- value with it
  verdict claim_verdict NOT NULL, -- what the value says of the statement
  PRIMARY KEY (claim, mutation)
);
-- Schedules: the best, the worst and every published one.
CREATE TABLE schedule (
  study study_name NOT NULL, -- study
  decomposition VARCHAR NOT NULL, -- topology, grid and mode
  rank BIGINT NOT NULL, -- place by elapsed time, from 1; equals take places in turn
  schedule VARCHAR NOT NULL, -- sends of each step as text
  elapsed_s DOUBLE NOT NULL, -- elapsed time
  steps_s DOUBLE[] NOT NULL, -- time of each step, or until the last k-th send ends if asynchronous
  published BOOLEAN NOT NULL, -- whether the talk shows it
  PRIMARY KEY (study, decomposition, rank)
);
-- What is known of all schedules of a pattern.
CREATE TABLE schedule_summary (
  study study_name NOT NULL, -- study
  decomposition VARCHAR NOT NULL, -- topology, pattern, mode and model
  topology VARCHAR NOT NULL, -- topology
  pattern VARCHAR NOT NULL, -- communications whose order is free
  mode VARCHAR NOT NULL, -- synchronised or asynchronous
  model VARCHAR NOT NULL, -- model
  schedules DOUBLE NOT NULL, -- number of schedules
  evaluated BIGINT NOT NULL, -- how many were evaluated
  bound_s DOUBLE NOT NULL, -- no schedule can be faster
  best_s DOUBLE NOT NULL, -- fastest schedule
  ties BIGINT, -- how many are as fast; NULL if not all were evaluated
  median_s DOUBLE, -- median; NULL if not all were evaluated
  worst_s DOUBLE, -- slowest; NULL if not all were evaluated
  naive_s DOUBLE NOT NULL, -- the order in which the pattern lists its communications
  published_s DOUBLE, -- the published schedule
  published_rank BIGINT, -- one more than the number of faster schedules
  gap DOUBLE NOT NULL, -- fastest found above the proved optimum or bound, relative
  PRIMARY KEY (study, decomposition)
);
-- Histograms of the times of all schedules.
CREATE TABLE schedule_histogram (
  study study_name NOT NULL, -- study
  decomposition VARCHAR NOT NULL, -- topology, pattern, mode and model
  bin BIGINT NOT NULL, -- number of the bin
  lower_s DOUBLE NOT NULL, -- lower edge
  upper_s DOUBLE NOT NULL, -- upper edge
  schedules BIGINT NOT NULL CHECK (schedules >= 0), -- schedules in the bin
  PRIMARY KEY (study, decomposition, bin)
);
-- Components of a small message.
CREATE TABLE breakdown_component (
  system VARCHAR NOT NULL, -- system
  component VARCHAR NOT NULL, -- component
  parent VARCHAR, -- component it is part of
  layer breakdown_layer NOT NULL, -- CPU, I/O or Network
  side VARCHAR NOT NULL, -- initiator, target or both
  time_ns DOUBLE NOT NULL, -- time
  tag provenance_tag NOT NULL, -- provenance
  source VARCHAR NOT NULL, -- where it was read
  spread_ns DOUBLE NOT NULL, -- standard deviation for the Monte Carlo
  PRIMARY KEY (system, component)
);
-- Shares of components in published figures.
CREATE TABLE breakdown_share (
  system VARCHAR NOT NULL, -- system
  figure VARCHAR NOT NULL, -- figure of the talk
  component VARCHAR NOT NULL, -- component
  share DOUBLE NOT NULL, -- share computed here
  published_share DOUBLE, -- share printed in the talk
  difference DOUBLE, -- share - published_share
  agreement VARCHAR, -- rounded, truncated, or differs: how the printed percentage follows from the share
  PRIMARY KEY (system, figure, component)
);
-- Totals of the breakdown, with their uncertainty.
CREATE TABLE breakdown_total (
  system VARCHAR NOT NULL, -- system
  metric VARCHAR NOT NULL, -- injection, injection_llp, latency or latency_llp
  model_ns DOUBLE NOT NULL, -- total of the model
  model_low_ns DOUBLE NOT NULL, -- lower end of its 95 % interval (Monte Carlo over spreads)
  model_high_ns DOUBLE NOT NULL, -- upper end of its 95 % interval
  observed_ns DOUBLE, -- observed total
  relative_error DOUBLE, -- (model - observed) / observed
  share_within_tolerance DOUBLE, -- share of the draws within the tolerance of the observed total
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
-- Measurements of many processes on a node.
CREATE TABLE maxrate_measurement (
  dataset VARCHAR NOT NULL, -- data set
  system VARCHAR NOT NULL, -- system
  path VARCHAR NOT NULL, -- on node or off node, and which
  processes BIGINT NOT NULL, -- communicating processes a node
  size_bytes DOUBLE NOT NULL, -- message size
  time_s DOUBLE NOT NULL, -- time in the convention of the source
  convention VARCHAR NOT NULL, -- convention of the source
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
  p90_error DOUBLE NOT NULL, -- 90th percentile
  max_error DOUBLE NOT NULL, -- largest
  share_within_10 DOUBLE NOT NULL, -- share within 10 %
  identifiable VARCHAR[] NOT NULL, -- parameters that the data tell by profile likelihood, where intervals were computed; values of others mean nothing
  cells BIGINT NOT NULL, -- measurements behind the fit
  starts_reached BIGINT, -- starts that ended at the lowest cost
  breakpoints DOUBLE[], -- sizes at which the protocol changes, in bytes
  s DOUBLE, -- start-up time in s
  s0 DOUBLE, -- start-up time that does not depend on processes, in s
  s1 DOUBLE, -- start-up time of the latency term, in s
  s2 DOUBLE, -- start-up time per process, in s
  k0 DOUBLE, -- processes beyond which each further one delays all
  r_c DOUBLE, -- rate of one process in bytes/s
  r_n DOUBLE, -- rate of the node in bytes/s
  r_b DOUBLE, -- rate of the first process in bytes/s
  r_i DOUBLE, -- rate that each further process adds in bytes/s
  r_x DOUBLE, -- rate of the delay beyond k0 processes in bytes/s
  unseen_median_error DOUBLE, -- median absolute relative error on numbers of processes left out of the fit
  unseen_p90_error DOUBLE, -- its 90th percentile
  chosen BOOLEAN NOT NULL, -- least median error on unseen numbers of processes
  s_low DOUBLE, -- lower end of the 95 % interval (profile and bootstrap by processes); NULL where the data do not tell it
  s_high DOUBLE, -- upper end of the 95 % interval
  r_n_low DOUBLE, -- lower end of the 95 % interval
  r_n_high DOUBLE, -- upper end of the 95 % interval
  r_b_low DOUBLE, -- lower end of the 95 % interval
  r_b_high DOUBLE, -- upper end of the 95 % interval
  r_i_low DOUBLE, -- lower end of the 95 % interval
  r_i_high DOUBLE, -- upper end of the 95 % interval
  PRIMARY KEY (dataset, model, protocol)
);
-- Predictions of GPU-centric methods.
CREATE TABLE gpucentric_prediction (
  system VARCHAR NOT NULL, -- system
  method VARCHAR NOT NULL, -- method
  size_bytes DOUBLE NOT NULL, -- message size
  nodes BIGINT NOT NULL, -- nodes
  overlap DOUBLE NOT NULL, -- share of time that can be overlapped
  time_s DOUBLE NOT NULL, -- time
  energy_j DOUBLE NOT NULL, -- energy
  power_w DOUBLE NOT NULL, -- power
  PRIMARY KEY (system, method, size_bytes, nodes, overlap)
);
-- Best method and path.
CREATE TABLE gpucentric_choice (
  system VARCHAR NOT NULL, -- system
  size_bytes DOUBLE NOT NULL, -- message size
  nodes BIGINT NOT NULL, -- nodes
  overlap DOUBLE NOT NULL, -- share of time that can be overlapped
  objective VARCHAR NOT NULL, -- time, energy or edp
  method VARCHAR NOT NULL, -- best method
  path VARCHAR NOT NULL, -- best path
  margin DOUBLE NOT NULL, -- lead over the second
  tie BOOLEAN NOT NULL, -- whether the lead is smaller than the error of the models
  PRIMARY KEY (system, size_bytes, nodes, overlap, objective)
);
-- Statements of the talk, checked, and how firmly they hold when assumed parameters are varied.
CREATE TABLE gpucentric_statement (
  statement VARCHAR NOT NULL, -- identifier
  text VARCHAR NOT NULL, -- what is said
  slides VARCHAR NOT NULL, -- where
  decided_by VARCHAR NOT NULL, -- structure, published numbers or assumed values
  passed BOOLEAN NOT NULL, -- whether it holds with the default parameters
  observed DOUBLE NOT NULL, -- number behind it, or 1 if it holds
  share_of_draws DOUBLE NOT NULL, -- share of draws, assumed parameters from half to double, in which it holds
  draws BIGINT NOT NULL, -- draws
  PRIMARY KEY (statement)
);
-- What slides say, row by row, and whether the model agrees where a cell can be checked.
CREATE TABLE gpucentric_observation (
  observation VARCHAR NOT NULL, -- identifier
  slide VARCHAR NOT NULL, -- slide
  text VARCHAR NOT NULL, -- what is said, in our words
  tag provenance_tag NOT NULL, -- provenance
  marks VARCHAR NOT NULL, -- marks of the row on slide 26
  workloads VARCHAR NOT NULL, -- workloads that the marks belong to, reconstructed
  confidence VARCHAR NOT NULL, -- of the reconstruction; low: only the number of marks survived
  statement VARCHAR NOT NULL, -- statement that checks it
  passed BOOLEAN, -- whether it holds; NULL where a cell cannot be checked
  PRIMARY KEY (observation)
);
-- Sizes at which the fastest method changes.
CREATE TABLE gpucentric_crossover (
  system VARCHAR NOT NULL, -- system, and the pair of methods if only two are compared
  size_bytes DOUBLE NOT NULL, -- size
  fastest_below VARCHAR NOT NULL, -- fastest below
  fastest_above VARCHAR NOT NULL, -- fastest above
  PRIMARY KEY (system, size_bytes)
);
-- Rates that nobody published, and whether the statements on small and large payloads hold with them.
CREATE TABLE gpucentric_feasible (
  store_rate DOUBLE NOT NULL, -- rate of remote stores in bytes/s
  peer_rate_large DOUBLE NOT NULL, -- rate of peer-to-peer reads of large payloads in bytes/s
  small_holds BOOLEAN NOT NULL, -- GGAS is fastest up to 4 KiB
  large_holds BOOLEAN NOT NULL, -- MPI beats RMA and GGAS from 4 MiB on
  PRIMARY KEY (store_rate, peer_rate_large)
);
-- Forms of control of a stencil, relative to control by the CPU.
CREATE TABLE gpucentric_control (
  control VARCHAR NOT NULL, -- cpu, stream, device or in_kernel
  grid VARCHAR NOT NULL, -- grid of slides 9 and 10, points in each direction
  points BIGINT NOT NULL, -- points of the grid
  performance DOUBLE NOT NULL, -- performance relative to that of the CPU
  performance_low DOUBLE NOT NULL, -- 5th percentile over draws of the assumed parameters
  performance_high DOUBLE NOT NULL, -- 95th percentile
  energy DOUBLE NOT NULL, -- energy relative to that of the CPU
  energy_low DOUBLE NOT NULL, -- 5th percentile
  energy_high DOUBLE NOT NULL, -- 95th percentile
  PRIMARY KEY (control, grid)
);
-- Workloads by method and nodes, all profiles assumed.
CREATE TABLE gpucentric_workload (
  workload VARCHAR NOT NULL, -- workload
  nodes BIGINT NOT NULL, -- nodes
  method VARCHAR NOT NULL, -- method
  time_s DOUBLE NOT NULL, -- time of a step
  energy_j DOUBLE NOT NULL, -- energy of a node for a step
  performance_ratio DOUBLE NOT NULL, -- performance by that of MPI
  energy_ratio DOUBLE NOT NULL, -- energy by that of MPI
  PRIMARY KEY (workload, nodes, method)
);
-- Measured paths of a message between GPUs, models of them, and what the models choose.
CREATE TABLE gpucentric_path (
  system VARCHAR NOT NULL, -- system
  model VARCHAR NOT NULL, -- two_parameters, piecewise, or piecewise_unseen: without the size itself
  size_bytes DOUBLE NOT NULL, -- message size
  staged_s DOUBLE NOT NULL, -- measured time through host memory
  direct_s DOUBLE NOT NULL, -- measured time of CUDA-aware MPI
  modelled_staged_s DOUBLE NOT NULL, -- modelled time through host memory
  modelled_direct_s DOUBLE NOT NULL, -- modelled time of CUDA-aware MPI
  chosen VARCHAR NOT NULL, -- path that the model chooses
  correct BOOLEAN NOT NULL, -- whether that is the faster one
  regret DOUBLE NOT NULL, -- time lost by the choice, relative
  PRIMARY KEY (system, model, size_bytes)
);
-- What a run on a GPU of the user measured, one row a cell.
CREATE TABLE gpucentric_measurement (
  system VARCHAR NOT NULL, -- this_gpu
  gpu VARCHAR NOT NULL, -- its name
  quantity VARCHAR NOT NULL, -- time, rate or power
  item VARCHAR NOT NULL, -- what was done
  memory VARCHAR NOT NULL, -- pinned or pageable memory of the host; gpu or processors for powers
  clock VARCHAR NOT NULL, -- clock of the host, of the device, or an energy counter
  size_bytes DOUBLE NOT NULL, -- bytes of a copy, 0 where nothing is copied
  copies BIGINT NOT NULL, -- copies at the same time
  value DOUBLE NOT NULL, -- lowest median time or highest median rate over bursts
  spread DOUBLE NOT NULL, -- highest by lowest median over bursts, less 1
  bursts BIGINT NOT NULL, -- bursts
  unit VARCHAR NOT NULL, -- unit of value
  PRIMARY KEY (system, quantity, item, memory, clock, size_bytes, copies)
);
-- Cases on two-level direct networks.
CREATE TABLE network_case (
  case_id VARCHAR NOT NULL, -- case
  workload VARCHAR NOT NULL, -- workload
  supernodes BIGINT NOT NULL, -- supernodes
  mapping VARCHAR NOT NULL, -- mapping
  routing VARCHAR NOT NULL, -- routing
  placement VARCHAR NOT NULL, -- placement
  gateway VARCHAR NOT NULL, -- gateway rule
  multiplicity BIGINT NOT NULL, -- links between two supernodes
  seed BIGINT, -- seed of random mappings
  tasks BIGINT NOT NULL, -- tasks
  communications BIGINT NOT NULL, -- communications
  bottleneck_s DOUBLE NOT NULL, -- time of the busiest link: a bound with direct routes, that of expected loads with indirect ones
  bottleneck_class VARCHAR NOT NULL, -- class of the busiest link
  turned BOOLEAN NOT NULL, -- whether the sides of node blocks stand in reverse order
  wrap BOOLEAN NOT NULL, -- whether the grid is a torus
  floor_s DOUBLE NOT NULL, -- time if every class were evenly loaded
  PRIMARY KEY (case_id)
);
-- Loads by link class.
CREATE TABLE network_link_class (
  case_id VARCHAR NOT NULL, -- case
  class VARCHAR NOT NULL, -- link class
  links BIGINT NOT NULL, -- links
  used BIGINT NOT NULL, -- links with load
  min_bytes DOUBLE NOT NULL, -- least load
  mean_bytes DOUBLE NOT NULL, -- mean load
  max_bytes DOUBLE NOT NULL, -- largest load
  p50_bytes DOUBLE NOT NULL, -- median load
  p90_bytes DOUBLE NOT NULL, -- 90th percentile
  p99_bytes DOUBLE NOT NULL, -- 99th percentile
  time_s DOUBLE NOT NULL, -- time of the busiest link of the class
  PRIMARY KEY (case_id, class)
);
-- Histograms of link loads.
CREATE TABLE network_link_histogram (
  case_id VARCHAR NOT NULL, -- case
  class VARCHAR NOT NULL, -- link class
  bin BIGINT NOT NULL, -- bin
  lower_bytes DOUBLE NOT NULL, -- lower end
  upper_bytes DOUBLE NOT NULL, -- upper end
  links BIGINT NOT NULL, -- links in the bin
  PRIMARY KEY (case_id, class, bin)
);
-- Directed links of PERCS by supernodes.
CREATE TABLE network_count (
  supernodes BIGINT NOT NULL, -- supernodes
  class VARCHAR NOT NULL, -- link class
  links BIGINT NOT NULL, -- directed links
  PRIMARY KEY (supernodes, class)
);
-- The talk's example: a stencil of 16 x 4 nodes in rank order on two supernodes.
CREATE TABLE network_example (
  wrap BOOLEAN NOT NULL, -- whether the grid is a torus
  fastest BIGINT NOT NULL, -- side of the grid along which ranks run
  class VARCHAR NOT NULL, -- class of links: LL, LR or D
  links BIGINT NOT NULL, -- directed links of the class
  used BIGINT NOT NULL, -- links that carry a message
  max_messages BIGINT NOT NULL, -- messages on the fullest
  messages BIGINT NOT NULL, -- messages of the whole example
  PRIMARY KEY (wrap, fastest, class)
);
-- Mappings that were searched for direct routing.
CREATE TABLE network_search (
  workload VARCHAR NOT NULL, -- workload
  routing VARCHAR NOT NULL, -- direct, or indirect by expected loads
  start VARCHAR NOT NULL, -- mapping where the search starts: random nodes, or the best regular one
  start_s DOUBLE NOT NULL, -- time of its busiest link
  bottleneck_s DOUBLE NOT NULL, -- time of the busiest link with the mapping found
  bottleneck_class VARCHAR NOT NULL, -- its class
  floor_s DOUBLE NOT NULL, -- time if every class were evenly loaded
  packets_s DOUBLE NOT NULL, -- packet-level time of the mapping found
  packet_bytes DOUBLE NOT NULL, -- largest packet of that simulation
  proposals BIGINT NOT NULL, -- swaps that were tried
  kept BIGINT NOT NULL, -- swaps that were kept
  PRIMARY KEY (workload, routing)
);
-- This run: what, when, where.
CREATE TABLE run (
  run VARCHAR NOT NULL, -- identifier: digest of commit, configuration and lock
  git_commit VARCHAR, -- commit, NULL outside a checkout
  config JSON NOT NULL, -- merged configuration
  config_files VARCHAR NOT NULL, -- names of the files that it was read from, the last one decides
  seed BIGINT NOT NULL, -- root seed
  started TIMESTAMP, -- when the run was recorded first
  finished TIMESTAMP, -- when the database was built
  host VARCHAR NOT NULL, -- host name
  cpu VARCHAR NOT NULL, -- processor
  cores BIGINT NOT NULL, -- cores that the process may use
  package_versions JSON NOT NULL, -- versions of the packages that compute
  lock_digest VARCHAR, -- digest of uv.lock, NULL where it is not there
  schema_digest VARCHAR NOT NULL, -- digest of the tables' definitions: equal for databases that can be read alike
  PRIMARY KEY (run)
);
-- Content digests: equal for equal tables, whatever the file's bytes.
CREATE TABLE table_digest (
  table_name VARCHAR NOT NULL, -- table
  rows BIGINT NOT NULL, -- number of rows
  digest VARCHAR NOT NULL, -- version of DuckDB, and md5 over the number of rows and the sum of its hashes of them
  PRIMARY KEY (table_name)
);

-- Error statistics at each study's own tolerance.
CREATE VIEW error_by_model AS
  SELECT band.study, model, kind, origin, subset, n, share_within, share_within_low, share_within_high,
         median, mean_absolute, max_absolute
  FROM error_band AS band JOIN study ON study.study = band.study AND study.tolerance = band.tolerance
  ORDER BY ALL;
-- The 50 largest errors of each study against each kind of reference, with the graph as text.
CREATE VIEW worst_cases AS
  WITH bound AS (
    SELECT study, kind, list_min(max(abs(relative_error), 50)) AS least FROM comparison GROUP BY study, kind
  ), worst AS (
    SELECT comparison.* FROM comparison JOIN bound ON bound.study = comparison.study AND bound.kind = comparison.kind
    WHERE abs(relative_error) >= least
    QUALIFY row_number() OVER (
      PARTITION BY comparison.study, comparison.kind ORDER BY abs(relative_error) DESC, case_id, item, quantity, model, origin
    ) <= 50
  )
  SELECT worst.*, graph_text.graph_text
  FROM worst LEFT JOIN (
    SELECT graph, string_agg(source || '>' || target, ' ' ORDER BY communication) AS graph_text
    FROM communication WHERE graph IN (SELECT case_id FROM worst) GROUP BY graph
  ) AS graph_text ON graph_text.graph = worst.case_id
  ORDER BY study, abs(relative_error) DESC, case_id, item, model;
-- Verdicts by study.
CREATE VIEW claims_by_study AS
  SELECT study, count(*) FILTER (verdict = 'reproduced') AS reproduced,
         count(*) FILTER (verdict = 'deviates') AS deviates,
         count(*) FILTER (verdict = 'follows_from_inputs') AS follows_from_inputs,
         count(*) FILTER (verdict = 'does_not_discriminate') AS does_not_discriminate,
         count(*) FILTER (verdict = 'decided_by_tolerance') AS decided_by_tolerance,
         count(*) FILTER (verdict = 'not_testable') AS not_testable,
         count(*) FILTER (verdict = 'reproduced' AND evidence::VARCHAR LIKE 'independent%') AS reproduced_by_independent_data
  FROM claim GROUP BY study ORDER BY study;
-- Verdicts by what they rest on.
CREATE VIEW claims_by_evidence AS
  SELECT evidence, verdict, count(*) AS claims FROM claim GROUP BY evidence, verdict ORDER BY evidence, verdict;
-- The ten fastest schedules of each decomposition.
CREATE VIEW best_schedules AS
  SELECT * FROM schedule WHERE rank <= 10 ORDER BY study, decomposition, rank;
-- The busiest link class of each network case.
CREATE VIEW hot_links AS
  SELECT case_id, class, max_bytes, time_s FROM network_link_class
  QUALIFY row_number() OVER (PARTITION BY case_id ORDER BY time_s DESC, class) = 1 ORDER BY case_id;
