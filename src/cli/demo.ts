import { createServer } from 'node:net';
import path from 'node:path';
import { Command } from 'commander';
import { destination } from 'pino';
import { z } from 'zod';
import { clock } from '../clock.ts';
import { readConfig, type Config } from '../config.ts';
import { createLogger } from '../platform/logger.ts';
import { seedMetricHistory } from '../../seeds/demo.ts';
import { runServer } from '../run-server.ts';
import { sayWhyAndExit, StartRefused } from '../start-failure.ts';
import { type ChildProgram, startDemoFleet, startThisMachine, type DemoMachine } from './demo/agents.ts';
import { backUpThisMachine, hasEngine, setUpWork } from './demo/work.ts';
import {
  signInTo,
  ensureKeys,
  ensureSeed,
  makeDataFolder,
  removeDemo,
  publishDemoReleases,
  type DemoPeople,
} from './demo/data.ts';

/** `npm run demo` starts a complete Muster with demo data and agents on this machine. */

const Devices = z.coerce.number().int().min(0).max(20_000);

async function demo({ devices, reset }: { devices: number; reset: boolean }): Promise<void> {
  const startedAt = clock.monotonic();
  // A folder below the default one keeps the demo apart from the data of `npm start`.
  const config = readConfig({ defaults: { DATA_DIR: './data/demo' } });
  const { dataDir } = config;
  const canBackUp = hasEngine(config);
  await assertPortFree(config);
  if (reset) await timed('Earlier demo deleted', () => removeDemo(config));
  await makeDataFolder(dataDir);

  const log = createLogger(
    config.logLevel,
    destination({ dest: path.join(dataDir, 'server.log'), mode: 0o600, sync: false }),
  );
  const server = await runServer({ config, log, onStep: showStep });
  const programs: ChildProgram[] = [];
  const stopPrograms = async () => {
    process.stdout.write('\nStopping agents, server and database …\n');
    await Promise.all(programs.map((child) => child.stop()));
  };
  server.closeOnSignals(stopPrograms);

  try {
    const people = await timed('Demo data: a provider, its customers, and their past', () =>
      ensureSeed(server, config),
    );
    const client = await signInTo(server.url, people['admin@demo.example']);
    const keys = await timed('Enrollment keys, one for each site', () => ensureKeys(client, config));
    const parts = { url: server.url, dataDir, started: (child: ChildProgram) => void programs.push(child) };
    const [machine] = await Promise.all([
      timed('This machine enrolled and connected', () =>
        startThisMachine({ ...parts, keys: keys.keys, client }),
      ),
      devices > 0 &&
        timed(`${devices} simulated agents enrolled and connected`, () =>
          startDemoFleet({ ...parts, keysFile: keys.file, devices }),
        ),
      // It began with the server, and has usually ended by now.
      timed('Dashboard', () => server.dashboard.settled),
    ]);
    const { user } = await client.get('/auth/me', z.object({ user: z.object({ id: z.string() }) }));
    showBlock({
      url: server.url,
      dashboard: `${server.url}/${await server.signInFragment(user.id)}`,
      dataDir,
      clusterDir: server.embedded?.clusterDir,
      people,
      machine,
      canBackUp: await canBackUp,
      readyAfterMs: clock.monotonic() - startedAt,
    });
    // Everything works already, so these steps run in the background, and a failure ends nothing.
    void showLater('Filters, groups, scripts, and a rollout under way', async () => {
      await publishDemoReleases(server, config, log);
      await setUpWork(client);
    });
    void showLater('Figures of the last 30 days, for charts and forecasts', async () => {
      await seedMetricHistory(server.database.jobPool);
    });
    if (await canBackUp) {
      const { deviceId } = machine;
      void showLater('Backup of this machine: files to browse and restore', () =>
        backUpThisMachine({ server, client, deviceId, dataDir }),
      );
    }
  } catch (error) {
    await stopPrograms();
    await server.close();
    throw error;
  }
}

/** Checked first, because a port in use is the most likely problem. */
async function assertPortFree({ host, port }: Config): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(port, host, () => probe.close(() => resolve()));
  });
}

/** The output of the demo for the user who started it. */

const print = (text: string) => process.stdout.write(`${text}\n`);

function showStep(step: string, ms: number): void {
  print(`  ✔ ${step.padEnd(52)} ${(ms / 1000).toFixed(1).padStart(5)} s`);
}

/** Runs a step and shows it with its time. */
async function timed<T>(step: string, work: () => Promise<T>): Promise<T> {
  const startedAt = clock.monotonic();
  const result = await work();
  showStep(step, clock.monotonic() - startedAt);
  return result;
}

function showBlock(demo: {
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

/** A background step: prints its outcome whenever it ends. */
async function showLater(step: string, work: () => Promise<void>): Promise<void> {
  try {
    await timed(step, work);
  } catch (error) {
    print(`  ✘ ${step}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

// At the end of the file, because it runs at once and uses the constants above.
try {
  const program = new Command('npm run demo --')
    .argument('[action]', '"reset" deletes the data of earlier demos first', 'start')
    .option('--devices <number>', 'how many simulated devices', '120')
    .parse();
  const [action = 'start'] = program.args;
  const devices = Devices.safeParse(program.opts<{ devices: string }>().devices);
  if (!devices.success) throw new StartRefused('--devices must be a whole number from 0 to 20000.');
  if (action !== 'start' && action !== 'reset') {
    throw new StartRefused(`Unknown action "${action}"; the only one is "reset".`);
  }
  await demo({ devices: devices.data, reset: action === 'reset' });
} catch (error) {
  sayWhyAndExit(error);
}
