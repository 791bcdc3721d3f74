import { z } from 'zod';

/** A recording in the format asciicast v2, as the player needs it. Pure. */

const Header = z.object({
  version: z.literal(2),
  width: z.number().int().min(1).max(1000),
  height: z.number().int().min(1).max(1000),
});
const Event = z.tuple([z.number().nonnegative(), z.string(), z.string()]);
const SIZE = /^(\d{1,3})x(\d{1,3})$/;

export type CastEvent = { at: number } & (
  | { kind: 'output'; text: string }
  | { kind: 'size'; cols: number; rows: number }
  | { kind: 'mark'; text: string }
);

export interface Cast {
  cols: number;
  rows: number;
  events: CastEvent[];
  /** In seconds, with pauses cut. */
  duration: number;
}

/** Longer pauses are cut to this many seconds. */
const PAUSE_MAX = 2;

/** Throws for a text that is no recording. A line that is none of its events is left out. */
export function parseCast(text: string): Cast {
  const [first = '', ...lines] = text.split('\n');
  const { width: cols, height: rows } = Header.parse(JSON.parse(first));
  const events: CastEvent[] = [];
  let before = 0;
  let at = 0;
  for (const line of lines) {
    const event = eventIn(line);
    if (event === undefined) continue;
    at += Math.min(Math.max(0, event.at - before), PAUSE_MAX);
    before = Math.max(before, event.at);
    events.push({ ...event, at });
  }
  return { cols, rows, events, duration: at };
}

function eventIn(line: string): CastEvent | undefined {
  if (line === '') return undefined;
  const parsed = Event.safeParse(jsonIn(line));
  if (!parsed.success) return undefined;
  const [at, code, text] = parsed.data;
  if (code === 'o') return { at, kind: 'output', text };
  if (code === 'm') return { at, kind: 'mark', text };
  const [, cols = '', rows = ''] = (code === 'r' ? SIZE.exec(text) : null) ?? [];
  return cols === '' ? undefined : { at, kind: 'size', cols: Number(cols), rows: Number(rows) };
}

function jsonIn(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
