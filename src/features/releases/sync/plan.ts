import type { Target } from '../registry/platform.ts';
import { MAX_BYTES } from '../registry/release-files.ts';
import { type Checksum, CHECKSUMS } from './checksums.ts';
import { releaseTargetOf } from '../../../protocol/index.ts';
import type { Asset, GithubRelease } from './github-release.ts';

/** A file of a release that is not registered, and why. */
export interface Failure {
  file: string;
  reason: string;
}

/** A file to register, with the hash that it must have. */
export interface Planned {
  target: Target;
  asset: Asset;
  sha256: string;
}

export interface Plan {
  files: Planned[];
  failed: Failure[];
}

/** What of a release can be registered, as far as that shows before anything is downloaded. */
export function planOf({ assets }: GithubRelease, checksums: ReadonlyMap<string, Checksum>): Plan {
  const named = new Map(assets.map((asset) => [asset.name, asset]));
  const names = new Set([...named.keys(), ...checksums.keys()]);
  const ours = [...names].toSorted().flatMap((file) => {
    const target = releaseTargetOf(file);
    return target === undefined ? [] : [{ file, target }];
  });
  const plan: Plan = { files: [], failed: [] };
  for (const { file, target } of ours) {
    const [asset, checksum] = [named.get(file), checksums.get(file)];
    const isAlone = ours.filter((one) => keyOf(one.target) === keyOf(target)).length === 1;
    const reason = isAlone ? faultOf(asset, checksum) : 'The release has two files for the same platform.';
    if (asset === undefined || checksum === undefined || checksum === 'ambiguous' || reason !== undefined) {
      plan.failed.push({ file, reason: reason ?? 'It cannot be registered.' });
    } else plan.files.push({ target, asset, sha256: checksum.sha256 });
  }
  return plan;
}

function faultOf(asset: Asset | undefined, checksum: Checksum | undefined): string | undefined {
  if (asset === undefined) return `${CHECKSUMS} lists it, but the release does not have it.`;
  if (checksum === undefined) return `It is not listed in ${CHECKSUMS}.`;
  if (checksum === 'ambiguous') return `${CHECKSUMS} lists it twice.`;
  return assetFault(asset, MAX_BYTES) ?? digestFault(asset, checksum.sha256);
}

/** Why an asset is not worth downloading. */
export function assetFault({ state, size }: Asset, maxBytes: number): string | undefined {
  if (state !== 'uploaded') return 'Its upload to GitHub is not complete.';
  if (size === 0) return 'It is empty.';
  return size > maxBytes ? `It is larger than the ${maxBytes} bytes that are accepted.` : undefined;
}

/** What GitHub itself has worked out is a third opinion, where there is one. */
export function digestFault({ digest }: Asset, sha256: string): string | undefined {
  const [algorithm, value] = (digest ?? '').split(':');
  return algorithm === 'sha256' && value !== sha256
    ? `GitHub gives the SHA-256 ${value} for it, and not ${sha256}.`
    : undefined;
}

export const keyOf = ({ component, os, architecture }: Target) => `${component}:${os}/${architecture}`;
