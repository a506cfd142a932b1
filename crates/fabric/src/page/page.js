// The drawing, and what answers to mouse, fingers and keys.
// ---- the drawing ----
const graph = byId("graph");
const size = 1000;
const places = data.switches.map(({ x, y }) => ({ x: x * size, y: y * size }));
const nearest = places.reduce((least, p, index) => {
  let own = least;
  for (let other = 0; other < index; other++)
    own = Math.min(own, Math.hypot(p.x - places[other].x, p.y - places[other].y));
  return own;
}, size / 2);
// Links pass beside switches that lie between their ends: they bow out, the longer the more.
function bow(a, b) {
  const p = places[a],
    q = places[b],
    length = Math.hypot(q.x - p.x, q.y - p.y) || 1;
  for (let other = 0; other < Math.min(switchCount, 400); other++) {
    if (other === a || other === b) continue;
    const r = places[other],
      along = ((r.x - p.x) * (q.x - p.x) + (r.y - p.y) * (q.y - p.y)) / (length * length);
    const aside = Math.abs((q.x - p.x) * (r.y - p.y) - (q.y - p.y) * (r.x - p.x)) / length;
    if (along > 0 && along < 1 && aside < nearest * 0.25)
      return Math.min(0.28 * length, 150) * (p.y + q.y > size ? 1 : -1);
  }
  return 0;
}
// Several links of the same two switches lie beside each other.
const seenOfPair = new Map();
const bows = data.links.map(({ a, b }) => {
  const pair = a < b ? `${a} ${b}` : `${b} ${a}`,
    before = seenOfPair.get(pair) || 0;
  seenOfPair.set(pair, before + 1);
  return bow(a, b) + Math.ceil(before / 2) * (before % 2 ? 14 : -14);
});
// A quadratic curve beside the middle line by `shift`; `trim`: how far before the switches' middles it ends.
function curve(link, from, shift, trim) {
  const { a, b } = data.links[link],
    p = places[a],
    q = places[b];
  const length = Math.hypot(q.x - p.x, q.y - p.y) || 1,
    nx = -(q.y - p.y) / length,
    ny = (q.x - p.x) / length;
  const side = (from === b ? -1 : 1) * shift,
    down = ny < 0 || (ny === 0 && nx < 0) ? -1 : 1;
  const middle = {
    x: (p.x + q.x) / 2 + nx * down * bows[link] + nx * side,
    y: (p.y + q.y) / 2 + ny * down * bows[link] + ny * side,
  };
  const cut = (point) => {
    const x = point.x + nx * side,
      y = point.y + ny * side,
      far = Math.hypot(middle.x - x, middle.y - y) || 1;
    return { x: x + (trim * (middle.x - x)) / far, y: y + (trim * (middle.y - y)) / far };
  };
  const ends = [cut(p), cut(q)];
  return { start: ends[from === b ? 1 : 0], middle, end: ends[from === b ? 0 : 1] };
}
const digits = (value) => Math.round(value * 100) / 100;
function path(link, from, shift, trim) {
  const { start, middle, end } = curve(link, from, shift, trim);
  const [begin, by, to] = [start, middle, end].map(({ x, y }) => `${digits(x)} ${digits(y)}`);
  return `M${begin} Q${by} ${to}`;
}
element("svg:defs", {}, graph).innerHTML = ["there", "back"]
  .map(
    (way) =>
      `<marker id="arrow-${way}" viewBox="0 0 10 10" refX="5" refY="5" markerWidth="4" markerHeight="4" ` +
      `orient="auto"><path d="M0 0L10 5L0 10z" fill="var(--${way})"/></marker>`,
  )
  .join("");
const scene = element("svg:g", { id: "scene" }, graph);
const [groupLayer, linkLayer, wayLayer, switchLayer, portLayer] = [1, 2, 3, 4, 5].map(() =>
  element("svg:g", {}, scene),
);
const groups = data.groups.map(({ name, x, y, radius }) => {
  element("svg:circle", { class: "group", cx: x * size, cy: y * size, r: radius * size }, groupLayer);
  const label = element("svg:g", {}, groupLayer);
  element("svg:text", { class: "group-name", text: name }, label);
  return { label, x: x * size, y: (y + radius) * size };
});
// Each direction is a line of its own, on the left of who looks along it.
const lines = data.links.map(({ a, b, ports }, link) => {
  const group = element("svg:g", { class: "link", id: `link-${link}` }, linkLayer);
  group.style.setProperty("--width", 1.3 + Math.min(ports[0].length, 6) * 0.5);
  const lanes = [a, b].map(() => element("svg:path", { class: "lane" }, group));
  const hit = element("svg:path", { class: "hit", d: path(link, a, 0, 0) }, group);
  hit.addEventListener("click", () => chooseLink(link));
  hit.addEventListener("pointerenter", () => hoverLink(link));
  hit.addEventListener("pointerleave", () => hoverLink(null));
  return { group, lanes };
});
const switches = data.switches.map(({ name }, index) => {
  const group = element(
    "svg:g",
    { class: "switch", id: `switch-${index}`, role: "button", tabindex: index ? -1 : 0 },
    switchLayer,
  );
  const circle = element("svg:circle", {}, group);
  const label = element("svg:text", { class: "name", text: name }, group);
  const count = element("svg:text", { class: "count", y: 4.5, text: whole.hostCount[index] }, group);
  group.setAttribute("aria-label", `${name}, ${whole.hostCount[index]} hosts`);
  group.addEventListener("click", () => chooseSwitch(index));
  return { group, circle, label, count };
});

// ---- near and far: screen = offset + k * place ----
const view = { k: 1, x: 0, y: 0, fitted: 1 };
let radius = 10;
// How far the two directions of a link are from its middle; never so far that they leave the switches beside.
let laneShift = 0;
function separate() {
  const shift = Math.min(2.4, 8 / view.k);
  if (shift === laneShift) return;
  laneShift = shift;
  lines.forEach(({ lanes }, link) => {
    const { a, b } = data.links[link];
    [a, b].forEach((from, way) => lanes[way].setAttribute("d", path(link, from, shift, 0)));
  });
}
const box = () => graph.getBoundingClientRect();
function place() {
  scene.setAttribute("transform", `translate(${digits(view.x)} ${digits(view.y)}) scale(${view.k})`);
}
function enlarge() {
  place();
  graph.style.setProperty("--k", view.k);
  radius = Math.min(24, Math.max(4, 0.3 * nearest * view.k));
  separate();
  const named = nearest * view.k > 34 || switchCount <= 8;
  switches.forEach(({ group, circle, label, count }, index) => {
    group.setAttribute(
      "transform",
      `translate(${digits(places[index].x)} ${digits(places[index].y)}) scale(${1 / view.k})`,
    );
    circle.setAttribute("r", radius);
    // Beside, not on, a link that leaves straight down and the routes along it.
    label.setAttribute("x", Math.min(14, radius));
    label.setAttribute("y", radius + 13);
    label.style.display = named ? "" : "none";
    count.style.display = radius >= 11 ? "" : "none";
  });
  for (const { label, x, y } of groups)
    label.setAttribute("transform", `translate(${x} ${y}) scale(${1 / view.k}) translate(0 14)`);
  showWays();
  showPorts();
}
function fit() {
  const { width, height } = box(),
    margin = Math.min(70, width / 7);
  const wide = Math.max(...places.map(({ x }) => x), 1),
    high = Math.max(...places.map(({ y }) => y), 1);
  view.k = view.fitted = Math.max(0.01, Math.min((width - 2 * margin) / wide, (height - 2 * margin) / high));
  view.x = (width - wide * view.k) / 2;
  view.y = (height - high * view.k) / 2;
  enlarge();
}
// Around a point of the screen that stays where it is.
function zoom(factor, x, y) {
  const k = Math.min(view.fitted * 60, Math.max(view.fitted / 3, view.k * factor)),
    by = k / view.k;
  view.x = x - (x - view.x) * by;
  view.y = y - (y - view.y) * by;
  view.k = k;
  enlarge();
}
function zoomMiddle(factor) {
  zoom(factor, box().width / 2, box().height / 2);
}
function pan(x, y) {
  view.x += x;
  view.y += y;
  place();
  showPorts();
}
// So far that a switch is in the picture.
function reveal(index) {
  const { width, height } = box(),
    x = view.x + view.k * places[index].x,
    y = view.y + view.k * places[index].y;
  const into = (at, end) => (at < 40 ? 40 - at : at > end - 40 ? end - 40 - at : 0);
  if (into(x, width) || into(y, height)) pan(into(x, width), into(y, height));
}
graph.addEventListener(
  "wheel",
  (event) => {
    event.preventDefault();
    const { left, top } = box(),
      step = event.deltaMode === 1 ? 30 : 1;
    zoom(Math.exp(-event.deltaY * step * 0.0015), event.clientX - left, event.clientY - top);
  },
  { passive: false },
);
// One pointer moves the picture, two move and enlarge it.
const pointers = new Map();
let isMoving = false;
graph.addEventListener("pointerdown", (event) => {
  // The first finger: whatever the browser did not tell the end of is over.
  if (event.isPrimary) {
    pointers.clear();
    isMoving = false;
  }
  pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
});
graph.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) return;
  const now = { x: event.clientX, y: event.clientY },
    others = [...pointers].filter(([id]) => id !== event.pointerId);
  // A click's pointer shakes a little.
  if (!isMoving && others.length === 0 && Math.hypot(now.x - before.x, now.y - before.y) < 6) return;
  if (!isMoving) {
    isMoving = true;
    graph.setPointerCapture(event.pointerId);
    graph.classList.add("moving");
  }
  pointers.set(event.pointerId, now);
  if (others.length === 0) {
    pan(now.x - before.x, now.y - before.y);
    return;
  }
  const other = others[0][1],
    { left, top } = box();
  const apart = (point) => Math.hypot(point.x - other.x, point.y - other.y) || 1;
  view.x += (now.x - before.x) / 2;
  view.y += (now.y - before.y) / 2;
  zoom(apart(now) / apart(before), (now.x + other.x) / 2 - left, (now.y + other.y) / 2 - top);
});
for (const end of ["pointerup", "pointercancel"]) {
  graph.addEventListener(end, (event) => {
    pointers.delete(event.pointerId);
    graph.classList.remove("moving");
  });
}
graph.addEventListener(
  "click",
  (event) => {
    if (isMoving) {
      event.stopPropagation();
      isMoving = false;
    }
  },
  true,
);

// ---- what is shown ----
let plan = whole,
  flows = [],
  unit = "flows",
  kept = null,
  hovered = null;
let chosenLink = null,
  hoveredLink = null,
  chosenText = "";
let buttons = [];
const ramp = ["--low", "--middle", "--high"];
function colours() {
  const style = getComputedStyle(document.documentElement);
  const points = ramp.map((name) => {
    const text = style.getPropertyValue(name).trim().slice(1);
    return [0, 2, 4].map((at) => parseInt(text.slice(at, at + 2), 16));
  });
  return (part) => {
    const along = Math.min(0.9999, Math.max(0, part)) * 2,
      low = points[Math.floor(along)],
      high = points[Math.floor(along) + 1];
    return `rgb(${low.map((value, at) => Math.round(value + (high[at] - value) * (along % 1))).join(" ")})`;
  };
}
function showLoads() {
  const given = data.traffic && plan === whole;
  const computed = flowsOf(plan);
  flows = given ? data.traffic.bytes : computed;
  unit = given ? "bytes" : "flows";
  const rates = data.links.map(capacity),
    most = Math.max(0, ...flows.map((both, link) => Math.max(...both) / rates[link]));
  const colour = colours();
  lines.forEach(({ lanes }, link) =>
    lanes.forEach((lane, way) => {
      lane.style.setProperty("--colour", colour(most ? flows[link][way] / rates[link] / most : 0));
    }),
  );
  const alike = new Set(rates).size <= 1;
  byId("legend-high").textContent = data.links.length
    ? `${digits(alike ? most * rates[0] : most)} ${unit}${alike ? "" : " for each Gbit/s"}`
    : "";
  byId("load-title").textContent =
    "Load of links: " + (given ? `bytes of ${data.traffic.name}` : "one flow from each host to each other");
  const total = flows.reduce((sum, both) => sum + both[0] + both[1], 0);
  byId("load-sum").textContent = data.links.length
    ? `Busiest: ${Math.max(...flows.flat())} ${unit}; mean: ${(total / (2 * data.links.length)).toFixed(1)}.`
    : "No links between switches.";
  const busy = (link) => Math.max(...flows[link]) / rates[link];
  const ranked = data.links.map((_, link) => link).sort((a, b) => busy(b) - busy(a) || a - b);
  byId("loads").replaceChildren();
  ranked.slice(0, 500).forEach((link, rank) => {
    const row = element("tr", { "data-link": link, tabindex: rank ? -1 : 0 }, byId("loads"));
    element("td", { text: linkName(link) }, row);
    for (const count of flows[link]) element("td", { class: "number", text: count }, row);
    row.addEventListener("click", () => chooseLink(link));
  });
}
function showVlans() {
  byId("vlans").replaceChildren();
  kept = hovered = null;
  buttons = plan.vlans.map(({ vid }, index) => {
    const button = element(
      "button",
      { id: `vlan-${vid}`, text: vid, "aria-pressed": "false", tabindex: index ? -1 : 0 },
      byId("vlans"),
    );
    button.addEventListener("mouseenter", () => {
      hovered = index;
      showTree();
    });
    button.addEventListener("mouseleave", () => {
      hovered = null;
      showTree();
    });
    button.addEventListener("click", () => {
      kept = kept === index ? null : index;
      showTree();
    });
    return button;
  });
}
function sourcesOf(vlan) {
  const sources = new Set();
  for (let from = 0; from < switchCount; from++) {
    for (let to = 0; plan.hostCount[from] && to < switchCount; to++) {
      if (plan.hostCount[to] && vlansBetween(plan, from, to).some(([own]) => own === vlan)) {
        sources.add(from);
        break;
      }
    }
  }
  return sources;
}
function showTree() {
  const vlan = hovered !== null ? hovered : kept;
  const tree = new Set(vlan === null ? [] : plan.vlans[vlan].tree),
    sources = vlan === null ? new Set() : sourcesOf(vlan);
  const failed = plan.failure ? plan.failure.links : new Set();
  const joined = new Set(plan.vlans.flatMap((own) => own.joined || []));
  lines.forEach(({ group }, link) => {
    group.classList.toggle("tree", tree.has(link));
    group.classList.toggle("dim", vlan !== null && !tree.has(link));
    group.classList.toggle("failed", failed.has(link));
    group.classList.toggle("joined", vlan === null && joined.has(link));
  });
  switches.forEach(({ group }, index) => group.classList.toggle("source", sources.has(index)));
  buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(index === kept)));
  if (vlan !== null) {
    const names = [...sources].map(switchName).join(", ");
    hint(`VLAN ${plan.vlans[vlan].vid}: ${tree.size} links; frames from hosts of ${names || "nobody"}.`);
  }
}
function hint(text) {
  chosenText = text;
  byId("hint").textContent = text;
}
function linkText(link) {
  const own = data.links[link],
    vlans = plan.vlans.filter((vlan) => vlan.tree.includes(link));
  const vids = vlans.map((vlan) => vlan.vid).join(", ") || "none";
  return (
    `${linkName(link)}: ${cableText(own)}, ports ${portText(own.ports[0])} and ${portText(own.ports[1])}; ` +
    `${flows[link][0]} ${unit} there, ${flows[link][1]} back; VLANs ${vids}.`
  );
}
function chooseLink(link) {
  chosenLink = link;
  lines.forEach(({ group }, index) => group.classList.toggle("chosen", index === link));
  if (link !== null) hint(linkText(link));
  showPorts();
}
function hoverLink(link) {
  if (hoveredLink !== null) lines[hoveredLink].group.classList.remove("hovered");
  hoveredLink = link;
  if (link !== null) lines[link].group.classList.add("hovered");
  byId("hint").textContent = link === null ? chosenText : linkText(link);
  showPorts();
}
function chooseSwitch(index) {
  switches.forEach(({ group }, other) => group.classList.toggle("chosen", other === index));
  if (index === null) return;
  const names = data.hosts.filter(([, at]) => at === index).map(([name]) => name);
  const shown = names.slice(0, 12).join(", ") + (names.length > 12 ? " ..." : "");
  const own = [...plan.shares[index].keys()];
  if (own.length) {
    kept = own[0];
    showTree();
  }
  const sends = own.length ? ` They send on VLAN ${own.map((one) => plan.vlans[one].vid).join(", ")}.` : "";
  hint(`${switchName(index)}: ${names.length} hosts${names.length ? ": " + shown : ""}.${sends}`);
}
// Ports and LAGs: of links that are chosen, and of all in the picture where it is near enough to read them.
const portLinksMax = 60;
function showPorts() {
  portLayer.replaceChildren();
  const { width, height } = box(),
    own = new Set([chosenLink, hoveredLink].filter((link) => link !== null));
  const isIn = (index) => {
    const x = view.x + view.k * places[index].x,
      y = view.y + view.k * places[index].y;
    return x > 0 && y > 0 && x < width && y < height;
  };
  if (nearest * view.k > 130) {
    const near = data.links.flatMap(({ a, b }, link) => (isIn(a) || isIn(b) ? [link] : []));
    if (near.length <= portLinksMax) near.forEach((link) => own.add(link));
  }
  for (const link of own) {
    const { a, ports } = data.links[link],
      trim = (radius + 16) / view.k,
      { start, middle, end } = curve(link, a, 0, trim);
    const at = (x, y, text) =>
      element(
        "svg:text",
        {
          class: "port",
          text,
          transform: `translate(${digits(x)} ${digits(y)}) scale(${1 / view.k}) translate(0 4)`,
        },
        portLayer,
      );
    at(start.x, start.y, portText(ports[0]));
    at(
      (start.x + end.x) / 4 + middle.x / 2,
      (start.y + end.y) / 4 + middle.y / 2,
      cableText(data.links[link]),
    );
    at(end.x, end.y, portText(ports[1]));
  }
}
function showWay(id, sender, receiver) {
  const found = routeOf(plan, sender, receiver),
    out = byId(id);
  const [fromName, toName] = [sender, receiver].map((host) => data.hosts[host][0]);
  out.replaceChildren();
  if (!found) {
    element("p", { class: "fails", text: `no route from ${fromName} to ${toName}` }, out);
    return;
  }
  const names = [found.from, ...found.hops.map((hop) => hop.to)].map(switchName);
  element(
    "p",
    { text: `${fromName} to ${toName}: VLAN ${plan.vlans[found.vlan].vid}, ${names.length} switches` },
    out,
  );
  element("p", { class: "soft", text: names.join(" \u2192 ") }, out);
  for (const hop of found.hops) {
    const d = path(hop.link, hop.from, 7 / view.k + laneShift, (radius + 8) / view.k);
    element("svg:path", { class: `way-line ${id}`, d, "marker-end": `url(#arrow-${id})` }, wayLayer);
  }
}
function showWays() {
  wayLayer.replaceChildren();
  const [from, to] = ["from", "to"].map((id) => {
    const host = hostIndex.get(byId(id).value);
    byId(id).classList.toggle("wrong", host === undefined);
    return host;
  });
  byId("there").replaceChildren();
  byId("back").replaceChildren();
  if (from === undefined || to === undefined) return;
  showWay("there", from, to);
  showWay("back", to, from);
}

// ---- failures ----
function brokenText(failure) {
  const count = data.vlans.filter(({ tree }) => tree.some((link) => failure.links.has(link))).length;
  const gone = failure.at === null ? 0 : whole.hostCount[failure.at];
  const hosts = gone ? `${gone} hosts are cut off; of the others, ` : "";
  const heals = data.mstp ? " MSTP then elects other links by itself." : "";
  const missing = data.mstp ? " The page does not have them" : " The page has no repair";
  const without = heals + (repairOf(failure) ? "" : `${missing}: ayatori plan show --failures.`);
  return (
    `Without ${failure.name}: ${count} of ${data.vlans.length} VLANs broken; ` +
    `${hosts}${pairsLost(plan)} ordered pairs of hosts cannot talk.${without}`
  );
}
function repairedText(failure, repair) {
  const busiest = Math.max(0, ...flows.flat()),
    before = Math.max(0, ...flowsOf(whole).flat());
  const order =
    repair.order === null
      ? "no order without a loop in between was found: unplug cables first"
      : `${repair.order.length} switches configured again: ${repair.order.map(switchName).join(", ")}`;
  return (
    `${data.mstp ? "Elected by MSTP" : "Repaired"} without ${failure.name}: ${pairsLost(plan)} pairs cannot talk; ` +
    `busiest link ${busiest} flows (${before} before); ${repair.free ? "free of deadlock" : "CAN DEADLOCK"}; ` +
    `${data.mstp ? "nothing is configured again" : order}.`
  );
}
function show(next, isRepaired) {
  plan = next;
  const failure = plan.failure,
    repair = failure && repairOf(failure);
  showVlans();
  showLoads();
  showTree();
  showWays();
  chooseLink(chosenLink);
  const changed = new Set(isRepaired && repair.order ? repair.order : []);
  switches.forEach(({ group }, index) => {
    group.classList.toggle("failed", Boolean(failure) && failure.at === index);
    group.classList.toggle("changed", changed.has(index));
  });
  byId("failure-box").hidden = !failure;
  if (!failure) return;
  byId("repair").hidden = !repair;
  byId("repair").setAttribute("aria-pressed", String(isRepaired));
  byId("failure-text").textContent = isRepaired ? repairedText(failure, repair) : brokenText(failure);
}
if (data.mstp) byId("repair").textContent = "elected";
for (const { name } of failures.slice(0, 2000)) element("option", { value: name }, byId("failures"));
byId("failure").addEventListener("input", () => {
  const failure = failureByName.get(byId("failure").value);
  byId("failure").classList.toggle("wrong", !failure && byId("failure").value !== "");
  show(failure ? broken(failure) : whole, false);
});
byId("repair").addEventListener("click", () => {
  const failure = plan.failure,
    isRepaired = byId("repair").getAttribute("aria-pressed") === "true";
  show(isRepaired ? broken(failure) : repaired(failure, repairOf(failure)), !isRepaired);
});
function nothingFails() {
  byId("failure").value = "";
  byId("failure").classList.remove("wrong");
  show(whole, false);
}
byId("whole").addEventListener("click", nothingFails);

// ---- keys ----
const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
// One of a list can be reached by Tab; arrows lead to the others.
function rove(list, step) {
  const all = [...list.children],
    at = all.indexOf(document.activeElement),
    next = all[at + step];
  if (at < 0 || !next) return;
  all[at].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
for (const id of ["vlans", "loads"]) {
  byId(id).addEventListener("keydown", (event) => {
    const way = arrows[event.key];
    if (way) {
      event.preventDefault();
      rove(byId(id), way[0] + way[1]);
    }
    const link = document.activeElement.dataset.link;
    if (event.key === "Enter" && link !== undefined) chooseLink(Number(link));
  });
}
// The nearest switch that way: straight ahead counts more than aside.
function neighbourTowards(index, [x, y]) {
  let best = null,
    least = Infinity;
  places.forEach((p, other) => {
    const ahead = (p.x - places[index].x) * x + (p.y - places[index].y) * y;
    const aside = Math.abs((p.x - places[index].x) * y) + Math.abs((p.y - places[index].y) * x);
    if (other !== index && ahead > 1e-6 && ahead + 2.5 * aside < least) {
      least = ahead + 2.5 * aside;
      best = other;
    }
  });
  return best;
}
graph.addEventListener("keydown", (event) => {
  const way = arrows[event.key],
    at = switches.findIndex(({ group }) => group === document.activeElement);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "+" || event.key === "=") zoomMiddle(1.3);
  else if (event.key === "-") zoomMiddle(1 / 1.3);
  else if (event.key === "0") fit();
  else if ((event.key === "Enter" || event.key === " ") && at >= 0) chooseSwitch(at);
  else if (way && at < 0) pan(-60 * way[0], -60 * way[1]);
  else if (way) {
    const next = neighbourTowards(at, way);
    if (next !== null) {
      switches[at].group.setAttribute("tabindex", -1);
      switches[next].group.setAttribute("tabindex", 0);
      switches[next].group.focus({ preventScroll: true });
      reveal(next);
    }
  } else return;
  event.preventDefault();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  chooseSwitch(null);
  chooseLink(null);
  nothingFails();
  hint("Click a switch or a link.");
});
byId("nearer").addEventListener("click", () => zoomMiddle(1.3));
byId("farther").addEventListener("click", () => zoomMiddle(1 / 1.3));
byId("fit").addEventListener("click", fit);

// ---- the picture as a file: with all styles in it ----
const exported = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linejoin",
  "paint-order",
  "opacity",
  "display",
  "font-family",
  "font-size",
  "text-anchor",
];
function exportedSvg() {
  const copy = graph.cloneNode(true),
    { width, height } = box();
  const originals = [...graph.querySelectorAll("*")];
  [...copy.querySelectorAll("*")].forEach((own, index) => {
    const style = getComputedStyle(originals[index]);
    if (own.tagName !== "g")
      for (const name of exported) own.setAttribute(name, style.getPropertyValue(name));
    else if (style.opacity !== "1") own.setAttribute("opacity", style.opacity);
    for (const name of ["class", "style", "tabindex", "role"]) own.removeAttribute(name);
  });
  originals.forEach((own, index) => {
    if (own.classList.contains("hit")) originals[index] = null;
  });
  [...copy.querySelectorAll("*")].forEach((own, index) => {
    if (originals[index] === null) own.remove();
  });
  for (const name of ["style", "tabindex", "role", "class"]) copy.removeAttribute(name);
  for (const [name, value] of [
    ["xmlns", svgNamespace],
    ["width", width],
    ["height", height],
    ["viewBox", `0 0 ${width} ${height}`],
  ]) {
    copy.setAttribute(name, value);
  }
  const ground = element("svg:rect", {
    width: "100%",
    height: "100%",
    fill: getComputedStyle(document.body).backgroundColor,
  });
  copy.prepend(
    element("svg:title", { text: `${data.machine}${plan.failure ? ` without ${plan.failure.name}` : ""}` }),
    ground,
  );
  return new XMLSerializer().serializeToString(copy);
}
byId("export").addEventListener("click", () => {
  const address = URL.createObjectURL(new Blob([exportedSvg()], { type: "image/svg+xml" }));
  const name = `${data.machine}${plan.failure ? ` without ${plan.failure.name}` : ""}`.replace(
    /[^\w.-]+/g,
    "-",
  );
  element("a", { href: address, download: `${name}.svg` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
});

// ---- begin ----
byId("machine").textContent = data.machine;
byId("method").textContent =
  `${switchCount} switches, ${data.hosts.length} hosts, ${data.vlans.length} VLANs; ${data.method}` +
  (data.tagging === "host" ? "; hosts tag" : "");
for (const check of data.checks.filter((check) => check.status !== "holds")) {
  element(
    "p",
    {
      class: check.status,
      text: `${check.name}: ${check.detail}` + (check.remedy ? ` - ${check.remedy}` : ""),
    },
    byId("verdicts"),
  );
}
if (data.cycle.length)
  element(
    "p",
    { class: "fails", text: `A cycle that pause can lock: ${data.cycle.join(", ")}` },
    byId("verdicts"),
  );
else if (data.pause)
  element("p", { class: "soft", text: "Free of deadlock with pause on." }, byId("verdicts"));
for (const [name] of data.hosts.slice(0, 2000)) element("option", { value: name }, byId("names"));
if (data.hosts.length) {
  byId("from").value = data.hosts[0][0];
  byId("to").value = data.hosts[data.hosts.length - 1][0];
}
byId("from").addEventListener("input", showWays);
byId("to").addEventListener("input", showWays);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => showLoads());
new ResizeObserver(() => {
  if (view.k === view.fitted) fit();
  else showPorts();
}).observe(graph);
show(whole, false);
fit();
