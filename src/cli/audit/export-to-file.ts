import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { finished } from 'node:stream/promises';
import { exportBundle } from '../../features/audit/export/export-bundle.ts';
import { recordBundleExport } from '../../features/audit/export/record-bundle-export.ts';
import { withInstallation } from '../with-installation.ts';

/** Writes lines to a stream; the promise is there while the stream has more than it likes to hold. */
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

/** The file is there whole or not at all. */
export async function exportToFile(chainId: string, file: string): Promise<void> {
  const draft = `${file}.${process.pid}.tmp`;
  const output = createWriteStream(draft, { mode: 0o600 });
  const ended = finished(output);
  // Told of below; until then a failure must not end the process.
  ended.catch(() => {});
  try {
    const { entries } = await withInstallation({ migrates: false }, async (installation) => {
      const exported = await exportBundle(installation.db, chainId, lineWriter(output));
      await recordBundleExport(installation, chainId, exported);
      return exported;
    });
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
