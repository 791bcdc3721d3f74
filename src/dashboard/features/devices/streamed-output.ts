import type { JobOutput } from '../../../protocol/index.ts';

type Row = JobOutput['rows'][number];

/** The output that came over the socket: its rows, and whether some of them are missing. */
export interface Streamed {
  rows: readonly Row[];
  isPartial: boolean;
  seq: number | undefined;
}

const CHARACTERS_MAX = 200_000;
export const NOTHING_STREAMED: Streamed = { rows: [], isPartial: false, seq: undefined };

/** The output with another message. Only the end of a long one is kept. */
export function withOutput({ rows, isPartial, seq }: Streamed, output: JobOutput): Streamed {
  if (seq !== undefined && output.seq <= seq) return { rows, isPartial, seq };
  const isGap = output.seq !== (seq ?? -1) + 1;
  const next = [...rows];
  for (const row of output.rows) {
    const last = next.at(-1);
    if (last?.stream === row.stream && last.text.length < 4_000) {
      next[next.length - 1] = { stream: row.stream, text: last.text + row.text };
    } else {
      next.push(row);
    }
  }
  let length = next.reduce((sum, { text }) => sum + text.length, 0);
  let isCut = false;
  while (length > CHARACTERS_MAX && next.length > 1) {
    length -= next.shift()?.text.length ?? 0;
    isCut = true;
  }
  return { rows: next, isPartial: isPartial || isGap || isCut, seq: output.seq };
}
