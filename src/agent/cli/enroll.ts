import { createInterface } from 'node:readline';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { PENDING } from '../core/connection/connection-state.ts';
import { changeCredentials, loadCredentials } from '../core/enrollment/credentials.ts';
import { defaultDataDir } from '../os/installation/data-folder.ts';
import { enroll } from '../core/enrollment/enroll.ts';
import { describeMachine } from '../capabilities/inventory/describe-machine.ts';
import { saveTrustedKeys } from '../os/installation/trusted-keys.ts';
import { openPrivateFolder } from '../os/files/private-folder.ts';
import { keepNetwork, openNetwork } from '../os/network/open-network.ts';
import { INSECURE_REFUSAL, INSECURE_WARNING } from '../core/server/server-address.ts';
import { isSecureServer } from '../os/network/secure-server.ts';
import { EXIT, ServerCallError } from '../core/server/server-call.ts';
import { PROGRAM } from '../core/program-name.ts';
import { Settings } from '../core/state/settings.ts';

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
        // Nothing that the agent starts has a use for it.
        delete process.env[KEY_VARIABLE];
        // This comes before the key is used up.
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
        // Before the credentials, without which the agent does not start.
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
        console.log(`Start it with: ${PROGRAM} run`);
      },
    );
}

/** Proves to the server that this machine is the device that it was. Credentials that cannot be read prove nothing. */
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

/** Without a query or fragment, which would precede the path, and without a password, which would be stored and shown. */
function isPlainAddress({ protocol, username, password, search, hash }: URL): boolean {
  return /^https?:$/.test(protocol) && username + password + search + hash === '';
}
