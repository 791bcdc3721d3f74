import { expect } from 'chai';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { usesOfMachineTime } from './clock-use.ts';

const ROOT = path.join(import.meta.dirname, '../..');

/** Files that may take the time from the machine, with how often and why. */
const EXCEPTIONS: Readonly<Record<string, { uses: number; because: string }>> = {
  'src/clock.ts': { uses: 5, because: 'It is where the time comes from.' },
  'src/protocol/primitives.ts': {
    uses: 1,
    because: 'The protocol imports nothing of ours, and allows reported times a whole day.',
  },
};

function files(): string[] {
  const below = (folder: string) =>
    readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => /\.[mc]?tsx?$/.test(file))
      .map((file) => path.posix.join(folder, ...file.split(path.sep)));
  // The dashboard runs in browsers, which have no clock of ours.
  return [...below('src'), ...below('seeds'), 'knexfile.ts'].filter(
    (file) => !file.startsWith('src/dashboard/'),
  );
}

describe('the time of our programs', () => {
  const uses = new Map(
    files().map((file) => [file, usesOfMachineTime(file, readFileSync(path.join(ROOT, file), 'utf8'))]),
  );

  it('is taken from `clock` by all code', () => {
    const others = [...uses]
      .filter(([file]) => EXCEPTIONS[file] === undefined)
      .flatMap(([file, found]) => found.map((use) => `${file}: ${use}`));
    expect(others, `\n${others.join('\n')}\n`).to.deep.equal([]);
  });

  it('is taken from the machine as often as each exception says', () => {
    const counted = Object.keys(EXCEPTIONS).map((file) => [file, uses.get(file)?.length]);
    const listed = Object.entries(EXCEPTIONS).map(([file, exception]) => [file, exception.uses]);
    expect(counted).to.deep.equal(listed);
  });

  const FOUND: readonly [form: string, code: string][] = [
    ['setTimeout', 'setTimeout(go, 5)'],
    ['setTimeout', 'const wait = setTimeout'],
    ['setInterval', 'const timer = setInterval(go, 5).unref()'],
    ['clearTimeout', 'clearTimeout(timer)'],
    ['clearInterval', 'list.forEach(clearInterval)'],
    ['setTimeout', 'const timers = { setTimeout }'],
    ['globalThis.setTimeout', 'globalThis.setTimeout(go, 5)'],
    ['{ setInterval } = globalThis', 'const { setInterval: repeat } = globalThis'],
    ['Date.now', 'const at = Date.now()'],
    ['Date.now', "const at = Date['now']()"],
    ['Date.now', 'const read = (now = Date.now) => now()'],
    ['{ now } = Date', 'const { now } = Date'],
    ['new Date()', 'const at = new Date()'],
    ['new Date()', 'const at = new Date'],
    ['Date()', 'const at = Date()'],
    ['performance.now', 'const at = performance.now()'],
    ['performance.now', 'const at = globalThis.performance.now()'],
    ['{ now } = performance', 'const { now } = performance'],
    ['AbortSignal.timeout', 'fetch(url, { signal: AbortSignal.timeout(5) })'],
    ['process.hrtime', 'const at = process.hrtime.bigint()'],
    ["import 'node:timers/promises'", "import { setTimeout as delay } from 'node:timers/promises'"],
    ["import 'timers/promises'", "import * as timers from 'timers/promises'"],
    ["import 'node:timers'", "import { setInterval } from 'node:timers'"],
    ["import 'node:perf_hooks'", "import { performance } from 'node:perf_hooks'"],
    ["import('node:timers')", "const timers = await import('node:timers')"],
    ["export from 'node:timers'", "export { setTimeout } from 'node:timers'"],
  ];
  for (const [form, code] of FOUND) {
    it(`is found to be the machine's in ${code}`, () => {
      expect(usesOfMachineTime('a.ts', `${code};`)).to.deep.equal([`${form} (line 1)`]);
    });
  }

  const ALLOWED = [
    'clock.setTimeout(go, 5)',
    'clock.now()',
    'const at = new Date(clock.now())',
    'const day = new Date(2026, 0)',
    'response.setTimeout(5, end)',
    'setImmediate(go)',
    "import { setImmediate as turn } from 'node:timers/promises'",
    "import { monitorEventLoopDelay } from 'node:perf_hooks'",
    'interface Timers { setTimeout(go: () => void): void }',
    'const timers = { setTimeout: go }',
    'Date.parse(text)',
  ];
  for (const code of ALLOWED) {
    it(`is not found to be the machine's in ${code}`, () => {
      expect(usesOfMachineTime('a.ts', `${code};`)).to.deep.equal([]);
    });
  }
});
