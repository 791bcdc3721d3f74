import { createServer } from 'node:net';
import path from 'node:path';
import { Command } from 'commander';
import { destination } from 'pino';
import { z } from 'zod';
import { clock } from '../clock.ts';
import { readConfig, type Config } from '../config.ts';
import { createLogger } from '../platform/logger.ts';
import { runServer } from '../run-server.ts';
import { sayWhyAndExit, StartRefused } from '../start-failure.ts';
import type { ChildProgram } from './child-program.ts';
import { startDemoFleet, startThisMachine } from './demo/agents.ts';
import { backUpThisMachine, hasEngine } from './demo/backup.ts';
import { signInTo } from './demo/client.ts';
import { ensureKeys, ensureSeed, makeDataFolder, removeDemo } from './demo/data.ts';
import { showBlock, showLater, showStep, timed } from './demo/output.ts';
import { publishDemoReleases } from './demo/releases.ts';
import { setUpWork } from './demo/work.ts';

/** `npm run demo` starts a complete Muster with demo data and agents on this machine. */

const Devices = z.coerce.number().int().min(0).max(20_000);

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
      // It began with the server, and has mostly ended by now.
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
    // Everything works already, so nobody waits for these, and the failure of one ends nothing.
    void showLater('Filters, groups, scripts, and a rollout under way', async () => {
      await publishDemoReleases(server, config, log);
      await setUpWork(client);
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

/** This is checked first, because a port in use is the most likely problem. */
async function assertPortFree({ host, port }: Config): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(port, host, () => probe.close(() => resolve()));
  });
}
