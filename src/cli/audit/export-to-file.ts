import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { finished } from 'node:stream/promises';
import { exportBundle } from '../../features/audit/export-bundle.ts';
import { withInstallation } from '../with-installation.ts';

async function drained(output: WriteStream): Promise<void> {
  await once(output, 'drain');
}

/** The file is there whole or not at all. */
export async function exportToFile(chainId: string, file: string): Promise<void> {
  const draft = `${file}.${process.pid}.tmp`;
  const output = createWriteStream(draft, { mode: 0o600 });
  const ended = finished(output);
  // Told of below; until then a failure must not end the process.
  ended.catch(() => {});
  try {
    const { entries } = await withInstallation({ migrates: false }, ({ db }) =>
      exportBundle(db, chainId, (line) =>
        output.write(`${line}\n`) ? undefined : Promise.race([drained(output), ended]),
      ),
    );
    output.end();
    await ended;
    await rename(draft, file);
    process.stdout.write(`${entries} entries of ${chainId} written to ${file}\n`);
  } catch (error) {
    output.destroy();
    await rm(draft, { force: true });
    throw error;
  }
}
