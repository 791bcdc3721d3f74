import { createInterface } from 'node:readline';
import os from 'node:os';
import path from 'node:path';
import { type Command, Option } from 'commander';
import { recover } from '../capabilities/images/recover.ts';
import { INSECURE_REFUSAL, INSECURE_WARNING, EXIT, ServerCallError } from '../core/server-call.ts';
import { openPrivateFolder } from '../os/files/private-folder.ts';
import { openNetwork, isSecureServer } from '../os/network/network.ts';
import { parseServer } from './enroll.ts';

const TOKEN_VARIABLE = 'MUSTER_RECOVERY_TOKEN';

interface RecoverFlags {
  server: string;
  token: string;
  target: string;
  disk?: string;
  grow: boolean;
  overwrite: boolean;
  force: boolean;
  state: string;
  insecureHttp: boolean;
  proxy?: string;
  ca?: string;
}

export function addRecover(program: Command): void {
  program
    .command('recover')
    .description(
      'restore whole disks of an image onto this machine, with a recovery token (exit 3: server not reached, 4: refused)',
    )
    .requiredOption('--server <url>', 'address of the server, such as https://rmm.example.com', parseServer)
    .addOption(
      new Option('--token <token>', 'recovery token; "-": the first line of the standard input')
        .env(TOKEN_VARIABLE)
        .makeOptionMandatory(),
    )
    .requiredOption(
      '--target <path>',
      'a whole disk such as /dev/sda, a file, or a folder for a file of each disk',
    )
    .option('--disk <name>', 'the disk of the image, if it has several')
    .option('--grow', 'make the last partition reach the end of a larger disk', false)
    .option('--overwrite', 'whatever is on the target is lost', false)
    .option('--force', 'also onto a machine that starts in another way (BIOS, UEFI)', false)
    .option(
      '--state <folder>',
      'what an interrupted recovery goes on from; on a rescue system a folder of another disk',
      path.join(os.tmpdir(), 'muster-recovery'),
    )
    .option('--insecure-http', 'for laboratories: allow an unencrypted connection', false)
    .addOption(new Option('--proxy <url>', 'HTTP proxy; none: no proxy').env('MUSTER_PROXY'))
    .addOption(new Option('--ca <file>', 'PEM file of further certificate authorities').env('MUSTER_CA_FILE'))
    .action(run);
}

async function run(flags: RecoverFlags): Promise<void> {
  const { server, target, disk, grow, overwrite: mayOverwrite, force } = flags;
  if (!isSecureServer(server)) {
    if (!flags.insecureHttp) throw new ServerCallError(EXIT.refused, INSECURE_REFUSAL);
    console.error(INSECURE_WARNING);
  }
  // No child process needs the token.
  delete process.env[TOKEN_VARIABLE];
  const token = await tokenOf(flags.token);
  const state = await openPrivateFolder(flags.state);
  const network = await openNetwork(state, { proxy: flags.proxy, caFile: flags.ca });
  const interrupted = new AbortController();
  const stop = () => interrupted.abort(new Error('The recovery was interrupted. Run it again to go on.'));
  process.once('SIGINT', stop);
  process.once('SIGTERM', stop);
  try {
    const { status, disks, validated } = await recover({
      server,
      token,
      target,
      disk,
      grow,
      mayOverwrite,
      force,
      state,
      network,
      signal: interrupted.signal,
      say: (line) => console.log(line),
      onProgress: progressPrinter(),
    });
    for (const { disk: name, target: where, sha256, checks } of disks) {
      console.log(`${name} is on ${where}, read back with SHA-256 ${sha256}.`);
      for (const { name: check, ok, message = '' } of checks) {
        console.log(`  ${ok ? 'good' : 'BAD '} ${check}${message === '' ? '' : `: ${message}`}`);
      }
    }
    console.log(
      validated ? 'The recovery is complete.' : 'The recovery is complete, but a check has failed.',
    );
    if (status !== 'completed') process.exitCode = 1;
  } finally {
    network.close();
  }
}

/** One line per ten percent. */
function progressPrinter(): NonNullable<Parameters<typeof recover>[0]['onProgress']> {
  let last = '';
  return ({ phase, disk, done, total }) => {
    const line = `${disk}: ${phase}, ${total === 0 ? 100 : Math.floor((10 * done) / total) * 10} %`;
    if (line !== last) console.log(line);
    last = line;
  };
}

async function tokenOf(given: string): Promise<string> {
  if (given !== '-') return given;
  for await (const line of createInterface({ input: process.stdin })) return line.trim();
  throw new ServerCallError(EXIT.refused, 'The standard input holds no recovery token.');
}
