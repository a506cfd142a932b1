// What the switches do with frames: routes, loads and what a failure breaks, all from the trees.
const byId = (id) => document.getElementById(id);
const svgNamespace = "http://www.w3.org/2000/svg";
function element(name, attributes, parent) {
  const made = name.startsWith("svg:")
    ? document.createElementNS(svgNamespace, name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "text") made.textContent = value;
    else made.setAttribute(key, value);
  }
  if (parent) parent.appendChild(made);
  return made;
}

// ---- names ----
const switchCount = data.switches.length;
const switchName = (index) => data.switches[index].name;
const pairOf = ({ a, b }) => `${switchName(a)} - ${switchName(b)}`;
const linksOfPair = new Map();
for (const link of data.links) linksOfPair.set(pairOf(link), (linksOfPair.get(pairOf(link)) || 0) + 1);
// With the first ports where several links join the two.
function linkName(index) {
  const link = data.links[index];
  if (linksOfPair.get(pairOf(link)) === 1) return pairOf(link);
  return `${switchName(link.a)}:${link.ports[0][0]} - ${switchName(link.b)}:${link.ports[1][0]}`;
}
const capacity = ({ ports, gbps }) => ports[0].length * gbps;
// 7-10 for ports that follow each other.
function portText(ports) {
  const follow = ports.length > 2 && ports.every((port, index) => port === ports[0] + index);
  return follow ? `${ports[0]}-${ports[ports.length - 1]}` : ports.join(",");
}
function cableText({ ports, gbps, lags }) {
  const lag =
    lags[0] === null ? "" : lags[0] === lags[1] ? `LAG ${lags[0]}: ` : `LAGs ${lags.join(" and ")}: `;
  return `${lag}${ports[0].length} x ${gbps} Gbit/s`;
}

// ---- plans: the whole one, one that something has broken, one repaired ----
const hostIndex = new Map(data.hosts.map(([name], index) => [name, index]));
const failures = [
  ...data.links.map((_, link) => ({
    name: `link ${linkName(link)}`,
    link,
    at: null,
    links: new Set([link]),
  })),
  ...data.switches.map((_, at) => ({
    name: `switch ${switchName(at)}`,
    link: null,
    at,
    links: new Set(data.links.flatMap(({ a, b }, link) => (a === at || b === at ? [link] : []))),
  })),
];
const failureByName = new Map(failures.map((failure) => [failure.name, failure]));
const repairOf = (failure) =>
  data.repairs.find(({ link, switch: at }) => link === failure.link && at === failure.at);
// `vlanOf`: by host, where the VLAN depends on the sender's port alone.
function planOf(vlans, vlanOf, failure) {
  const hostCount = new Array(switchCount).fill(0),
    shares = Array.from({ length: switchCount }, () => new Map());
  data.hosts.forEach(([, at], host) => {
    if (failure && failure.at === at) return;
    hostCount[at] += 1;
    const vlan = vlanOf[host];
    if (vlan !== null) shares[at].set(vlan, (shares[at].get(vlan) || 0) + 1);
  });
  return { vlans, vlanOf, failure, hostCount, shares, neighbours: vlans.map(() => null) };
}
const whole = planOf(
  data.vlans,
  data.hosts.map(([, , vlan]) => vlan),
  null,
);
function broken(failure) {
  const left = (tree) => tree.filter((link) => !failure.links.has(link));
  return planOf(
    data.vlans.map(({ vid, tree }) => ({ vid, tree: left(tree) })),
    whole.vlanOf,
    failure,
  );
}
function repaired(failure, repair) {
  const before = new Map(data.vlans.map(({ vid, tree }) => [vid, tree]));
  const vlans = repair.vlans.map(({ vid, without, with: added }) => {
    const gone = new Set(without);
    return {
      vid,
      tree: (before.get(vid) || []).filter((link) => !gone.has(link)).concat(added),
      joined: added,
    };
  });
  const indexOf = new Map(vlans.map(({ vid }, index) => [vid, index]));
  const vlanOf = whole.vlanOf.map((vlan) =>
    vlan === null ? null : (indexOf.get(data.vlans[vlan].vid) ?? null),
  );
  for (const [host, vlan] of repair.moved) vlanOf[host] = vlan;
  return planOf(vlans, vlanOf, failure);
}

// ---- routes follow a VLAN's tree ----
function treeOf(plan, vlan) {
  if (!plan.neighbours[vlan]) {
    const next = Array.from({ length: switchCount }, () => []);
    for (const link of plan.vlans[vlan].tree) {
      const { a, b } = data.links[link];
      next[a].push([link, b]);
      next[b].push([link, a]);
    }
    plan.neighbours[vlan] = next;
  }
  return plan.neighbours[vlan];
}
// The VLANs of frames from one switch's hosts to another's, each with the number of hosts that send on it.
function vlansBetween(plan, from, to) {
  if (data.choice.by === "source") return [...plan.shares[from]];
  const vlan = data.choice.vlans[from * switchCount + to];
  return vlan === undefined || vlan === null ? [] : [[vlan, plan.hostCount[from]]];
}
// By switch: the hop that leads towards it from `root`; and all that are reached,
// in the order of their distance.
function walk(plan, vlan, root) {
  const tree = treeOf(plan, vlan),
    cameBy = new Array(switchCount).fill(null),
    order = [root];
  const seen = new Array(switchCount).fill(false);
  seen[root] = true;
  for (let i = 0; i < order.length; i++) {
    for (const [link, to] of tree[order[i]]) {
      if (!seen[to]) {
        seen[to] = true;
        cameBy[to] = { link, from: order[i] };
        order.push(to);
      }
    }
  }
  return { cameBy, order, seen };
}
function routeOf(plan, sender, receiver) {
  const from = data.hosts[sender][1],
    to = data.hosts[receiver][1];
  const bySource = data.choice.by === "source";
  const vlan = bySource ? plan.vlanOf[sender] : (vlansBetween(plan, from, to).map(([own]) => own)[0] ?? null);
  if (vlan === null || !plan.hostCount[from] || !plan.hostCount[to]) return null;
  const { cameBy, seen } = walk(plan, vlan, from),
    hops = [];
  if (!seen[to]) return null;
  for (let at = to; at !== from; at = cameBy[at].from) hops.unshift({ ...cameBy[at], to: at });
  return { vlan, from, hops };
}
// One flow from each host to each other: on each direction of each link, [from a to b, from b to a].
function flowsOf(plan) {
  const flows = data.links.map(() => [0, 0]);
  for (let from = 0; from < switchCount; from++) {
    if (!plan.hostCount[from]) continue;
    const wanted = new Map();
    for (let to = 0; to < switchCount; to++) {
      if (!plan.hostCount[to] || to === from) continue;
      for (const [vlan, senders] of vlansBetween(plan, from, to)) {
        if (!wanted.has(vlan)) wanted.set(vlan, new Array(switchCount).fill(0));
        wanted.get(vlan)[to] += senders * plan.hostCount[to];
      }
    }
    for (const [vlan, below] of wanted) {
      const { cameBy, order } = walk(plan, vlan, from);
      for (let i = order.length - 1; i > 0; i--) {
        const at = order[i],
          hop = cameBy[at];
        flows[hop.link][data.links[hop.link].a === hop.from ? 0 : 1] += below[at];
        below[hop.from] += below[at];
      }
    }
  }
  return flows;
}
// Ordered pairs of hosts that cannot talk: a frame or its answer has no way.
function pairsLost(plan) {
  // Hosts of one switch that send on one VLAN are alike.
  const kinds = [];
  for (let at = 0; at < switchCount; at++) {
    if (data.choice.by === "pair" && plan.hostCount[at]) kinds.push({ at, count: plan.hostCount[at] });
    for (const [vlan, count] of plan.shares[at]) kinds.push({ at, count, seen: walk(plan, vlan, at).seen });
  }
  const reaches = (from, to) => {
    if (from.at === to.at || from.seen) return from.at === to.at || from.seen[to.at];
    return vlansBetween(plan, from.at, to.at).some(([vlan]) => walk(plan, vlan, from.at).seen[to.at]);
  };
  let lost = 0;
  kinds.forEach((from, index) => {
    for (const to of kinds.slice(0, index)) {
      if (!reaches(from, to) || !reaches(to, from)) lost += 2 * from.count * to.count;
    }
  });
  return lost;
}
