import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { saveCredentials } from '../src/agent/core/settings.ts';
import { runtimeForBuilding, UnpackedRuntimes } from '../src/packaging/runtimes.ts';
import { builtAgent } from '../test/support/built-agent.ts';
import { startScriptedHub } from '../test/support/scripted-hub.ts';

/**
 * `npm run bench:agent-weight` measures the memory of the released agent and its watchdog, connected and at rest, beside
 * two processes of the bare runtime, below which no program in it can be. It is proportional: what processes share counts
 * once. `SECONDS` sets how long they rest.
 */

const SECONDS = Number(process.env['SECONDS'] ?? 45);
const REST = `setTimeout(() => {}, ${2 * SECONDS * 1000})`;

const { program } = await builtAgent();
const folder = mkdtempSync(path.join(tmpdir(), 'muster-weight-'));
const hub = await startScriptedHub();
hub.nextInMs = 10_000;
try {
  const node = await new UnpackedRuntimes(path.join(folder, 'runtimes')).program(
    runtimeForBuilding('linux-x64'),
  );
  const bare = await weigh([
    [node, '-e', REST],
    [node, '-e', REST],
  ]);
  await saveCredentials(path.join(folder, 'data'), {
    server: hub.url,
    deviceId: 'd',
    orgId: 'o',
    siteId: 's',
    token: 'the-token-of-the-device',
    heartbeatSeconds: 60,
    enrolledAt: new Date().toISOString(),
  });
  const places = ['--data-dir', path.join(folder, 'data'), '--programs', path.join(folder, 'programs')];
  const ours = await weigh([[program, 'watchdog', 'run', ...places]]);
  console.table([
    { of: 'two bare runtimes', ...bare, 'of the baseline': 1 },
    { of: 'agent and watchdog', ...ours, 'of the baseline': Math.round((ours.MB / bare.MB) * 100) / 100 },
  ]);
  if (hub.heartbeats.length === 0) throw new Error('The agent was not connected.');
} finally {
  await hub.close();
  rmSync(folder, { recursive: true, force: true });
}

/** The memory of the programs and of what they have started, in MB. */
async function weigh(commands: readonly [string, ...string[]][]) {
  const children = commands.map(([command, ...args]) => spawn(command, args, { stdio: 'ignore' }));
  try {
    await delay(SECONDS * 1000);
    const all = children.flatMap(({ pid = 0 }) => [pid, ...childrenOf(pid)]).map(memoryOf);
    const sum = (part: 'own' | 'shared') =>
      Math.round(all.reduce((total, one) => total + one[part], 0) / 100) / 10;
    return {
      MB: Math.round((sum('own') + sum('shared')) * 10) / 10,
      'own memory': sum('own'),
      'of files': sum('shared'),
    };
  } finally {
    for (const child of children) child.kill('SIGTERM');
    await delay(2000);
    for (const child of children) child.kill('SIGKILL');
  }
}

function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').map(Number).filter(Boolean);
}

/** In thousands of bytes. The pages of files are those of the program, which the system can drop and read again. */
function memoryOf(pid: number): { own: number; shared: number } {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const value = (name: string) =>
    (Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(rollup)?.[1]) * 1024) / 1000;
  return { own: value('Pss_Anon'), shared: value('Pss_File') };
}
