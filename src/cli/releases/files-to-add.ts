import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { ReleaseTarget, releaseTargetOf } from '../../protocol/index.ts';

/** A file of a release, and what it is for. */
export type FileToAdd = ReleaseTarget & { file: string };

/**
 * The files that are given, and those of folders that are given whose names say what they are for. Options win over the
 * name of a single file. Throws for a file of which neither says it.
 */
export async function filesToAdd(
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
