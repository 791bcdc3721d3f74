import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { z } from 'zod';
import { onShutdown } from '../os/processes/shutdown.ts';
import { openPrivateFolder } from '../os/files/private-folder.ts';
import { INSECURE_REFUSAL, INSECURE_WARNING } from '../core/server/server-address.ts';
import { isSecureServer } from '../os/network/secure-server.ts';
import { Fleet } from '../simulator/fleet.ts';
import { parseServer } from './enroll.ts';

const Keys = z
  .array(
    z.object({
      key: z.string(),
      share: z.number().positive(),
      hosts: z.object({ site: z.string(), places: z.tuple([z.string()], z.string()) }).optional(),
    }),
  )
  .min(1);

export function addSimulate(program: Command): void {
  program
    .command('simulate')
    .description('run many simulated machines on the real protocol, for demos and load tests')
    .requiredOption('--server <url>', 'address of the server', parseServer)
    .requiredOption('--keys-file <file>', 'JSON file: [{ "key": "menr_…", "share": 40 }, …]')
    .requiredOption('--devices <number>', 'how many machines')
    .requiredOption('--data-dir <folder>', 'folder of the fleet')
    .option('--eventful', 'let things happen: failing disks, lost connections, upgrades', false)
    .option('--insecure-http', 'for laboratories: allow an unencrypted connection', false)
    .option('--parent-watch', 'stop when the parent process ends', false)
    .action(
      async (options: {
        server: string;
        keysFile: string;
        devices: string;
        dataDir: string;
        eventful: boolean;
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
          isEventful: options.eventful,
          dataDir: await openPrivateFolder(options.dataDir),
          onEvent: (event) => console.log(JSON.stringify(event)),
        });
        onShutdown(options, async () => fleet.stop());
        await fleet.start();
      },
    );
}
