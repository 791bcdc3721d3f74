import { addRelease } from '../../features/releases/registry/operator.ts';
import type { Architecture, Component, OperatingSystem } from '../../features/releases/registry/platform.ts';
import { type CommandIo, fileOf } from '../io.ts';
import { printPromotion } from './print-promotion.ts';
import { withReleases } from './with-releases.ts';

type Release = Awaited<ReturnType<typeof addRelease>>['release'];

export interface AddOptions {
  version: string;
  component: Component;
  os: OperatingSystem;
  architecture: Architecture;
  sha256?: string;
  notes?: string;
}

const DONE = {
  added: ({ size, sha256, keyId }: Release) =>
    `is registered: ${size} bytes, SHA-256 ${sha256}, signed by key ${keyId}.`,
  none: () => 'was registered with this file before. Nothing was changed.',
  signed: ({ keyId }: Release) =>
    `was registered with this file before, but its signature did not hold. It is signed by key ${keyId} now.`,
};

export async function add(
  io: CommandIo,
  file: string,
  { sha256, notes, ...name }: AddOptions,
): Promise<void> {
  const { release, change, promotion } = await withReleases(io, (parts) =>
    addRelease(parts, name, { path: fileOf(io, file), sha256, notes }),
  );
  const what = `${release.component} ${release.version} for ${release.os} ${release.architecture}`;
  io.stdout.write(`${what} ${DONE[change](release)}\n`);
  printPromotion(io, promotion);
}
