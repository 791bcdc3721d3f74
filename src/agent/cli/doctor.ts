import { lookup } from 'node:dns/promises';
import { lstat, statfs } from 'node:fs/promises';
import type { Command } from 'commander';
import { clock } from '../../clock.ts';
import { openEventLogs } from '../capabilities/event-logs/open-event-logs.ts';
import { HTTP_ONLY, PENDING } from '../core/connection-options.ts';
import { loadCredentials, NOT_ENROLLED } from '../core/settings.ts';
import { runningAgent } from '../core/status-file.ts';
import { logFile } from '../os/diagnostic-log.ts';
import { openPrivateFolder } from '../os/files/private-folder.ts';
import { type Network, openNetwork } from '../os/network/network.ts';
import { findProgram, runSystemProgram } from '../os/child-process.ts';
import { checkInstalled, installedVersions } from '../os/releases/installed-release.ts';
import { defaultDataDir, defaultProgramsDir, ownPlatform } from '../os/releases/layout.ts';
import { keysForStart } from '../os/releases/release-check.ts';
import { serviceFinding } from './service.ts';

export function addDoctor(program: Command): void {
  program
    .command('doctor')
    .description(
      'check what the agent needs on this machine (exit 0: everything is in order, 1: something is not)',
    )
    .option('--data-dir <folder>', 'folder of the agent', defaultDataDir())
    .option('--programs <folder>', 'folder of the programs', defaultProgramsDir())
    .option('--json', 'print a JSON object', false)
    .action(async (options: { dataDir: string; programs: string; json: boolean }) => {
      const dataDir = await openPrivateFolder(options.dataDir);
      const findings = await examine(dataDir, options.programs);
      const ok = findings.every((finding) => finding.ok);
      if (options.json) console.log(JSON.stringify({ ok, findings }));
      else for (const finding of findings) print(finding);
      process.exitCode = ok ? 0 : 1;
    });
}

async function examine(dataDir: string, programs: string): Promise<Finding[]> {
  const { finding, server } = await checkEnrollment(dataDir);
  const machine = await Promise.all([
    checkEventLogs(),
    ...(server === undefined ? [] : [checkConnection(dataDir)]),
    checkDisk(dataDir),
    checkLog(dataDir),
    checkRestic(),
    serviceFinding({ programs, dataDir, prefix: process.env['MUSTER_PREFIX'] ?? '' }),
    checkReleases(programs, dataDir),
  ]);
  return [finding, ...(server === undefined ? [] : await reach(dataDir, server)), ...machine.flat()];
}

async function reach(dataDir: string, server: URL): Promise<Finding[]> {
  try {
    const network = await openNetwork(dataDir);
    try {
      return [await checkName(server, network), ...(await checkServer(server, network))];
    } finally {
      network.close();
    }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return [{ check: 'network', ok: false, message, fix: 'Correct the settings that the message names.' }];
  }
}

function print({ check, ok, message, fix }: Finding): void {
  console.log(`${ok ? '✔' : '✖'} ${check}: ${message}`);
  if (fix !== undefined) console.log(`  ${fix}`);
}

interface Finding {
  check: string;
  ok: boolean;
  /** The result of the check. */
  message: string;
  /** How to fix the problem. */
  fix?: string;
}

/** With a larger difference, certificates may seem to be expired or not valid yet. */
const CLOCK_MAX_MS = 5 * 60_000;
/** Twice the executable, and a reserve. */
const FREE_MIN_BYTES = 300_000_000;
const CHECK_MS = 20_000;

const good = (check: string, message: string): Finding => ({ check, ok: true, message });
const bad = (check: string, message: string, fix: string): Finding => ({ check, ok: false, message, fix });
const reasonOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** The address of the server, if this machine is enrolled. */
async function checkEnrollment(dataDir: string): Promise<{ finding: Finding; server?: URL }> {
  const check = 'enrollment';
  try {
    const credentials = await loadCredentials(dataDir);
    if (credentials === undefined) {
      return { finding: bad(check, 'This machine is not enrolled.', NOT_ENROLLED) };
    }
    const { server, deviceId } = credentials;
    return { finding: good(check, `device ${deviceId} at ${server}`), server: new URL(server) };
  } catch (error) {
    return { finding: bad(check, reasonOf(error), 'Enroll this machine again.') };
  }
}

/** The connection state of the running agent. */
async function checkConnection(dataDir: string): Promise<Finding> {
  const check = 'connection';
  const running = await runningAgent(dataDir);
  if (running === undefined) return good(check, 'no agent runs at the moment');
  const { connection } = running;
  switch (connection.state) {
    case 'connected':
      if (connection.isPending !== true) return good(check, `connected since ${connection.since}`);
      return bad(check, `The device ${PENDING}.`, 'Approve it in Muster, in the list of devices.');
    case 'waiting':
      return connection.reason.includes('IDENTITY_CONFLICT') ? IS_COPY : bad(check, connection.reason, WAITS);
    case 'http_only':
      return bad(check, `${HTTP_ONLY}. ${connection.reason}`, 'Allow WebSockets to the server.');
    default:
      return good(check, connection.state);
  }
}

const WAITS = 'The agent tries again by itself. If this stays, see the other lines.';
const IS_COPY = bad(
  'connection',
  'Another machine that is connected uses the identity of this device, so this one has to wait.',
  'If this machine is a copy, such as a clone of a virtual machine, give it a machine id of its own and enroll it again. Do not run "unenroll": it would take the other machine out of service.',
);

/** Resolves the name of the server; behind a proxy, the proxy resolves it. */
async function checkName(server: URL, network: Network): Promise<Finding> {
  const check = 'DNS';
  const { proxy } = network.describe(server);
  if (proxy !== null) return good(check, `left to the proxy ${proxy.address}`);
  try {
    const found = await lookup(server.hostname.replace(/^\[|\]$/g, ''));
    return good(check, `${server.hostname} is ${found.address}`);
  } catch (error) {
    return bad(
      check,
      reasonOf(error),
      `Check the DNS settings of this machine, and the name ${server.hostname}.`,
    );
  }
}

/** Whether the server answers, and its proxy, certificate authorities and time. */
async function checkServer(server: URL, network: Network, now = () => clock.now()): Promise<Finding[]> {
  const { proxy, caFile } = network.describe(server);
  const way = `${proxy === null ? 'directly' : `through ${proxy.address} (${proxy.source})`}${caFile === null ? '' : `, with ${caFile}`}`;
  try {
    const asked = now();
    const signal = clock.timeoutSignal(CHECK_MS);
    const { status, headers, body } = await network.request(new URL('/health/live', server), { signal });
    body.destroy();
    const findings = [
      status === 200
        ? good('server', `answers ${way}`)
        : bad('server', `answers with status ${status} ${way}`, 'Ask the operator of the server.'),
    ];
    const serverTime = Date.parse(headers.date ?? '');
    if (!Number.isNaN(serverTime)) findings.push(clockFinding((asked + now()) / 2 - serverTime));
    return findings;
  } catch (error) {
    const fix =
      'Check the network, the proxy (--proxy) and the certificate authority (--ca) of this machine.';
    return [bad('server', `is not reached ${way}: ${reasonOf(error)}`, fix)];
  }
}

/** Pure. @param aheadMs  how far this machine is ahead of the server */
export function clockFinding(aheadMs: number): Finding {
  const seconds = Math.round(Math.abs(aheadMs) / 1000);
  const message = `${seconds} s ${aheadMs < 0 ? 'behind' : 'ahead of'} the server`;
  if (Math.abs(aheadMs) <= CLOCK_MAX_MS) return good('clock', message);
  return bad('clock', message, 'Set the clock of this machine by NTP.');
}

async function checkEventLogs(): Promise<Finding[]> {
  try {
    const logs = await (await openEventLogs()).reader.list(clock.timeoutSignal(CHECK_MS));
    if (logs.length > 0) return [good('event logs', logs.map(({ name }) => name).join(', '))];
    return [
      bad(
        'event logs',
        'none can be read',
        'Run the agent as root, or as a member of systemd-journal or adm.',
      ),
    ];
  } catch (error) {
    return [bad('event logs', reasonOf(error), 'Run the agent with the rights to read event logs.')];
  }
}

async function checkDisk(dataDir: string): Promise<Finding> {
  try {
    const { bavail, bsize } = await statfs(dataDir);
    const free = bavail * bsize;
    const message = `${Math.round(free / 1_000_000)} MB free at ${dataDir}`;
    if (free >= FREE_MIN_BYTES) return good('disk', message);
    return bad('disk', message, `Free at least ${FREE_MIN_BYTES / 1_000_000} MB: upgrades need it.`);
  } catch (error) {
    return bad('disk', reasonOf(error), 'Check the folder of the agent.');
  }
}

/** The agent's own log on this machine. */
async function checkLog(dataDir: string): Promise<Finding> {
  const check = 'log';
  const file = logFile(dataDir, 'agent');
  const found = await lstat(file).catch(() => undefined);
  if (found === undefined) return good(check, `${file}, not written yet`);
  if (found.isFile()) return good(check, `${file}, last written at ${found.mtime.toISOString()}`);
  return bad(check, `${file} is not a regular file`, `Remove ${file}: the agent writes its log there.`);
}

/** Only backups need restic, so a machine without it is in order. */
async function checkRestic(): Promise<Finding> {
  const program = await findProgram(['restic']);
  if (program === undefined) return good('restic', 'not installed; only backups need it');
  try {
    return good('restic', (await runSystemProgram(program, ['version'])).trim());
  } catch (error) {
    return bad('restic', reasonOf(error), `Install restic again, or remove ${program}.`);
  }
}

/** Verifies every byte of each installed release of the agent's script. */
async function checkReleases(programs: string, dataDir: string): Promise<Finding[]> {
  const versions = await installedVersions(programs, 'agent');
  if (versions.length === 0) return [good('releases', 'none installed; the agent of the program runs')];
  const expected = {
    component: 'agent',
    platform: ownPlatform(),
    keys: await keysForStart(dataDir),
    floor: undefined,
  } as const;
  return Promise.all(
    versions.map(async (version) => {
      const check = `release ${version}`;
      try {
        const { keyId } = await checkInstalled(programs, version, expected);
        return good(check, `signed with the key ${keyId}`);
      } catch (error) {
        return bad(check, reasonOf(error), 'It is not started. The next upgrade replaces it.');
      }
    }),
  );
}
