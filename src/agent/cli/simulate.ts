import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { z } from 'zod';
import { endWith } from '../os/processes/shutdown.ts';
import { openPrivateFolder } from '../os/files/private-folder.ts';
import { INSECURE_REFUSAL, INSECURE_WARNING, isSecureServer } from '../core/server/server-address.ts';
import { Fleet } from '../simulator/fleet.ts';
import { parseServer } from './enroll.ts';

const Keys = z.array(z.object({ key: z.string(), share: z.number().positive() })).min(1);

export function addSimulate(program: Command): void {
  program
    .command('simulate')
    .description('many synthetic machines on the real protocol, for the demo and for load')
    .requiredOption('--server <url>', 'address of the server', parseServer)
    .requiredOption('--keys-file <file>', 'JSON: [{ "key": "menr_…", "share": 40 }, …]')
    .requiredOption('--devices <number>', 'how many')
    .requiredOption('--data-dir <folder>', 'where the credentials of the fleet are kept')
    .option('--insecure-http', 'for laboratories: allow a server without https', false)
    .option('--parent-watch', 'end when the process that started this one ends', false)
    .action(
      async (options: {
        server: string;
        keysFile: string;
        devices: string;
        dataDir: string;
        insecureHttp: boolean;
        parentWatch: boolean;
      }) => {
        if (!isSecureServer(options.server)) {
          if (!options.insecureHttp) throw new Error(INSECURE_REFUSAL);
          console.error(INSECURE_WARNING);
        }
        const keys = Keys.parse(JSON.parse(await readFile(options.keysFile, 'utf8')));
        const devices = z.coerce.number().int().min(1).max(100_000).parse(options.devices);
        const fleet = new Fleet({
          server: options.server,
          keys,
          devices,
          dataDir: await openPrivateFolder(options.dataDir),
          tell: (event) => console.log(JSON.stringify(event)),
        });
        endWith(options, async () => fleet.stop());
        await fleet.start();
      },
    );
}
