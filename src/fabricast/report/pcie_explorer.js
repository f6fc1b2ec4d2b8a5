// Explorer of concurrent copies: click a source, then a target. The models are kernels translated to JavaScript.

// The recommended model: event loop of src/fabricast/pcie/engines/kernels for copies that each source issues in their
// order, one at a time. Rates are those of the translated back-pressure kernel, with traffic in both directions.
const MOST_ROUNDS = 12, SETTLED = 1e-6, UNLIMITED = 1000, FINISHED = 1e-12;
const runEngines = (one, network, graph, values, constants) => {
  const flows = graph.source.length, links = network.capacity.length, bandwidth = values.bandwidth;
  const capacity = network.capacity.map((share) => share * bandwidth);
  const duplex = bandwidth / Math.min(bandwidth / (1 + constants.duplex_cost), bandwidth) - 1;
  const payload = (1 - 2 * values.tau) / (1 + 2 * values.tau * values.crossing_cost);
  const memory = new_memory(Math.max(flows, links), links, links);
  memory.copies.crossing.fill(0);
  memory.copies.longest.fill(0);
  const pair = graph.source.map((from, flow) => from * network.endpoints + graph.target[flow]);
  pair.forEach((number, flow) => { memory.copies.pair[flow] = number; });
  const route = pair.map((number) => Array.from(network.route_link.slice(network.route_offset[number], network.route_offset[number + 1])));
  const alone = route.map((hops) => Math.min(...hops.map((link) => capacity[link])));
  const waits = Waits(array(Float64Array, flows, links), array(Float64Array, flows, links), array(Int32Array, flows, links));
  const load = new Float64Array(links), rate = new Float64Array(flows);
  const shareLinks = (acting) => {
    acting.forEach((flow, place) => { memory.copies.active[place] = flow; });
    find_users(acting.length, network, true, memory);
    load.fill(0);
    const users = memory.links.user_count, weight = 1 / (1 + duplex);
    const both = duplex > 0 && one.opposite.some((back, link) => users[link] > 0 && users[back] > 0);
    for (let round = 0; round < (both ? MOST_ROUNDS : 1); round++) {
      let change = 0;
      for (let link = 0; link < links; link++) {
        const free = capacity[link] / bandwidth - (both ? duplex * load[one.opposite[link]] : 0);
        const usable = Math.min(Math.max(free, 1e-6), UNLIMITED);
        change = Math.max(change, Math.abs(usable - memory.links.capacity[link]));
        memory.links.capacity[link] = usable;
      }
      if (round > 0 && change <= SETTLED) break;
      back_pressure(acting.length, links, payload, values.crossing_cost, memory);
      for (let link = 0; link < links; link++) load[link] *= 1 - weight;
      for (const flow of acting) for (const link of route[flow]) load[link] += weight * memory.copies.rho[flow];
    }
    for (const flow of acting) rate[flow] = memory.copies.rho[flow] * bandwidth;
  };
  const left = Float64Array.from(graph.size_bytes), end_s = new Float64Array(flows), initial_rho = new Float64Array(flows);
  const startsAt = new Float64Array(flows), state = new Int32Array(flows), last = new Map(), busy = new Set(), [WAITS, RUNS, ENDED] = [0, 1, 2];
  // Network cards execute their copies themselves.
  const engines = graph.source.map((from, flow) => one.gpus[from] && one.gpus[graph.target[flow]] ? from : -1);
  engines.forEach((engine, flow) => { if (engine < 0) state[flow] = RUNS; });
  let now = 0, unfinished = flows;
  while (unfinished > 0) {
    for (let engine = 0; engine < network.endpoints; engine++) {
      if (busy.has(engine)) continue;
      const ready = graph.source.map((_, flow) => flow).filter((flow) => engines[flow] === engine && state[flow] === WAITS);
      const before = last.get(engine) ?? -1, chosen = ready.find((flow) => flow > before) ?? ready[0];
      if (chosen === undefined) continue;
      busy.add(engine);
      last.set(engine, chosen);
      state[chosen] = RUNS;
      startsAt[chosen] = now + (before >= 0 ? constants.pause * graph.size_bytes[chosen] / alone[chosen] : 0);
    }
    let following = Infinity;
    const started = graph.source.map((_, flow) => flow).filter((flow) => state[flow] === RUNS);
    for (const flow of started) if (startsAt[flow] > now) following = Math.min(following, startsAt[flow]);
    const acting = started.filter((flow) => startsAt[flow] <= now);
    shareLinks(acting);
    for (const flow of acting) following = Math.min(following, now + left[flow] / rate[flow]);
    if (now === 0) for (const flow of acting) initial_rho[flow] = memory.copies.rho[flow];
    find_bottlenecks(acting.length, BY_INPUT_PORT, 0, network, memory);
    add_waits(acting.length, following - now, memory, waits);
    for (let flow = 0; flow < flows; flow++)
      if (state[flow] === WAITS || (state[flow] === RUNS && startsAt[flow] > now)) waits.limited_s.d[flow * links + route[flow][0]] += following - now;
    for (const flow of acting) {
      left[flow] -= rate[flow] * (following - now);
      if (left[flow] > FINISHED * graph.size_bytes[flow] + rate[flow] * 1e-15 * following) continue;
      state[flow] = ENDED;
      end_s[flow] = following;
      busy.delete(engines[flow]);
      unfinished -= 1;
    }
    now = following;
  }
  const bottleneck = graph.source.map((_, flow) => {
    let longest = 0;
    for (let link = 0; link < links; link++) if (waits.limited_s.d[flow * links + link] > waits.limited_s.d[flow * links + longest]) longest = link;
    return longest;
  });
  const caused_by = bottleneck.map((link, flow) => waits.blocked_s.d[flow * links + link] > 0.5 * waits.limited_s.d[flow * links + link] ? waits.cause.d[flow * links + link] : -1);
  return { end_s, initial_rho, bottleneck, caused_by };
};

const pcieExplorer = (root, data) => {
  root.data = data;
  if (!data.trees.length) { root.textContent = "This run has no tree."; return; }
  const element = (name, attributes = {}, ...children) => {
    const found = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) key in found && key !== "list" ? found[key] = value : found.setAttribute(key, value);
    found.append(...children);
    return found;
  };
  const drawn = (name, attributes, text) => {
    const found = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
    if (text !== undefined) found.textContent = text;
    return found;
  };
  // Same wording as `fabricast predict`.
  const waited = (tree, link) => tree.endpoints.includes(link.source) ? `endpoint ${link.source} sends`
    : tree.endpoints.includes(link.target) ? `endpoint ${link.target} receives` : `link ${link.source} > ${link.target}`;
  const HEADS = ["copy", "factor at start", "time (ms)", "slowdown", "bottleneck", "caused by", "limited by", ""];
  // Constants of the translated kernels.
  const METHODS = { CONGESTION_FACTOR, NO_CONTENTION, BUSIEST_LINK, MAX_MIN, BACK_PRESSURE };
  let tree = data.trees[0], copies = [], source = null;

  const choice = (label, options) => {
    const select = element("select", { ariaLabel: label }, ...options.map(([value, text]) => element("option", { value }, text)));
    return [element("label", {}, `${label} `, select), select];
  };
  const [treeLabel, trees] = choice("tree", data.trees.map((one, number) => [number, `${one.name}${one.peers.length ? " (PCIe only)" : ""}, ${one.endpoints.length} endpoints`]));
  const [modelLabel, models] = choice("model", data.models.map((one, number) => [number, one.title]));
  const slider = (label, unit, min, max, step) => {
    const input = element("input", { type: "range", min, max, step, ariaLabel: unit ? `${label} in ${unit}` : label });
    const shown = element("output");
    const text = () => { shown.textContent = `${+input.value}${unit ? `\u00a0${unit}` : ""}`; };
    input.addEventListener("input", () => { text(); update(); });
    return { input, set: (value) => { input.value = value; text(); }, label: element("label", {}, `${label} `, input, " ", shown) };
  };
  const bandwidth = slider("one copy alone", "GB/s", 1, 64, 0.01);
  const size = slider("size", "MiB", 1, 1024, 1);
  const tau = slider("tau", "", 0, 0.49, 0.001);
  const cost = slider("crossing cost", "", 1, 1.5, 0.001);
  const said = element("p", { className: "small" });
  const IDLE = "color-mix(in srgb, var(--soft) 45%, transparent)";
  // Interpolate through yellow, because a mixture of blue and orange is grey.
  const colour = (load) => load > 1.001 ? "#b3261e" : load <= 0 ? IDLE : load < 0.5
    ? `color-mix(in srgb, #E6B400 ${200 * load}%, #56B4E9)` : `color-mix(in srgb, #D55E00 ${200 * load - 100}%, #E6B400)`;
  const swatch = (background) => element("span", { className: "swatch", style: `background: ${background}` });
  const key = element("p", { className: "small" }, "Load of a link: ", swatch(IDLE), " none; ",
    swatch("linear-gradient(to right, #56B4E9, #E6B400, #D55E00)"), " low to saturated; ", swatch("#b3261e"), " demand above its capacity. Arrows show the direction of links in use.");
  const picture = drawn("svg", { role: "group", "aria-label": "Tree; choose a source, then a target" });
  const sideways = element("p", { className: "small", hidden: true }, "Scroll the tree sideways to see all of it.");
  const body = element("tbody");
  const table = element("table", {}, element("caption", { className: "skip" }, "Copies"), element("thead", {}, element("tr", {},
    ...HEADS.map((text) => element("th", { scope: "col" }, text)))), body);
  const clear = element("button", { type: "button", className: "button" }, "Remove all");
  root.append(element("div", { className: "tools" }, treeLabel, modelLabel, clear), element("div", { className: "tools" }, size.label, bandwidth.label, tau.label, cost.label),
    element("div", { className: "tree" }, picture), sideways, key, said, table);

  const float = (values) => Float64Array.from(values), whole = (values) => Int32Array.from(values);
  const network = (one) => ({ ...one.routes, route_offset: whole(one.routes.route_offset), route_link: whole(one.routes.route_link),
    crossing_pair: whole(one.routes.crossing_pair), capacity: float(one.routes.capacity),
    leaves_root_complex: whole(one.routes.leaves_root_complex), behind_root_complex: whole(one.routes.behind_root_complex) });

  // Also called by the tests, with graphs as arrays and results in full precision.
  root.evaluate = (one, model, graphs, values) => {
    if (model.method === "ENGINES") {
      const found = { end_s: [], initial_rho: [], phases: [], bottleneck: [], caused_by: [] }, tables = network(one);
      for (let graph = 0; graph + 1 < graphs.offset.length; graph++) {
        const part = (values) => Array.from(values).slice(graphs.offset[graph], graphs.offset[graph + 1]);
        const run = runEngines(one, tables, { source: part(graphs.source), target: part(graphs.target), size_bytes: part(graphs.size_bytes) }, values, data.engines);
        for (const [key, values] of Object.entries(run)) found[key].push(...values);
      }
      return found;
    }
    const count = graphs.source.length, used = model.uses_tau ? values.tau : 0;
    const results = { end_s: new Float64Array(count), initial_rho: new Float64Array(count), phases: new Int32Array(graphs.offset.length - 1), bottleneck: new Int32Array(count).fill(-1), caused_by: new Int32Array(count).fill(-1) };
    const rule = { method: METHODS[model.method], options: whole(model.options), tau: used, piece_cost: values.crossing_cost,
      piece_payload: (1 - 2 * used) / (1 + 2 * used * values.crossing_cost), bandwidth_bytes_per_s: values.bandwidth, latency_s: 0, first_phase_only: false };
    evaluate_graphs(0, graphs.offset.length - 1, { offset: whole(graphs.offset), source: whole(graphs.source), target: whole(graphs.target),
      size_bytes: float(graphs.size_bytes), start_s: new Float64Array(count), after: new Int32Array(count).fill(-1) }, network(one), rule, results);
    return results;
  };

  const place = (vertex) => [34 + 52 * vertex.x, 26 + 62 * vertex.y];
  const draw = (loads) => {
    const vertices = new Map(tree.vertices.map((vertex) => [vertex.name, vertex]));
    const deepest = Math.max(...tree.vertices.map((vertex) => vertex.y));
    picture.replaceChildren();
    picture.setAttribute("viewBox", `0 0 ${52 * tree.endpoints.length + 16} ${62 * deepest + 60}`);
    // Minimum width at which boxes are readable and can be tapped.
    picture.style.minWidth = `${38 * tree.endpoints.length}px`;
    requestAnimationFrame(() => { const box = picture.parentElement; sideways.hidden = box.scrollWidth <= box.clientWidth; });
    picture.style.maxWidth = `${Math.max(420, 78 * tree.endpoints.length)}px`;
    const ports = new Map(), pair = (link) => [link.source, link.target].sort().join(" ");
    for (const link of tree.links) ports.set(pair(link), Math.max(ports.get(pair(link)) ?? 0, link.port));
    tree.links.forEach((link, number) => {
      const [x, y] = place(vertices.get(link.source)), [x2, y2] = place(vertices.get(link.target));
      // Offset both directions of a link, and parallel links, perpendicular to their slope.
      const ahead = link.up ? [x2 - x, y2 - y] : [x - x2, y - y2], length = Math.hypot(...ahead) || 1, load = Math.min(1, loads[number]);
      const shift = (link.up ? -4 : 4) + 16 * (link.port - ports.get(pair(link)) / 2), aside = [-ahead[1] / length * shift, ahead[0] / length * shift];
      const line = drawn("line", { x1: x + aside[0], y1: y + aside[1], x2: x2 + aside[0], y2: y2 + aside[1], style: `stroke: ${colour(loads[number])}`, "stroke-width": 1.5 + 6 * load });
      line.append(drawn("title", {}, `${link.source} to ${link.target}: ${Math.round(100 * loads[number])} % of its capacity`));
      picture.append(line);
      if (load > 0) {
        const angle = Math.atan2(y2 - y, x2 - x) * 180 / Math.PI, size = 4 + 3 * load;
        const middle = [x + 0.55 * (x2 - x) + aside[0], y + 0.55 * (y2 - y) + aside[1]];
        picture.append(drawn("polygon", { points: `${-size},${-size} ${size},0 ${-size},${size}`, transform: `translate(${middle}) rotate(${angle})`, fill: "#16202c", stroke: "#fff", "stroke-width": .7 }));
      }
    });
    for (const vertex of tree.vertices) {
      const [x, y] = place(vertex), end = vertex.kind === "endpoint";
      const group = drawn("g", end ? { role: "button", tabindex: 0, "aria-label": `endpoint ${vertex.name}`, "aria-pressed": String(vertex.name === source), style: "cursor: pointer" } : {});
      group.append(drawn("rect", { x: x - 17, y: y - 13, width: 34, height: 26, rx: end ? 5 : 13, fill: vertex.name === source ? "#0b5cad" : "#fff", stroke: "#16202c" }),
        drawn("text", { x, y: y + 4, "text-anchor": "middle", "font-size": 12, fill: vertex.name === source ? "#fff" : "#16202c" }, vertex.name));
      if (end) {
        group.dataset.gpu = vertex.name;
        group.addEventListener("click", () => choose(vertex.name));
        group.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(vertex.name); } });
      }
      picture.append(group);
    }
  };
  const choose = (name) => {
    if (source === null) source = name;
    else { if (source !== name) copies.push([source, name]); source = null; }
    update();
    picture.querySelector(`[data-gpu="${CSS.escape(name)}"]`)?.focus();
  };
  const update = () => {
    const model = data.models[+models.value], number = new Map(tree.endpoints.map((name, place_) => [name, place_]));
    tau.label.hidden = !model.uses_tau || !["ports_and_engines", "congestion_factor", "round_robin_upstream", "back_pressure"].includes(model.name);
    cost.label.hidden = !["ports_and_engines", "back_pressure"].includes(model.name);
    const bytes = 2 ** 20 * size.input.value, values = { bandwidth: 1e9 * bandwidth.input.value, tau: +tau.input.value, crossing_cost: +cost.input.value };
    const results = root.evaluate(tree, model, { offset: [0, copies.length], source: copies.map(([from]) => number.get(from)), target: copies.map(([, to]) => number.get(to)), size_bytes: copies.map(() => bytes) }, values);
    const routes = tree.routes, loads = tree.links.map(() => 0);
    const links_of = (copy) => {
      const [from, to] = copies[copy], pair = number.get(from) * routes.endpoints + number.get(to);
      return routes.route_link.slice(routes.route_offset[pair], routes.route_offset[pair + 1]);
    };
    copies.forEach((_, copy) => links_of(copy).forEach((link) => { loads[link] += results.initial_rho[copy]; }));
    draw(loads.map((load, link) => load / routes.capacity[link]));
    const times = (kept) => root.evaluate(tree, model, { offset: [0, kept.length], source: kept.map(([from]) => number.get(from)),
      target: kept.map(([, to]) => number.get(to)), size_bytes: kept.map(() => bytes) }, values).end_s;
    // Evaluate again without each copy, as `fabricast predict` does.
    const without = copies.length > 64 ? [] : copies.map((_, removed) => times(copies.filter((__, copy) => copy !== removed)));
    body.replaceChildren(...copies.map(([from, to], copy) => {
      const link = tree.links[results.bottleneck[copy]], cause = tree.links[results.caused_by[copy]], time = results.end_s[copy];
      const remove = element("button", { type: "button", className: "button", ariaLabel: `Remove ${from} to ${to}` }, "×");
      remove.onclick = () => { copies.splice(copy, 1); update(); };
      const slower = time / times([copies[copy]])[0], slow = slower > 1 + 1e-9;
      const helpful = without.map((ends, removed) => [ends[copy - (removed < copy)], removed]).filter(([shorter, removed]) => slow && removed !== copy && shorter < time * (1 - 1e-9))
        .sort(([one, first], [other, second]) => one - other || first - second).map(([, removed]) => `${copies[removed][0]} → ${copies[removed][1]}`);
      const names = helpful.length ? helpful.slice(0, 4).join(", ") + (helpful.length > 4 ? ` (${helpful.length - 4} more)` : "") : slow ? "several copies together" : "";
      const cells = [`${from} → ${to}`, results.initial_rho[copy].toFixed(2), (1e3 * time).toFixed(1), slower.toFixed(2), slow && link ? waited(tree, link) : "none", cause ? waited(tree, cause) : "", names];
      const row = element("tr", {}, ...cells.map((text, column) => element("td", { "data-label": HEADS[column], ...(column && column < 4 ? { className: "r" } : {}) }, text)), element("td", {}, remove));
      return row;
    }));
    const direct = copies.some(([from, to]) => tree.peers.some((ends) => ends.includes(from) && ends.includes(to)));
    said.textContent = (source !== null ? `From ${source} to which? ` : "To add a copy, click an endpoint, then the one that it copies to. ")
      + (tree.tag ? `Bandwidth of an isolated copy: ${tree.tag}. ` : "The bandwidth of this tree is unknown: 25 GB/s is a placeholder. ")
      + (tree.tau ? `The initial tau, ${tree.tau}, is the published value of this machine; the worked example of the talk has 0.2. ` : "")
      + (model.method === "ENGINES" ? "Each GPU sends its copies one after the other, in their order here. " : "")
      + (tau.label.hidden || model.method === "ENGINES" ? "" : "In the models of the paper, unused bandwidth is not redistributed, so that a link that is not saturated can limit a copy. ")
      + (tree.staged ? "Some GPUs have no peer access: their copies pass through host memory, and this explorer shows direct ones. " : "")
      + (direct ? "Direct links join some of these GPUs; these are the times over PCIe (predict --pcie-only). " : "")
      + "Bottleneck: where a copy waits; caused by: the full port behind it; limited by: the copies whose removal helps.";
  };
  const open = () => {
    tree = data.trees[+trees.value];
    source = null;
    copies = data.first.map((ends) => ends.map((place_) => tree.endpoints[place_])).filter((ends) => ends.every((name) => name !== undefined));
    bandwidth.set(Math.round((tree.bandwidth ?? 25e9) / 1e7) / 100);
    tau.set(tree.tau ?? 0);
    cost.set(tree.crossing_cost ?? 1);
    update();
  };
  trees.onchange = open;
  models.onchange = update;
  clear.onclick = () => { copies = []; source = null; update(); };
  size.set(300);
  open();
};
