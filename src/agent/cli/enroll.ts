import { createInterface } from 'node:readline';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { PENDING } from '../core/connection-options.ts';
import { changeCredentials, loadCredentials, removeCredentials, Settings } from '../core/settings.ts';
import { defaultDataDir } from '../os/releases/layout.ts';
import { enroll, leaveServer } from '../core/enroll.ts';
import { describeMachine } from '../capabilities/inventory/collect.ts';
import { saveTrustedKeys } from '../os/releases/release-check.ts';
import { openPrivateFolder } from '../os/files/private-folder.ts';
import { keepNetwork, openNetwork, isSecureServer } from '../os/network/network.ts';
import { INSECURE_REFUSAL, INSECURE_WARNING, EXIT, ServerCallError } from '../core/server-call.ts';
import { PROGRAM } from '../core/version.ts';
import { rotateToken } from '../core/tokens.ts';
import { printable } from '../core/plain-text.ts';
import { howToStart } from './service.ts';
import { removeData } from '../core/remove-data.ts';
import { runningAgent } from '../core/status-file.ts';

/** Keeps the key out of the list of processes, which other users can read. */
const KEY_VARIABLE = 'MUSTER_ENROLLMENT_KEY';

export function addEnroll(program: Command): void {
  program
    .command('enroll')
    .description('enroll this machine at a server (exit 2: invalid key, 3: server not reached, 4: refused)')
    .requiredOption('--server <url>', 'address of the server, such as https://rmm.example.com', parseServer)
    .addOption(
      new Option('--key <key>', 'enrollment key; "-": the first line of the standard input')
        .env(KEY_VARIABLE)
        .makeOptionMandatory(),
    )
    .option('--data-dir <folder>', 'folder of the agent', defaultDataDir())
    .option('--insecure-http', 'for laboratories: allow an unencrypted connection', false)
    .addOption(
      new Option(
        '--proxy <url>',
        'HTTP proxy for this agent; none: no proxy, whatever the environment says',
      ).env('MUSTER_PROXY'),
    )
    .addOption(
      new Option(
        '--ca <file>',
        'PEM file of certificate authorities to trust beside those of the system',
      ).env('MUSTER_CA_FILE'),
    )
    .option('--hostname <name>', 'host name to enroll with, in place of the real one')
    .option('--machine-id <id>', 'machine id to enroll with, in place of the real one')
    .action(
      async (options: {
        server: string;
        key: string;
        dataDir: string;
        insecureHttp: boolean;
        proxy?: string;
        ca?: string;
        hostname?: string;
        machineId?: string;
      }) => {
        const isSecure = isSecureServer(options.server);
        if (!isSecure && !options.insecureHttp) throw new ServerCallError(EXIT.refused, INSECURE_REFUSAL);
        if (!isSecure) console.error(INSECURE_WARNING);
        // No child process needs the key.
        delete process.env[KEY_VARIABLE];
        // Check this before the key is used up.
        const dataDir = await openPrivateFolder(options.dataDir);
        const choice = { proxy: options.proxy, caFile: options.ca };
        const network = await openNetwork(dataDir, choice);
        const machine = await describeMachine();
        const request = {
          ...machine,
          ...(options.hostname === undefined ? {} : { hostname: options.hostname }),
          ...(options.machineId === undefined ? {} : { machineId: options.machineId }),
          enrollmentKey: await keyOf(options.key),
        };
        const warn = (message: string) => console.error(message);
        const access = { server: options.server, network };
        const token = await knownToken(dataDir, options.server);
        const { credentials, releaseKeys, isPending } = await enroll(access, request, warn, token);
        const settings = await Settings.load(dataDir, warn);
        await settings.setInsecureHttp(!isSecure);
        await settings.setHostname(options.hostname);
        await keepNetwork(dataDir, choice);
        // Write these before the credentials, because the agent starts once it has credentials.
        await saveTrustedKeys(dataDir, releaseKeys);
        await changeCredentials(dataDir, () => credentials);
        console.log(`Enrolled as device ${credentials.deviceId} at ${credentials.server}.`);
        if (isPending) console.log(`The device ${PENDING}.`);
        const { proxy } = network.describe(new URL(options.server));
        if (proxy !== null) {
          console.log(`It was reached through the proxy ${proxy.address} (${proxy.source}).`);
        }
        if (/^https?_proxy$/i.test(proxy?.source ?? '')) {
          console.log('A service does not see that variable. To store the proxy, enroll with --proxy.');
        }
        console.log(await howToStart(dataDir));
      },
    );
}

/**
 * The current token, which proves to the server that this machine is already its device. Unreadable credentials prove
 * nothing.
 */
async function knownToken(dataDir: string, server: string): Promise<string | undefined> {
  const known = await loadCredentials(dataDir).catch(() => undefined);
  return known?.server === server ? known.token : undefined;
}

async function keyOf(given: string): Promise<string> {
  if (given !== '-') return given;
  for await (const line of createInterface({ input: process.stdin })) return line.trim();
  throw new InvalidArgumentError('The standard input holds no enrollment key.');
}

export function parseServer(text: string): string {
  const url = URL.parse(text);
  if (url === null || !isPlainAddress(url)) {
    throw new InvalidArgumentError('Give an address such as https://rmm.example.com.');
  }
  return text.replace(/\/+$/, '');
}

/**
 * Without a query or fragment, which would end up before the path, and without a password, which would be stored and
 * shown.
 */
function isPlainAddress({ protocol, username, password, search, hash }: URL): boolean {
  return /^https?:$/.test(protocol) && username + password + search + hash === '';
}

/** `install.sh` knows this exit code. */
const STILL_RUNNING = 5;

export function addUnenroll(program: Command): void {
  program
    .command('unenroll')
    .description(
      'take this machine out of service at its server, and remove the agent’s files (exit 3: server not reached, 4: refused, 5: the agent is still running)',
    )
    .option('--data-dir <folder>', 'folder of the agent', defaultDataDir())
    .option('--keep-data', 'remove the credentials only', false)
    .option('--force', 'remove the files although the server is not reached', false)
    .action(async (options: { dataDir: string; keepData: boolean; force: boolean }) => {
      const dataDir = await openPrivateFolder(options.dataDir);
      const running = await runningAgent(dataDir);
      if (running !== undefined) {
        const message = `The agent is running (process ${running.pid}). Stop it first: ${PROGRAM} service stop, or, if it runs in the foreground, where it was started.`;
        throw Object.assign(new Error(message), { exitCode: STILL_RUNNING });
      }
      try {
        console.log(await leaveServer(dataDir));
      } catch (error) {
        if (!options.force) throw error;
        console.error(`${String(error)} The server still lists this device until you decommission it there.`);
      }
      await removeCredentials(dataDir);
      if (options.keepData) return console.log('The credentials are removed.');
      const { foreign, inUse } = await removeData(dataDir);
      console.log(
        inUse.length === 0
          ? 'The files of the agent are removed.'
          : `These could not be removed, perhaps because another program uses them. Remove them yourself:\n${listed(inUse)}`,
      );
      if (foreign.length > 0) console.log(`These are not the agent’s, and stay:\n${listed(foreign)}`);
      if (inUse.length > 0) process.exitCode = 1;
    });
}

const LISTED = 10;

function listed(paths: readonly string[]): string {
  const shown = paths.slice(0, LISTED).map((each) => `  ${printable(each, 1000)}`);
  const more = paths.length - shown.length;
  return [...shown, ...(more > 0 ? [`  and ${more} more`] : [])].join('\n');
}

export function addRotateToken(program: Command): void {
  program
    .command('rotate-token')
    .description(
      'request a new token, which the next connection uses (exit 2: not enrolled, 3: server not reached, 4: refused)',
    )
    .option('--data-dir <folder>', 'folder of the agent', defaultDataDir())
    .action(async ({ dataDir }: { dataDir: string }) => {
      await rotateToken(await openPrivateFolder(dataDir));
      console.log('The new token is stored. The next connection uses it and revokes the old one.');
    });
}
