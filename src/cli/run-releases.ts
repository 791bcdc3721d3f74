import {
  addRelease,
  type Architecture,
  type Component,
  type OperatingSystem,
  type OperatorParts,
  openReleaseFiles,
  ReleaseKeys,
  type Promotion,
  listAllReleases,
  promoteVersion,
  type PromoteRequest,
  rotateReleaseKey,
  signReleases,
} from '../features/releases/operator.ts';
import { type CommandIo, fileOf } from './io.ts';
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { ReleaseTarget, releaseTargetOf } from '../protocol/index.ts';
import { createAuditTrail } from '../features/audit/operator.ts';
import { withInstallation } from './with-installation.ts';

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

/** One file after another: if one fails, the earlier ones stay registered. */
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

/** The JSON output of a release. */
export const described = (release: Release) => {
  const { id, component, version, os, architecture, promoted, source, size, sha256, keyId } = release;
  return { id, component, version, os, architecture, promoted, source, size, sha256, signedBy: keyId };
};

/** A release file and its target. */
type FileToAdd = ReleaseTarget & { file: string };

/**
 * The given files, and those in given folders whose names state their target. Options override the name of a single
 * file. Throws if neither states the target of a file.
 */
async function filesToAdd(
  given: readonly string[],
  { component, os, architecture }: Partial<ReleaseTarget>,
): Promise<FileToAdd[]> {
  const found: FileToAdd[] = [];
  for (const place of given) {
    const { isFolder, files } = await filesIn(place);
    for (const file of files) {
      const named = releaseTargetOf(path.basename(file));
      if (isFolder && named === undefined) continue;
      const target = ReleaseTarget.safeParse({
        component: component ?? named?.component,
        os: os ?? named?.os,
        architecture: architecture ?? named?.architecture,
      }).data;
      if (target === undefined) {
        throw new Error(
          `The name of ${file} does not say what it is for, as muster-agent-linux-x64.cjs does. Give --component, --os and --architecture.`,
        );
      }
      found.push({ file, ...target });
    }
  }
  if (found.length === 0) {
    throw new Error(
      `There is no file of a release in ${given.join(', ')}. "npm run build:agent" writes them.`,
    );
  }
  return found;
}

async function filesIn(place: string): Promise<{ isFolder: boolean; files: string[] }> {
  const isFolder = (await stat(place)).isDirectory();
  if (!isFolder) return { isFolder, files: [place] };
  const names = await readdir(place);
  return { isFolder, files: names.sort().map((name) => path.join(place, name)) };
}

/** Runs an operator command on the releases of this installation. */
export function withReleases<T>(io: CommandIo, work: (parts: OperatorParts) => Promise<T>): Promise<T> {
  return withInstallation(io, { migrates: false }, ({ db, log, secrets, config }) =>
    work({
      db,
      log,
      // The entry is sealed by a running server, or by the next one that starts.
      audit: createAuditTrail({ wake() {} }),
      files: openReleaseFiles(config),
      keys: new ReleaseKeys(secrets),
      promotesItself: config.autoPromotesReleases,
    }),
  );
}

export function printPromotion({ stdout }: CommandIo, { promoted, demoted }: Promotion): void {
  for (const { component, os, architecture, version } of promoted) {
    const before = demoted.find(
      (one) => one.component === component && one.os === os && one.architecture === architecture,
    );
    const instead = before === undefined ? '' : ` instead of ${before.version}`;
    stdout.write(`${component} for ${os} ${architecture}: devices upgrade to ${version}${instead}.\n`);
  }
}

export async function printReleases(io: CommandIo, { json }: { json?: true }): Promise<void> {
  const releases = await withReleases(io, ({ db }) => listAllReleases(db));
  if (json === true) {
    io.stdout.write(`${JSON.stringify({ ok: true, releases: releases.map(described) })}\n`);
    return;
  }
  if (releases.length === 0) {
    io.stdout.write(
      'There are no releases. Build the agent with "npm run build:agent", and add it with "releases add dist/agent --version <version>".\n',
    );
  }
  for (const { component, version, os, architecture, promoted, source, size, sha256 } of releases) {
    const mark = promoted ? '*' : ' ';
    io.stdout.write(
      `${mark} ${component} ${version}  ${os} ${architecture}  ${source}  ${size}  ${sha256}\n`,
    );
  }
  if (releases.some(({ promoted }) => promoted)) io.stdout.write('* promoted: devices upgrade to it.\n');
}

export async function promote(
  io: CommandIo,
  request: PromoteRequest,
  { json }: { json?: true },
): Promise<void> {
  const promotion = await withReleases(io, (parts) => promoteVersion(parts, request));
  if (json === true) io.stdout.write(`${JSON.stringify({ ok: true, ...promotion })}\n`);
  else printPromotion(io, promotion);
}

export async function rotateKey(io: CommandIo, how: { vouched: boolean }): Promise<void> {
  const { id, signedBy } = await withReleases(io, (parts) => rotateReleaseKey(parts, how));
  const trust =
    signedBy === undefined
      ? 'It begins a new chain: enroll devices again, so that they trust it.'
      : `It is signed by ${signedBy}, so that enrolled devices trust it.`;
  io.stdout.write(`New releases will be signed with the key ${id}. ${trust}\n`);
}

export async function sign(io: CommandIo, only: { version?: string }): Promise<number> {
  const { signed, refused } = await withReleases(io, (parts) => signReleases(parts, only));
  for (const release of signed) {
    io.stdout.write(`${nameOf(release)} is signed by key ${release.keyId}.\n`);
  }
  if (signed.length + refused.length === 0) {
    io.stdout.write('All of them are signed by the present key. Nothing was changed.\n');
  }
  for (const release of refused) {
    io.stderr.write(
      `${nameOf(release)}: its signature does not hold, so it was not signed again. Publish its file again with: releases add\n`,
    );
  }
  return refused.length > 0 ? 2 : 0;
}

type SignedRelease = Awaited<ReturnType<typeof signReleases>>['signed'][number];

const nameOf = ({ component, version, os, architecture }: SignedRelease) =>
  `${component} ${version} for ${os} ${architecture}`;
