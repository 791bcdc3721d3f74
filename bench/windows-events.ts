import { spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { windowsReader } from '../src/agent/capabilities/event-logs/windows-reader.ts';
import { LogQuery } from '../src/protocol/index.ts';
import { recorded } from '../test/support/recorded.ts';

/**
 * `npm run bench:windows-events` measures what the agent adds to `wevtutil` when it looks for a text in a log of recorded
 * events: a stand-in that prints them is read to its end by itself, and through the reader. The stand-in prints at once
 * what Windows has to render, so the ratio is the worst that can be. `EVENTS` sets how many.
 */

const EVENTS = Number(process.env['EVENTS'] ?? 20_000);
const ROUNDS = 5;

const recordings = recorded('windows/event-logs');
if (recordings === undefined) throw new Error('The recorded events are not here (../shared/real/windows).');
const lines = recordings.files.flatMap((file) => recordings.text(file).split('\n').filter(isEvent));
const folder = mkdtempSync(path.join(tmpdir(), 'muster-bench-events-'));
try {
  const log = path.join(folder, 'events');
  const events = Array.from({ length: EVENTS }, (_, i) => lines[i % lines.length] ?? '');
  writeFileSync(log, Buffer.from(`\uFEFF${events.join('\n')}`, 'utf16le'));
  const wevtutil = path.join(folder, 'wevtutil');
  writeFileSync(wevtutil, `#!/bin/sh\nif [ "$1" = qe ]; then exec cat '${log}'; fi\n`);
  chmodSync(wevtutil, 0o755);

  const bare: number[] = [];
  const ours: number[] = [];
  let scanned = 0;
  for (let round = 0; round < ROUNDS; round++) {
    bare.push(await timed(() => drain(wevtutil)));
    ours.push(await timed(async () => (scanned = await search(wevtutil))));
  }
  if (scanned !== EVENTS) throw new Error(`${scanned} of ${EVENTS} events were looked at.`);
  const [least, most] = [Math.min(...bare), Math.min(...ours)];
  console.table([
    { of: 'wevtutil by itself', ms: Math.round(least), ratio: 1 },
    {
      of: 'a text in all events',
      ms: Math.round(most),
      ratio: Math.round((most / least) * 10) / 10,
      'events per second': Math.round((EVENTS / most) * 1000),
    },
  ]);
} finally {
  rmSync(folder, { recursive: true });
}

/** One event on its line. A recorded one has no values at all, and cannot be read. */
function isEvent(line: string): boolean {
  return (
    line.startsWith('<Event ') && line.trimEnd().endsWith('</Event>') && !line.includes('<EventRecordID></')
  );
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}

/** Reads what the program prints, and looks at none of it. */
function drain(program: string): Promise<void> {
  const child = spawn(program, ['qe', 'System'], { stdio: ['ignore', 'pipe', 'ignore'] });
  child.stdout.resume();
  return new Promise((resolve) => child.once('close', () => resolve()));
}

async function search(program: string): Promise<number> {
  const query = LogQuery.parse({ name: 'System', text: 'in none of the events', page: 1, limit: 100 });
  const found = windowsReader(program).query(query, AbortSignal.timeout(300_000));
  for (;;) {
    const { done, value } = await found.next();
    if (done === true) return value.scanned;
  }
}
