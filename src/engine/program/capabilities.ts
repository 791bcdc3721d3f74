/** What each version of restic can do. The engine works from 0.14.0 on; whatever came later is looked up here. */

export interface EngineVersion {
  major: number;
  minor: number;
  patch: number;
}

export const OLDEST_VERSION: EngineVersion = { major: 0, minor: 14, patch: 0 };

/** The first version with each capability: from restic's changelog. */
const SINCE = {
  /** `restore` keeps holes of sparse files as holes. */
  sparseRestore: '0.15.0',
  /** `restore` prints its progress as JSON. */
  restoreJson: '0.16.0',
  /** `restore` into a folder that an interrupted one has left fetches only what is missing there. */
  restoreContinues: '0.17.0',
  /** `repair index` in place of `rebuild-index`. */
  repairCommand: '0.16.0',
  /** A locked repository is tried again for some time. */
  retryLock: '0.16.0',
  /** `check` prints JSON. */
  checkJson: '0.18.0',
} as const;

export type Capability = keyof typeof SINCE;
export type Capabilities = Readonly<Record<Capability, boolean>>;

/** Reads what `restic version` prints. `undefined` where this is not restic. */
export function parseEngineVersion(output: string): EngineVersion | undefined {
  const [, major, minor, patch] =
    /^restic v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})/m.exec(output.slice(0, 1000)) ?? [];
  if (major === undefined || minor === undefined || patch === undefined) return undefined;
  return { major: Number(major), minor: Number(minor), patch: Number(patch) };
}

export const formatVersion = ({ major, minor, patch }: EngineVersion) => `${major}.${minor}.${patch}`;

export function isAtLeast(version: EngineVersion, oldest: EngineVersion): boolean {
  return (version.major - oldest.major || version.minor - oldest.minor || version.patch - oldest.patch) >= 0;
}

export function capabilitiesOf(version: EngineVersion): Capabilities {
  const has = (capability: Capability) => {
    const since = parseEngineVersion(`restic ${SINCE[capability]}`);
    return since !== undefined && isAtLeast(version, since);
  };
  return {
    sparseRestore: has('sparseRestore'),
    restoreJson: has('restoreJson'),
    restoreContinues: has('restoreContinues'),
    repairCommand: has('repairCommand'),
    retryLock: has('retryLock'),
    checkJson: has('checkJson'),
  };
}
