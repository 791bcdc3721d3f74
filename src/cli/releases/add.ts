import {
  addRelease,
  type Architecture,
  type Component,
  type OperatingSystem,
} from '../../features/releases/operator.ts';
import { type CommandIo, fileOf } from '../io.ts';
import { filesToAdd } from './files-to-add.ts';
import { printPromotion } from './print-promotion.ts';
import { withReleases } from './with-releases.ts';

type Release = Awaited<ReturnType<typeof addRelease>>['release'];

export interface AddOptions {
  version: string;
  component?: Component;
  os?: OperatingSystem;
  architecture?: Architecture;
  sha256?: string;
  notes?: string;
  json?: true;
}

const DONE = {
  added: ({ size, sha256, keyId }: Release) =>
    `is registered: ${size} bytes, SHA-256 ${sha256}, signed by key ${keyId}.`,
  none: () => 'was registered with this file before. Nothing was changed.',
  signed: ({ keyId }: Release) =>
    `was registered with this file before, but its signature did not hold. It is signed by key ${keyId} now.`,
};

/** One file after the other: what was registered before one that fails stays. */
export async function add(
  io: CommandIo,
  given: readonly string[],
  { sha256, notes, version, json, ...target }: AddOptions,
): Promise<void> {
  const files = await filesToAdd(
    given.map((file) => fileOf(io, file)),
    target,
  );
  if (sha256 !== undefined && files.length > 1) {
    throw new Error('--sha256 is of one file. Give one file, or leave it out.');
  }
  await withReleases(io, async (parts) => {
    for (const { file, ...one } of files) {
      const { release, change, promotion } = await addRelease(
        parts,
        { version, ...one },
        { path: file, sha256, notes },
      );
      if (json === true) {
        io.stdout.write(`${JSON.stringify({ ok: true, change, release: described(release), promotion })}\n`);
        continue;
      }
      const what = `${release.component} ${release.version} for ${release.os} ${release.architecture}`;
      io.stdout.write(`${what} ${DONE[change](release)}\n`);
      printPromotion(io, promotion);
    }
  });
}

/** What programs read of a release. */
export const described = (release: Release) => {
  const { id, component, version, os, architecture, promoted, source, size, sha256, keyId } = release;
  return { id, component, version, os, architecture, promoted, source, size, sha256, signedBy: keyId };
};
