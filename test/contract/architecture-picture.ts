// Draws the picture of docs/architecture.md from the imports, as a Mermaid flowchart.
import type { Graph } from './import-graph.ts';
import { zoneOf } from './import-rules.ts';

export type Part = NonNullable<ReturnType<typeof zoneOf>>;

export interface Box {
  part: Part;
  files: number;
  /** The folders directly below the part. */
  rooms: string[];
}

export interface Arrow {
  from: Part;
  to: Part;
  /** No program loads the target because of this arrow. */
  typeOnly: boolean;
}

/** Parts that every other part may use, or that are one file of settings: their arrows would hide the others. */
const NOT_DRAWN = new Set<Part>(['clock', 'text', 'config', 'knexfile', 'seeds', 'packaging']);

const TITLES: Partial<Record<Part, string>> = {
  main: 'main: the start of the server',
  cli: 'cli: the command muster',
  server: 'server: builds all parts by hand',
  features: 'features: the product',
  hub: 'hub: live devices',
  platform: 'platform: technical parts',
  protocol: 'protocol: socket messages',
  engine: 'engine: restic and its formats',
  agent: 'agent: the program on a device',
  watchdog: 'watchdog: upgrades the agent',
  dashboard: 'dashboard: the web application',
  clients: 'clients: the TypeScript client',
};

export function boxesOf(graph: Graph): Box[] {
  const boxes = new Map<Part, { files: number; rooms: Set<string> }>();
  for (const path of graph.keys()) {
    const part = zoneOf(path);
    if (part === undefined || NOT_DRAWN.has(part)) continue;
    const box = boxes.get(part) ?? { files: 0, rooms: new Set() };
    boxes.set(part, box);
    box.files += 1;
    const room = path.match(/^src\/[^/]+\/([^/]+)\//)?.[1];
    if (room !== undefined) box.rooms.add(room);
  }
  return [...boxes]
    .map(([part, { files, rooms }]) => ({ part, files, rooms: [...rooms].toSorted() }))
    .toSorted((a, b) => a.part.localeCompare(b.part));
}

/** The imports between parts. An arrow is left out where a longer way of other arrows leads to the same part. */
export function arrowsOf(graph: Graph): Arrow[] {
  const all = new Map<string, Arrow>();
  for (const { path, imports } of graph.values()) {
    for (const { target, typeOnly } of imports) {
      const from = zoneOf(path);
      const to = target === undefined || !graph.has(target) ? undefined : zoneOf(target);
      if (from === undefined || to === undefined || from === to) continue;
      if (NOT_DRAWN.has(from) || NOT_DRAWN.has(to)) continue;
      const known = all.get(`${from} ${to}`);
      all.set(`${from} ${to}`, { from, to, typeOnly: typeOnly && known?.typeOnly !== false });
    }
  }
  const loading = [...all.values()].filter(({ typeOnly }) => !typeOnly);
  const reaches = (from: Part, to: Part): boolean =>
    loading.some((arrow) => arrow.from === from && (arrow.to === to || reaches(arrow.to, to)));
  const follows = ({ from, to }: Arrow): boolean =>
    loading.some((arrow) => arrow.from === from && arrow.to !== to && reaches(arrow.to, to));
  return [...all.values()]
    .filter((arrow) => arrow.typeOnly || !follows(arrow))
    .toSorted((a, b) => `${a.from} ${a.to}`.localeCompare(`${b.from} ${b.to}`));
}

const ROOMS_PER_LINE = 4;

function labelOf({ part, files, rooms }: Box): string {
  const lines: string[] = [];
  for (let at = 0; at < rooms.length; at += ROOMS_PER_LINE) {
    lines.push(rooms.slice(at, at + ROOMS_PER_LINE).join(' · '));
  }
  return [`<b>${TITLES[part] ?? part}</b>`, `${files} ${files === 1 ? 'file' : 'files'}`, ...lines].join(
    '<br/>',
  );
}

export function drawPicture(graph: Graph): string {
  return [
    '```mermaid',
    'flowchart TD',
    ...boxesOf(graph).map((box) => `  ${box.part}["${labelOf(box)}"]`),
    ...arrowsOf(graph).map(({ from, to, typeOnly }) => `  ${from} ${typeOnly ? '-.->|types|' : '-->'} ${to}`),
    '```',
  ].join('\n');
}

const PICTURE = /```mermaid\n[\s\S]*?\n```/;

/** The page with its picture drawn anew. */
export function withPicture(page: string, graph: Graph): string {
  if (!PICTURE.test(page)) throw new Error('docs/architecture.md has no block of the kind mermaid');
  return page.replace(PICTURE, () => drawPicture(graph));
}

/** Numbers of files may differ by a fifth, so that a new file does not make every page and every merge out of date. */
const FILES_MAY_DIFFER = 0.2;

/** What a drawn picture says that is no longer so, each as one line. */
export function staleParts(page: string, graph: Graph): string[] {
  const shape = (text: string): string[] =>
    (PICTURE.exec(text)?.[0] ?? '').split('\n').map((line) => line.replace(/<br\/>\d+ files?/, ''));
  const drawn = drawPicture(graph);
  const before = new Set(shape(page));
  const now = new Set(shape(drawn));
  const counts = boxesOf(graph).flatMap(({ part, files }) => {
    const written = Number(new RegExp(`^  ${part}\\[.*?<br/>(\\d+) files?`, 'm').exec(page)?.[1]);
    const differs = Math.abs(written - files) > Math.max(2, files * FILES_MAY_DIFFER);
    return differs ? [`${part} has ${files} files, and the page says ${written}`] : [];
  });
  return [
    ...[...now].filter((line) => !before.has(line)).map((line) => `the page lacks: ${line.trim()}`),
    ...[...before].filter((line) => !now.has(line)).map((line) => `the page still has: ${line.trim()}`),
    ...counts,
  ];
}
