import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import path from 'node:path';
import { BUILD_OPTIONS } from './base-images.ts';
import { podman } from './podman.ts';

const ROOT = path.join(import.meta.dirname, '../../../../..');
const BUILD_MS = 900_000;
/** What this machine trusts: where a proxy ends TLS, its authority too. */
const AUTHORITIES = '/etc/ssl/certs/ca-certificates.crt';

/** Builds the image from what a clone of this checkout would hold, and what is not committed yet. */
export async function buildMusterImage(tag: string): Promise<string> {
  const image = `localhost/${tag}`;
  await inFolder(async (folder) => {
    const files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    const there = files.split('\0').filter((file) => file !== '' && existsSync(path.join(ROOT, file)));
    execFileSync('cp', ['--parents', '--target-directory', folder, ...there], { cwd: ROOT });
    const options = [...BUILD_OPTIONS, ...(await trustOptions(folder))];
    await podman(['build', ...options, '--tag', image, folder], { timeoutMs: BUILD_MS });
  });
  return image;
}

/** A build that differs from another one by a further migration. */
export async function buildLaterImage(
  tag: string,
  earlier: string,
  migration: { name: string; sql: string },
): Promise<string> {
  const image = `localhost/${tag}`;
  await inFolder(async (folder) => {
    await writeFile(path.join(folder, migration.name), migration.sql);
    await writeFile(
      path.join(folder, 'Containerfile'),
      `FROM ${earlier}\nCOPY ${migration.name} /app/migrations/\n`,
    );
    await podman(['build', ...BUILD_OPTIONS, '--tag', image, folder]);
  });
  return image;
}

async function inFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-image-context-'));
  try {
    await work(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Lets npm in the build use the registry as npm does on this machine. Nothing of it stays in the image. */
async function trustOptions(folder: string): Promise<string[]> {
  if (!existsSync(AUTHORITIES)) return [];
  const inBuild = '/run/authorities.crt';
  const settings = await readFile(path.join(homedir(), '.npmrc'), 'utf8').catch(() => '');
  // `.dockerignore` keeps it out of the build.
  const file = path.join(folder, 'npmrc-of-this-machine');
  await writeFile(file, `${settings}\ncafile=${inBuild}\n`);
  return ['--volume', `${file}:/root/.npmrc:ro`, '--volume', `${AUTHORITIES}:${inBuild}:ro`];
}

/** In bytes. */
export const imageSize = async (image: string): Promise<number> =>
  Number(await podman(['image', 'inspect', '--format', '{{.Size}}', image]));
