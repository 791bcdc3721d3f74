import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { Architecture, Component, OperatingSystem } from '../../features/releases/index.ts';

/** A file of a release, and what it is for. */
export interface FileToAdd {
  file: string;
  component: Component;
  os: OperatingSystem;
  architecture: Architecture;
}

/** As `npm run build:agent` and GitHub name them. */
const NAME = /^muster-(?<component>[a-z]+)-(?<os>[a-z]+)-(?<architecture>[a-z0-9]+)(?:\.(?:cjs|exe))?$/;

/**
 * The files that are given, and those of folders that are given whose names say what they are for. Options win over the
 * name of a single file. Throws for a file of which neither says it.
 */
export async function filesToAdd(
  given: readonly string[],
  { component, os, architecture }: Partial<Target>,
): Promise<FileToAdd[]> {
  const found: FileToAdd[] = [];
  for (const place of given) {
    const { isFolder, files } = await filesIn(place);
    for (const file of files) {
      const named = targetOf(path.basename(file));
      const target = {
        component: component ?? named?.component,
        os: os ?? named?.os,
        architecture: architecture ?? named?.architecture,
      };
      if (isFolder && named === undefined) continue;
      if (!isWhole(target)) {
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

function targetOf(name: string): Omit<FileToAdd, 'file'> | undefined {
  const groups = NAME.exec(name)?.groups;
  const component = Component.safeParse(groups?.['component']).data;
  const os = OperatingSystem.safeParse(groups?.['os']).data;
  const architecture = Architecture.safeParse(groups?.['architecture']).data;
  const target = { component, os, architecture };
  return isWhole(target) ? target : undefined;
}

type Target = Omit<FileToAdd, 'file'>;
const isWhole = (target: { [Field in keyof Target]: Target[Field] | undefined }): target is Target =>
  Object.values(target).every((part) => part !== undefined);
