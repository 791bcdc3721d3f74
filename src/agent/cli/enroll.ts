import { type Command, InvalidArgumentError } from 'commander';
import { changeCredentials, defaultDataDir } from '../core/enrollment/credentials.ts';
import { enroll } from '../core/enrollment/enroll.ts';
import { describeMachine } from '../capabilities/inventory/describe-machine.ts';
import { openPrivateFolder } from '../os/files/private-folder.ts';
import { INSECURE_REFUSAL, INSECURE_WARNING, isSecureServer } from '../core/server/server-address.ts';
import { EXIT, ServerCallError } from '../core/server/server-call.ts';
import { Settings } from '../core/state/settings.ts';

export function addEnroll(program: Command): void {
  program
    .command('enroll')
    .description('enroll this machine at a server (exit 2: invalid key, 3: server not reached, 4: refused)')
    .requiredOption('--server <url>', 'address of the server, such as https://rmm.example.com', parseServer)
    .requiredOption('--key <key>', 'enrollment key')
    .option('--data-dir <folder>', 'folder of the agent', defaultDataDir())
    .option('--insecure-http', 'for laboratories: allow an unencrypted connection', false)
    .option('--hostname <name>', 'host name to enroll with, in place of the real one')
    .option('--machine-id <id>', 'machine id to enroll with, in place of the real one')
    .action(
      async (options: {
        server: string;
        key: string;
        dataDir: string;
        insecureHttp: boolean;
        hostname?: string;
        machineId?: string;
      }) => {
        const isSecure = isSecureServer(options.server);
        if (!isSecure && !options.insecureHttp) throw new ServerCallError(EXIT.refused, INSECURE_REFUSAL);
        if (!isSecure) console.error(INSECURE_WARNING);
        // This comes before the key is used up.
        const dataDir = await openPrivateFolder(options.dataDir);
        const machine = await describeMachine();
        const request = {
          ...machine,
          ...(options.hostname === undefined ? {} : { hostname: options.hostname }),
          ...(options.machineId === undefined ? {} : { machineId: options.machineId }),
          enrollmentKey: options.key,
        };
        const credentials = await enroll(options.server, request, (message) => console.error(message));
        const settings = await Settings.load(dataDir, (message) => console.error(message));
        await settings.setInsecureHttp(!isSecure);
        await changeCredentials(dataDir, () => credentials);
        console.log(`Enrolled as device ${credentials.deviceId} at ${credentials.server}.`);
        console.log('Start it with: npm run agent -- run');
      },
    );
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
