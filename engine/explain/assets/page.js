"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const nodes = data.nodes, edges = data.edges, runs = data.runs;
  const byId = (id) => document.getElementById(id);
  const users = nodes.map(() => []), producers = nodes.map(() => []);
  for (const [a, b] of edges) { users[a].push(b); producers[b].push(a); }
  const LIGHT = ["#bcd9f5", "#ffd9a8", "#c6e8c0", "#e5cdf2", "#f9cbd3", "#c9e9ea", "#efe3a4", "#dbd7cf"];
  const DARK = ["#1f4a73", "#71480f", "#23592a", "#563269", "#762f3d", "#1c5a5d", "#5d5312", "#4b4842"];
  const state = { selected: null, filter: null, filterName: "", mode: "partition", shown: [0], tab: "reasons", dark: false };

  function element(tag, attributes, ...children) {
    const found = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "onclick") found.addEventListener("click", value);
      else if (value !== null && value !== undefined && value !== false) found.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children.flat()) if (child !== null && child !== undefined) found.append(child);
    return found;
  }
  const bytes = (n) => n < 1024 ? n + " B" : n < 1048576 ? (n / 1024).toFixed(1) + " KiB" : (n / 1048576).toFixed(1) + " MiB";
  const colour = (p) => (state.dark ? DARK : LIGHT)[p % LIGHT.length];

  // --- the tree of groups: partitions, modules, and pieces of what would be too many side by side -----------------
  const MANY = 40;
  function makeTree(run, mode) {
    const root = { id: "root", label: "", children: new Map(), leaves: [], parent: null, kind: "root" };
    const groups = new Map();
    function into(parent, key, label, kind, partition) {
      let found = parent.children.get(key);
      if (!found) {
        found = { id: parent.id + "/" + key, label, kind, partition, children: new Map(), leaves: [], parent };
        parent.children.set(key, found);
        groups.set(found.id, found);
      }
      return found;
    }
    nodes.forEach((node, index) => {
      const part = run.owner[index];
      let group = root;
      if (node.graph) group = into(group, "g:" + node.graph, node.graph, "graph", null);
      if (mode === "partition" && part !== null) group = into(group, "p:" + part, "P" + part, "partition", part);
      if (node.module && mode === "partition" && part === null) group = into(group, "m:" + node.module, node.module, "module", null);
      else if (node.module) for (const piece of node.module.split(".")) group = into(group, "m:" + piece, piece, "module", group.partition);
      group.leaves.push(index);
    });
    tidy(root, groups);
    for (const group of groups.values()) group.members = [];
    nodes.forEach((_, index) => {
      for (let group = root.where.get(index); group !== root; group = group.parent) group.members.push(index);
    });
    return { root, groups };
  }
  function pieces(group, inside, groups) {           // in graph order, so that neighbours stay neighbours
    for (let level = 0; inside.length > MANY * 1.5; level++) {
      const outer = [], size = Math.ceil(inside.length / Math.ceil(inside.length / MANY));
      for (let start = 0; start < inside.length; start += size) {
        const part = inside.slice(start, start + size), key = "c" + level + ":" + start;
        const groupsOf = part.filter((one) => one.child), named = groupsOf.length > 1 ? groupsOf : part;
        const label = named[0].label.split(" … ")[0] + " … " + named[named.length - 1].label.split(" … ").pop();
        const child = { id: group.id + "/" + key, label, kind: "piece", partition: group.partition, children: new Map(), leaves: [], parent: group, first: part[0].first };
        for (const one of part) if (one.child) child.children.set(one.key, one.child); else child.leaves.push(one.leaf);
        groups.set(child.id, child);
        outer.push({ key, child, first: child.first, label });
      }
      inside = outer;
      group.children = new Map(inside.map((one) => [one.key, one.child]));
      group.leaves = [];
    }
  }
  function tidy(root, groups) {
    root.where = new Map();
    (function visit(group) {
      for (const child of [...group.children.values()]) visit(child);
      for (const [key, child] of [...group.children]) {
        if (child.kind === "partition" || child.kind === "graph") continue;
        if (child.children.size === 0 && child.leaves.length < 2) {         // a box around one node says nothing
          group.leaves.push(...child.leaves);
          group.children.delete(key);
          groups.delete(child.id);
        } else if (child.children.size === 1 && child.leaves.length === 0) { // a chain of boxes is one box
          const only = [...child.children.values()][0];
          only.label = child.label + "." + only.label;
          only.parent = group;
          group.children.set(key, only);
          groups.delete(child.id);
        }
      }
      group.leaves.sort((a, b) => a - b);
      const inside = [...group.children].map(([key, child]) => ({ key, child, first: child.first, label: child.label }));
      for (const leaf of group.leaves) inside.push({ leaf, first: leaf, label: nodes[leaf].name });
      inside.sort((a, b) => a.first - b.first);
      group.first = inside.length ? inside[0].first : 0;
      pieces(group, inside, groups);
    })(root);
    (function place(group) {
      for (const leaf of group.leaves) root.where.set(leaf, group);
      for (const child of group.children.values()) { child.parent = group; place(child); }
    })(root);
  }

  // --- layout: every open box by itself, from the inside out ------------------------------------------------------
  const SPACE = 23, GAP = 14;     // around what is in a box, where its title stands; between two boxes
  function sizeOf(label) { return [Math.max(64, Math.min(340, label.length * 6.8 + 20)), 26]; }
  function lay(view, group) {
    const items = [];
    for (const child of group.children.values()) {
      if (view.open.has(child.id)) {
        const inner = lay(view, child);
        items.push({ id: child.id, w: inner.w + 2 * SPACE, h: inner.h + 2 * SPACE, inner });
      } else {
        const [w, h] = sizeOf(view.groupLabel(child));
        items.push({ id: child.id, w, h: h + 8 });
      }
    }
    for (const leaf of group.leaves) {
      const [w, h] = sizeOf(view.nodeLabel(leaf));
      items.push({ id: "n" + leaf, w, h });
    }
    const home = new Map();
    for (const child of group.children.values()) for (const member of child.members) home.set(member, child.id);
    for (const leaf of group.leaves) home.set(leaf, "n" + leaf);
    const links = new Set();
    for (const member of home.keys()) for (const user of users[member]) {
      const from = home.get(member), to = home.get(user);
      if (to !== undefined && from !== to) links.add(from + "\n" + to);
    }
    const pairs = [...links].map((text) => text.split("\n"));
    if (items.length > 50 || pairs.length > 100) return layered(items, pairs);
    const laid = byDagre(items, pairs);
    return laid.h > 700 && laid.h > 1.6 * laid.w ? layered(items, pairs) : laid;
  }
  function byDagre(items, pairs) {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: "TB", nodesep: 16, ranksep: 30, marginx: 0, marginy: 0 });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const item of items) graph.setNode(item.id, { width: item.w, height: item.h });
    for (const [a, b] of pairs) graph.setEdge(a, b);
    dagre.layout(graph);
    let left = Infinity, top = Infinity, right = -Infinity, bottom = -Infinity;
    for (const item of items) {
      const at = graph.node(item.id);
      item.x = at.x; item.y = at.y;
      left = Math.min(left, at.x - item.w / 2); right = Math.max(right, at.x + item.w / 2);
      top = Math.min(top, at.y - item.h / 2); bottom = Math.max(bottom, at.y + item.h / 2);
    }
    for (const item of items) { item.x -= left; item.y -= top; }
    return items.length ? { w: right - left, h: bottom - top, items } : { w: 0, h: 0, items };
  }
  function layered(items, pairs) {        // many boxes: rows by depth, each under what feeds it, in linear time
    const rank = new Map(items.map((item) => [item.id, 0])), order = new Map(items.map((item, i) => [item.id, i]));
    const forward = pairs.filter(([a, b]) => order.get(a) < order.get(b)).sort((x, y) => order.get(x[1]) - order.get(y[1]));
    for (const [a, b] of forward) rank.set(b, Math.max(rank.get(b), rank.get(a) + 1));
    const rows = [], known = new Map(items.map((item) => [item.id, item])), feeds = new Map();
    for (const [a, b] of forward) (feeds.get(b) || feeds.set(b, []).get(b)).push(a);
    for (const item of items) (rows[rank.get(item.id)] = rows[rank.get(item.id)] || []).push(item);
    const filled = rows.filter(Boolean), area = items.reduce((sum, item) => sum + (item.w + GAP) * (item.h + 30), 0);
    const most = Math.max(500, Math.sqrt(area) * 1.2, ...items.map((item) => item.w));
    const centre = (item) => { const from = feeds.get(item.id); return from ? from.reduce((sum, id) => sum + known.get(id).x, 0) / from.length : 0; };
    let y = 0, column = 0, width = 0, height = 0;
    for (const row of filled) {
      if (y > most * 0.75) { column = width + 60; y = 0; }                  // long graphs go on in a next column
      row.sort((a, b) => centre(a) - centre(b));
      let x = column, tall = 0;
      for (const item of row) {
        if (x > column && x + item.w > column + most) { x = column; y += tall + GAP; tall = 0; }
        item.x = x + item.w / 2; item.y = y + item.h / 2;
        x += item.w + GAP; tall = Math.max(tall, item.h); width = Math.max(width, x - GAP);
      }
      y += tall + 30;
      height = Math.max(height, y - 30);
    }
    return { w: width, h: height, items };
  }

  // --- one view: a run in a canvas --------------------------------------------------------------------------------
  class View {
    constructor(number) {
      this.number = number;
      this.run = runs[number];
      this.box = element("div", { class: "view" }, element("div", { class: "name" }, this.run.name));
      this.canvas = element("div", { class: "cy", role: "img", "aria-label": "The graph of " + this.run.name });
      this.box.append(this.canvas);
      byId("graphs").append(this.box);
      this.cy = cytoscape({ container: this.canvas, layout: { name: "preset" }, minZoom: 0.02, maxZoom: 3,
        textureOnViewport: nodes.length > 1500, hideEdgesOnViewport: nodes.length > 1500, pixelRatio: nodes.length > 1500 ? 1 : "auto" });
      this.cy.on("tap", "node", (event) => this.tapped(event.target.data()));
      this.cy.on("tap", (event) => { if (event.target === this.cy) select(null); });
      this.group(state.mode);
    }
    group(mode) {
      Object.assign(this, makeTree(this.run, mode));
      this.open = new Set();
      this.fill(60);
    }
    fill(most) {                                    // open boxes from the top while there is room
      let count = this.root.children.size + this.root.leaves.length;
      const queue = [...this.root.children.values()];
      for (let at = 0; at < queue.length; at++) {
        const group = queue[at], more = group.children.size + group.leaves.length;
        if (count + more > most) continue;
        count += more;
        this.open.add(group.id);
        queue.push(...group.children.values());
      }
    }
    groupLabel(group) {
      const left = group.members.filter((m) => this.run.owner[m] === null).length;
      const name = group.kind === "partition" ? group.label + " " + this.run.partitions[group.partition].backend : group.label;
      return name + " (" + group.members.length + (left && left < group.members.length ? ", " + left + " left" : "") + ")";
    }
    nodeLabel(index) {
      const part = this.run.owner[index];
      return (part === null ? "" : "P" + part + " ") + nodes[index].name;
    }
    colourOf(group) {
      if (group.partition !== null && group.partition !== undefined) return group.partition;
      const parts = new Set(group.members.map((m) => this.run.owner[m]));
      return parts.size === 1 && !parts.has(null) ? [...parts][0] : null;
    }
    draw(keep) {
      const where = keep && this.cy.elements().length ? { zoom: this.cy.zoom(), pan: this.cy.pan() } : null;
      const found = [], shown = new Map();
      const place = (group, laid, x, y, parent) => {
        for (const item of laid.items) {
          const cx = x + item.x, cy = y + item.y;
          const inner = this.groups.get(item.id);
          if (item.inner) {
            found.push({ group: "nodes", data: { id: item.id, parent, label: this.groupLabel(inner), part: this.colourOf(inner), box: true, w: Math.max(60, item.w - 8) } });
            place(inner, item.inner, cx - item.w / 2 + SPACE, cy - item.h / 2 + SPACE, item.id);
          } else if (inner) {
            for (const member of inner.members) shown.set(member, item.id);
            found.push({ group: "nodes", position: { x: cx, y: cy }, data: { id: item.id, parent, label: this.groupLabel(inner), part: this.colourOf(inner), closed: true, w: item.w, h: item.h } });
          } else {
            const index = Number(item.id.slice(1));
            shown.set(index, item.id);
            found.push({ group: "nodes", position: { x: cx, y: cy }, data: { id: item.id, parent, label: this.nodeLabel(index), part: this.run.owner[index], leaf: true, w: item.w, h: item.h } });
          }
        }
      };
      const laid = lay(this, this.root);
      this.extent = laid;
      place(this.root, laid, 0, 0, undefined);
      const links = new Map();
      for (const [a, b] of edges) {
        const from = shown.get(a), to = shown.get(b);
        if (from !== undefined && to !== undefined && from !== to) links.set(from + "\n" + to, (links.get(from + "\n" + to) || 0) + 1);
      }
      for (const [text, count] of links) {
        const [source, target] = text.split("\n");
        found.push({ group: "edges", data: { id: "e" + text, source, target, count } });
      }
      this.shown = shown;
      for (const one of found) if (one.group === "nodes") one.data.fill = one.data.part === null || one.data.part === undefined ? (state.dark ? "#23282f" : "#ffffff") : colour(one.data.part);
      this.cy.elements().remove();
      if (this.dark !== state.dark) { this.dark = state.dark; this.style(); }   // before anything is there to be styled
      this.cy.batch(() => this.cy.add(found));
      if (where) { this.cy.zoom(where.zoom); this.cy.pan(where.pan); } else this.fit(0.5);
      this.highlight();
    }
    fit(least) {                       // from the layout: asking every box for its size would take seconds
      const { w, h } = this.extent, margin = 30, width = this.cy.width(), height = this.cy.height();
      const zoom = Math.max(least, Math.min(1.2, (width - 2 * margin) / (w + 1), (height - 2 * margin) / (h + 1)));
      const from = (size, room) => size * zoom + 2 * margin > room ? margin : (room - size * zoom) / 2;   // what is too large begins at its beginning
      this.cy.viewport({ zoom, pan: { x: from(w, width), y: from(h, height) } });
    }
    style() {
      const ink = state.dark ? "#e8ebee" : "#1b1f24", soft = state.dark ? "#77828f" : "#8b949e", strong = state.dark ? "#ffd24d" : "#b34700";
      this.cy.style([
        { selector: "node", style: { label: "data(label)", color: ink, "font-size": 11, "font-family": "system-ui, sans-serif", "background-color": "data(fill)", "border-color": ink, "border-width": 1.5, shape: "round-rectangle", "text-wrap": "ellipsis", "text-max-width": 330 } },
        { selector: "node[leaf], node[closed]", style: { width: "data(w)", height: "data(h)", "text-valign": "center", "text-halign": "center" } },
        { selector: "node[leaf][!part]", style: { "border-style": "dashed", "border-color": ink } },
        { selector: "node[leaf][part = 0]", style: { "border-style": "solid" } },
        { selector: "node[closed]", style: { "border-style": "double", "border-width": 5, "font-weight": "bold" } },
        { selector: "node[box]", style: { "text-valign": "top", "text-halign": "center", "text-margin-y": 15, "background-opacity": 0.45, "font-weight": "bold", padding: 18, "border-width": 1, "text-max-width": "data(w)", "compound-sizing-wrt-labels": "exclude" } },
        { selector: "edge", style: { width: 1.2, "line-color": soft, "target-arrow-color": soft, "target-arrow-shape": "triangle", "arrow-scale": 0.8, "curve-style": nodes.length > 1500 ? "haystack" : "bezier" } },
        { selector: "edge[count > 1]", style: { width: 2.4 } },
        { selector: ".dim", style: { opacity: 0.22 } },
        { selector: ".hit", style: { "border-width": 4, "border-color": strong } },
        { selector: ".chosen", style: { "border-width": 6, "border-color": strong, "border-style": "solid" } },
      ]);
    }
    highlight() {
      this.cy.batch(() => {
        this.cy.elements().removeClass("dim hit chosen");
        if (state.filter) {
          const hit = new Set([...state.filter].map((index) => this.shown.get(index)));
          this.cy.nodes().forEach((one) => { if (!one.data("box")) one.addClass(hit.has(one.id()) ? "hit" : "dim"); });
          this.cy.edges().addClass("dim");
        }
        if (state.selected !== null) this.cy.getElementById(this.shown.get(state.selected) || "").addClass("chosen").removeClass("dim");
      });
    }
    tapped(found) {
      if (found.leaf) select(Number(found.id.slice(1)));
      else this.toggle(found.id);
    }
    toggle(id) {
      if (this.open.has(id)) this.open.delete(id); else this.open.add(id);
      this.draw(true);
    }
    reveal(index) {
      let changed = false;
      for (let group = this.root.where.get(index); group !== this.root; group = group.parent) if (!this.open.has(group.id)) { this.open.add(group.id); changed = true; }
      if (changed) this.draw(true);
      const found = this.cy.getElementById(this.shown.get(index));
      if (this.cy.zoom() < 0.5) this.cy.zoom(0.8);
      this.cy.center(found);
    }
    all(open) {
      this.open = new Set();
      if (open) this.fill(1500);
      this.draw(false);
    }
  }
  let views = [];

  // --- what is selected and filtered ------------------------------------------------------------------------------
  function select(index, reveal) {
    state.selected = index;
    if (index !== null) { state.tab = "node"; if (reveal) views.forEach((view) => view.reveal(index)); }
    views.forEach((view) => view.highlight());
    side();
  }
  function filter(name, members) {
    state.filterName = name;
    state.filter = members === null ? null : new Set(members);
    byId("found").textContent = members === null ? "" : members.length + (members.length === 1 ? " node" : " nodes") + ": " + name;
    views.forEach((view) => view.highlight());
    side();
  }
  const run = () => runs[state.shown[0]];

  // --- the side: tables and the panel of a node -------------------------------------------------------------------
  function rows(title, head, items) {
    return element("table", {}, element("caption", { class: "soft" }, title),
      element("thead", {}, element("tr", {}, head.map((name, i) => element("th", { class: i && "n", scope: "col" }, name)))),
      element("tbody", {}, items.map((item) => element("tr", { class: state.filterName === item.name && "on" },
        element("td", {}, item.swatch === undefined ? null : element("span", { class: "swatch", style: "background:" + colour(item.swatch), "aria-hidden": "true" }),
          element("button", { onclick: () => filter(item.name, item.members) }, item.name)),
        item.numbers.map((n) => element("td", { class: "n" }, String(n)))))));
  }
  function collect(keys) {
    const found = new Map();
    nodes.forEach((node, index) => { for (const key of keys(node, index)) { if (!found.has(key)) found.set(key, []); found.get(key).push(index); } });
    return [...found].sort((a, b) => b[1].length - a[1].length || (a[0] < b[0] ? -1 : 1));
  }
  const left = (members) => members.filter((m) => run().owner[m] === null).length;
  const TABS = {
    node: ["Node", nodePanel],
    reasons: ["Reasons", () => rows("Why nodes are left", ["reason", "nodes"],
      collect((_, index) => run().owner[index] === null ? [run().reasons[index].cause] : []).map(([name, members]) => ({ name, members, numbers: [members.length] })))],
    ops: ["Ops", () => rows("By op", ["op", "nodes", "left"], collect((node) => [node.op]).map(([name, members]) => ({ name, members, numbers: [members.length, left(members)] })))],
    modules: ["Modules", () => rows("By module", ["module", "nodes", "left"],
      collect((node) => { const pieces = node.module ? node.module.split(".") : []; return pieces.length ? pieces.map((_, i) => pieces.slice(0, i + 1).join(".")) : ["(the model itself)"]; })
        .map(([name, members]) => ({ name, members, numbers: [members.length, left(members)] })))],
    partitions: ["Partitions", () => rows("Partitions", ["partition", "nodes", "in", "out", "weights"],
      run().partitions.map((p, i) => ({ name: "P" + i + " " + p.backend, swatch: i, members: p.nodes, numbers: [p.nodes.length, bytes(p.bytes_in), bytes(p.bytes_out), bytes(p.constant_bytes)] })))],
    apart: ["Not merged", () => element("div", {}, run().apart.map((a) => element("div", {},
      element("h3", {}, element("button", { onclick: () => filter(a.first + " and " + a.second, a.members) }, a.first + " and " + a.second)),
      element("div", {}, a.why), element("ul", {}, a.reasons.map(([name, why]) => element("li", {}, element("b", {}, name), ": " + why))))))],
    changes: ["Changes", () => {
      const kinds = collect((_, i) => { const a = runs[0].owner[i], b = runs[1].owner[i]; return a === null && b !== null ? ["claimed only in " + runs[1].name] : a !== null && b === null ? ["claimed only in " + runs[0].name] : []; });
      return element("div", {}, element("table", {}, element("tr", {}, ["", runs[0].name, runs[1].name].map((t) => element("th", {}, t))),
        [["nodes claimed", (r) => r.owner.filter((o) => o !== null).length], ["partitions", (r) => r.partitions.length],
          ["bytes in", (r) => bytes(r.partitions.reduce((s, p) => s + p.bytes_in, 0))], ["bytes out", (r) => bytes(r.partitions.reduce((s, p) => s + p.bytes_out, 0))]]
          .map(([t, f]) => element("tr", {}, element("th", {}, t), element("td", {}, String(f(runs[0]))), element("td", {}, String(f(runs[1])))))),
      rows("What changes", ["change", "nodes"], kinds.map(([name, members]) => ({ name, members, numbers: [members.length] }))));
    }],
    hits: ["Found", () => element("div", {}, element("ul", {}, [...(state.filter || [])].slice(0, 300).map((i) => element("li", {}, element("button", { onclick: () => select(i, true) }, nodes[i].name), " " + nodes[i].op))),
      state.filter && state.filter.size > 300 ? element("p", {}, "and " + (state.filter.size - 300) + " more") : null)],
  };
  function side() {
    const names = Object.keys(TABS).filter((name) => (name !== "changes" || runs.length > 1) && (name !== "hits" || state.filter) && (name !== "apart" || run().apart.length));
    if (!names.includes(state.tab)) state.tab = "reasons";
    byId("tabs").replaceChildren(...names.map((name) => element("button", { role: "tab", id: "tab-" + name, "aria-selected": String(name === state.tab), "aria-controls": "panel", onclick: () => { state.tab = name; side(); } }, TABS[name][0])));
    byId("panel").replaceChildren(TABS[state.tab][1]());
  }
  function excerpt(attempt) {
    const source = attempt.file && data.sources[attempt.file];
    if (!source || !attempt.fail) return null;
    const lines = source.split(/\r\n|\r|\n/), first = attempt.fail[0], last = attempt.fail[1];
    const from = Math.max(1, Math.min(attempt.start && attempt.start <= first && first - attempt.start < 14 ? attempt.start : first - 3, first)), to = Math.min(lines.length, last + 2);
    const shown = [];
    for (let n = from; n <= to; n++) shown.push(element("span", { class: n >= first && n <= last && "fail" }, String(n).padStart(4) + "  " + lines[n - 1]));
    return element("pre", { tabindex: "0", "aria-label": "Rule text, failing line " + first }, shown);
  }
  function nodePanel() {
    const index = state.selected;
    if (index === null) return element("p", {}, "Choose a node in the graph, or search for one.");
    const node = nodes[index], reason = run().reasons[index], part = run().owner[index];
    const jump = (list) => element("dd", {}, list.length ? list.map((i) => [element("button", { onclick: () => select(i, true) }, nodes[i].name), " "]).flat() : "none");
    const state_ = part === null ? element("dd", { class: "bad" }, "left") : element("dd", {}, element("span", { class: "swatch", style: "background:" + colour(part), "aria-hidden": "true" }), "P" + part + ", " + run().partitions[part].backend);
    return element("div", { id: "node" }, element("h2", {}, node.name), element("dl", {},
      element("dt", {}, "op"), element("dd", {}, node.op), element("dt", {}, "owner"), state_,
      node.module ? [element("dt", {}, "module"), element("dd", {}, node.module)] : [],
      node.source ? [element("dt", {}, "from"), element("dd", {}, element("code", {}, node.source))] : [],
      node.values.map(([name, text]) => [element("dt", {}, name), element("dd", {}, element("code", {}, text))]).flat(),
      element("dt", {}, "producers"), jump(producers[index]), element("dt", {}, "users"), jump(users[index])),
    part === null ? element("p", { id: "reason", class: "bad" }, reason.message) : null,
    reason.attempts.map((a, n) => element("section", {}, element("h3", {}, (n + 1) + ". " + a.rule + " of " + a.backend + ": " + a.kind + (a.of ? ", " + a.passed + " of " + a.of + " requirements hold" : "")),
      a.condition ? element("div", {}, element("div", { class: "soft" }, a.location + (a.invariant ? " (invariant " + a.invariant + ")" : "")), excerpt(a),
        element("dl", {}, a.observed.map(([path, value]) => [element("dt", {}, path), element("dd", {}, element("code", {}, value))]).flat(),
          a.because ? [element("dt", {}, "because"), element("dd", {}, a.because)] : [],
          a.remedies.length ? [element("dt", {}, "would do"), element("dd", {}, a.remedies.join("; and "))] : []))
        : element("div", {}, a.message))));
  }

  // --- the bar, the keys ------------------------------------------------------------------------------------------
  function search(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) { filter("", null); return; }
    const found = [];
    nodes.forEach((node, index) => { if (node.name.toLowerCase().includes(wanted) || node.op.toLowerCase().includes(wanted) || node.module.toLowerCase().includes(wanted)) found.push(index); });
    state.tab = "hits";
    filter(text.trim(), found);
  }
  function show(numbers) {
    state.shown = numbers;
    for (const view of views) { view.cy.destroy(); view.box.remove(); }
    byId("graphs").className = numbers.length > 1 ? "two" : "one";
    views = numbers.map((number) => new View(number));
    views.forEach((view) => view.draw(false));
    if (views.length > 1) follow(views[0], views[1]);
    const now = run(), claimed = now.owner.filter((o) => o !== null).length;
    byId("summary").textContent = claimed + " of " + nodes.length + " nodes claimed in " + now.partitions.length + " partitions" + (runs.length > 1 ? " (" + now.name + ")" : "");
    byId("runs").replaceChildren(...(runs.length < 2 ? [] : [[[0], runs[0].name], [[1], runs[1].name], [[0, 1], "side by side"]].map(([which, name]) =>
      element("button", { "aria-pressed": String(String(which) === String(numbers)), onclick: () => show(which) }, name))));
    side();
  }
  function follow(one, other) {          // both views look at the same place
    let busy = false;
    for (const [a, b] of [[one, other], [other, one]]) a.cy.on("viewport", () => { if (!busy) { busy = true; b.cy.viewport({ zoom: a.cy.zoom(), pan: a.cy.pan() }); busy = false; } });
  }
  function theme(dark) {
    state.dark = dark;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    byId("theme").setAttribute("aria-pressed", String(dark));
    views.forEach((view) => view.draw(true));
    if (views.length) side();
  }
  byId("search").addEventListener("input", (event) => search(event.target.value));
  byId("search").addEventListener("keydown", (event) => { if (event.key === "Enter" && state.filter && state.filter.size) { select([...state.filter][0], true); byId("panel").focus(); } });
  byId("mode").addEventListener("change", (event) => { state.mode = event.target.value; views.forEach((view) => { view.group(state.mode); view.draw(false); }); });
  byId("fit").addEventListener("click", () => views.forEach((view) => view.fit(0.02)));
  byId("close").addEventListener("click", () => views.forEach((view) => view.all(false)));
  byId("open").title = "opens what there is room for: up to 1500 boxes";
  byId("open").addEventListener("click", () => views.forEach((view) => view.all(true)));
  byId("clear").addEventListener("click", () => { byId("search").value = ""; filter("", null); });
  byId("theme").addEventListener("click", () => theme(!state.dark));
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "Escape") { byId("search").value = ""; filter("", null); if (typing) event.target.blur(); return; }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") { byId("search").focus(); event.preventDefault(); return; }
    const now = state.selected;
    const next = { ArrowUp: now === null ? undefined : producers[now][0], ArrowDown: now === null ? 0 : users[now][0], ArrowLeft: now === null ? undefined : now - 1, ArrowRight: now === null ? 0 : now + 1 }[event.key];
    if (next !== undefined && next >= 0 && next < nodes.length) { select(next, true); event.preventDefault(); return; }
    if (event.key === "Enter" && now !== null && event.target.tagName !== "BUTTON") {
      const group = views[0].root.where.get(now);
      if (group !== views[0].root) views.forEach((view) => view.toggle(view.root.where.get(now).id));
      event.preventDefault();
    }
  });
  theme(window.matchMedia && matchMedia("(prefers-color-scheme: dark)").matches);
  show([0]);
  window.apportion = { ready: performance.now(), state, select, filter, search, views: () => views, nodes };
})();
