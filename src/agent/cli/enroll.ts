import { type Command, InvalidArgumentError } from 'commander';
import { defaultDataDir, saveCredentials } from '../credentials.ts';
import { enroll } from '../enroll.ts';
import { describeMachine } from '../machine.ts';

export function addEnroll(program: Command): void {
  program
    .command('enroll')
    .description(
      'trade an enrollment key for a place on a server (exit 2: bad key, 3: not reached, 4: refused)',
    )
    .requiredOption('--server <url>', 'address of the server, such as https://rmm.example.com', parseServer)
    .requiredOption('--key <key>', 'enrollment key')
    .option('--data-dir <folder>', 'where the credentials are kept', defaultDataDir())
    .option('--hostname <name>', 'another name for this machine')
    .option('--machine-id <id>', 'another identity for this machine')
    .action(
      async (options: {
        server: string;
        key: string;
        dataDir: string;
        hostname?: string;
        machineId?: string;
      }) => {
        const machine = await describeMachine();
        const credentials = await enroll(options.server, {
          ...machine,
          ...(options.hostname === undefined ? {} : { hostname: options.hostname }),
          ...(options.machineId === undefined ? {} : { machineId: options.machineId }),
          enrollmentKey: options.key,
        });
        await saveCredentials(options.dataDir, credentials);
        console.log(`Enrolled as device ${credentials.deviceId} at ${credentials.server}.`);
        console.log('Start it with: npm run agent -- run');
      },
    );
}

export function parseServer(text: string): string {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new InvalidArgumentError('Give an address such as https://rmm.example.com.');
  }
  return text.replace(/\/+$/, '');
}
