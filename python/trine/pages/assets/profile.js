// The page of a profile: its views, each a module, over what the reader says.

import { json } from "./data.js";
import { shell } from "./shell.js";
import { summary } from "./profile_summary.js";
import { timelineView } from "./profile_timeline.js";
import { operators, sourceView } from "./profile_code.js";
import { memory, roofline } from "./profile_charts.js";
import { compare, ranks } from "./profile_ranks.js";

const info = await json("/api/info");
const many = new Set(info.tracks.map((t) => t.rank)).size > 1;
const i = info.info;

const views = [
  { name: "summary", title: "Summary", draw: (e) => summary(e, info) },
  { name: "timeline", title: "Timeline", wide: true, draw: (e, p) => timelineView(e, info, p) },
  { name: "operators", title: "Operators", draw: (e, p) => operators(e, p) },
  { name: "source", title: "Source", draw: (e, p) => sourceView(e, p) },
  { name: "roofline", title: "Roofline", draw: roofline },
  { name: "memory", title: "Memory", draw: (e) => memory(e, info) },
];
if (info.host) views.push({ name: "host", title: "Host", wide: true, draw: (e, p) => timelineView(e, info, p, true) });
if (many) views.push({ name: "ranks", title: "Ranks", draw: ranks });
if (info.compare) views.push({ name: "compare", title: "Compare", draw: compare });

const detail = [i.instance, many ? `${new Set(info.tracks.map((t) => t.rank)).size} ranks` : "", i.created ? String(i.created).replace("T", " ").replace(/(\.\d+)?(Z|\+00:00)$/, " UTC") : ""].filter(Boolean).join(" · ");
const keys = [["w s, a d", "timeline: in and out, left and right"], ["↑ ↓", "timeline: up and down"], ["f", "timeline: all, or the chosen event"], ["c", "timeline: critical path of what is shown"], ["Shift + drag", "timeline: measure"], ["Esc", "timeline: let go"]];
await shell({ title: info.title, detail, views, keys });
