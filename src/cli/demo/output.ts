import { clock } from '../../clock.ts';
import type { DemoMachine } from './agents.ts';
import type { DemoPeople } from './data.ts';

/** The output of the demo for the user who started it. */

const print = (text: string) => process.stdout.write(`${text}\n`);

export function showStep(step: string, ms: number): void {
  print(`  ✔ ${step.padEnd(52)} ${(ms / 1000).toFixed(1).padStart(5)} s`);
}

/** Runs a step and shows it with its time. */
export async function timed<T>(step: string, work: () => Promise<T>): Promise<T> {
  const startedAt = clock.monotonic();
  const result = await work();
  showStep(step, clock.monotonic() - startedAt);
  return result;
}

export function showBlock(demo: {
  url: string;
  /** The address of the dashboard, with a code that signs in once. */
  dashboard: string;
  dataDir: string;
  clusterDir: string | undefined;
  people: DemoPeople;
  machine: DemoMachine;
  canBackUp: boolean;
  readyAfterMs: number;
}): void {
  const { url, people, machine } = demo;
  const api = `${url}/api/v1`;
  const admin = people['admin@demo.example'];
  const logName = encodeURIComponent(machine.logName);
  const rows = Object.values(people).map(
    ({ email, password, is }) => `    ${email.padEnd(22)} ${password.padEnd(18)} ${is}`,
  );
  print(`
Muster is running (${(demo.readyAfterMs / 1000).toFixed(1)} s). Everything here is on this machine only.

  Dashboard      ${demo.dashboard}
                 signs you in as ${admin.email}, once, within 15 minutes; later with a password from below

  REST API       ${api}
  API reference  ${url}/docs   sockets: ${url}/docs/sockets
  Health         ${url}/health/ready   metrics: ${url}/metrics

  Sign in as
${rows.join('\n')}

  Try it, in another terminal:

  1. Sign in
TOKEN=$(curl -s ${api}/auth/login -H 'content-type: application/json' -d '{"email":"${admin.email}","password":"${admin.password}"}' | node -pe 'JSON.parse(require("fs").readFileSync(0)).tokens.accessToken')

  2. List devices
curl -s "${api}/devices?limit=5" -H "authorization: Bearer $TOKEN"

  3. The newest entries of "${machine.logName}" of this machine (${machine.hostname}), read live by its agent
curl -s "${api}/system-tools/devices/${machine.deviceId}/eventlogs/${logName}/events?limit=5" -H "authorization: Bearer $TOKEN"

${backupLines(demo.canBackUp, api, machine)}
  Data folder    ${demo.dataDir}${demo.clusterDir === undefined ? '' : `   database: ${demo.clusterDir}`}
  Ctrl+C stops everything. "npm run demo -- reset" starts over.
`);
}

const backupLines = (canBackUp: boolean, api: string, { deviceId }: DemoMachine) =>
  canBackUp
    ? `  4. Backups of this machine: the first one, of a small folder, is being made now
curl -s "${api}/backup/snapshots?deviceId=${deviceId}" -H "authorization: Bearer $TOKEN"
`
    : `  Backups need restic, which is not installed here: "apt-get install restic", "brew install restic",
  "winget install restic.restic", or https://restic.net. Then start the demo again.
`;

/** A step that nobody waits for: says how it has ended, whenever that is. */
export async function showLater(step: string, work: () => Promise<void>): Promise<void> {
  try {
    await timed(step, work);
  } catch (error) {
    print(`  ✘ ${step}: ${error instanceof Error ? error.message : String(error)}`);
  }
}
