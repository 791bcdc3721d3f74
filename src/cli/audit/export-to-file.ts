import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { finished } from 'node:stream/promises';
import { exportBundle } from '../../features/audit/export/export-bundle.ts';
import { recordBundleExport } from '../../features/audit/export/record-bundle-export.ts';
import { type CommandIo, fileOf } from '../io.ts';
import { withInstallation } from '../with-installation.ts';

/** Writes lines to a stream. Returns a promise while the buffer of the stream is full. */
export function lineWriter(output: WriteStream): (line: string) => undefined | Promise<void> {
  let full: Promise<void> | undefined;
  return (line) => {
    if (!output.write(`${line}\n`)) {
      full ??= once(output, 'drain').then(() => {
        full = undefined;
      });
    }
    return full;
  };
}

/** Writes to a temporary file and renames it, so that the target is either complete or absent. */
export async function exportToFile(io: CommandIo, chainId: string, name: string): Promise<void> {
  const file = fileOf(io, name);
  const draft = `${file}.${randomBytes(8).toString('hex')}.tmp`;
  const output = createWriteStream(draft, { mode: 0o600 });
  const ended = finished(output);
  // The rejection is handled below; until then it must not crash the process.
  ended.catch(() => {});
  try {
    const { entries } = await withInstallation(io, { migrates: false }, async (installation) => {
      const exported = await exportBundle(installation.db, chainId, lineWriter(output));
      await recordBundleExport(installation, chainId, exported);
      return exported;
    });
    output.end();
    await ended;
    await rename(draft, file);
    io.stdout.write(`${entries} entries of chain ${chainId} written to ${name}\n`);
  } catch (error) {
    output.destroy();
    await rm(draft, { force: true });
    throw error;
  }
}
