"use strict";
// The function scope keeps these names separate from those of the explorer scripts.
(() => {
const $ = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// Each figure is embedded once and shared by the overview and its section.
const inflate = async (packed, type = "text/plain") => {
  // The browser decodes base64 natively, which is much faster than a loop in JavaScript.
  const { body } = await fetch(`data:application/octet-stream;base64,${packed}`);
  return new Response(body.pipeThrough(new DecompressionStream("deflate")), { headers: { "Content-Type": type } });
};
const packed = JSON.parse($("#pictures").textContent);
const unpack = async () => {
  for (const [name, data] of Object.entries(packed)) {
    const images = all(`img[data-picture="${CSS.escape(name)}"]`);
    if (!images.length) continue;
    const address = URL.createObjectURL(await (await inflate(data, "image/svg+xml")).blob());
    for (const image of images) image.src = address;
    await new Promise((ready) => setTimeout(ready));
  }
  document.documentElement.dataset.pictures = "shown";
};

// Tables: sortable by any column; rows beyond the first ones are shown on request.
const SHOWN = 6;
const cellKey = (row, column) => {
  const cell = row.cells[column];
  const value = cell.dataset.value;
  const text = cell.textContent.trim();
  if (value !== undefined) return value === "" ? null : +value;
  const number = Number(text.replace(/[,\u00a0%]/g, ""));
  return text === "" || text === "–" ? null : Number.isNaN(number) ? text.toLowerCase() : number;
};
for (const table of all("table")) {
  const body = $("tbody", table);
  const rows = [...body.rows];
  const more = table.parentElement.nextElementSibling?.matches(".more") ? table.parentElement.nextElementSibling : null;
  let opened = false;
  const show = () => {
    const asked = rows.filter((row) => row.dataset.filtered !== "true");
    rows.forEach((row) => { row.hidden = row.dataset.filtered === "true"; row.classList.remove("later"); });
    if (!opened && more) asked.slice(SHOWN).forEach((row) => { row.hidden = true; row.classList.add("later"); });
    if (more) {
      more.hidden = opened || asked.length <= SHOWN;
      $("button", more).textContent = `Show all ${asked.length} rows`;
    }
  };
  if (more) $("button", more).onclick = () => { opened = true; show(); };
  const heads = all("thead th", table);
  const sort = (column, down) => {
    rows.sort((a, b) => {
      const x = cellKey(a, column), y = cellKey(b, column);
      if (x === null || y === null) return (x === null) - (y === null);
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    body.append(...rows);
    heads.forEach((head, number) => number === column
      ? head.setAttribute("aria-sort", down ? "descending" : "ascending") : head.removeAttribute("aria-sort"));
    show();
  };
  heads.forEach((head, column) => {
    const button = $("button", head);
    if (button) button.onclick = () => sort(column, head.getAttribute("aria-sort") === "ascending");
  });
  table.refresh = show;
  table.sort = sort;
  show();
}

// Claims: filters by text, study, verdict and evidence.
const claims = $("#claim-table");
const filtered = () => {
  // The search covers visible text, not queries, interpretations and their headings.
  const words_of = (row) => {
    const said = $(".wide", row).cloneNode(true);
    all("details, a", said).forEach((part) => part.remove());
    return said.textContent.toLowerCase();
  };
  const texts = new Map(all("tbody tr", claims).map((row) => [row, words_of(row)]));
  const chosen = { study: $("#study"), evidence: $("#evidence") };
  const pills = all(".pill");
  const filter = () => {
    const words = $("#search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const verdicts = pills.filter((pill) => pill.getAttribute("aria-pressed") === "true").map((pill) => pill.value);
    let shown = 0;
    for (const [row, text] of texts) {
      const fits = words.every((word) => text.includes(word))
        && Object.entries(chosen).every(([name, field]) => !field.value || row.dataset[name] === field.value)
        && (!verdicts.length || verdicts.includes(row.dataset.verdict));
      row.dataset.filtered = String(!fits);
      shown += fits;
    }
    for (const pill of pills) {
      $("span", pill).textContent = [...texts].filter(([row, text]) => row.dataset.verdict === pill.value && words.every((word) => text.includes(word))
        && Object.entries(chosen).every(([name, field]) => !field.value || row.dataset[name] === field.value)).length;
    }
    $("#none").hidden = shown > 0;
    $("#claim-table").hidden = shown === 0;
    $("#clear").hidden = shown === texts.size;
    $("#found").textContent = shown === texts.size ? `${shown} claims` : `${shown} of ${texts.size} claims`;
    claims.refresh();
  };
  const clear = () => {
    $("#search").value = "";
    Object.values(chosen).forEach((field) => { field.value = ""; });
    pills.forEach((pill) => pill.setAttribute("aria-pressed", "false"));
    filter();
  };
  $("#clear").onclick = clear;
  $("#search").oninput = filter;
  Object.values(chosen).forEach((field) => { field.onchange = filter; });
  pills.forEach((pill) => { pill.onclick = () => {
    pill.setAttribute("aria-pressed", String(pill.getAttribute("aria-pressed") !== "true"));
    filter();
  }; });
  $("#sort").onchange = (event) => event.target.value && claims.sort(+event.target.value, false);
  all("a[data-study]").forEach((link) => { link.onclick = () => { clear(); chosen.study.value = link.dataset.study; filter(); }; });
  filter();
  return clear;
};
// A page without studies has no claims.
const clear = claims ? filtered() : () => {};
// A link to a claim makes the claim visible, even if it is filtered out or collapsed.
const reveal = () => {
  const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let fold = row?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  if (row?.matches("#claims")) $("details:has(table)", row).open = true;
  if (row?.matches("figure")) row.scrollIntoView();
  if (!row?.matches("tr") || !row.hidden) return;
  if (claims?.contains(row)) clear();
  row.closest("table").parentElement.nextElementSibling?.querySelector("button")?.click();
  row.scrollIntoView();
};
addEventListener("hashchange", reveal);
// A second click on the same link does not change the address, so no hashchange event is sent.
all('a[href^="#claim-"]').forEach((link) => link.addEventListener("click", () => setTimeout(reveal)));
// Collapsed figures are expanded for printing; queries stay collapsed.
addEventListener("beforeprint", () => all("details.fold").forEach((fold) => { if ($("figure", fold)) fold.open = true; }));

// Figures in full size.
const box = $("dialog");
all(".paper").forEach((button) => { button.onclick = () => {
  const from = $("img", button), to = $("img", box);
  to.src = from.src;
  to.alt = from.alt;
  to.style.setProperty("--aspect", from.getAttribute("width") / from.getAttribute("height"));
  to.style.setProperty("--points", from.getAttribute("width"));
  const caption = $("figcaption", button.closest("figure") ?? button)?.cloneNode(true);
  $(".words", box).replaceChildren(...(caption ? caption.childNodes : [from.alt]));
  box.showModal();
  const whole = $(".whole", box);
  whole.scrollTo(0, 0);
  $(".sideways", box).hidden = whole.scrollWidth <= whole.clientWidth && whole.scrollHeight <= whole.clientHeight;
}; });
$("button", box).onclick = () => box.close();
box.onclick = (event) => event.target === box && box.close();

// Theme, menu and current section.
$(".theme").onclick = () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("fabricast-theme", root.dataset.theme); } catch { /* not kept */ }
};
const menu = $(".menu");
menu.onclick = () => menu.setAttribute("aria-expanded", String($(".side").classList.toggle("open")));
all("nav a").forEach((link) => link.addEventListener("click", () => {
  $(".side").classList.remove("open");
  menu.setAttribute("aria-expanded", "false");
}));
const seen = new IntersectionObserver((entries) => entries.forEach((entry) => {
  if (!entry.isIntersecting) return;
  all("nav a").forEach((link) => link.getAttribute("href") === `#${entry.target.id}`
    ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current"));
}), { rootMargin: "-20% 0px -70% 0px" });
all("main section[id]").forEach((section) => seen.observe(section));

// Charts with theme colours and a layout that depends on the width; selections are preserved.
const isNarrow = matchMedia("(max-width: 900px)"), isDark = matchMedia("(prefers-color-scheme: dark)");
const chartColours = () => {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const [ink, soft, line] = ["--ink", "--soft", "--line"].map(colour);
  return {
    font: "system-ui, sans-serif", view: { stroke: line }, title: { color: ink }, text: { color: ink },
    axis: { labelColor: ink, titleColor: ink, domainColor: soft, tickColor: soft, gridColor: line },
  };
};
const charts = [];
const drawChart = async (chart) => {
  // A chart in a closed fold has no width; it is drawn when the fold opens.
  if (!$(chart.selector).clientWidth) return;
  const specification = structuredClone(chart.specification);
  for (const parameter of specification.params) {
    if (chart.view) parameter.value = chart.view.signal(parameter.name);
  }
  const [room, axis] = [$(chart.selector).clientWidth - 25, 75];
  for (const row of specification.vconcat ?? []) if (row.concat) {
    if (isNarrow.matches) row.columns = 1;
    for (const panel of row.concat) panel.width = Math.floor(room / row.columns) - axis;
  }
  const options = { actions: false, renderer: "svg", config: chartColours() };
  chart.view = (await vegaEmbed(chart.selector, specification, options)).view;
};
const drawCharts = () => charts.forEach(drawChart);
window.showChart = (selector, specification) => {
  const chart = charts[charts.push({ selector, specification }) - 1];
  $(selector).closest("details").addEventListener("toggle", () => drawChart(chart));
  drawChart(chart);
};
new MutationObserver(drawCharts).observe(document.documentElement, { attributeFilter: ["data-theme"] });
isDark.addEventListener("change", drawCharts);
isNarrow.addEventListener("change", drawCharts);

reveal();
requestAnimationFrame(() => setTimeout(unpack));
window.inflate = inflate;
})();
