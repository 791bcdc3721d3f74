import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../clock.ts';

/**
 * Where builds of the dashboard are, and of which sources: each is a folder below `dist/dashboard` that has the hash of
 * its sources as its name. It appears there whole, by a rename, so that servers and builds that run at the same time
 * never see half of one.
 */

const BUILDS = path.join('dist', 'dashboard');
/** What a build is made from. Of the rest of the server the dashboard imports types only. */
const SOURCES = [path.join('src', 'dashboard'), path.join('src', 'protocol'), 'package-lock.json'];

/** In a checkout where `npm ci` has installed the tools too. An image and `npm ci --omit=dev` have builds only. */
export const canBuild = (root: string): boolean =>
  [...SOURCES, path.join('node_modules', 'vite')].every((needed) => existsSync(path.join(root, needed)));

/** The build of the sources as they are now. */
export async function currentBuild(root: string): Promise<string | undefined> {
  const folder = path.join(root, BUILDS, await hashOfSources(root));
  return existsSync(folder) ? folder : undefined;
}

/** Where there are no sources to compare with. */
export async function newestBuild(root: string): Promise<string | undefined> {
  const folders = (await namesIn(path.join(root, BUILDS)))
    .filter((name) => !name.startsWith('.'))
    .map((name) => path.join(root, BUILDS, name));
  const aged = await Promise.all(
    folders.map(async (folder) => ({ folder, at: (await stat(folder)).mtimeMs })),
  );
  return aged.sort((one, other) => other.at - one.at)[0]?.folder;
}

/** Sources that change while they are built give a build of neither state, which is thrown away. */
const TRIES = 3;

/**
 * Builds the dashboard unless the present sources are built already, and removes the builds of earlier sources.
 * @param build  writes the page into an empty folder
 */
export async function ensureBuild(root: string, build: (folder: string) => Promise<void>): Promise<string> {
  for (let attempt = 1; attempt <= TRIES; attempt++) {
    const present = await currentBuild(root);
    if (present !== undefined) return present;
    const hash = await hashOfSources(root);
    const folder = path.join(root, BUILDS, `.${randomUUID()}`);
    await mkdir(folder, { recursive: true });
    try {
      await build(folder);
      if ((await hashOfSources(root)) !== hash) continue;
      await renameUnlessThere(folder, path.join(root, BUILDS, hash));
      await removeOthers(root, hash);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
  const built = await currentBuild(root);
  if (built === undefined) {
    throw new Error('The sources of the dashboard kept changing while they were built.');
  }
  return built;
}

/** Another process may have built the same sources meanwhile. */
async function renameUnlessThere(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    if (!existsSync(to)) throw error;
  }
}

/** So long a build that has not ended counts as one that somebody is still working on. */
const ABANDONED_MS = 3_600_000;

async function removeOthers(root: string, hash: string): Promise<void> {
  for (const name of await namesIn(path.join(root, BUILDS))) {
    if (name === hash) continue;
    const folder = path.join(root, BUILDS, name);
    const age = clock.now() - ((await stat(folder).catch(() => undefined))?.mtimeMs ?? 0);
    if (!name.startsWith('.') || age > ABANDONED_MS) await rm(folder, { recursive: true, force: true });
  }
}

async function hashOfSources(root: string): Promise<string> {
  const hash = createHash('sha256');
  for (const source of SOURCES) {
    for (const file of await filesOf(path.join(root, source))) {
      const content = await readFile(file);
      // With its length, so that no two states of the sources give the same text.
      hash
        .update(`${path.relative(root, file).split(path.sep).join('/')}\0${content.length}\0`)
        .update(content);
    }
  }
  return hash.digest('hex').slice(0, 32);
}

async function filesOf(place: string): Promise<string[]> {
  if (!(await stat(place)).isDirectory()) return [place];
  const entries = await readdir(place, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .sort();
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
