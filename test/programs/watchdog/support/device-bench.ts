import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { saveCredentials } from '../../../../src/agent/core/settings.ts';
import { ownPlatform } from '../../../../src/agent/os/releases/layout.ts';
import { type SignedRelease, saveTrustedKeys } from '../../../../src/agent/os/releases/release-check.ts';
import { type JournalLine, readJournal } from '../../../../src/agent/os/releases/upgrade-files.ts';
import { bundle } from '../../../../src/packaging/build-agent.ts';
import {
  type ReleaseKey,
  type ReleaseManifest,
  type Upgrade,
  WatchdogReport,
} from '../../../../src/protocol/index.ts';
import type { WatchdogSettings } from '../../../../src/watchdog/settings.ts';
import { published, signed, signingKey, type SigningKey } from '../../../support/agent/release-forge.ts';
import { eventually } from '../../../support/eventually.ts';
import { type ScriptedHub, startScriptedHub } from '../../../support/scripted-hub.ts';

/** A machine with a watchdog and its agent as real processes, and a hub that offers what the test says. */
export interface DeviceBench {
  hub: ScriptedHub;
  key: SigningKey;
  /** What `GET /agent-versions/keys` answers. */
  serverKeys: ReleaseKey[];
  dataDir: string;
  programs: string;
  reports: WatchdogReport[];
  /** What the route of the watchdog's report answers. */
  reportStatus: number;
  /** How often each file was asked for, and with which range. */
  downloads: { sha256: string; range: string | undefined; authorization: string | undefined }[];
  /** Cuts the next download off after so many bytes. */
  cutAfter: number | undefined;
  publish(release: SignedRelease, bytes: Buffer): Upgrade;
  /** The bytes of what was published. */
  file(sha256: string): Buffer;
  /** A release of the agent: the real one under this version, with code that runs first. */
  agentRelease(version: string, first?: string, about?: Partial<ReleaseManifest>): Promise<Upgrade>;
  watchdogRelease(version: string, first?: string): Promise<Upgrade>;
  offer(upgrade: Upgrade): void;
  /** Starts the watchdog as a service manager does: again whenever it ends. */
  start(): void;
  /** Kills the watchdog; the service manager starts it again. */
  killWatchdog(): void;
  stop(): Promise<void>;
  output(): string;
  /** How often the service manager has started the watchdog. */
  starts(): number;
  /** Resolves when an agent of this version is connected and has sent a heartbeat over that connection. */
  runs(version: string, withinMs?: number): Promise<void>;
  /** Those of the report over HTTP come first. */
  phases(component?: string): string[];
  phaseIs(phase: string, withinMs?: number): Promise<void>;
  journal(): Promise<JournalLine[]>;
  /** One of the programs is killed when it writes this step into its journal. */
  dieAt(step: string, when: 'before' | 'after'): Promise<void>;
  hasDied(): boolean;
  close(): Promise<void>;
}

/** Short times, so that a trial takes a second. */
const SETTINGS: Partial<WatchdogSettings> = {
  pingEveryMs: 300,
  missedPings: 3,
  stopMs: 3000,
  firstHeartbeatMs: 5000,
  heartbeatsMs: 6000,
  beatEveryMs: 50,
  restartMs: 50,
  restartMaxMs: 300,
  steadyMs: 20_000,
  reportEveryMs: 200,
};

/** Kills the process at a step of the journal. It is put before the bundled programs, which know nothing of it. */
const DIES = (file: string) => `(() => {
const fs = require('node:fs');
const write = fs.writeSync;
const die = (step, when) => {
  let wish;
  try { wish = JSON.parse(fs.readFileSync(${JSON.stringify(file)}, 'utf8')); } catch { return; }
  if (wish.step !== step || wish.when !== when) return;
  fs.rmSync(${JSON.stringify(file)});
  process.kill(process.pid, 'SIGKILL');
};
fs.writeSync = (fd, text, ...rest) => {
  const step = typeof text === 'string' ? /"step":"([a-z_]+)"/.exec(text)?.[1] : undefined;
  if (step === undefined) return write(fd, text, ...rest);
  die(step, 'before');
  const written = write(fd, text, ...rest);
  die(step, 'after');
  return written;
};
})();
`;

/** The machine of a bench: where its files are, and how its service manager starts the watchdog. */
export interface DeviceHost {
  dataDir: string;
  programs: string;
  /** As releases name it. */
  platform: { os: string; architecture: string };
  /** Installs the service of the enrolled machine, if it needs one. */
  install?(): Promise<void>;
  /** Starts the watchdog. */
  launch(): ChildProcess;
  /** What the programs have written, if that is not in the pipes of the watchdog. */
  output?(): string;
  /** The bytes of a release of the watchdog. */
  watchdogRelease(version: string, first: string): Promise<Buffer>;
  close(): Promise<void>;
}

/** This machine, with the programs as scripts of Node. */
async function startLocalHost(agentCode: BundledCode, watchdogCode: BundledCode): Promise<DeviceHost> {
  // The name has a blank and letters that are not ASCII, as paths on real machines do.
  const folder = await mkdtemp(path.join(tmpdir(), 'muster wächter-'));
  const [dataDir, programs, bin] = ['data', 'programs', 'bin'].map((name) => path.join(folder, name)) as [
    string,
    string,
    string,
  ];
  await mkdir(bin, { recursive: true });
  await mkdir(programs);
  await writeFile(path.join(bin, 'muster-agent.cjs'), await agentCode('1.0.0'));
  const watchdogFile = path.join(bin, 'muster-watchdog.cjs');
  await writeFile(watchdogFile, await watchdogCode('1.0.0'));
  return {
    dataDir,
    programs,
    platform: ownPlatform(),
    launch() {
      const current = path.join(programs, 'watchdog/current/muster-agent');
      const words = ['watchdog', 'run', '--data-dir', dataDir, '--programs', programs];
      const [command, ...args] = existsSync(current)
        ? [current, ...words]
        : [process.execPath, watchdogFile, ...words];
      return spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    },
    async watchdogRelease(version, first) {
      const file = path.join(bin, `watchdog-${version}.cjs`);
      await writeFile(file, await watchdogCode(version, first));
      // What a release of the watchdog is on a real machine: one file that can be executed.
      return Buffer.from(`#!/bin/sh\nexec '${process.execPath}' '${file}' "$@"\n`);
    },
    close: () => rm(folder, { recursive: true, force: true }),
  };
}

/** A program under this version, with code that runs first. */
type BundledCode = (version: string, first?: string) => Promise<Buffer>;

export async function startDeviceBench(
  settings: Partial<WatchdogSettings> = {},
  startHost: (agentCode: BundledCode, watchdogCode: BundledCode) => Promise<DeviceHost> = startLocalHost,
): Promise<DeviceBench> {
  const files = new Map<string, Buffer>();
  const hub = await startScriptedHub();
  const key = signingKey();
  const dies = path.join(await mkdtemp(path.join(tmpdir(), 'muster-bench-')), 'die.json');
  const codeOf =
    (component: 'agent' | 'watchdog'): BundledCode =>
    async (version, first = '') =>
      Buffer.concat([Buffer.from(DIES(dies) + first), (await bundle(component, version)).code]);
  const host = await startHost(codeOf('agent'), codeOf('watchdog'));
  const { dataDir, programs, platform } = host;
  await saveCredentials(dataDir, {
    server: hub.url,
    deviceId: 'd',
    orgId: 'o',
    siteId: 's',
    token: 'the-token-of-the-device',
    heartbeatSeconds: 60,
    enrolledAt: new Date().toISOString(),
  });
  await saveTrustedKeys(dataDir, [published(key)]);
  await writeFile(path.join(dataDir, 'watchdog.json'), JSON.stringify({ ...SETTINGS, ...settings }));
  hub.nextInMs = 200;
  await host.install?.();

  let child: ChildProcess | undefined;
  let ended: Promise<void> = Promise.resolve();
  let wanted = false;
  let started = 0;
  let text = '';
  const launch = () => {
    started += 1;
    const each = host.launch();
    child = each;
    for (const stream of [each.stdout, each.stderr]) {
      stream?.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    }
    ended = new Promise((resolve) => {
      each.once('exit', () => {
        resolve();
        if (wanted) setTimeout(() => wanted && launch(), 100);
      });
    });
  };

  const bench: DeviceBench = {
    hub,
    key,
    serverKeys: [published(key)],
    dataDir,
    programs,
    reports: [],
    reportStatus: 200,
    downloads: [],
    cutAfter: undefined,
    publish({ manifest, signature, keyId }, bytes) {
      const hash = createHash('sha256').update(bytes).digest('hex');
      files.set(hash, bytes);
      const { component, version, sha256, size } = manifest;
      return { component, version, url: `${hub.url}/files/${hash}`, sha256, size, signature, keyId };
    },
    file: (sha256) => files.get(sha256) ?? Buffer.alloc(0),
    async agentRelease(version, first = '', about = {}) {
      const bytes = await codeOf('agent')(version, first);
      return bench.publish(signed(key, bytes, { version, ...platform, ...about }), bytes);
    },
    async watchdogRelease(version, first = '') {
      const bytes = await host.watchdogRelease(version, first);
      return bench.publish(signed(key, bytes, { component: 'watchdog', version, ...platform }), bytes);
    },
    offer(upgrade) {
      hub.upgrades = [upgrade];
    },
    start() {
      wanted = true;
      launch();
    },
    killWatchdog: () => void child?.kill('SIGKILL'),
    async stop() {
      wanted = false;
      child?.kill('SIGTERM');
      await ended;
    },
    output: () => text + (host.output?.() ?? ''),
    starts: () => started,
    async runs(version, withinMs = 20_000) {
      const seen = hub.heartbeats.length;
      await eventually(
        () => ({ beats: hub.heartbeats.length - seen, socket: hub.sockets.at(-1), last: hub.lastHeartbeat }),
        ({ beats, socket, last }) =>
          beats > 1 && socket?.connected === true && last?.agentVersion === version,
        withinMs,
      ).catch((error: unknown) => {
        throw new Error(`No agent ${version} is connected: ${String(error)}\n${bench.output()}`);
      });
    },
    phases: (component = 'agent') =>
      [...bench.reports.flatMap(({ updates }) => updates), ...hub.statuses]
        .filter((status) => status.component === component)
        .map(({ phase, code }) => (code === undefined ? phase : `${phase} ${code}`)),
    async phaseIs(phase, withinMs = 20_000) {
      await eventually(
        () => ['agent', 'watchdog', 'kernel'].flatMap((component) => bench.phases(component)),
        (phases) => phases.includes(phase),
        withinMs,
      ).catch(() => {
        const said = JSON.stringify([bench.phases('agent'), bench.phases('watchdog')]);
        throw new Error(`No phase "${phase}" was reported, but ${said}.\n${bench.output()}`);
      });
    },
    journal: () => readJournal(dataDir),
    dieAt: (step, when) => writeFile(dies, JSON.stringify({ step, when })),
    hasDied: () => !existsSync(dies),
    async close() {
      await bench.stop();
      await hub.close();
      await host.close();
      await rm(path.dirname(dies), { recursive: true, force: true });
    },
  };
  hub.answers = (request, response, body) => answer(bench, files, request, response, body);
  return bench;
}

function answer(
  bench: DeviceBench,
  files: ReadonlyMap<string, Buffer>,
  { url = '', headers }: IncomingMessage,
  response: ServerResponse,
  body: Buffer,
): boolean {
  const json = (status: number, value: unknown) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    return true;
  };
  if (url === '/api/v1/agent-versions/keys') return json(200, { keys: bench.serverKeys });
  if (url === '/api/v1/agents/d/watchdog-report') {
    const isKnown = headers.authorization === 'Bearer the-token-of-the-device';
    if (isKnown && bench.reportStatus === 200) {
      bench.reports.push(WatchdogReport.parse(JSON.parse(body.toString())));
    }
    return json(isKnown ? bench.reportStatus : 401, { ok: true });
  }
  const [, sha256 = ''] = /^\/files\/([0-9a-f]{64})$/.exec(url) ?? [];
  const bytes = files.get(sha256);
  if (bytes === undefined) return false;
  const { range, authorization } = headers;
  bench.downloads.push({ sha256, range, authorization });
  const from =
    headers['if-range'] === `"${sha256}"` ? Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0) : 0;
  const part = bytes.subarray(from);
  response.writeHead(from > 0 ? 206 : 200, {
    etag: `"${sha256}"`,
    'content-length': part.length,
    ...(from > 0 ? { 'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` } : {}),
  });
  const { cutAfter } = bench;
  bench.cutAfter = undefined;
  if (cutAfter === undefined) response.end(part);
  else response.write(part.subarray(0, cutAfter), () => setTimeout(() => response.destroy(), 50));
  return true;
}

/** The file of effects of a durable command, as lines. */
export const effectsIn = async (file: string): Promise<string[]> =>
  (await readFile(file, 'utf8').catch(() => '')).split('\n').filter(Boolean);
