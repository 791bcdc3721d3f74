import {
  addRelease,
  type Architecture,
  type Component,
  type OperatingSystem,
} from '../../features/releases/index.ts';
import { printPromotion } from './print-promotion.ts';
import { withReleases } from './with-releases.ts';

export interface AddOptions {
  version: string;
  component: Component;
  os: OperatingSystem;
  architecture: Architecture;
  sha256?: string;
  notes?: string;
}

export async function add(path: string, { sha256, notes, ...name }: AddOptions): Promise<void> {
  const { release, isNew, promotion } = await withReleases((parts) =>
    addRelease(parts, name, { path, sha256, notes }),
  );
  const what = `${release.component} ${release.version} for ${release.os} ${release.architecture}`;
  process.stdout.write(
    isNew
      ? `${what} is registered: ${release.size} bytes, SHA-256 ${release.sha256}, signed by key ${release.keyId}.\n`
      : `${what} was registered with this file before. Nothing was changed.\n`,
  );
  printPromotion(promotion);
}
