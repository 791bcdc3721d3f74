import { readFile, symlink } from 'node:fs/promises';
import path from 'node:path';
import { build, type Plugin } from 'esbuild';
import type { PlantedFault } from './planted/fault.ts';

const ROOT = path.join(import.meta.dirname, '../..');

/** Lets a folder outside of the project find the packages of the project. */
export const linkPackages = (folder: string): Promise<void> =>
  symlink(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'));

/** The simulation as one file, which begins faster than its sources. @param planted  what is wrong in it */
export async function bundleSimulation(file: string, planted?: PlantedFault): Promise<void> {
  await build({
    absWorkingDir: ROOT,
    entryPoints: ['test/simulation/main.ts'],
    outfile: file,
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    target: 'node20',
    logLevel: 'silent',
    plugins: planted === undefined ? [] : [plant(planted)],
  });
}

/** Changes the sources while they are bundled. */
function plant({ name, changes }: PlantedFault): Plugin {
  return {
    name: 'planted fault',
    setup({ onLoad, onEnd }) {
      const applied = new Set<unknown>();
      onLoad({ filter: /\/src\/.*\.ts$/ }, async ({ path: file }) => {
        const here = changes.filter((change) => path.join(ROOT, change.file) === file);
        if (here.length === 0) return undefined;
        let contents = await readFile(file, 'utf8');
        for (const change of here) {
          if (contents.split(change.find).length !== 2) {
            throw new Error(`"${name}": its place in ${change.file} is not there once: ${change.find}`);
          }
          contents = contents.replace(change.find, () => change.put);
          applied.add(change);
        }
        return { contents, loader: 'ts' };
      });
      onEnd(() => {
        if (applied.size < changes.length) throw new Error(`"${name}": one of its files is not loaded.`);
      });
    },
  };
}
